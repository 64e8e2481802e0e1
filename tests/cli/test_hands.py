"""People change the work of a task that is under way, and do some of it by hand: real git, real workers."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from longtask.cli.taken import else_given_back
from longtask.core.errors import NotFound, Refused
from tests.cli.shell import Shell

PLAN = """
longtask: 1
name: hand
workspace: .
stages:
  - name: build
    steps:
      - {id: one, run: "echo no; exit 3"}
  - name: release
    steps:
      - {id: last, run: "cat b.txt"}
"""
CLASHING = """
longtask: 1
name: clash
workspace: .
steps:
  - {id: left, run: "echo left > clash.txt", commit: true}
  - {id: right, run: "echo right > clash.txt", commit: true}
"""
MORE = """
stage: release
steps:
  - {id: docs, run: "echo docs"}
  - {id: docs2, run: "echo two", needs: [docs]}
"""


@pytest.fixture
def failed(shell: Shell) -> Shell:
    """A task whose first step has failed, in a repository that knows who commits."""
    for words in (["user.name", "ann"], ["user.email", "ann@example.com"]):
        subprocess.run(["git", "config", *words], cwd=shell.cwd, check=True)
    write(shell, "plan.yaml", PLAN)
    shell("run", "--foreground", "--unattended", "plan.yaml", "--dirty", "ignore", code=1)
    return shell


def write(shell: Shell, name: str, text: str) -> Path:
    file = shell.home.parent / name
    if name == "plan.yaml":
        file = shell.cwd / name
    file.write_text(text)
    return file


def carry(shell: Shell, code: int = 0) -> None:
    """Works on it, here, to its end."""
    shell("worker", "--until-idle", code=None)
    shell("watch", "@last", code=code)


def test_a_step_is_taken_worked_on_and_done_and_its_change_is_on_the_branch(failed: Shell):
    taken = failed("take", "@last", "one", "--json").json
    assert taken.keys() == {"task", "handle", "status", "step", "folder"}
    folder = Path(taken["folder"])
    assert (folder / "a.txt").read_text() == "one\n"
    assert "taken by ann" in failed("show", "@last").out
    assert "ann works on one by hand" in failed("why", "@last").out
    (folder / "b.txt").write_text("by hand\n")
    failed("done", "@last", "one", "-m", "Do it by hand", "--output", "n=3")
    assert not folder.exists()
    failed("watch", "@last")
    assert failed("show", "@last", "--json").json["status"] == "completed"
    log = subprocess.run(
        ["git", "log", "-1", "--format=%s", "longtask/hand-1"], cwd=failed.cwd, capture_output=True, text=True
    )
    assert log.stdout == "Do it by hand\n"
    steps = {step["key"]: step for step in failed("show", "@last", "--json").json["steps"]}
    assert steps["one"]["result"] == {"n": 3}


def test_a_commit_of_one_s_own_is_the_outcome_and_is_merged_beside_other_work(failed: Shell):
    run = lambda *words: subprocess.run(["git", *words], cwd=failed.cwd, check=True, capture_output=True)  # noqa: E731
    run("checkout", "-q", "-b", "mine")
    (failed.cwd / "b.txt").write_text("mine\n")
    run("add", "b.txt")
    run("commit", "-q", "-m", "mine")
    failed("done", "@last", "one", "--commit", "mine")
    failed("watch", "@last")
    shown = subprocess.run(["git", "show", "longtask/hand-1:b.txt"], cwd=failed.cwd, capture_output=True, text=True)
    assert shown.stdout == "mine\n"
    assert failed("logs", "@last", "last").out.strip().endswith("mine")


def test_a_commit_that_cannot_be_taken_leaves_the_step_as_it_was(failed: Shell):
    assert "no such commit" in failed("done", "@last", "one", "--commit", "nothing", code=None).err
    run = lambda *words: subprocess.run(["git", *words], cwd=failed.cwd, check=True, capture_output=True)  # noqa: E731
    run("checkout", "-q", "--orphan", "apart")
    run("commit", "-q", "-m", "apart", "--allow-empty")
    assert "no history in common" in failed("done", "@last", "one", "--commit", "apart", code=1).err
    steps = {step["key"]: step["state"] for step in failed("show", "@last", "--json", code=None).json["steps"]}
    assert steps["one"] == "failed"
    failed("take", "@last", "one", "--no-shell")
    assert "no such commit" in failed("done", "@last", "one", "--commit", "nothing", code=None).err
    assert "taken by ann" in failed("show", "@last").out


def test_a_conflict_is_resolved_by_a_commit_that_holds_both_sides_and_by_no_other(failed: Shell):
    write(failed, "plan.yaml", CLASHING)
    failed("run", "--foreground", "--attended", "plan.yaml", "--dirty", "ignore", code=3)
    tree = failed("show", "@last", "--json").json
    (row,) = [step for step in tree["steps"] if step["state"] == "waiting"]

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=failed.cwd, check=True, capture_output=True)

    told = failed("done", "@last", row["key"], code=1).err
    begin, switch, fetch, _ = told.partition("called both: ")[2].split(" && ")
    for words in (begin, switch, fetch):
        git(*shlex.split(words)[1:])
    for one in (row["commit"], tree["head"]):
        assert "does not contain" in failed("done", "@last", row["key"], "--commit", one, code=1).err
    assert failed("show", "@last", "--json").json["status"] == "waiting_user"
    git("merge", "-q", "-s", "ours", "-m", "both", "FETCH_HEAD")
    assert f"longtask done clash-2 {row['key']} --commit COMMIT" in failed("why", "@last").out
    failed("done", "@last", row["key"], "--commit", "both")
    carry(failed)
    (end,) = [step for step in failed("show", "@last", "--json").json["steps"] if step["key"] == row["key"]]
    assert end["state"] == "completed"


def test_a_taken_step_is_given_back(failed: Shell):
    folder = Path(failed("take", "@last", "one", "--json").json["folder"])
    assert "taken by ann" in failed("take", "@last", "one", code=1, env={"LONGTASK_USER": "ben"}).err
    assert "is theirs" in failed("done", "@last", "one", code=1, env={"LONGTASK_USER": "ben"}).err
    failed("pause", "@last")
    assert failed("take", "@last", "one", "--give-back").out.startswith("one is failed, as it was")
    assert not folder.exists()
    assert failed("show", "@last", "--json", code=None).json["status"] == "failed"
    folder = Path(failed("take", "@last", "one", "--json").json["folder"])
    (folder / "b.txt").write_text("half\n")
    assert str(folder) in failed("take", "@last", "one", "--give-back").out
    assert (folder / "b.txt").read_text() == "half\n"


def test_taking_what_is_one_s_own_already_names_its_folder_or_makes_it(failed: Shell):
    first = failed("take", "@last", "one", "--json").json
    folder = Path(first["folder"])
    (folder / "b.txt").write_text("half\n")
    assert failed("take", "@last", "one", "--json").json == first
    assert (folder / "b.txt").read_text() == "half\n"
    shutil.rmtree(folder)
    assert failed("take", "@last", "one", "--json").json == first
    assert (folder / "a.txt").read_text() == "one\n"
    (folder / "b.txt").write_text("whole\n")
    failed("done", "@last", "one")
    failed("watch", "@last")
    assert failed("logs", "@last", "last").out.strip().endswith("whole")


def test_what_went_wrong_is_told_though_the_step_cannot_be_given_back():
    def refuse() -> None:
        raise Refused("somebody else was faster")

    with pytest.raises(NotFound, match="no such commit"), else_given_back(refuse):
        raise NotFound("no such commit")


def test_a_failed_step_is_edited_and_taken_up_again(failed: Shell):
    assert "retry it in one go" in failed("edit", "@last", "one", "--run", "echo b > b.txt", code=1).err
    words = write(failed, "words.yaml", "timeout: 5m\ncommit: true\n")
    assert "'commit' cannot be edited" in failed("edit", "@last", "one", "-f", str(words), code=2).err
    assert "give the words" in failed("edit", "@last", "one", "--retry-now", code=2).err
    failed("edit", "@last", "last", "--run", "echo fine", "--timeout", "5m", code=1)  # its task has failed
    seen = failed("edit", "@last", "one", "--dry-run").out
    assert "runs again: one" in seen and "is to run: last" in seen
    failed("edit", "@last", "one", "--run", "echo fine", "--retry-now")
    failed("watch", "@last", code=1)  # there is no b.txt
    failed("edit", "@last", "last", "--run", "echo fine", "--retry-now")
    failed("watch", "@last")
    assert "fine" in failed("logs", "@last", "last").out


def test_steps_are_added_before_a_step_and_behind_one_and_a_whole_plan_keeps_its_order(shell: Shell):
    write(shell, "plan.yaml", PLAN.replace("echo no; exit 3", "sleep 60"))
    more = write(shell, "more.yaml", MORE)
    shell("run", "-d", "plan.yaml", "--dirty", "ignore")
    assert shell("add", "@last", str(more), "--json").json["steps"] == ["docs", "docs2"]
    told = shell("add", "@last", str(more), code=2).err
    assert "'docs' is in the task already" in told and "'docs2' is in the task already" in told
    first = write(shell, "first.yaml", "steps: [{id: first, run: 'echo b > b.txt', commit: true}]")
    shell("add", "@last", str(first), "--before", "last")
    whole = write(shell, "whole.yaml", PLAN.replace("id: one", "id: w1").replace("id: last", "id: w2"))
    shell("add", "@last", str(whole), "--after", "one", "--stage", "release")
    shell("cancel", "@last", "one")
    shell("watch", "@last", code=1)
    shell("skip", "@last", "one")
    shell("watch", "@last", code=1)
    steps = {step["key"]: step["state"] for step in shell("show", "@last", "--json").json["steps"]}
    assert steps == {"one": "cancelled", "last": "completed", "docs": "completed", "docs2": "completed",
                     "first": "completed", "w1": "failed", "w2": "skipped"}  # fmt: skip
    assert "is failed: no step can be added" in shell("add", "@last", str(more), code=1).err
