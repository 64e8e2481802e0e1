"""Killed between any two steps: what is left makes nothing fail, and what counted is still there."""

from __future__ import annotations

import os
import subprocess

import pytest

from longtask.workspace import GitFailed, Workspace
from longtask.workspace.git import Place, git
from longtask.workspace.hub import hub_id
from tests.workspace.conftest import TASK, Child


def test_a_stale_index_lock_stops_no_checkpoint(workspace, base):
    wt = workspace.checkout(TASK, "s", 1, base)
    (wt.own_path / "index.lock").touch()
    (wt.path / ".git" / "index.lock").touch()
    (wt.path / "a").write_text("changed\n")
    assert workspace.read_file(base, "a") != b"changed\n"
    assert workspace.commit(wt, "x")


def test_stale_locks_in_the_hub_stop_no_reference(workspace, base):
    wt = workspace.checkout(TASK, "s", 1, base)
    (wt.path / "a").write_text("changed\n")
    refs = workspace.hub.path / "refs" / "longtask" / TASK
    (refs / "attempts").mkdir(parents=True)
    for lock in (refs / "attempts" / "s.1.lock", refs / "head.lock", workspace.hub.path / "packed-refs.lock"):
        lock.touch()
    made = workspace.commit(wt, "x")
    assert made is not None
    assert workspace.advance(TASK, made)
    assert workspace.clean(TASK).dropped


def test_a_stale_lock_of_a_fetch_stops_no_base(repo, workspace):
    head = repo.commit("second", a="2\n")
    lock = workspace.hub.path / "refs" / "bases" / f"{head}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    assert workspace.base().commit == head


def test_a_half_made_worktree_is_replaced_and_never_taken_for_a_whole_one(workspace, base):
    wt = workspace.checkout(TASK, "s", 1, base)
    (wt.path / "rubbish").touch()
    wt.record.unlink()
    assert workspace.find(TASK, "s", 1) is None
    again = workspace.checkout(TASK, "s", 1, base, keep_existing=True)
    assert sorted(os.listdir(again.path)) == [".git", "a", "b"]


def test_a_hub_that_was_never_finished_is_made_again(repo, home):
    (home / "hubs" / f".{hub_id(repo.path / '.git')}.abandoned").mkdir(parents=True)
    assert Workspace.open(home, repo.path).base().commit == repo.git("rev-parse", "HEAD")


def test_processes_that_open_at_the_same_time_share_one_hub(repo, home):
    program = (
        "import pathlib, sys; from longtask.workspace import Workspace\n"
        "print('up', flush=True); sys.stdin.readline()\n"
        "print(Workspace.open(*map(pathlib.Path, sys.argv[1:])).base().commit)"
    )
    children = [Child(program, str(home), str(repo.path)) for _ in range(3)]
    for child in children:
        assert child.hear() == "up"
    for child in children:
        child.tell()
    assert {child.end() for child in children} == {repo.git("rev-parse", "HEAD")}
    assert len(os.listdir(home / "hubs")) == 1


KILLED = """
import pathlib, sys
from longtask.workspace import Workspace
home, id, task, base, n = sys.argv[1:]
workspace = Workspace.at(pathlib.Path(home), id)
wt = workspace.checkout(task, "s", int(n), base)
print("up", flush=True)
i = 0
while True:
    (wt.path / "a").write_text(f"{i}\\n")
    workspace.checkpoint(wt)
    workspace.commit(wt, "x")
    workspace.advance(task, base)
    i += 1
    print(i, flush=True)
"""


def test_a_worker_killed_at_any_moment_leaves_a_workspace_that_works(workspace, base, repo):
    for n, lines in enumerate((0, 1, 3, 4), start=1):
        child = Child(KILLED, str(workspace.hub.home), workspace.id, TASK, base, str(n))
        for _ in range(lines + 1):
            assert child.hear()
        child.kill()
        child.let_go()
        wt = workspace.find(TASK, "s", n)
        assert wt is not None
        (wt.path / "b").write_text("after\n")
        tree = workspace.checkpoint(wt)
        assert workspace.stat(base, tree).paths[-1] == "b"
        again = workspace.checkout(TASK, "s", n + 10, base, tree)
        assert workspace.checkpoint(again) == tree
    report = workspace.clean(TASK)
    assert report.stayed == ()
    repo.git("--git-dir", str(workspace.hub.path), "fsck", "--connectivity-only")


def test_a_command_that_outlives_its_killed_worker_keeps_the_lock(tmp_path):
    lock = tmp_path / "lock"
    begin = (
        "import pathlib, subprocess, sys; from longtask.workspace.git import locked\nlock = pathlib.Path(sys.argv[1])\n"
    )
    holder = Child(
        f"{begin}with locked(lock) as hold:\n"
        "    child = subprocess.Popen(['cat'], pass_fds=[hold], stdout=subprocess.DEVNULL)\n"
        "    print('up', flush=True); child.wait()\n",
        str(lock),
    )
    assert holder.hear() == "up"
    holder.kill()
    waiter = Child(f"{begin}with locked(lock): print('in')\n", str(lock))
    with pytest.raises(subprocess.TimeoutExpired):
        waiter.process.wait(0.3)
    holder.let_go()  # so `cat` ends
    assert waiter.end() == "in"


def test_the_reconciler_makes_references_equal_the_journal(workspace, base, work):
    one, two, orphan = work("one", base, a="1\n"), work("two", base, b="2\n"), work("lost", base, b="3\n")
    merged = workspace.merge(one, two, "m").commit
    refs = ["update-ref", "-d", f"refs/longtask/{TASK}/attempts/one.1"]
    git(Place(git_dir=workspace.hub.path), *refs)
    workspace.advance(TASK, orphan)  # a reference that moved before the journal
    journal = (TASK, merged, [("one", 1, one), ("two", 1, two)])
    report = workspace.reconcile(*journal)
    assert len(report.moved) == 2 and report.missing == ()
    assert workspace.head(TASK) == merged
    again = workspace.reconcile(*journal)
    assert again.moved == ()
    assert workspace.clean(TASK).kept == (f"refs/longtask/{TASK}/attempts/lost.1",)
    report = workspace.reconcile(TASK, merged, [("gone", 1, "0" * 39 + "1")])
    assert report.missing == ("0" * 39 + "1",)


def test_an_error_names_command_place_and_what_git_said(workspace):
    with pytest.raises(GitFailed, match=r"git 'rev-parse' in '.*hubs.*' ended with 128: fatal: Needed"):
        git(workspace.hub.place, "rev-parse", "--verify", "nonsense")
