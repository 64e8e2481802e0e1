"""A worker's calls, at a store and at a server on a real socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from longtask import boot, plan
from longtask.api.access.policy import Policy
from longtask.api.access.tokens import Tokens
from longtask.api.server import Server, make_server
from longtask.api.settings import Settings
from longtask.client.dispatcher import ServerDispatcher
from longtask.config import Config
from longtask.core.model import Task
from longtask.engine.dispatcher import Claimed, Dispatcher, Round, Wanted
from longtask.store.contract import Ref
from tests.api.live import serving
from tests.client.cutting import Cutter, cutting

LEASE_MS = 15_000


class Bench:
    """A database with a server in front of it, and workers' ends of both ways to ask."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        self.parts = boot.open_parts(Config(folder / "home", str(folder / "longtask.db")))
        stack.callback(self.parts.store.close)
        self.server: Server | None = None
        self.cutter: Cutter | None = None

    def serve(self, tokens: bool = False) -> str:
        """Its address, through something that can cut."""
        if self.cutter is None:
            self.server = make_server(self.parts, Settings(policy=Policy(tokens=tokens)))
            live = self._stack.enter_context(serving(self.server))
            self.cutter = self._stack.enter_context(cutting(live.port))
        return self.cutter.url

    def token(self, *roles: str, workspaces: list[str] | None = None) -> str:
        return Tokens(self.parts.store).create("w", roles or ("worker",), by="ann", workspaces=workspaces)[1]

    def elsewhere(self, name: str = "w1", token: str | None = None, **more: Any) -> ServerDispatcher:
        url = self.serve(tokens=token is not None)
        made = ServerDispatcher(url, token, copies=self.folder / f"copies-{name}", name=name, **more)
        self._stack.callback(made.close)
        return made

    def here(self) -> Dispatcher:
        return boot.make_dispatch(self.parts, runtime=lambda spec: None)

    def submit(self, *steps: dict[str, Any], name: str = "t", workspace: str = "") -> Task:
        text = {"longtask": 1, "name": name, "steps": list(steps)}
        graph = plan.compile_plan(plan.load(json.dumps(text)), attended=False)
        return self.parts.desk.submit(graph, by="ann", workspace_id=workspace)

    def lose_the_next_answer(self, times: int = 1) -> None:
        """The request is carried out; of what is answered nothing arrives."""
        assert self.cutter is not None
        self.cutter.cut()
        self.cutter.cuts = [0] * times

    def state(self, key: str) -> str:
        return str(self.parts.store.get_step(Ref(self.parts.store.get_task("@last").id, key)).state)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(tmp_path, stack)


@pytest.fixture(params=["here", "elsewhere"])
def asks(request: Any, bench: Bench) -> Dispatcher:
    """What a worker asks."""
    found: Dispatcher = bench.here() if request.param == "here" else bench.elsewhere()
    return found


ROOM = Wanted(("default",), 4, 0)


def claimed(asks: Dispatcher, wanted: Wanted = ROOM) -> list[Claimed]:
    return list(asks.round("w1", [], wanted).found)


def keys(found: Round | list[Claimed]) -> list[str]:
    claims = found.found if isinstance(found, Round) else found
    return [claim.step.key for claim in claims]
