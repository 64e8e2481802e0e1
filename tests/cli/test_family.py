"""Tasks in tasks as a user sees them, with real git and real commands."""

from __future__ import annotations

import subprocess
from pathlib import Path

import apsw
import pytest

from longtask.cli.doctor import owed
from longtask.cli.session import Session
from longtask.views.families import Wrong
from tests.cli.shell import Shell, until

PLAN = """
longtask: 1
name: migrate
workspace: {repo: .}
steps:
  - {id: list, run: "echo 'modules=[\\"a\\", \\"b\\", \\"c\\"]' >> $LONGTASK_OUTPUT", outputs: {modules: list}}
  - id: each
    needs: [list]
    for_each: "${{ steps.list.outputs.modules }}"
    task:
      inputs: {module: "${{ item }}"}
      plan: one/module.yaml
  - {id: sum, needs: [each], run: 'test "$N" = 3', env: {N: "${{ size(steps.each.outputs) }}"}}
"""
ONE = """
inputs: {module: string}
steps:
  - {id: move, run: "echo $M > $M.txt; echo name=$M >> $LONGTASK_OUTPUT", env: {M: "${{ inputs.module }}"},
     commit: true, outputs: {name: string}}
  - {id: check, needs: [move], run: "test -e $M.txt -a ! -e %s", env: {M: "${{ inputs.module }}"}}
outputs: {name: "${{ steps.move.outputs.name }}"}
"""


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def stop(shell: Shell) -> Path:
    """While it is there, children fail."""
    stop = shell.home.parent / "stop"
    (shell.cwd / "one").mkdir()
    (shell.cwd / "one" / "module.yaml").write_text(ONE % stop)
    shell.plan(PLAN)
    return stop


def test_each_module_is_moved_by_a_task_of_its_own(shell: Shell, stop: Path):
    shell("run", "--foreground")
    shown = shell.here("show", "@last", "--json").json
    assert (shown["handle"], shown["status"]) == ("migrate-1", "completed"), "a child is not the last one"
    steps = {step["key"]: step for step in shown["steps"]}
    assert [one["name"] for one in steps["each"]["result"]] == ["a", "b", "c"]
    assert (steps["each"]["items"], steps["sum"]["items"]) == ({"total": 3, "ended": 3, "failed": 0, "begun": 3}, None)
    children = [steps[f"each[{n}]"]["child"] for n in range(3)]
    assert [(c["status"], c["percent"]) for c in children] == [("completed", 100)] * 3
    assert {"a.txt", "b.txt", "c.txt"} <= set(git(shell.cwd, "ls-tree", "--name-only", "longtask/migrate-1").split())
    assert git(shell.cwd, "branch", "--list", "longtask/*", "--format=%(refname:short)") == "longtask/migrate-1"
    child = shell.here("show", children[1]["handle"], "--json").json
    assert (child["parent"], child["parent_step"]) == (shown["id"], "each[1]")
    assert "for step each[1] of migrate-1" in shell.here("show", children[1]["handle"]).out
    assert [task["handle"] for task in shell.here("ls", "--json").json] == ["migrate-1"]
    assert len(shell.here("ls", "--children", "--json").json) == 4


def test_what_failed_in_a_child_is_told_and_tried_again_by_its_step(shell: Shell, stop: Path):
    stop.touch()
    shell("run", "--foreground", "--unattended", code=1)
    why = shell.here("why", "@last").out
    assert "each failed: 3 of 3 items failed" in why and "failed: check: exit code 1" in why
    children = [task for task in shell.here("ls", "--children", "--json").json if task["parent"]]
    refused = shell.here("retry", children[0]["handle"], "check", code=None)
    assert refused.code and "retry step 'each[" in refused.err
    stop.unlink()
    shell("retry", "migrate-1", "each")
    shell("watch", "migrate-1")
    assert shell.here("show", "migrate-1", "--json").json["status"] == "completed"


def test_whoever_waits_for_a_child_says_for_which(shell: Shell):
    inner = "{steps: [{id: ok, approval: {ask: may I}}]}"
    shell.plan(f"longtask: 1\nname: outer\nsteps:\n  - id: x\n    task: {{plan: {inner}}}\n")
    shell("run", "--detach")
    until(lambda: "waiting_user" in shell.here("show", "outer-1").out)
    assert "x waits for its task x-2, which is waiting_user" in shell.here("why", "outer-1").out
    shell("pause", "outer-1")
    until(lambda: "is held: outer-1, whose step 'x' it works for" in shell.here("why", "x-2").out)
    assert "held by its parent" in shell.here("resume", "x-2", code=None).err
    shell("resume", "outer-1")
    shell("approve", "x-2", "ok")
    shell("watch", "outer-1")
    assert shell.here("show", "outer-1", "--json").json["status"] == "completed"


def test_doctor_says_what_stands_wrong_between_two_tasks(shell: Shell, stop: Path):
    shell("run", "--foreground")
    shell.here("doctor")
    with apsw.Connection(str(shell.home / "longtask.db")) as db:
        db.execute("update task set rest = replace(rest, '\"parent_told\":true', '\"parent_told\":false') where n = 2")
    db.close()
    (finding,) = shell.here("doctor", "migrate-1", "--json", code=1).json["findings"]
    assert finding["what"].startswith("migrate-1 and ") and "end: " in finding["what"]
    assert "pause migrate-1" in finding["mend"]


def test_a_task_that_was_pruned_meanwhile_is_named_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LONGTASK_HOME", str(tmp_path))
    session = Session()
    finding = owed(session, Wrong("relay", "it owes a wish", ("0198-gone", "0198-child")))
    session.close()
    assert finding.what == "0198-gone and 0198-child: relay: it owes a wish"
    assert "pause 0198-gone" in finding.mend


def test_a_pause_at_once_stops_what_runs_in_a_child(shell: Shell):
    inner = '{steps: [{id: long, run: "echo begun; exec sleep 600"}]}'
    shell.plan(f"longtask: 1\nname: outer\nsteps:\n  - id: x\n    task: {{plan: {inner}}}\n")
    shell("run", "--detach")
    until(lambda: "begun" in shell.here("logs", "x-2", "long", code=None).out)
    shell("pause", "outer-1", "--now")
    until(lambda: shell.here("show", "x-2", "--json").json["steps"][0]["state"] == "ready")
    assert "at once" in shell.here("events", "outer-1").out and "at once" in shell.here("events", "x-2").out
    shell("cancel", "outer-1")
    until(lambda: shell.here("show", "x-2", "--json").json["status"] == "cancelled")
