"""What a planner wants to add is told whole, or it is told that it is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longtask.cli.decide import shown_lines
from longtask.cli.session import Session
from longtask.core.model import Task, TaskOptions
from longtask.views.proposed import lines_of
from tests.cli.shell import Shell, until


def told(*steps: dict[str, Any]) -> list[str]:
    return list(lines_of({"steps": list(steps)}))


def test_more_than_the_first_line_is_said_to_be_there():
    long = "x" * 400
    assert told({"id": "a", "run": "echo one\nrm -rf two\nthree"}) == ["a: run: echo one (and 2 more lines)"]
    assert told({"id": "a", "agent": {"prompt": "Do it.\nAnd that."}}) == ["a: agent: Do it. (and 1 more line)"]
    (line,) = told({"id": "a", "run": f"{long}\n{long}"})
    assert line.endswith("… (and 1 more line)")


def test_the_steps_of_a_task_stand_below_it():
    inner = {"steps": [{"id": "deep", "run": "rm -rf /"}]}
    stages = [{"name": "change", "steps": [{"id": "x", "task": {"plan": inner}}]}]
    lines = told({"id": "t", "task": {"inputs": {"n": 1}, "plan": {"stages": stages}}}, {"id": "u", "run": "u"})
    assert lines == ['t: task: {"n": 1}', "  stage change", "    x: task", "      deep: run: rm -rf /", "u: run: u"]


def test_a_for_each_says_what_it_does_for_what():
    inner = {"steps": [{"id": "go", "run": "true"}]}
    (each, go) = told({"id": "each", "for_each": ["a", "b"], "needs": ["x"], "task": {"plan": inner}})
    assert (each, go) == ('each: task for each of ["a", "b"], needs x', "  go: run: true")


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("LONGTASK_HOME", str(tmp_path))
    made = Session(database=str(tmp_path / "longtask.db"))
    yield made
    made.close()


def test_a_long_list_says_how_many_more_there_are(session: Session):
    steps = [{"id": f"s{n}", "run": "true"} for n in range(53)]
    question = {"kind": "plan", "reason": "it wants to add 53 steps", "result": {"steps": steps}}
    lines = shown_lines(session, Task("0", "t", TaskOptions(), number=7), "plan", question)
    assert lines[-2].strip() == "s49: run: true" and lines[-1].strip().startswith("… and 3 more: longtask ")
    assert lines[-1].endswith("why t-7 plan")


def test_a_proposal_that_is_kept_aside_is_read_and_said_to_be_lost_when_it_is(shell: Shell):
    steps = [{"id": f"s{n}", "run": f"true {'x' * 200}"} for n in range(200)]
    (shell.cwd / "steps").write_text("steps=" + json.dumps(steps) + "\n")
    shell.plan(
        'longtask: 1\nname: ask\nsteps: [{id: plan, run: "cat %s >> $LONGTASK_OUTPUT", grow: {approve: true}}]'
        % (shell.cwd / "steps")
    )
    shell("run", "--detach")
    until(lambda: "waiting_user" in shell.here("show", "ask-1").out)
    (row,) = shell.here("show", "ask-1", "--json").json["steps"]
    assert "$artifact" in row["question"]["result"]
    details = shell.here("why", "ask-1", "plan", "--json").json[0]["details"]
    assert len(details) == 200 and details[199].startswith("s199: run: true xxx")
    digest = row["question"]["result"]["$artifact"]
    (kept,) = [path for path in shell.home.rglob("*") if path.is_file() and digest[4:] in path.name]
    kept.unlink()
    (line,) = shell.here("why", "ask-1", "plan", "--json").json[0]["details"]
    assert "cannot be read" in line and line.endswith("longtask logs ask-1 plan")
