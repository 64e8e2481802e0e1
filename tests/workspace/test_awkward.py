"""Repositories that are not as one expects: they work, or what is in the way is told, and nothing is lost silently."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess

import pytest

from longtask.core.errors import Refused, WorkspaceError
from longtask.workspace import DirtyTree, Published, Workspace, hub
from longtask.workspace.filters import is_pointer
from longtask.workspace.submodules import joined
from longtask.workspace.tree import _check_case
from tests.workspace.conftest import TASK, Repo

LOCAL = ("-c", "protocol.file.allow=always")
FILL = (*LOCAL, "submodule", "--quiet", "update", "--init", "--recursive")


def pointer(content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n"


# Submodules


@pytest.fixture
def inner(make_repo) -> Repo:
    made = make_repo("inner")
    made.commit("inner", x="x\n", y="y\n")
    made.git("config", "receive.denyCurrentBranch", "ignore")
    return made


@pytest.fixture
def outer(repo, inner, home) -> Workspace:
    """`repo` with the submodule `sub`."""
    repo.git(*LOCAL, "submodule", "--quiet", "add", str(inner.path), "sub")
    repo.commit("with submodule")
    return Workspace.open(home, repo.path)


def test_what_is_edited_inside_a_submodule_is_refused_by_name(repo, outer):
    wt = outer.checkout(TASK, "agent", 1, outer.base().commit)
    assert list((wt.path / "sub").iterdir()) == []
    repo.git(*FILL, cwd=wt.path)
    assert outer.begin(wt) == wt
    assert outer.commit(wt, "x") is None
    (wt.path / "a").write_text("also here\n")
    (wt.path / "sub" / "x").write_text("edited\n")
    (wt.path / "sub" / "new").touch()
    with pytest.raises(Refused, match=r"2 files \('sub/x', 'sub/new'\) inside a submodule.*push them there"):
        outer.commit(wt, "x")
    assert outer.checkpoint(wt), "what is saved on the way is not yet the work"
    repo.git("restore", "x", cwd=wt.path / "sub")
    (wt.path / "sub" / "new").unlink()
    assert outer.commit(wt, "x")


def test_files_in_the_folder_of_a_submodule_that_was_never_filled_are_refused(repo, outer):
    wt = outer.checkout(TASK, "agent", 1, outer.base().commit)
    (wt.path / "sub" / "lost").write_text("x")
    with pytest.raises(Refused, match=r"'sub/lost'\) inside a submodule"):
        outer.commit(wt, "x")


def test_a_submodule_moves_to_commits_that_its_remote_has_and_to_no_others(repo, inner, outer):
    base = outer.base().commit
    wt = outer.checkout(TASK, "agent", 1, base)
    repo.git(*FILL, cwd=wt.path)
    sub = wt.path / "sub"
    repo.git("checkout", "--quiet", "-b", "mine", cwd=sub)
    (sub / "x").write_text("edited\n")
    repo.git("commit", "--quiet", "--all", "--message", "mine", cwd=sub)
    with pytest.raises(Refused, match=r"submodule 'sub' is at commit \w{12}, which is on no branch of its remote"):
        outer.commit(wt, "x")
    repo.git("push", "--quiet", "origin", "mine", cwd=sub)
    made = outer.commit(wt, "x")
    assert made is not None and outer.stat(base, made).paths == ("sub",)
    assert inner.git("rev-parse", "mine") == repo.git("rev-parse", "HEAD", cwd=sub)


def test_what_a_set_up_builds_inside_a_submodule_is_nobodys_work(repo, outer):
    wt = outer.checkout(TASK, "agent", 1, outer.base().commit)
    repo.git(*FILL, cwd=wt.path)
    (wt.path / "sub" / "built.o").touch()
    ready = outer.begin(wt)
    assert ready.inside == ("sub/built.o",) and outer.find(TASK, "agent", 1) == ready
    assert outer.commit(ready, "x") is None
    (wt.path / "sub" / "more.o").touch()
    with pytest.raises(Refused, match=r"1 file \('sub/more.o'\)"):
        outer.commit(ready, "x")


@pytest.mark.parametrize(("word", "refused"), [("untracked", ["'sub/x'"]), ("dirty", []), ("all", []), ("none", "xn")])
def test_gitmodules_says_what_need_not_be_kept(repo, outer, word, refused):
    repo.git("config", "--file", ".gitmodules", "submodule.sub.ignore", word)
    repo.commit("ignore")
    wt = outer.checkout(TASK, "agent", 1, outer.base().commit)
    repo.git(*FILL, cwd=wt.path)
    (wt.path / "sub" / "x").write_text("edited\n")
    (wt.path / "sub" / "new").touch()
    if not refused:
        assert outer.commit(wt, "x") is None
        return
    with pytest.raises(Refused, match=f"{len(refused)} file"):
        outer.commit(wt, "x")


def test_edits_in_a_submodule_of_a_submodule_are_found(repo, inner, home, make_repo):
    middle = make_repo("middle")
    middle.commit("middle", m="m\n")
    middle.git(*LOCAL, "submodule", "--quiet", "add", str(inner.path), "deep")
    middle.commit("with submodule")
    repo.git(*LOCAL, "submodule", "--quiet", "add", str(middle.path), "sub")
    repo.commit("with submodules")
    workspace = Workspace.open(home, repo.path)
    wt = workspace.checkout(TASK, "agent", 1, workspace.base().commit)
    repo.git(*FILL, cwd=wt.path)
    assert workspace.commit(wt, "x") is None
    (wt.path / "sub" / "deep" / "x").write_text("edited\n")
    with pytest.raises(Refused, match=r"'sub/deep/x'"):
        workspace.commit(wt, "x")


def test_nothing_that_an_attempt_writes_into_a_submodule_is_run(repo, outer, tmp_path):
    proof = tmp_path / "proof"
    wt = outer.checkout(TASK, "agent", 1, outer.base().commit)
    repo.git(*FILL, cwd=wt.path)
    (wt.path / "sub" / ".gitattributes").write_text("* filter=evil\n")
    for key in ("filter.evil.clean", "filter.evil.process", "core.fsmonitor", "core.sshCommand"):
        repo.git("config", key, f"touch {proof}; cat", cwd=wt.path / "sub")
    (wt.path / "sub" / "x").write_text("edited\n")
    outer.leftovers(wt)
    outer.leftover_patch(wt)
    outer.checkpoint(wt)
    outer.begin(wt)
    (wt.path / "sub" / "y").write_text("edited\n")
    with pytest.raises(Refused):
        outer.commit(wt, "x")
    assert not proof.exists()


def test_relative_urls_of_submodules_lead_where_they_do_for_the_user(repo, inner, home):
    repo.git("remote", "add", "origin", str(repo.path))
    repo.git(*LOCAL, "submodule", "--quiet", "add", "../inner", "sub")
    repo.commit("with submodule")
    workspace = Workspace.open(home, repo.path)
    wt = workspace.checkout(TASK, "agent", 1, workspace.base().commit)
    repo.git(*FILL, cwd=wt.path)
    assert (wt.path / "sub" / "x").read_text() == "x\n"
    assert repo.git("config", "--get-regexp", "^remote", cwd=wt.path, fails=True) == ""


@pytest.mark.parametrize(
    ("root", "url", "found"),
    [
        ("https://example.org/team/shop.git", "../lib.git", "https://example.org/team/lib.git"),
        ("https://example.org/team/shop/", "../../lib", "https://example.org/lib"),
        ("git@example.org:team/shop", "../lib", "git@example.org:team/lib"),
        ("/srv/shop", "./lib", "/srv/shop/lib"),
    ],
)
def test_a_relative_url_is_joined_as_git_does(root, url, found):
    assert joined(root, url) == found


def test_a_password_in_the_users_remote_is_told_to_no_attempt(repo, inner, home):
    repo.git("remote", "add", "origin", "https://ada:not-a-real-password@example.invalid/repo")
    repo.write(".gitmodules", '[submodule "sub"]\n\tpath = sub\n\turl = ../inner\n')
    repo.commit("with submodule")
    workspace = Workspace.open(home, repo.path)
    wt = workspace.checkout(TASK, "agent", 1, workspace.base().commit)
    assert repo.git("config", "submodule.sub.url", cwd=wt.path) == "https://example.invalid/inner"
    assert "not-a-real-password" not in (wt.path / ".git" / "config").read_text()


def test_a_link_to_a_repository_without_gitmodules_loses_nothing_silently(repo, home, make_repo):
    embedded = make_repo("repo/embedded")
    embedded.commit("embedded", x="x\n")
    repo.commit("a repository added by mistake")
    workspace = Workspace.open(home, repo.path)
    wt = workspace.checkout(TASK, "agent", 1, workspace.base().commit)
    assert workspace.commit(wt, "x") is None
    cloned = Repo(wt.path / "embedded")
    cloned.commit("work", x="new\n")
    with pytest.raises(Refused, match="on no branch of its remote"):
        workspace.commit(wt, "x")


# Repositories inside


def test_a_worktree_that_an_agent_makes_inside_its_own_is_saved_as_files(repo, workspace, base):
    wt = workspace.checkout(TASK, "agent", 1, base)
    repo.git("worktree", "add", "--quiet", "inside", "HEAD", cwd=wt.path)
    (wt.path / "inside" / "new").write_text("x")
    made = workspace.commit(wt, "x")
    assert made is not None
    assert workspace.stat(base, made).paths == ("inside/a", "inside/b", "inside/new")


def test_an_attempts_folder_and_a_clone_that_borrows_are_repositories_like_others(
    repo, workspace, base, home, tmp_path
):
    repo.git("clone", "--quiet", "--shared", str(repo.path), str(tmp_path / "borrows"))
    for folder in (tmp_path / "borrows", workspace.checkout(TASK, "outer", 1, base).path):
        found = Workspace.open(home, folder)
        assert found.id != workspace.id
        wt = found.checkout(TASK, "inner", 1, found.base().commit)
        (wt.path / "a").write_text("changed\n")
        made = found.commit(wt, "x")
        assert made is not None
        assert found.publish("longtask/x", made) == Published("longtask/x", made)


# Filter programs


def test_what_would_go_through_a_filter_is_not_delivered_as_it_is(repo, home):
    repo.write(".gitattributes", "*.key filter=crypt\n*.png filter=lfs diff=lfs merge=lfs -text\n")
    repo.commit("attributes", **{"a.key": "stored\n", "b.key": "stored, too\n", "c.png": pointer(b"old")})
    workspace = Workspace.open(home, repo.path)
    base = workspace.base().commit
    wt = workspace.checkout(TASK, "agent", 1, base)
    (wt.path / "a.key").rename(wt.path / "renamed.key")
    (wt.path / "b.key").unlink()
    (wt.path / "d.png").write_text(pointer(b"new"))
    made = workspace.commit(wt, "moved, deleted, a pointer")
    assert made is not None
    (wt.path / "new.key").write_text("in clear text\n")
    (wt.path / "c.png").write_bytes(b"\x89PNG")
    assert workspace.checkpoint(wt)
    with pytest.raises(Refused, match=r"'c.png', 'new.key' would go through filter 'crypt', 'lfs'"):
        workspace.commit(wt, "x")


@pytest.fixture
def upper(repo) -> Repo:
    """With a filter that the user's own git runs: stored in capitals."""
    repo.write(".gitattributes", "*.up filter=upper\n")
    repo.git("config", "filter.upper.clean", "tr a-z A-Z")
    repo.git("config", "filter.upper.smudge", "tr A-Z a-z")
    repo.commit("filtered", **{"f.up": "hello\n"})
    return repo


def test_files_behind_a_filter_are_neither_dirty_by_themselves_nor_included_as_they_are(upper, home):
    workspace = Workspace.open(home, upper.path)
    base = workspace.base().commit
    wt = workspace.checkout(TASK, "agent", 1, base)
    assert (wt.path / "f.up").read_text() == "HELLO\n"
    upper.write("f.up", "changed\n")
    with pytest.raises(DirtyTree, match=r"'f\.up'"):
        workspace.base()
    with pytest.raises(Refused, match=r"1 file \('f\.up'\) not committed, of those that go through a filter"):
        workspace.base(dirty="include")
    assert workspace.base(dirty="ignore").commit == base
    upper.git("add", "f.up")
    with pytest.raises(DirtyTree, match=r"'f\.up'"):
        workspace.base()


def test_a_file_of_lfs_that_was_only_touched_is_not_dirty(repo, home):
    repo.write(".gitattributes", "*.bin filter=lfs -text\n")
    head = repo.commit("a pointer", **{"f.bin": pointer(b"large"), "g.bin": pointer(b"other")})
    repo.write("f.bin", b"large")  # as git-lfs lays it down
    repo.write("g.bin", b"another")
    workspace = Workspace.open(home, repo.path)
    with pytest.raises(DirtyTree) as caught:
        workspace.base()
    assert caught.value.paths == ("g.bin",)
    repo.write("g.bin", b"other")
    assert workspace.base(dirty="include").commit == head


@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed")
def test_with_the_real_git_lfs_pointers_are_seen_and_kept(repo, home):
    repo.git("lfs", "install", "--local")
    repo.git("lfs", "track", "*.bin")
    repo.commit("large", **{"f.bin": "large\n" * 1_000})
    os.utime(repo.path / "f.bin")
    workspace = Workspace.open(home, repo.path)
    base = workspace.base().commit
    wt = workspace.checkout(TASK, "agent", 1, base)
    assert is_pointer((wt.path / "f.bin").read_bytes())
    (wt.path / "a").write_text("changed\n")
    made = workspace.commit(wt, "x")
    assert made is not None and workspace.stat(base, made).paths == ("a",)
    assert workspace.publish("longtask/x", made) == Published("longtask/x", made)
    repo.git("checkout", "--quiet", "longtask/x")
    assert (repo.path / "f.bin").read_text() == "large\n" * 1_000


# Content as the user's own git sees it


def test_line_endings_are_converted_as_the_attributes_say(repo, home):
    repo.write(".gitattributes", "* text=auto eol=crlf\n")
    repo.git("add", "--renormalize", ".")
    base = repo.commit("attributes")
    workspace = Workspace.open(home, repo.path)
    assert workspace.base().commit == base
    wt = workspace.checkout(TASK, "agent", 1, base)
    assert (wt.path / "b").read_bytes() == b"b\r\n"
    (wt.path / "b").write_bytes(b"b\r\nc\r\n")
    (wt.path / "a").write_bytes(b"one\ntwo\nthree\n")
    made = workspace.commit(wt, "x")
    assert made is not None and workspace.stat(base, made).paths == ("b",)
    assert workspace.read_file(made, "b") == b"b\nc\n"


@pytest.mark.parametrize("where", ["global", "repository"])
def test_a_dirty_tree_is_judged_and_included_with_the_users_line_endings(repo, home, tmp_path, monkeypatch, where):
    if where == "global":
        (tmp_path / "mine").write_text("[core]\n\tautocrlf = true\n")
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "mine"))
    else:
        repo.git("config", "core.autocrlf", "true")
    repo.write("b", "b\r\n")
    repo.git("add", "b", env={"GIT_CONFIG_GLOBAL": os.environ.get("GIT_CONFIG_GLOBAL", "/dev/null")})
    os.utime(repo.path / "b")
    workspace = Workspace.open(home, repo.path)
    head = repo.git("rev-parse", "HEAD")
    assert workspace.base().commit == head
    repo.write("b", "b\r\nc\r\n")
    assert workspace.read_file(workspace.base(dirty="include").commit, "b") == b"b\nc\n"


def test_modes_count_for_a_base_as_they_do_for_the_users_git(repo, workspace):
    repo.git("config", "core.fileMode", "false")
    for name in ("a", "b"):
        (repo.path / name).chmod(0o755)
    assert workspace.base().commit == repo.git("rev-parse", "HEAD")
    repo.write("b", "changed\n")
    made = workspace.base(dirty="include").commit
    assert "100755" not in repo.git("--git-dir", str(workspace.hub.path), "ls-tree", made)


def test_a_split_index_of_the_user_stays_as_it_is(repo, workspace):
    repo.git("update-index", "--split-index")
    repo.write("a", "changed\n")
    before = sorted(path.name for path in (repo.path / ".git").iterdir())
    assert workspace.read_file(workspace.base(dirty="include").commit, "a") == b"changed\n"
    assert sorted(path.name for path in (repo.path / ".git").iterdir()) == before


def test_a_sparse_checkout_has_a_whole_base(repo, home):
    repo.commit("folders", **{"in/f": "1\n", "out/g": "2\n"})
    repo.git("sparse-checkout", "set", "--cone", "--sparse-index", "in")
    workspace = Workspace.open(home, repo.path)
    head = workspace.base().commit
    repo.write("in/f", "changed\n")
    made = workspace.base(dirty="include").commit
    assert workspace.stat(head, made).paths == ("in/f",)
    wt = workspace.checkout(TASK, "agent", 1, made)
    assert (wt.path / "out" / "g").read_text() == "2\n"
    assert not (repo.path / "out").exists()


def test_modes_and_empty_folders_are_saved_as_git_saves_them(repo, workspace, base):
    wt = workspace.checkout(TASK, "agent", 1, base)
    (wt.path / "a").chmod(0o600)
    (wt.path / "b").chmod(0o4711)
    (wt.path / "empty").mkdir()
    tree = workspace.checkpoint(wt)
    assert [file.path for file in workspace.stat(base, tree).files] == ["b"]
    again = workspace.checkout(TASK, "agent", 2, base, tree)
    assert os.access(again.path / "b", os.X_OK) and not (again.path / "empty").exists()


def test_files_that_differ_in_case_alone_are_two_files_or_refused(repo, home):
    repo.commit("case", README="1\n", Readme="2\n")
    workspace = Workspace.open(home, repo.path)
    base = workspace.base().commit
    wt = workspace.checkout(TASK, "agent", 1, base)
    assert (wt.path / "Readme").read_text() == "2\n"
    (wt.path / "readme").write_text("3\n")
    made = workspace.commit(wt, "x")
    assert made is not None and workspace.stat(base, made).paths == ("readme",)
    with pytest.raises(WorkspaceError, match=r"'README' and 'Readme' differ in case alone.*LONGTASK_HOME"):
        _check_case(workspace.hub, wt, base)  # called where git has found that the file system ignores case


# Where things lie


def test_a_link_in_place_of_a_worktree_is_not_followed(workspace, base, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("secret")
    wt = workspace.checkout(TASK, "agent", 1, base)
    shutil.rmtree(wt.path)
    wt.path.symlink_to(tmp_path / "outside")
    for act in (workspace.checkpoint, workspace.leftovers, workspace.leftover_patch, workspace.begin):
        with pytest.raises(WorkspaceError, match="replaced by a link"):
            act(wt)
    with pytest.raises(WorkspaceError, match="replaced by a link"):
        workspace.commit(wt, "x")
    assert workspace.clean(TASK).stayed and (tmp_path / "outside" / "precious").exists()


def test_links_out_of_the_tree_are_saved_as_links(workspace, base, tmp_path, repo):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("secret")
    wt = workspace.checkout(TASK, "agent", 1, base)
    (wt.path / "folder").symlink_to(tmp_path / "outside")
    (wt.path / "a").unlink()
    (wt.path / "a").symlink_to(tmp_path / "outside" / "precious")
    made = workspace.commit(wt, "x")
    assert made is not None and workspace.stat(base, made).paths == ("a", "folder")
    assert workspace.read_file(made, "folder") == os.fsencode(tmp_path / "outside")
    assert b"secret" not in (workspace.leftover_patch(wt) or b"")
    again = workspace.checkout(TASK, "agent", 2, made)
    assert (again.path / "a").is_symlink()
    assert workspace.remove(again) and (tmp_path / "outside" / "precious").exists()


def test_files_that_lie_apart_from_their_repository_are_told_of(home, repo, tmp_path):
    """`core.worktree`, as those set it who keep a repository of their home."""
    apart = tmp_path / "apart.git"
    (tmp_path / "files").mkdir()
    repo.git("clone", "--quiet", "--bare", str(repo.path), str(apart))
    repo.git("config", "core.bare", "false", cwd=apart)
    repo.git("config", "core.worktree", str(tmp_path / "files"), cwd=apart)
    with pytest.raises(WorkspaceError, match=r"core\.worktree.*`gitdir: .*apart\.git`"):
        Workspace.open(home, apart)
    (tmp_path / "files" / ".git").write_text(f"gitdir: {apart}\n")
    repo.git("reset", "--quiet", "--hard", cwd=tmp_path / "files")
    assert Workspace.open(home, tmp_path / "files").base().branch == "main"


def test_a_repository_that_git_cannot_read_is_not_told_to_be_made(home, repo):
    repo.git("config", "core.repositoryFormatVersion", "1")
    repo.git("config", "extensions.fromTheFuture", "true")
    with pytest.raises(WorkspaceError, match=r"fromthefuture") as caught:
        Workspace.open(home, repo.path)
    assert "git init" not in str(caught.value)


def test_locked_indexes_hold_nothing_up(repo, workspace, base):
    (repo.path / ".git" / "index.lock").touch()
    os.utime(repo.path / "a")
    wt = workspace.checkout(TASK, "agent", 1, workspace.base().commit)
    (wt.path / ".git" / "index.lock").touch()
    (wt.path / "a").write_text("changed\n")
    made = workspace.commit(wt, "x")
    assert made is not None
    assert workspace.publish("longtask/x", made) == Published("longtask/x", made)
    repo.write("b", "dirty\n")
    assert workspace.read_file(workspace.base(dirty="include").commit, "b") == b"dirty\n"


def test_a_diff_that_would_fill_the_memory_is_refused_with_its_size(workspace, base, monkeypatch):
    wt = workspace.checkout(TASK, "agent", 1, base)
    (wt.path / "large").write_bytes(bytes(1_000_000))
    made = workspace.commit(wt, "x")
    assert made is not None
    assert len(workspace.diff(base, made)) < 100_000
    monkeypatch.setattr(hub, "DIFF_BYTES_MAX", 999_999)
    with pytest.raises(Refused, match="have 1,000,000 bytes, more than 999,999"):
        workspace.diff(base, made)
    assert workspace.stat(base, made).files[0].binary


def test_an_attempt_may_run_hooks_of_its_own_and_ours_never_do(workspace, base, repo, tmp_path):
    wt = workspace.checkout(TASK, "agent", 1, base)
    hook = wt.path / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path / 'proof'}\n")
    hook.chmod(0o755)
    (wt.path / "a").write_text("changed\n")
    assert workspace.commit(wt, "x")
    assert not (tmp_path / "proof").exists()
    subprocess.run(["git", "commit", "--quiet", "--all", "--message", "mine"], cwd=wt.path, check=True)
    assert (tmp_path / "proof").exists()
