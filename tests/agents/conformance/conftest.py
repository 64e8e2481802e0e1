"""Jobs of the runtime that a test is about (`runtimes.each`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longtask.modelserver.server import ModelServer
from tests.agents.conformance.job import Job, make_job
from tests.agents.conformance.runtimes import Runtime


@pytest.fixture
def job(runtime: Runtime, model: str, tmp_path: Path, models: ModelServer) -> Callable[..., Job]:
    """A step whose model says these turns."""

    def make(*turns: dict[str, Any], **more: Any) -> Job:
        return make_job(tmp_path, runtime, model, models, turns, **more)

    return make
