"""Where a task starts: the user's repository in every state, read and never changed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from longtask.core.errors import NotFound, Refused, WorkspaceError
from longtask.workspace import DirtyTree, Merged, Published, Workspace

ODD = [b"with space", b"new\nline", b"caf\xe9-latin1", "caf\u00e9".encode(), b"-dash", b'quo"te', b"tab\tname"]


def snapshot_of(folder: Path) -> dict[str, bytes]:
    """All bytes below a folder."""
    paths = [path for path in folder.rglob("*") if path.is_symlink() or path.is_file()]
    return {str(path): os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes() for path in paths}


def test_a_clean_repository_gives_its_head(repo, workspace):
    base = workspace.base()
    assert (base.commit, base.branch, base.note) == (repo.git("rev-parse", "HEAD"), "main", "")
    assert workspace.read_file(base.commit, "b") == b"b\n"


def test_every_way_into_a_repository_leads_to_one_workspace(repo, home, tmp_path):
    (repo.path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "link").symlink_to(repo.path)
    repo.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    ids = {Workspace.open(home, tmp_path / way).id for way in ("repo", "repo/deep/er", "link", "linked")}
    assert len(ids) == 1


def test_another_process_finds_the_workspace_by_its_id(workspace, home, repo):
    found = Workspace.at(home, workspace.id)
    assert found == workspace
    assert found.base().commit == repo.git("rev-parse", "HEAD")
    with pytest.raises(NotFound, match="no hub"):
        Workspace.at(home, "0123456789abcdef")


def test_a_folder_without_repository_is_told_what_to_do(home, tmp_path):
    with pytest.raises(WorkspaceError, match="git init"):
        Workspace.open(home, tmp_path)


def test_a_name_is_resolved_and_a_wrong_one_gets_a_suggestion(repo, workspace):
    repo.git("branch", "feature")
    old = repo.git("rev-parse", "HEAD")
    repo.commit("second", a="changed\n")
    repo.git("tag", "v1")
    assert workspace.base("feature").commit == old
    assert workspace.base("feature").branch == "feature"
    assert workspace.base("v1").branch is None
    assert workspace.base(old[:10]).commit == old
    with pytest.raises(NotFound, match="did you mean 'feature'"):
        workspace.base("featrue")
    with pytest.raises(NotFound):
        workspace.base("--upload-pack=touch /tmp/x")


def test_a_detached_head_is_a_base_without_branch(repo, workspace):
    repo.git("checkout", "--quiet", "--detach")
    base = workspace.base()
    assert (base.commit, base.branch) == (repo.git("rev-parse", "HEAD"), None)


def test_a_dirty_tree_is_refused_by_name_with_the_choice(repo, workspace):
    repo.write("a", "changed\n")
    repo.write("new file", "x")
    with pytest.raises(DirtyTree, match=r"2 files \('a', 'new file'\).*--dirty ignore\|include") as caught:
        workspace.base()
    assert caught.value.paths == ("a", "new file")


def test_a_dirty_tree_can_be_ignored(repo, workspace):
    repo.write("a", "changed\n")
    base = workspace.base(dirty="ignore")
    assert base.commit == repo.git("rev-parse", "HEAD")
    assert "'a'" in base.note


def test_a_dirty_tree_can_be_included_without_touching_it(repo, workspace):
    repo.commit("more", c="c\n", d="d\n", e="e\n")
    repo.write(".gitignore", "ignored\n")
    repo.write("a", "changed\n")
    repo.write("staged", "staged\n")
    repo.git("add", "staged")
    repo.write("staged", "changed after staging\n")
    (repo.path / "c").unlink()
    repo.git("rm", "--quiet", "--cached", "d")
    (repo.path / "e").unlink()
    (repo.path / "e").symlink_to("a")
    repo.write("ignored", "no")
    for name in ODD:
        Path(os.fsdecode(os.fsencode(repo.path) + b"/" + name)).write_bytes(name)
    before = snapshot_of(repo.path)
    base = workspace.base(dirty="include")
    assert snapshot_of(repo.path) == before
    assert workspace.contains(base.commit, repo.git("rev-parse", "HEAD"))
    assert workspace.read_file(base.commit, "a") == b"changed\n"
    assert workspace.read_file(base.commit, "staged") == b"changed after staging\n"
    assert workspace.read_file(base.commit, "d") == b"d\n"
    assert workspace.read_file(base.commit, "e") == b"a"
    for name in ODD:
        assert workspace.read_file(base.commit, os.fsdecode(name)) == name
    for gone in ("c", "ignored"):
        with pytest.raises(NotFound):
            workspace.read_file(base.commit, gone)


def test_files_put_aside_do_not_make_a_tree_dirty(repo, workspace):
    plan = repo.write("plans/my plan.yaml", "x")
    assert workspace.base(aside=[plan]).note == ""


def test_our_own_home_inside_the_repository_does_not_count(repo):
    workspace = Workspace.open(repo.path / ".longtask", repo.path)
    workspace.checkout("t", "s", 1, workspace.base().commit)
    repo.write("new", "x")
    made = workspace.base(dirty="include").commit
    assert workspace.stat(repo.git("rev-parse", "HEAD"), made).paths == ("new",)


def test_a_base_that_is_not_checked_out_leaves_the_working_tree_alone(repo, workspace):
    old = repo.git("rev-parse", "HEAD")
    repo.commit("second", a="second\n")
    repo.write("b", "dirty\n")
    base = workspace.base(old)
    assert base.commit == old
    assert "without them" in base.note
    with pytest.raises(Refused, match="check it out first"):
        workspace.base(old, dirty="include")


def test_an_unfinished_merge_cannot_be_included(repo, workspace):
    repo.git("checkout", "--quiet", "-b", "other")
    repo.commit("theirs", a="theirs\n")
    repo.git("checkout", "--quiet", "main")
    repo.commit("ours", a="ours\n")
    repo.git("merge", "other", fails=True)
    with pytest.raises(DirtyTree):
        workspace.base()
    with pytest.raises(Refused, match="middle of a merge"):
        workspace.base(dirty="include")


def test_a_repository_without_commit_says_how_to_start(home, tmp_path, make_repo):
    repo = make_repo("fresh")
    workspace = Workspace.open(home, repo.path)
    with pytest.raises(Refused, match="no commit yet"):
        workspace.base()
    with pytest.raises(Refused, match="neither a commit nor a file"):
        workspace.base(dirty="include")
    with pytest.raises(NotFound, match="main"):
        workspace.base("main")
    repo.write("src/main.py", "print()\n")
    base = workspace.base(dirty="include")
    assert base.branch == "main"
    assert workspace.read_file(base.commit, "src/main.py") == b"print()\n"
    assert workspace.publish("longtask/first", base.commit) == Published("longtask/first", base.commit)
    assert repo.git("show", "longtask/first:src/main.py") == "print()"


def test_a_shallow_clone_works_from_base_to_publishing(home, tmp_path, repo, make_repo):
    for n in range(5):
        repo.commit(f"commit {n}", a=f"{n}\n")
    repo.git("clone", "--quiet", "--depth=2", f"file://{repo.path}", str(tmp_path / "shallow"))
    shallow = make_repo("shallow", "clone")
    workspace = Workspace.open(home, shallow.path)
    first = workspace.base().commit
    wt = workspace.checkout("t", "s", 1, first)
    assert shallow.git("rev-list", "--count", "HEAD", cwd=wt.path) == "2"
    (wt.path / "a").write_text("ours\n")
    made = workspace.commit(wt, "ours")
    assert made is not None
    assert workspace.publish("longtask/t", made) == Published("longtask/t", made)
    shallow.git("fsck", "--connectivity-only")
    # The user gets the rest of the history meanwhile.
    shallow.git("fetch", "--quiet", "--unshallow")
    (wt.path / "a").write_text("again\n")
    again = workspace.commit(wt, "again")
    assert workspace.merge(made, first, "m") == Merged(made)
    assert again is not None
    assert workspace.publish("longtask/t2", again) == Published("longtask/t2", again)
    shallow.git("fsck", "--connectivity-only")
    shallow.commit("later", b="later\n")
    assert workspace.base().commit == shallow.git("rev-parse", "HEAD")


def test_a_partial_clone_is_told_what_to_do(home, tmp_path, repo, make_repo):
    repo.commit("second", a="2\n")
    repo.git("config", "uploadpack.allowFilter", "true")
    words = ("clone", "--quiet", "--filter=blob:none", f"file://{repo.path}", str(tmp_path / "partial"))
    repo.git(*words)
    partial = make_repo("partial", "clone")
    partial.git("remote", "set-url", "origin", "https://example.invalid/x")
    with pytest.raises(WorkspaceError, match="partial clone"):
        Workspace.open(home, partial.path).base()


def test_a_bare_repository_has_a_base(home, tmp_path, repo, make_repo):
    repo.git("clone", "--quiet", "--bare", str(repo.path), str(tmp_path / "bare.git"))
    bare = make_repo("bare.git", "clone")
    base = Workspace.open(home, bare.path).base()
    assert (base.commit, base.branch) == (repo.git("rev-parse", "HEAD"), "main")


def test_a_base_in_a_linked_worktree_is_that_worktrees_head(home, tmp_path, repo):
    repo.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "linked"))
    (tmp_path / "linked" / "a").write_text("side\n")
    repo.git("commit", "--quiet", "--all", "--message", "side", cwd=tmp_path / "linked")
    base = Workspace.open(home, tmp_path / "linked").base()
    assert (base.commit, base.branch) == (repo.git("rev-parse", "side"), "side")


def test_nothing_that_a_repository_names_is_run(repo, home, tmp_path, monkeypatch):
    proof = tmp_path / "proof"
    run = f"touch {proof}; cat"
    for hook in ("reference-transaction", "post-checkout", "pre-commit", "post-index-change"):
        path = repo.write(f".git/hooks/{hook}", f"#!/bin/sh\n{run}\nexit 1\n")
        path.chmod(0o755)
    repo.write(".gitattributes", "* diff=evil merge=evil\nb filter=evil\n")
    for key in ("filter.evil.clean", "filter.evil.smudge", "core.fsmonitor", "diff.evil.textconv", "merge.evil.driver"):
        repo.git("config", key, run)
    repo.git("config", "core.alternateRefsCommand", run)
    repo.git("config", "filter.evil.required", "true")
    repo.git("config", "uploadpack.packObjectsHook", run)
    proof.unlink(missing_ok=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "nowhere"))
    for name in ("a", "b"):
        os.utime(repo.path / name)
    workspace = Workspace.open(home, repo.path)
    base = workspace.base(dirty="include").commit
    one, two = (workspace.checkout("t", step, 1, base) for step in ("one", "two"))
    (one.path / "a").write_text("1\ntwo\nthree\n")
    (two.path / "a").write_text("one\ntwo\n3\n")
    first, second = workspace.commit(one, "1"), workspace.commit(two, "2")
    assert first and second
    merged = workspace.merge(first, second, "m")
    assert isinstance(merged, Merged)
    workspace.diff(base, merged.commit)
    assert isinstance(workspace.publish("longtask/t", merged.commit), Published)
    assert not proof.exists()


def test_a_repository_of_somebody_else_works(home, repo):
    if os.geteuid() != 0:
        pytest.skip("only root can give a repository away")
    subprocess.run(["chown", "--recursive", "65534:65534", str(repo.path)], check=True)
    workspace = Workspace.open(home, repo.path)
    repo.write("a", "dirty\n")
    base = workspace.base(dirty="include").commit
    assert workspace.publish("longtask/t", base) == Published("longtask/t", base)


def test_tags_are_there_for_tools_that_make_a_version_of_them(repo, home):
    repo.git("tag", "--annotate", "v1.2", "--message", "x")
    workspace = Workspace.open(home, repo.path)
    wt = workspace.checkout("t", "s", 1, workspace.base().commit)
    assert repo.git("describe", cwd=wt.path) == "v1.2"


def test_what_the_user_ignores_for_himself_is_ignored(repo, home, tmp_path, monkeypatch):
    (tmp_path / "xdg" / "git").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    (tmp_path / "mine").write_text(".idea\n")
    (tmp_path / ".gitconfig").write_text("[core]\n\texcludesFile = ~/mine\n")
    repo.write(".git/info/exclude", "notes\n")
    repo.write("notes", "x")
    repo.write(".idea/x", "x")
    workspace = Workspace.open(home, repo.path)
    wt = workspace.checkout("t", "s", 1, workspace.base().commit)
    (wt.path / "notes").write_text("x")
    (wt.path / ".idea").write_text("x")
    assert workspace.leftovers(wt) == []
    assert workspace.commit(wt, "nothing") is None
    assert repo.git("status", "--porcelain", cwd=wt.path) == ""


def test_an_old_or_missing_git_is_named(monkeypatch, tmp_path, repo, home):
    from longtask.workspace.git import check_version

    monkeypatch.setenv("PATH", str(tmp_path))
    check_version.cache_clear()
    with pytest.raises(WorkspaceError, match="'git' was not found"):
        Workspace.open(home, repo.path)
    (tmp_path / "git").write_text("#!/bin/sh\necho git version 2.30.2\n")
    (tmp_path / "git").chmod(0o755)
    with pytest.raises(WorkspaceError, match=r"2\.38 or newer.*2\.30\.2"):
        Workspace.open(home, repo.path)
    check_version.cache_clear()


def test_submodules_and_sha256_repositories_do_not_stop_anything(home, tmp_path, repo, make_repo):
    inner = make_repo("inner")
    inner.commit("inner", x="x\n")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "sub")
    head = repo.commit("with submodule")
    workspace = Workspace.open(home, repo.path)
    wt = workspace.checkout("t", "s", 1, workspace.base().commit)
    assert workspace.base().commit == head
    assert workspace.leftovers(wt) == []
    (wt.path / "a").write_text("changed\n")
    made = workspace.commit(wt, "x")
    assert made is not None
    assert workspace.stat(head, made).paths == ("a",)
    new = make_repo("new", "--object-format=sha256")
    new.commit("first", a="a\n")
    workspace = Workspace.open(home, new.path)
    wt = workspace.checkout("t", "s", 1, workspace.base().commit)
    (wt.path / "a").write_text("changed\n")
    assert len(workspace.commit(wt, "x") or "") == 64
