"""What `run` and the commands that act end with, and what they say."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tests.cli.shell import Shell, until

EDIT = """
longtask: 1
name: edit
workspace: {repo: .}
stages:
  - name: change
    steps:
      - {id: edit, run: "echo two >> a.txt; echo edited", commit: true}
  - name: deliver
    steps:
      - {id: patch, artifact: {patch: {name: change.patch}}}
"""
ASK = """
longtask: 1
name: ask
workspace: {repo: .}
stages:
  - name: change
    steps:
      - {id: edit, run: "echo two >> a.txt", commit: true}
  - name: review
    steps:
      - {id: review, approval: {ask: "Good enough?", show: [diff], who: [ann]}}
"""
MOVED = """
longtask: 1
name: moved
workspace: {repo: .}
steps:
  - {id: review, approval: {ask: "Good enough?", show: [diff], bind: head}}
  - {id: go, wait: {signal: go}}
  - {id: edit, needs: [go], run: "echo two >> a.txt", commit: true}
"""
SLEEP = """
longtask: 1
name: sleep
stages:
  - name: one
    steps:
      - {id: sleep, run: "echo begun; exec sleep 600"}
"""


def git(shell: Shell, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=shell.cwd, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_completed_task_ends_with_0_and_leaves_a_branch_but_the_working_tree_alone(shell: Shell):
    shell.plan(EDIT)
    done = shell("run", "--foreground")
    assert "step.completed     edit" in done.out and "edit-1 completed after" in done.out
    assert "branch     longtask/edit-1 in" in done.out and "change.patch" in done.out
    assert "edit-1" in done.err
    assert git(shell, "show", "longtask/edit-1:a.txt") == "one\ntwo"
    assert (shell.cwd / "a.txt").read_text() == "one\n"
    assert not shell.workers()
    patch = shell.here("artifacts", "@last", "change.patch").out
    assert "+two" in patch and patch == shell.here("diff", "@last").out


def test_a_failed_task_ends_with_1_and_names_the_step_and_the_next_command(shell: Shell):
    shell.plan('{"longtask": 1, "name": "bad", "steps": [{"id": "broken", "run": "echo because >&2; exit 7"}]}')
    failed = shell("run", "--foreground", code=1)
    assert "broken failed: exit code 7" in failed.out and "longtask why bad-1" in failed.out
    why = shell.here("why").out
    assert "longtask logs bad-1 broken" in why and "longtask retry bad-1 broken" in why
    assert shell.here("logs").out == "because\n"


def test_a_task_that_waits_ends_with_3_says_for_whom_and_the_command_that_answers(shell: Shell):
    shell.plan(ASK)
    waits = shell("run", code=3)
    assert "review asks ann: Good enough?" in waits.out
    for command in ("diff ask-1 review", "approve ask-1 review", "reject ask-1 review -m REASON"):
        assert command in waits.out
    assert waits.out.count("Good enough?") == 2  # as an event, and at the end
    assert "+two" in shell.here("diff", "ask-1", "review").out
    refused = shell.here("approve", "ask-1", env={"LONGTASK_USER": "bob"}, code=1)
    assert "'bob' may not decide it" in refused.err
    assert "takes a reason" in shell.here("reject", "ask-1", code=1).err
    shell.here("reject", "ask-1", "-m", "two is too many")
    failed = shell.here("watch", code=1)
    assert "review failed: two is too many" in failed.out
    shell.here("retry", "ask-1")
    until(lambda: shell.here("show", "--json").json["status"] == "waiting_user")
    shell.here("approve", "ask-1")
    assert "approve by ann" in shell.here("watch").out


def test_an_answer_to_a_question_whose_code_has_moved_does_not_count(shell: Shell):
    shell.plan(MOVED)
    shell("run", code=3)
    shell.here("signal", "moved-1", "go")

    def step(key: str) -> dict[str, Any]:
        return next(one for one in shell.here("show", "--json").json["steps"] if one["key"] == key)

    until(lambda: step("edit")["state"] == "completed")
    seen = step("review")
    refused = shell.here("approve", "moved-1", "review", "-m", "fine", code=1)
    assert "'approve' does not count, it is asked anew" in refused.err
    until(lambda: step("review")["ask"] == 2)
    since = shell.here("diff", "moved-1", "review", "--since", seen["question"]["head"]).out
    assert "+two" in since and "+one" not in since
    shell.here("approve", "moved-1", "review")
    assert "approve by ann" in shell.here("watch").out


def test_a_cancelled_task_ends_with_4_and_its_processes_are_dead(shell: Shell):
    shell.plan(SLEEP)
    handle = shell("run", "--detach", "--json").json["handle"]
    until(lambda: "begun" in shell.here("logs", handle, "sleep", code=None).out)
    said = shell.here("cancel", handle, "--json").json
    assert said["handle"] == handle and said["status"] == "cancelling"
    shell.here("watch", handle, code=4)
    shell.sweep()
    assert until(lambda: shell.processes() == [])


def test_a_paused_task_ends_with_3_and_goes_on_when_it_is_resumed(shell: Shell):
    shell.plan(ASK)
    shell.here("run", "--detach", env={"LONGTASK_MARK": "x"})  # as from inside a step: no worker is started
    assert not shell.workers()
    shell.here("pause", "@last")
    paused = shell.here("watch", code=3)
    assert "longtask resume ask-1" in paused.out
    shell("resume", "@last")
    assert "only a paused task" in shell.here("resume", "@last", code=1).err
    shell.here("watch", code=3)


def test_what_is_not_begun_ends_with_2(shell: Shell, tmp_path):
    missing = shell.here("run", code=2)
    assert "no such file" in missing.err and "longtask init" in missing.err
    shell.plan("longtask: 1\nname: x\nstages:\n  - {name: a, steps: [{id: one, run: 'true', ned: []}, {id: Two}]}\n")
    bad = shell.here("run", code=2)
    assert "longtask.yaml:4:" in bad.err and "did you mean" in bad.err and bad.err.count("longtask: ") >= 2
    shell.plan(EDIT)
    (shell.cwd / "a.txt").write_text("changed\n")
    dirty = shell.here("run", code=2)
    assert "--dirty ignore|include" in dirty.err
    assert "choose refuse, ignore, include" in shell.here("run", "--dirty", "maybe", code=2).err
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "longtask.yaml").write_text(EDIT)
    nowhere = shell.here("run", str(tmp_path / "bare" / "longtask.yaml"), "--json", code=2)
    assert nowhere.json["error"] == "workspace" and nowhere.json["exit_code"] == 2
    assert "no tasks yet" in shell.here("ls").out


def test_the_same_key_is_the_same_task(shell: Shell):
    shell.plan(SLEEP)
    inside = {"LONGTASK_STEP": "x"}
    first, again = (shell.here("run", "-d", "--json", "--key", "k", env=inside).json for _ in range(2))
    assert first["task"] == again["task"]
    shell.plan(SLEEP.replace("600", "601"))
    assert "belongs to task" in shell.here("run", "-d", "--key", "k", env=inside, code=2).err


def test_a_question_of_the_machine_takes_the_answers_that_fit(shell: Shell):
    shell.plan('{"longtask": 1, "name": "q", "steps": [{"id": "broken", "run": "test -e %s"}]}' % (shell.home / "flag"))
    waits = shell("run", "--attended", code=3)
    for command in ("logs q-1 broken", "retry q-1 broken", "approve q-1 broken", "reject q-1 broken"):
        assert command in waits.out
    (shell.home / "flag").touch()
    shell.here("retry", "q-1")
    shell.here("watch", "q-1")


@pytest.mark.parametrize("verb", ["approve", "reject", "pause", "resume", "cancel", "retry", "skip x"])
def test_what_runs_inside_a_step_does_not_decide(world: Shell, verb: str):
    name, *rest = verb.split()
    refused = world.here(name, "@last", *rest, env={"LONGTASK_STEP": "tests"}, code=1)
    assert f"`longtask {name}` is refused inside a step ('tests')" in refused.err


def test_a_signal_wakes_what_waits_for_it(shell: Shell):
    shell.plan(
        '{"longtask": 1, "name": "s", "steps": [{"id": "ci", "wait": {"signal": "ci.completed", "match": {"n": 7}}}]}'
    )
    shell("run", "-d")
    until(lambda: shell.here("show", "--json").json["status"] == "waiting_ci")
    assert "longtask signal s-1 ci.completed n=7" in shell.here("why").out
    assert "write KEY=VALUE" in shell.here("signal", "s-1", "ci.completed", "seven", code=2).err
    assert "is not JSON" in shell.here("signal", "s-1", "ci.completed", "--data", "{", code=2).err
    sent = shell.here("signal", "s-1", "ci.completed", "--data", '{"n": 7}', "--delivery", "d", "--json").json
    assert sent["number"] == 1
    shell.here("watch")
