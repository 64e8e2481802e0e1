"""Merging: a pure function of (head, commit); conflicts; the head moved by compare-and-set."""

from __future__ import annotations

import pytest

from longtask.core.errors import Refused
from longtask.workspace import Conflict, GitFailed, Merged, Workspace
from tests.workspace.conftest import TASK, Child

MESSAGE = "merge\n"


def test_a_merged_commit_merges_as_nothing(workspace, base, work):
    one, two = work("one", base, a="1\ntwo\nthree\n"), work("two", base, b="2\n")
    merged = workspace.merge(one, two, MESSAGE).commit
    assert workspace.merge(merged, two, MESSAGE) == Merged(merged)
    assert workspace.merge(merged, one, "another message") == Merged(merged)
    assert workspace.merge(one, one, MESSAGE) == Merged(one)


def test_a_commit_on_the_head_becomes_the_head(workspace, base, work):
    one = work("one", base, a="1\n")
    assert workspace.merge(base, one, MESSAGE) == Merged(one)


def test_everybody_who_merges_gets_the_same_commit(workspace, base, work, repo):
    one, two = work("one", base, a="1\ntwo\nthree\n"), work("two", base, a="one\ntwo\n3\n", b=None)
    merged = workspace.merge(one, two, MESSAGE).commit
    program = (
        "import sys, pathlib; from longtask.workspace import Workspace; home, id, a, b = sys.argv[1:]\n"
        "print(Workspace.at(pathlib.Path(home), id).merge(a, b, 'merge\\n').commit)"
    )
    assert Child(program, str(workspace.hub.home), workspace.id, one, two).end() == merged
    assert workspace.read_file(merged, "a") == b"1\ntwo\n3\n"
    assert workspace.contains(merged, one) and workspace.contains(merged, two)
    assert not workspace.contains(one, merged)
    hub = ("--git-dir", str(workspace.hub.path))
    assert repo.git(*hub, "show", "-s", "--format=%P|%an", merged) == f"{one} {two}|LongTask"


def test_a_conflict_names_its_paths_and_changes_nothing(workspace, base, work):
    one = work("one", base, a="1\n", b=None)
    two = work("two", base, a="2\n", b="changed\n")
    found = workspace.merge(one, two, MESSAGE)
    assert isinstance(found, Conflict)
    assert found.paths == ("a", "b")
    assert len(found.messages) == 2 and "modify/delete" in "".join(found.messages)


def test_a_conflict_is_resolved_in_a_worktree_and_contains_both_sides(repo, workspace, base, work):
    one, two = work("one", base, a="1\n", b="clean\n"), work("two", base, a="2\n", c="new\n")
    wt = workspace.conflict_checkout(TASK, "merge_two", 1, one, two)
    assert "UU a" in repo.git("status", "--porcelain", cwd=wt.path)
    assert "You have unmerged paths" in repo.git("status", cwd=wt.path)
    assert (wt.path / "a").read_text() == f"<<<<<<< {one}\n1\n=======\n2\n>>>>>>> {two}\n"
    with pytest.raises(Refused, match="markers are left in 'a'"):
        workspace.commit(wt, "resolved")
    (wt.path / "a").write_text("1 and 2\n<<<<<<< HEAD\nan example of markers\n>>>>>>> other\n")
    made = workspace.commit(wt, "resolved")
    assert made is not None
    assert workspace.contains(made, one) and workspace.contains(made, two)
    assert workspace.read_file(made, "b") == b"clean\n"
    assert workspace.read_file(made, "c") == b"new\n"
    assert workspace.merge(one, made, MESSAGE) == Merged(made)
    assert workspace.merge(made, two, MESSAGE) == Merged(made)


def test_a_conflict_resolved_as_one_side_still_delivers_both(workspace, base, work):
    one, two = work("one", base, a="1\n"), work("two", base, a="2\n")
    wt = workspace.conflict_checkout(TASK, "merge_two", 1, one, two)
    (wt.path / "a").write_text("1\n")
    made = workspace.commit(wt, "ours")
    assert made is not None
    assert workspace.tree_of(made) == workspace.tree_of(one)
    assert workspace.contains(made, two)


def test_a_conflicts_worktree_resumes_from_its_checkpoint_in_another_process(workspace, base, work):
    one, two = work("one", base, a="1\n"), work("two", base, a="2\n")
    wt = workspace.conflict_checkout(TASK, "merge_two", 1, one, two)
    (wt.path / "a").write_text("half done\n")
    tree = workspace.checkpoint(wt)
    workspace.conflict_checkout(TASK, "merge_two", 2, one, two, tree)
    again = Workspace.at(workspace.hub.home, workspace.id).find(TASK, "merge_two", 2)
    assert again is not None
    assert (again.path / "a").read_text() == "half done\n"
    assert (again.merges, again.conflicts) == (two, ("a",))
    made = workspace.commit(again, "resolved")
    assert made is not None and workspace.contains(made, two)


@pytest.mark.parametrize("name", ["with space", "new\nline", "\udce9latin", "deep/er/f"])
def test_conflicts_in_files_with_odd_names(workspace, base, name):
    made = []
    for step in ("one", "two"):
        wt = workspace.checkout(TASK, step, 1, base)
        (wt.path / name).parent.mkdir(parents=True, exist_ok=True)
        (wt.path / name).write_text(step)
        made.append(workspace.commit(wt, step))
    found = workspace.merge(*made, MESSAGE)
    assert found.paths == (name,)
    wt = workspace.conflict_checkout(TASK, "c", 1, *made)
    with pytest.raises(Refused):
        workspace.commit(wt, "x")


def test_a_merge_without_conflict_needs_no_worktree(workspace, base, work):
    one, two = work("one", base, a="1\n"), work("two", base, b="2\n")
    with pytest.raises(Refused, match="without a conflict"):
        workspace.conflict_checkout(TASK, "c", 1, one, two)


def test_unrelated_histories_are_an_error_not_a_conflict(workspace, base, repo):
    repo.git("checkout", "--quiet", "--orphan", "other")
    other = repo.commit("unrelated", z="z")
    workspace.adopt(TASK, "s", 1, other)
    with pytest.raises(GitFailed, match="unrelated histories"):
        workspace.merge(base, other, MESSAGE)


def test_the_repositorys_own_rules_for_merging_hold(repo, workspace, work):
    repo.write(".gitattributes", "CHANGES merge=union\n")
    repo.write("web/.gitattributes", "package-lock.json -merge\n")
    repo.write("web/package-lock.json", "1\n2\n3\n4\n5\n")
    repo.commit("rules", CHANGES="start\n")
    base = workspace.base().commit
    one, two = work("one", base, CHANGES="start\none\n"), work("two", base, CHANGES="start\ntwo\n")
    merged = workspace.merge(one, two, MESSAGE)
    assert workspace.read_file(merged.commit, "CHANGES") == b"start\none\ntwo\n"
    made = []
    for step, text in (("three", "X\n2\n3\n4\n5\n"), ("four", "1\n2\n3\n4\nX\n")):
        wt = workspace.checkout(TASK, step, 1, base)
        (wt.path / "web" / "package-lock.json").write_text(text)
        made.append(workspace.commit(wt, step))
    assert workspace.merge(*made, MESSAGE).paths == ("web/package-lock.json",)


def test_links_modes_and_binary_files_merge(workspace, base):
    one = workspace.checkout(TASK, "one", 1, base)
    (one.path / "a").chmod(0o755)
    (one.path / "bin").write_bytes(b"\0\1\2")
    two = workspace.checkout(TASK, "two", 1, base)
    (two.path / "link").symlink_to("a")
    merged = workspace.merge(workspace.commit(one, "1"), workspace.commit(two, "2"), MESSAGE).commit
    wt = workspace.checkout(TASK, "three", 1, merged)
    assert (wt.path / "link").is_symlink()
    assert (wt.path / "a").stat().st_mode & 0o111
    assert (wt.path / "bin").read_bytes() == b"\0\1\2"


def test_the_head_moves_by_compare_and_set(workspace, base, work):
    one, two = work("one", base, a="1\n"), work("two", base, b="2\n")
    assert workspace.head(TASK) is None
    assert not workspace.advance(TASK, one, expected=base)
    assert workspace.advance(TASK, base, expected="")
    assert not workspace.advance(TASK, one, expected="")
    assert workspace.advance(TASK, one, expected=base)
    assert not workspace.advance(TASK, two, expected=base)
    assert workspace.head(TASK) == one


def test_a_late_advance_does_not_take_the_head_back(workspace, base, work):
    one = work("one", base, a="1\n")
    assert workspace.advance(TASK, one)
    assert workspace.advance(TASK, base)
    assert workspace.head(TASK) == one


MERGER = """
import pathlib, sys
from longtask.workspace import Workspace
home, id, task, *commits = sys.argv[1:]
workspace = Workspace.at(pathlib.Path(home), id)
print("up", flush=True)
sys.stdin.readline()
lost = 0
for commit in commits:
    while True:
        head = workspace.head(task)
        if workspace.advance(task, workspace.merge(head, commit, "merge").commit, expected=head):
            break
        lost += 1
"""


def test_processes_that_merge_at_the_same_time_lose_nothing(workspace, base, repo):
    commits = []
    for n in range(6):
        wt = workspace.checkout(TASK, f"s{n}", 1, base)
        (wt.path / f"f{n}").write_text("x")
        commits.append(workspace.commit(wt, f"s{n}"))
    workspace.advance(TASK, base)
    words = (MERGER, str(workspace.hub.home), workspace.id, TASK)
    children = [Child(*words, *part) for part in (commits[:3], commits[3:])]
    for child in children:
        assert child.hear() == "up"
    for child in children:
        child.tell()
    for child in children:
        child.end()
    head = workspace.head(TASK)
    assert all(workspace.contains(head, commit) for commit in commits)
    assert len(workspace.stat(base, head).paths) == 6
