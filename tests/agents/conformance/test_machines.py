"""As people do it: `longtask run` with PostgreSQL on one machine, and two others that go on when it is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from longtask.modelserver.server import ModelServer
from tests import postgres
from tests.agents.conformance.runtimes import CLAUDE_CODE, CODEX, LANGGRAPH, OPENAI_AGENTS, OPENCODE, Runtime, each
from tests.agents.programs import program
from tests.cli.conftest import make_repository
from tests.cli.shell import Shell, until

INSIDE = {"LONGTASK_STEP": "x"}  # no worker is started from inside a step
WORKER = ("worker", "--lease", "5s")
PATIENCE_S = 240.0


@pytest.fixture
def machine(runtime: Runtime, tmp_path: Path, models: ModelServer) -> Iterator[Callable[[str], Shell]]:
    """A machine by its name: a home and a user of its own; database, hub and artifacts are shared."""
    database = postgres.fresh_url()
    made: list[Shell] = []
    found = [] if runtime.program is None else [str(program(runtime.program).path.parent)]

    def make(name: str) -> Shell:
        folder = tmp_path / name
        (folder / "user").mkdir(parents=True)
        env = {
            **models.environment(tmp_path.name),
            "HOME": str(folder / "user"),
            "PATH": os.pathsep.join([*found, os.environ["PATH"]]),
            "LONGTASK_DATABASE": database,
            "LONGTASK_HUB": str(tmp_path / "hub"),
            "LONGTASK_ARTIFACT_STORE": str(tmp_path / "artifacts"),
        }
        made.append(Shell(folder / "home", folder, env))
        return made[-1]

    yield make
    for shell in made:
        shell.sweep()
    postgres.drop(database)


def plan(runtime: Runtime, model: str) -> str:
    asks: dict[str, Any] = {"ask": ["shell(echo pushed*)"]}
    agent: dict[str, Any] = {"runtime": runtime.name, "model": model, "prompt": "Do it.", "options": runtime.options}
    agent |= asks if runtime.rules else {"options": {**runtime.options, "input": asks}}
    steps = [
        {"id": "work", "agent": agent},
        {"id": "patch", "needs": ["work"], "artifact": {"patch": {"name": "job.patch"}}},
    ]
    return json.dumps({"longtask": 1, "name": "job", "workspace": {"repo": "."}, "steps": steps})


@each(slow=[OPENAI_AGENTS, LANGGRAPH, CLAUDE_CODE, CODEX, OPENCODE])
def test_a_task_goes_on_where_two_machines_were_lost(machine, runtime, model, models, outside, tmp_path):
    push = {"calls": [{"shell": outside.logging("pushed")}]}
    turns = [
        {"calls": [{"shell": f"{outside.logging('one')}; echo one > one.txt"}]},
        {"calls": [{"shell": outside.lingering("half")}]},
        *[push] * (2 if runtime.loses_asked else 1),
        {"text": "Done."},
    ]
    models.load(tmp_path.name, {"turns": turns})
    first = machine("one")
    first.cwd = make_repository(tmp_path / "one" / "repo")
    if runtime.code is not None:
        shutil.copyfile(runtime.code, first.cwd / "mine.py")
    first.plan(plan(runtime, model))
    worker = first.start(*WORKER)
    first.here("run", "--detach", "--dirty", "include", env=INSIDE)
    until(lambda: outside.left, PATIENCE_S)
    lose(first, worker)
    until(lambda: not outside.left)
    outside.let_end()

    second = machine("two")
    worker = second.start(*WORKER)
    until(lambda: second.here("show", "@last", "--json").json["status"] == "waiting_user", PATIENCE_S)
    assert not outside.log.count("pushed")
    lose(second, worker)

    third = machine("three")
    third("approve", "@last", "work")  # it starts a worker, as there is none
    until(lambda: third.here("show", "@last", "--json").json["status"] == "completed", PATIENCE_S)
    assert "+one" in third.here("artifacts", "@last", "job.patch").out
    assert outside.log == ["one", *["half"] * (1 + runtime.in_tool.begun), "pushed"]
    found = models.requests(tmp_path.name)
    numbers = [request.cue.number for request in found if request.cue is not None and request.cue.number is not None]
    assert numbers == [*range(1, len(turns) + 1)]


def lose(machine: Shell, worker: subprocess.Popen[bytes]) -> None:
    """Its processes, and all that it had."""
    worker.kill()
    worker.communicate()
    until(lambda: not machine.processes())
    shutil.rmtree(machine.cwd.parent if machine.cwd.name == "repo" else machine.cwd)
