"""An attempt's folder: what is in it at the start, what is saved of it, what it delivers."""

from __future__ import annotations

import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from longtask.core.errors import Refused, WorkspaceError
from longtask.workspace import GitFailed, Workspace, save
from longtask.workspace.names import TREES
from longtask.workspace.tree import delete, remove
from tests.workspace.conftest import TASK
from tests.workspace.test_base import ODD


def files_of(folder: Path) -> dict[bytes, tuple[int, bytes]]:
    """Name, kind with the executable bit, content; without git's own."""
    found = {}
    for where, folders, names in os.walk(os.fsencode(folder)):
        if b".git" in folders:
            folders.remove(b".git")
        for name in names:
            full = os.path.join(where, name)
            mode = os.lstat(full).st_mode
            content = os.readlink(full) if stat.S_ISLNK(mode) else Path(os.fsdecode(full)).read_bytes()
            kind = stat.S_IFMT(mode) | (mode & 0o100)
            found[os.path.relpath(full, os.fsencode(folder))] = (kind, content)
    return found


def change_everything(folder: Path) -> None:
    (folder / "a").unlink()
    (folder / "b").write_bytes(bytes(range(256)) * 40)
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("no/such/place")
    (folder / "deep" / "er").mkdir(parents=True)
    for name in ODD:
        Path(os.fsdecode(os.fsencode(folder / "deep") + b"/" + name)).write_bytes(name)
    (folder / "empty").touch()


def test_a_worktree_holds_the_base_and_nothing_of_the_users_working_tree(repo, workspace, base):
    repo.write("a", "dirty")
    wt = workspace.checkout(TASK, "build", 1, base)
    assert set(files_of(wt.path)) == {b"a", b"b"}
    assert repo.git("rev-parse", "HEAD", cwd=wt.path) == base
    assert repo.git("status", "--porcelain", cwd=wt.path) == ""
    assert wt.tmp_path.is_dir() and not any(wt.tmp_path.iterdir())
    assert not wt.path.is_relative_to(repo.path)


def test_a_checkpoint_brings_every_kind_of_edit_into_another_folder(repo, workspace, base):
    wt = workspace.checkout(TASK, "build", 1, base)
    change_everything(wt.path)
    tree = workspace.checkpoint(wt)
    again = workspace.checkout(TASK, "build", 2, base, tree)
    assert files_of(again.path) == files_of(wt.path)
    assert repo.git("rev-parse", "HEAD", cwd=again.path) == base
    assert "D a" in repo.git("status", "--porcelain", cwd=again.path)
    assert workspace.checkpoint(again) == tree
    assert workspace.checkpoint(wt) == tree


def test_every_edit_is_in_the_next_checkpoint_even_in_the_same_instant(workspace, base):
    wt = workspace.checkout(TASK, "build", 1, base)
    seen = {workspace.tree_of(base)}
    for n in range(10):
        (wt.path / "b").write_text(f"{n}\n")  # the same length each time
        seen.add(workspace.checkpoint(wt))
    assert len(seen) == 11


def test_a_commit_holds_all_edits_on_its_base_in_our_name(repo, workspace, base):
    wt = workspace.checkout(TASK, "build", 1, base)
    change_everything(wt.path)
    (wt.path / ".gitignore").write_text("*.log\n")
    (wt.path / "x.log").write_text("ignored")
    made = workspace.commit(wt, "step 'build': done\n\n\udcff odd")
    assert made is not None
    hub = ("--git-dir", str(workspace.hub.path))
    assert repo.git(*hub, "show", "-s", "--format=%P|%an <%ae>|%cn|%s", made) == (
        f"{base}|LongTask <longtask@localhost>|LongTask|step 'build': done"
    )
    assert repo.git(*hub, "rev-parse", f"refs/longtask/{TASK}/attempts/build.1") == made
    expected = {name for name in files_of(wt.path) if name != b"x.log"}
    listed = repo.git(*hub, "ls-tree", "-rz", "--name-only", made).split("\0")
    assert {os.fsencode(name) for name in listed if name} == expected


def test_nothing_changed_is_no_commit(workspace, base):
    wt = workspace.checkout(TASK, "build", 1, base)
    os.utime(wt.path / "a")
    (wt.path / "b").write_text("x")
    workspace.checkpoint(wt)
    (wt.path / "b").write_text("b\n")
    assert workspace.commit(wt, "nothing") is None


def test_whatever_the_attempt_does_with_git_its_files_are_delivered(repo, workspace, base):
    wt = workspace.checkout(TASK, "agent", 1, base)
    (wt.path / "a").write_text("committed by the agent\n")
    repo.git("commit", "--quiet", "--all", "--message", "mine", cwd=wt.path)
    repo.git("checkout", "--quiet", "-b", "feature", cwd=wt.path)
    (wt.path / "new").write_text("staged\n")
    repo.git("add", "new", cwd=wt.path)
    repo.git("config", "core.hooksPath", "/nowhere", cwd=wt.path)
    made = workspace.commit(wt, "agent")
    assert made is not None
    assert workspace.stat(base, made).paths == ("a", "new")
    assert repo.git("--git-dir", str(workspace.hub.path), "rev-parse", f"{made}^") == base
    assert repo.git("--git-dir", str(workspace.hub.path), "for-each-ref", "refs/heads", "refs/stash") == ""


def test_two_attempts_share_neither_stash_nor_branches_nor_settings(repo, workspace, base):
    one, two = (workspace.checkout(TASK, step, 1, base) for step in ("one", "two"))
    (one.path / "a").write_text("stashed by one\n")
    repo.git("stash", cwd=one.path)
    repo.git("branch", "feature", cwd=one.path)
    repo.git("config", "user.name", "one", cwd=one.path)
    repo.git("worktree", "prune", cwd=one.path)
    assert repo.git("stash", "list", cwd=two.path) == ""
    assert repo.git("branch", "--list", "feature", cwd=two.path) == ""
    assert repo.git("config", "user.name", cwd=two.path) == "LongTask"


def test_the_attempt_may_even_lose_its_repository(repo, base):
    workspace = Workspace.open(repo.path / ".longtask", repo.path)
    workspace.base()
    wt = workspace.checkout(TASK, "agent", 1, base)
    subprocess.run(["rm", "-rf", str(wt.path / ".git")], check=True)
    (wt.path / "a").write_text("changed\n")
    repo.git("-c", "safe.directory=*", "status", cwd=wt.path, fails=True, env=wt.environment())
    assert workspace.leftovers(wt) == ["a"]
    made = workspace.commit(wt, "x")
    assert made is not None
    assert workspace.read_file(made, "a") == b"changed\n"


def test_a_worktree_that_is_gone_delivers_no_deletion_of_everything(workspace, base):
    wt = workspace.checkout(TASK, "agent", 1, base)
    subprocess.run(f"rm -rf {wt.path}/* {wt.path}/.git", shell=True, check=True)
    with pytest.raises(WorkspaceError, match="gone or was emptied"):
        workspace.commit(wt, "x")
    wt.path.rmdir()
    with pytest.raises(WorkspaceError, match="gone or was emptied"):
        workspace.checkpoint(wt)


def test_a_pipe_that_nobody_writes_does_not_hold_a_checkpoint_for_ever(workspace, base, monkeypatch):
    wt = workspace.checkout(TASK, "agent", 1, base)
    os.mkfifo(wt.path / "pipe")
    assert workspace.checkpoint(wt) == workspace.tree_of(base)
    os.mkfifo(wt.path / ".gitignore")
    monkeypatch.setattr(save, "READ_MS_MAX", 100)
    with pytest.raises(GitFailed, match="not done within 100 ms"):
        workspace.checkpoint(wt)


def test_a_missing_identity_and_wanted_signatures_stop_no_commit_of_an_agent(workspace, base, tmp_path):
    (tmp_path / "settings").write_text("[user]\n\tuseConfigOnly = true\n[commit]\n\tgpgSign = true\n")
    wt = workspace.checkout(TASK, "agent", 1, base)
    (wt.path / "a").write_text("x")
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": str(tmp_path / "settings")}
    subprocess.run(["git", "commit", "-qam", "agent"], cwd=wt.path, env=env, check=True)
    assert workspace.commit(wt, "x")


def test_repositories_inside_a_worktree_are_saved_as_files(repo, workspace, base, make_repo, tmp_path):
    wt = workspace.checkout(TASK, "agent", 1, base)
    for name in ("empty", "fresh", "cloned", "cloned/deeper"):
        (wt.path / name).mkdir()
        repo.git("init", "--quiet", cwd=wt.path / name)
    for name in ("fresh/f", "cloned/c", "cloned/deeper/d"):
        (wt.path / name).write_text(name)
    for name in ("cloned/deeper", "cloned"):
        repo.git("add", "--all", cwd=wt.path / name)
        repo.git("commit", "--quiet", "--message", "inner", cwd=wt.path / name)
    expected = ("cloned/c", "cloned/deeper/d", "fresh/f")
    tree = workspace.checkpoint(wt)
    assert workspace.stat(base, tree).paths == expected
    (wt.path / "cloned" / "deeper" / "d").write_text("edited")
    assert workspace.checkpoint(wt) != tree
    assert set(workspace.leftovers(wt)) >= set(expected)
    patch = workspace.leftover_patch(wt)
    assert patch is not None and b"edited" in patch
    made = workspace.commit(wt, "x")
    assert made is not None
    assert workspace.stat(base, made).paths == expected
    assert workspace.read_file(made, "cloned/deeper/d") == b"edited"


def test_a_submodule_that_an_attempt_adds_stays_one(repo, workspace, base, make_repo):
    inner = make_repo("inner")
    inner.commit("inner", x="x\n")
    wt = workspace.checkout(TASK, "agent", 1, base)
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "sub", cwd=wt.path)
    made = workspace.commit(wt, "x")
    assert made is not None
    assert workspace.stat(base, made).paths == (".gitmodules", "sub")


def test_paths_put_aside_are_never_saved(workspace, base, repo):
    wt = workspace.checkout(TASK, "agent", 1, base, aside=["node_modules", "odd [x]* !#"])
    for name in ("node_modules", "odd [x]* !#"):
        (wt.path / name).mkdir()
        (wt.path / name / "f").write_text("x")
    (wt.path / "sub" / "node_modules").mkdir(parents=True)
    (wt.path / "sub" / "node_modules" / "f").write_text("x")
    assert workspace.leftovers(wt) == ["sub/node_modules/f"]
    assert workspace.stat(base, workspace.checkpoint(wt)).paths == ("sub/node_modules/f",)
    for bad in ("../x", "/etc", ".git/hooks", ".", ".GIT", "new\nline"):
        with pytest.raises(Refused, match="below the top"):
            workspace.checkout(TASK, "agent", 2, base, aside=[bad])


def test_leftovers_are_named_and_kept_as_a_patch_that_applies(repo, workspace, base):
    wt = workspace.checkout(TASK, "test", 1, base)
    assert workspace.leftovers(wt) == []
    assert workspace.leftover_patch(wt) == b""
    change_everything(wt.path)
    os.utime(wt.path / "b")
    objects = repo.git("--git-dir", str(workspace.hub.path), "count-objects", "-v")
    names = workspace.leftovers(wt)
    patch = workspace.leftover_patch(wt)
    assert repo.git("--git-dir", str(workspace.hub.path), "count-objects", "-v") == objects
    assert set(map(os.fsencode, names)) == {*files_of(wt.path), b"a"}
    assert patch is not None
    repo.git("apply", "--index", "-", stdin=patch)
    assert files_of(repo.path) == files_of(wt.path)
    assert workspace.leftover_patch(wt, bytes_max=100) is None
    assert len(os.listdir(wt.own_path)) == 4
    assert workspace.checkpoint(wt)


def test_an_existing_worktree_is_replaced_or_kept_as_asked(workspace, base):
    wt = workspace.checkout(TASK, "agent", 1, base)
    (wt.path / "a").write_text("edited")
    assert workspace.checkout(TASK, "agent", 1, base, keep_existing=True) == wt
    assert (wt.path / "a").read_text() == "edited"
    assert workspace.find(TASK, "agent", 1) == wt
    assert workspace.checkout(TASK, "agent", 1, base) == wt
    assert (wt.path / "a").read_text() != "edited"
    assert workspace.find(TASK, "agent", 2) is None


def test_removing_takes_read_only_folders_and_follows_no_link(workspace, base, tmp_path):
    (tmp_path / "precious").write_text("x")
    wt = workspace.checkout(TASK, "agent", 1, base)
    (wt.path / "modules").mkdir()
    (wt.path / "modules" / "f").touch()
    (wt.path / "modules").chmod(0o500)
    (wt.path / "out").symlink_to(tmp_path)
    assert workspace.remove(wt)
    assert workspace.remove(wt)
    assert not wt.path.exists() and not wt.tmp_path.exists() and not wt.own_path.exists()
    wt = workspace.checkout(TASK, "agent", 1, base)
    subprocess.run(["rm", "-rf", str(wt.path)], check=True)
    wt.path.symlink_to(tmp_path)
    assert workspace.remove(wt)
    assert (tmp_path / "precious").exists()


def test_a_worktree_is_removed_while_somebody_empties_the_trash(home):
    """Who follows a task that has ended takes away what lies in the trash, of whichever task."""
    trash = home / TREES / ".trash"
    over = threading.Event()

    def empty() -> None:
        while not over.is_set():
            for thing in trash.iterdir() if trash.is_dir() else ():
                delete(thing)

    emptying = threading.Thread(target=empty)
    emptying.start()
    try:
        for n in range(400):
            path = home / TREES / TASK / f"agent.{n}"
            path.mkdir(parents=True)
            path.with_name(f"{path.name}.own").touch()
            remove(home, path)
            assert [entry.name for entry in path.parent.iterdir()] == []
    finally:
        over.set()
        emptying.join()


def test_a_patch_between_commits_applies_and_is_counted(repo, workspace, base, work):
    wt = workspace.checkout(TASK, "agent", 1, base)
    (wt.path / "bin").write_bytes(bytes(range(256)))
    (wt.path / "a").rename(wt.path / "renamed")
    (wt.path / "b").write_text("b\nc\nd\n")
    made = workspace.commit(wt, "x")
    assert made is not None
    counted = workspace.stat(base, made)
    assert counted.paths == ("b", "bin", "renamed")
    assert (counted.insertions, counted.deletions) == (2, 0)
    assert [file.binary for file in counted.files] == [False, True, False]
    repo.git("apply", "--index", "-", stdin=workspace.diff(base, made))
    assert repo.git("write-tree") == workspace.tree_of(made)


def test_a_persons_commit_can_be_adopted(repo, workspace, base):
    wt = workspace.checkout(TASK, "agent", 1, base)
    (wt.path / "a").write_text("by hand\n")
    repo.git("commit", "--quiet", "--all", "--message", "by hand", cwd=wt.path)
    made = workspace.adopt(TASK, "agent", 1, "HEAD", wt.path)
    assert workspace.read_file(made, "a") == b"by hand\n"
    mine = repo.commit("mine", b="mine\n")
    assert workspace.adopt(TASK, "agent", 2, "main") == mine


def test_line_endings_and_other_attributes_make_no_difference_of_their_own(repo, home):
    repo.write(".gitattributes", "*.bat text eol=crlf\n*.txt text\n*.id ident\n*.lfs filter=lfs merge=lfs -text\n")
    repo.write("x.bat", "one\r\ntwo\r\n")
    repo.write("y.txt", "one\n")
    repo.write("z.id", "$Id$\n")
    repo.write("big.lfs", "version https://git-lfs.github.com/spec/v1\n")
    repo.commit("attributes")
    workspace = Workspace.open(home, repo.path)
    base = workspace.base().commit
    wt = workspace.checkout(TASK, "s", 1, base)
    assert (wt.path / "x.bat").read_bytes() == b"one\r\ntwo\r\n"
    for name in ("x.bat", "y.txt", "z.id", "big.lfs"):
        os.utime(wt.path / name)
    assert workspace.leftovers(wt) == []
    assert workspace.commit(wt, "x") is None
