"""Requests made up from the description: whatever comes, the answer is one that the description allows.

The same ones each time: what a day's chance would find belongs into a test with a name.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from httpx2 import InvalidURL
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from longtask import boot
from longtask.api.app import create_app
from longtask.api.description import operations
from longtask.api.server import make_server
from longtask.api.settings import Settings
from longtask.config import Config
from tests.api import plans
from tests.api.carrying import carry_to
from tests.api.test_description import DESCRIBED

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.generation import GenerationMode
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_headers_conformance,
        response_schema_conformance,
        status_code_conformance,
    )
    from starlette.testclient import TestClient

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of how it calls httpx

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = 10  # of each operation, and as many that break its rules
PLANS = ((plans.running(), "completed"), (plans.failing(), "failed"), (plans.asking(), "waiting_user"))
STEPS = ("a", "b", "report", "bad", "after", "ok")
DESCRIPTION = json.loads(DESCRIBED.read_text())
STREAM = "text/event-stream"
OPERATIONS = [
    (path, method)
    for path, method, operation in operations(DESCRIPTION)
    if STREAM not in operation["responses"].get("200", {}).get("content", {})  # they would not end
]


class World:
    """A server with a task of each sort; what the made-up requests do to them is theirs."""

    def __init__(self, folder: Path) -> None:
        self.parts = boot.open_parts(Config(folder / "home", str(folder / "longtask.db")))
        self.client = TestClient(
            create_app(make_server(self.parts, Settings())),
            base_url="http://127.0.0.1:8700",
            client=("127.0.0.1", 50_000),
            raise_server_exceptions=False,
        )
        self.schema = schemathesis.openapi.from_dict(DESCRIPTION)
        self.tasks: list[str] = []

    def begin(self) -> None:
        for plan, word in PLANS:
            self.tasks.append(self.client.post("/v1/tasks", json=plan).json()["task"])
            carry_to(self.parts, self.tasks[-1], word)

    def ask(self, case: Any) -> Any:
        sent = case.as_transport_kwargs(base_url="http://127.0.0.1:8700")
        words = ("method", "url", "params", "headers", "json", "content", "data", "cookies")
        return self.client.request(**{word: sent[word] for word in words if sent.get(word) is not None})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("schemathesis"))
    with made.client:
        made.begin()
        yield made
    made.parts.store.close()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fitting", "unfitting"])
@pytest.mark.parametrize(("path", "method"), OPERATIONS, ids=[f"{method} {path}" for path, method in OPERATIONS])
def test_whatever_comes_is_answered_as_described(world: World, path: str, method: str, mode: GenerationMode):
    operation = world.schema[path][method.upper()]

    @settings(
        database=None,
        deadline=None,
        derandomize=True,
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=operation.as_strategy(generation_mode=mode),
        task=st.sampled_from([None, *world.tasks]),
        step=st.sampled_from([None, *STEPS]),
    )
    def ask(case: Any, task: str | None, step: str | None) -> None:
        for name, value in (("task", task), ("step", step)):
            if value is not None and name in (case.path_parameters or {}):
                case.path_parameters[name] = value
        try:
            answer = world.ask(case)
        except InvalidURL:
            reject()  # no client sends an address so long
        case.validate_response(answer, checks=CHECKS)

    with suppress(Unsatisfiable) if mode is GenerationMode.NEGATIVE else nullcontext():  # it has no rule to break
        ask()
