"""A task's commits go into one file and come into another hub, whole, and without what was before them."""

from __future__ import annotations

import subprocess

import pytest

from longtask.core.errors import WorkspaceError
from longtask.workspace import bundle, hub, names
from longtask.workspace.bundle import Bundle
from longtask.workspace.tree import Worktree
from longtask.workspace.workspace import Workspace
from tests.workspace.conftest import TASK, Repo

FORMATS = ((), ("--object-format=sha256",))


def committed(workspace: Workspace, tree: Worktree) -> str:
    commit = workspace.commit(tree, "work")
    assert commit is not None
    return commit


@pytest.fixture(params=FORMATS, ids=["sha1", "sha256"])
def origin(request, tmp_path):
    """(workspace, base, head): three commits of the user, the task began from the last; two of the task."""
    repo = Repo(tmp_path / "repo", *request.param)
    for n in range(3):
        repo.write("a.txt", f"{n}\n")
        repo.git("add", "-A")
        repo.git("commit", "-q", "-m", f"number {n}")
    workspace = Workspace.open(tmp_path / "home", repo.path)
    base = workspace.base().commit
    head = base
    for attempt in (1, 2):
        tree = workspace.checkout(TASK, "edit", attempt, head)
        (tree.path / f"new{attempt}.txt").write_text("new\n")
        head = committed(workspace, tree)
        workspace.remove(tree)
    workspace.advance(TASK, head)
    return workspace, base, head


def test_the_same_commits_are_in_another_hub_and_none_before_the_base(origin, tmp_path):
    workspace, base, head = origin
    hub.move_refs(workspace.hub, [hub.Move(names.resolved_ref(TASK, "edit", 2, 1), head)])
    file = tmp_path / "x.bundle"
    bundle.write(workspace.hub, TASK, base, head, file)
    with Bundle.opened(tmp_path / "aside", file, TASK, base, head) as opened:
        made = opened.take(tmp_path / "elsewhere", workspace.id, bundle.known(workspace.hub), None)
        assert hub.read_refs(made, "refs") == {}, "references follow the journal"
        opened.point(made, TASK, head)
        opened.point(made, TASK, head)
    there = Workspace.at(tmp_path / "elsewhere", workspace.id)
    assert there.diff(base, head) == workspace.diff(base, head)
    assert there.head(TASK) == head
    assert hub.read_refs(there.hub, "refs/longtask") == hub.read_refs(workspace.hub, f"refs/longtask/{TASK}")
    count = subprocess.run(["git", "rev-list", "--count", head], cwd=made.path, capture_output=True, text=True)
    assert count.stdout.strip() == "3", "the base is the beginning of history there"
    assert not any((tmp_path / "aside").iterdir())
    tree = there.checkout(TASK, "next", 1, head)
    (tree.path / "more.txt").write_text("more\n")
    assert there.contains(committed(there, tree), head)


def test_a_hub_that_has_the_history_keeps_it(origin, tmp_path):
    workspace, base, head = origin
    file = tmp_path / "x.bundle"
    bundle.write(workspace.hub, TASK, base, head, file)
    other = Workspace.open(tmp_path / "elsewhere", workspace.hub.folder)
    assert other.base().commit == base
    with Bundle.opened(tmp_path / "aside", file, TASK, base, head) as opened:
        opened.point(opened.take(tmp_path / "elsewhere", other.id, bundle.known(workspace.hub), None), TASK, head)
    count = subprocess.run(["git", "rev-list", "--count", head], cwd=other.hub.path, capture_output=True, text=True)
    assert count.stdout.strip() == "5"
    assert other.hub.host is None, "its repository is still this machine's"


def test_its_bytes_do_not_depend_on_how_the_hub_is_packed(origin, tmp_path):
    workspace, base, head = origin
    bundle.write(workspace.hub, TASK, base, head, tmp_path / "x")
    workspace.compact()
    bundle.write(workspace.hub, TASK, base, head, tmp_path / "y")
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


@pytest.mark.parametrize("ref", ["head/x", "attempts/x", "attempts/a/b.1", "attempts/x.0", "other/x.1"])
def test_a_reference_that_is_no_attempts_is_refused(origin, tmp_path, ref):
    workspace, base, head = origin
    file = tmp_path / "x"
    bundle.write(workspace.hub, TASK, base, head, file)
    lines = file.read_bytes().split(b"\n")
    place = next(n for n, line in enumerate(lines) if b"/attempts/" in line)
    lines[place] = lines[place].partition(b" ")[0] + f" refs/longtask/{TASK}/{ref}".encode()
    file.write_bytes(b"\n".join(lines))
    with (
        pytest.raises(WorkspaceError, match=r"no attempt's|cannot be unpacked"),
        Bundle.opened(tmp_path / "aside", file, TASK, base, head),
    ):
        pass
