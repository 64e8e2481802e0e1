"""A process of `langgraph` that is told to end, as when its machine is shut down."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from tests.agents.conformance.job import make_job
from tests.agents.conformance.runtimes import LANGGRAPH
from tests.agents.worker import task_of


def test_a_term_of_its_own_process_is_heeded_at_the_end_of_the_node(tmp_path, models, outside):
    turns: list[dict[str, Any]] = [{"calls": [{"shell": outside.lingering("half")}]}, {"text": "Done."}]
    run = make_job(tmp_path, LANGGRAPH, LANGGRAPH.models[0], models, turns)
    running = run.start()
    running.until(lambda: outside.left)
    _terminate(f"{task_of(str(run.folder))}/core/{run.attempts}")
    outside.let_end()
    ended = running.end()
    assert (ended["kind"], ended["waiting_for"]) == ("Parked", "timer"), ended
    assert run.numbers == [1] and not outside.left
    assert run.attempt()["kind"] == "Done"
    assert run.numbers == [1, 2] and outside.log == ["half"]


def _terminate(mark: str) -> None:
    """The child of an attempt, as a machine that is shut down does."""
    word = f"LONGTASK_MARK={mark}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
                if word in (entry / "environ").read_bytes().split(b"\0") and b"agent_child" in command:
                    os.kill(int(entry.name), signal.SIGTERM)
            except OSError:
                continue
