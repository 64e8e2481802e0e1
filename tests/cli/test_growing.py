"""Planners that are commands, and people, bring tasks in tasks into a task under way: real git, real workers."""

from __future__ import annotations

import json
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


def test_a_person_sees_all_steps_that_a_planner_wants_to_add_and_answers(shell: Shell):
    steps = '[{"id": "x", "run": "echo x"}, {"id": "y", "needs": ["x"], "approval": {"ask": "fine?"}}]'
    command = json.dumps(f"echo 'steps={steps}' >> $LONGTASK_OUTPUT")
    shell.plan(f"longtask: 1\nname: ask\nsteps: [{{id: plan, run: {command}, grow: {{approve: true}}}}]")
    shell("run", "--detach")
    until(lambda: "waiting_user" in shell.here("show", "ask-1").out)
    told = shell.here("why", "ask-1", "plan").out
    assert (
        "it wants to add 2 steps: x, y" in told and "x: run: echo x" in told and "y: approval, needs x: fine?" in told
    )
    assert "longtask reject ask-1 plan -m REASON" in told
    assert "takes a reason" in shell.here("reject", "ask-1", "plan", code=1).err
    shell.here("reject", "ask-1", "plan", "-m", "once more")
    until(lambda: shell.here("show", "ask-1", "--json").json["steps"][0]["ask"] == 2)
    shell.here("approve", "ask-1")
    until(lambda: steps_of(shell, "ask-1")["y"]["state"] == "waiting")


def test_all_that_is_wrong_with_a_planner_s_steps_is_told(shell: Shell):
    steps = '[{"id": "plan", "run": "x"}, {"id": "y", "run": "x", "needs": ["z"]}]'
    command = json.dumps(f"echo 'steps={steps}' >> $LONGTASK_OUTPUT")
    shell.plan(f"longtask: 1\nname: bad\nsteps: [{{id: plan, run: {command}, grow: {{}}, retry: 0}}]")
    shell("run", "--foreground", "--unattended", code=1)
    first, second = shell.here("why", "bad-1", "plan", "--json").json[0]["details"]
    assert "step 'plan' is in the task already; give it another id" in first
    assert "step 'y' needs ['z']: no such step" in second
    assert first in shell.here("why", "bad-1", "plan").out and second in shell.here("why", "bad-1", "plan").out
    assert "(and 1 more)" in shell.here("show", "bad-1").out
