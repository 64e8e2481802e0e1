"""What tests of agents have in common: a model on loopback, and a folder that belongs to no attempt."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from longtask.modelserver.server import ModelServer
from tests.agents.conformance.job import Outside


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    made = Outside(tmp_path / "outside")
    made.folder.mkdir()
    yield made
    for pid in made.left:  # a promise was not kept: that is told already
        os.kill(pid, signal.SIGKILL)
