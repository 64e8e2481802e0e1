"""`builtin` gives out work as steps of the task: real workers that are killed, a model on loopback that counts."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from longtask.core.events import StepExpanded, StepLost
from longtask.modelserver.server import ModelServer
from tests.cli.shell import until
from tests.crash.scene import Scene

DEADLINE_S = 240  # each child imports an agent's library, on a machine that may be much too busy
PLAN = """
    longtask: 1
    name: spawn
    workspace: {repo: .}
    defaults: {agent: {runtime: builtin, model: 'anthropic:claude-sonnet-4-6'}}
    steps:
      - {id: lead, agent: {prompt: "Lead it.", subagents: {max: 2}, outputs: {said: string}}}
"""


def more_in(name: str, home: Path) -> dict[str, Any]:
    """Begins, and goes on when it may: so it is killed in the middle of its tool."""
    command = f"touch {home}/began.{name}; until [ -e {home}/go ]; do sleep 0.05; done; echo more >> {name}"
    return {
        "match": f"More in {name}",
        "turns": [{"calls": [{"shell": command}]}, {"text": "Done.", "output": {"answer": f"{name} has more"}}],
    }


def spawn(*prompts: str) -> dict[str, Any]:
    return {"tool": "spawn", "args": {"tasks": [{"prompt": prompt} for prompt in prompts]}}


def script(home: Path) -> dict[str, Any]:
    lead = [
        {"calls": [{"write": {"path": "mine.txt", "content": "mine\n"}}, spawn("More in a.txt.", "More in b.txt.")]},
        {"calls": [{"shell": "cat a.txt b.txt mine.txt >> sum.txt"}]},
        {"calls": [spawn("It cannot be done.")]},
        {"text": "All of it.", "output": {"said": "all of it"}},
    ]
    fails = {"match": "cannot be done", "turns": [{"text": "No.", "faults": [{"status": 400, "message": "no"}]}]}
    return {"routes": [{"match": "Lead it", "turns": lead}, more_in("a.txt", home), more_in("b.txt", home), fails]}


@pytest.fixture
def scene(tmp_path: Path, models: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    for name, value in models.environment().items():
        monkeypatch.setenv(name, value)
    made = Scene(tmp_path, None, PLAN)
    models.load("default", script(made.home))
    yield made
    made.close()


def ended(process: ForkServerProcess) -> int | None:
    until(lambda: process.exitcode is not None, deadline_s=DEADLINE_S)
    return process.exitcode


def test_killed_while_they_run_and_when_they_have_ended_it_buys_no_turn_twice(scene: Scene, models: ModelServer):
    first = scene.start("work")
    until(lambda: all((scene.home / f"began.{name}").exists() for name in ("a.txt", "b.txt")), deadline_s=DEADLINE_S)
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    ended(first)
    scene.leases_end(first)
    assert (scene.row("lead").state, scene.row("lead").attempt) == ("blocked", 1)

    (scene.home / "go").touch()
    second = scene.start("work", "--at", "workspace.moved.after")
    assert ended(second) == -signal.SIGKILL  # they have ended, and their owner is about to go on
    scene.leases_end(second)
    assert [scene.row(f"lead[{n}]").state for n in (0, 1)] == ["completed", "completed"]

    assert ended(scene.start("work")) == 0
    scene.check()
    assert scene.file("sum.txt") == "one\nmore\ntwo\nmore\nmine\n"
    assert [scene.file(name) for name in ("a.txt", "b.txt")] == ["one\nmore\n", "two\nmore\n"]
    assert [event.fact.items for event in scene.events() if isinstance(event.fact, StepExpanded)] == [2, 1]
    lost = [event.fact.step for event in scene.events() if isinstance(event.fact, StepLost)]
    assert sorted(lost) == ["lead", "lead[0]", "lead[1]"]
    # What the server tells: each turn of each agent was answered once.
    assert [route["told"] for route in models.state()["routes"]] == [
        {"1": 1, "2": 1, "3": 1, "4": 1}, {"1": 1, "2": 1}, {"1": 1, "2": 1}, {},
    ]  # fmt: skip
    told = models.requests()[-1].body["messages"]
    assert "a.txt has more" in str(told) and "1 of 1 tasks failed" in str(told)
    assert scene.row("lead[0]~2").state == "failed" and scene.row("lead").result == {"said": "all of it"}
