"""Planners that are commands, and people, bring tasks in tasks into a task under way: real git, real workers."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cli.shell import Shell, until

PLAN = """
longtask: 1
name: grow
workspace: {repo: .}
env: {GREETING: hello}
steps:
  - {id: plan, run: "python3 planner.py", grow: {}, timeout: 1m}
  - {id: end, run: "true", needs: [plan]}
"""
# Its first run names a file that it has not written.
PLANNER = r"""
import json, os
from pathlib import Path

each = {"id": "each", "needs": ["list"], "for_each": "${{ steps.list.outputs.modules }}",
        "task": {"inputs": {"module": "${{ item }}"}, "plan": "out/one.yaml"}}
run = "echo 'modules=[\"a\", \"b\"]' >> $LONGTASK_OUTPUT"
steps = [{"id": "list", "run": run, "outputs": {"modules": "list"}}, each,
         {"id": "beside", "task": {"inputs": {"module": "c"}, "plan": "plans/one.yaml"}}]
if os.environ["LONGTASK_ATTEMPT"] != "1":
    Path("out").mkdir()
    Path("out/one.yaml").write_text(Path("plans/one.yaml").read_text())
with open(os.environ["LONGTASK_OUTPUT"], "a") as out:
    out.write("steps=" + json.dumps(steps))
"""
ONE = """
inputs: {module: string}
steps:
  - {id: move, run: "echo $GREETING > $M.txt; echo name=$M >> $LONGTASK_OUTPUT", env: {M: "${{ inputs.module }}"},
     commit: true, outputs: {name: string}}
outputs: {name: "${{ steps.move.outputs.name }}"}
"""


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def steps_of(shell: Shell, task: str) -> dict:
    return {step["key"]: step for step in shell.here("show", task, "--json").json["steps"]}


def test_a_planner_brings_tasks_whose_plans_it_has_written_or_found(shell: Shell):
    (shell.cwd / "plans").mkdir()
    (shell.cwd / "plans" / "one.yaml").write_text(ONE)
    (shell.cwd / "planner.py").write_text(PLANNER)
    git(shell.cwd, "add", "-A")
    git(shell.cwd, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "planner")
    shell.plan(PLAN)
    shell("run", "--foreground", "--dirty", "ignore")
    steps = steps_of(shell, "grow-1")
    assert [one["name"] for one in steps["each"]["result"]] == ["a", "b"] and steps["beside"]["result"]["name"] == "c"
    assert steps["plan"]["attempt"] == 2, "what it named was not there at first"
    assert "cannot read 'out/one.yaml'" in shell.here("events", "grow-1").out
    files = git(shell.cwd, "ls-tree", "--name-only", "-r", "longtask/grow-1").split()
    assert {"a.txt", "b.txt", "c.txt"} <= set(files) and "out/one.yaml" not in files
    assert git(shell.cwd, "show", "longtask/grow-1:a.txt") == "hello"
    (handed,) = [one["task"]["plan"] for one in steps["plan"]["result"]["steps"] if one["id"] == "each"]
    assert handed["inputs"] == {"module": "string"}, "the plan itself stands in the journal"


def test_a_person_brings_a_task_whose_plan_is_a_file_beside(shell: Shell):
    shell.plan("longtask: 1\nname: grow\nworkspace: {repo: .}\nsteps: [{id: go, approval: {ask: now}}]")
    folder = shell.home.parent / "more"
    folder.mkdir()
    (folder / "one.yaml").write_text(ONE)
    task = "{inputs: {module: m}, plan: one.yaml}"
    (folder / "more.yaml").write_text(f"steps: [{{id: moved, task: {task}, needs: [go]}}]")
    shell("run", "--detach", "--dirty", "ignore")
    until(lambda: "waiting_user" in shell.here("show", "grow-1").out)
    (folder / "out.yaml").write_text("steps: [{id: x, task: {plan: ../home/x.yaml}}]")
    assert "leads out of the tree" in shell.here("add", "grow-1", str(folder / "out.yaml"), code=2).err
    shell.here("add", "grow-1", str(folder / "more.yaml"))
    (folder / "one.yaml").unlink()
    shell("approve", "grow-1", "go")
    shell("watch", "grow-1")
    assert steps_of(shell, "grow-1")["moved"]["result"] == {"name": "m"}
