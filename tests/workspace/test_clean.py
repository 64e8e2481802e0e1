"""Cleaning never deletes work that is not merged."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from longtask.core.errors import Refused
from longtask.workspace import Workspace
from longtask.workspace.clean import Cleaned
from longtask.workspace.hub import read_refs
from longtask.workspace.merge import Merged
from longtask.workspace.tree import worktrees
from tests.workspace.conftest import TASK

REFS = f"refs/longtask/{TASK}"


def test_merged_attempts_go_and_unmerged_ones_stay(workspace, base, work):
    one, two = work("one", base, a="1\n"), work("two", base, a="2\n")
    workspace.advance(TASK, one)
    report = workspace.clean(TASK)
    assert report.dropped == (f"{REFS}/attempts/one.1",)
    assert report.kept == (f"{REFS}/attempts/two.1",)
    assert len(report.removed) == 2 and report.saved == ()
    workspace.compact()
    assert workspace.read_file(two, "a") == b"2\n"
    assert workspace.read_file(one, "a") == b"1\n"
    assert workspace.clean(TASK).dropped == ()


def test_what_resolves_a_conflict_goes_and_stays_as_the_attempt_does(workspace, base, work, repo):
    own, head = work("one", base, a="1\n"), work("two", base, b="2\n")
    workspace.advance(TASK, head)
    both = workspace.merge(head, own, "both").commit
    repo.git("fetch", "-q", str(workspace.hub.path), f"{REFS}/*:refs/here/*")
    with pytest.raises(Refused, match="does not contain the step's own commit"):
        workspace.resolve(TASK, "one", 1, 3, "refs/here/head", own=own, head=head)
    assert read_refs(workspace.hub, f"{REFS}/attempts/one.1") == {f"{REFS}/attempts/one.1": own}
    repo.git("fetch", "-q", str(workspace.hub.path), f"{both}:refs/here/both")
    assert workspace.resolve(TASK, "one", 1, 3, "refs/here/both", own=own, head=head) == both
    found = {f"{REFS}/attempts/one.1": own, f"{REFS}/attempts/one.1-3": both}
    assert read_refs(workspace.hub, f"{REFS}/attempts") == {**found, f"{REFS}/attempts/two.1": head}
    assert workspace.clean(TASK).kept == tuple(found)
    workspace.advance(TASK, both)
    assert workspace.clean(TASK).dropped == tuple(found)


def test_edits_of_a_dead_attempt_are_saved_before_its_worktree_goes(workspace, base):
    wt = workspace.checkout(TASK, "agent", 1, base)
    (wt.path / "a").write_text("not delivered\n")
    half = workspace.checkout(TASK, "half", 1, base)
    half.record.unlink()
    report = workspace.clean(TASK)
    [(step, attempt, tree)] = report.saved
    assert (step, attempt) == ("agent", 1)
    assert report.kept == (f"{REFS}/checkpoints/agent.1",)
    assert not wt.path.parent.exists()
    workspace.compact()
    again = workspace.checkout(TASK, "agent", 2, base, tree)
    assert (again.path / "a").read_text() == "not delivered\n"


def test_a_busy_attempt_is_not_touched(workspace, base):
    wt = workspace.checkout(TASK, "agent", 1, base)
    (wt.path / "a").write_text("in work\n")
    report = workspace.clean(TASK, busy=[("agent", 1)])
    assert report.removed == () and report.saved == ()
    assert (wt.path / "a").read_text() == "in work\n"


def test_checkpoints_go_when_their_step_is_merged_or_done(workspace, base):
    merged, test, failed = (workspace.checkout(TASK, step, 1, base) for step in ("merged", "test", "failed"))
    for wt in (merged, test, failed):
        (wt.path / "a").write_text(f"{wt.step}\n")
        workspace.checkpoint(wt)
    head = workspace.commit(merged, "x")
    assert head is not None
    workspace.advance(TASK, head)
    report = workspace.clean(TASK, done=["test"])
    assert report.kept == (f"{REFS}/checkpoints/failed.1",)
    assert set(read_refs(workspace.hub, REFS)) == {f"{REFS}/head", f"{REFS}/checkpoints/failed.1"}


def test_what_the_caller_keeps_stays(workspace, base, work):
    one = work("one", base, a="1\n")
    workspace.advance(TASK, one)
    assert workspace.clean(TASK, keep={one}).kept == (f"{REFS}/attempts/one.1",)


def test_a_worktree_that_cannot_be_saved_stays_and_is_named(workspace, base):
    wt = workspace.checkout(TASK, "agent", 1, base)
    (wt.path / "a").write_text("precious\n")
    wt.index.write_bytes(b"rubbish")
    report = workspace.clean(TASK)
    assert [path for path, _ in report.stayed] == [wt.path]
    assert (wt.path / "a").exists()


def test_an_unknown_task_has_nothing_to_clean(workspace):
    report = workspace.clean(TASK)
    assert report.removed == report.kept == report.dropped == ()


def test_other_tasks_are_not_touched(workspace, base, work):
    one = work("one", base, a="1\n")
    other = workspace.checkout("other", "s", 1, base)
    workspace.advance("other", one)
    workspace.clean(TASK)
    assert other.path.exists()
    assert workspace.head("other") == one


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
def test_several_who_clean_at_once_find_it_done(home, repo, tmp_path, shared):
    """Every worker that hears of a task's end makes its references follow."""
    hub = f"file://{tmp_path}/disk/{{workspace}}.git" if shared else None
    workspace = Workspace.open(home, repo.path, hub)
    head = base = workspace.base().commit
    unmerged = ""
    for n in range(6):
        wt = workspace.checkout(TASK, f"s{n}", 1, base)
        (wt.path / f"{n}.txt").write_text("x\n")
        unmerged = workspace.commit(wt, "x") or ""
        if n < 5:
            merged = workspace.merge(head, unmerged, "m")
            assert isinstance(merged, Merged)
            head = merged.commit
    workspace.advance(TASK, head)
    meeting = Barrier(4)

    def clean(_: int) -> Cleaned:
        mine = Workspace.at(home, workspace.id, hub)
        meeting.wait()
        return mine.clean(TASK)

    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(clean, range(4)))
    assert all(report.stayed == () and report.kept == (f"{REFS}/attempts/s5.1",) for report in reports)
    assert sorted(ref for report in reports for ref in report.dropped) == [f"{REFS}/attempts/s{n}.1" for n in range(5)]
    assert read_refs(workspace.hub, REFS) == {f"{REFS}/head": head, f"{REFS}/attempts/s5.1": unmerged}
    assert worktrees(home, TASK) == []
