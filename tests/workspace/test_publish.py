"""The one branch in the user's repository."""

from __future__ import annotations

import shutil

import pytest

from longtask.workspace import NotPublished, Published
from tests.workspace.test_base import snapshot_of

BRANCH = "longtask/job-1"


def test_the_branch_appears_and_goes_forward(repo, workspace, base, work):
    one = work("one", base, a="1\n")
    two = work("two", one, b="2\n")
    assert workspace.publish(BRANCH, one) == Published(BRANCH, one)
    assert workspace.publish(BRANCH, one) == Published(BRANCH, one)
    assert workspace.publish(BRANCH, two) == Published(BRANCH, two)
    assert repo.git("rev-parse", BRANCH) == two
    assert repo.git("branch", "--format=%(refname:short)").split() == [BRANCH, "main"]
    repo.git("fsck", "--connectivity-only")


def test_publishing_touches_nothing_else(repo, workspace, base, work):
    one = work("one", base, a="1\n")
    repo.write("a", "dirty")
    repo.git("add", "a")
    before = snapshot_of(repo.path)
    workspace.publish(BRANCH, one)
    after = snapshot_of(repo.path)
    assert {name for name in before if before[name] != after.get(name)} == set()
    changed = after.keys() - before.keys()
    git = f"{repo.path}/.git"
    assert all(
        name.startswith((f"{git}/objects/", f"{git}/refs/heads/longtask/", f"{git}/logs/refs/heads/longtask/"))
        for name in changed
    )


@pytest.mark.parametrize("linked", [False, True])
def test_a_branch_that_is_checked_out_is_left_alone(repo, workspace, base, work, tmp_path, linked):
    one = work("one", base, a="1\n")
    two = work("two", one, b="2\n")
    workspace.publish(BRANCH, one)
    place = tmp_path / "linked" if linked else repo.path
    if linked:
        repo.git("worktree", "add", "--quiet", str(place), BRANCH)
    else:
        repo.git("checkout", "--quiet", BRANCH)
    answer = workspace.publish(BRANCH, two)
    assert isinstance(answer, NotPublished)
    assert str(place) in answer.reason
    assert repo.git("rev-parse", BRANCH) == one
    assert repo.git("status", "--porcelain", cwd=place) == ""
    repo.git("checkout", "--quiet", "--detach", cwd=place)
    assert workspace.publish(BRANCH, two) == Published(BRANCH, two)


def test_the_users_own_commits_are_never_overwritten(repo, workspace, base, work):
    one = work("one", base, a="1\n")
    two = work("two", one, b="2\n")
    workspace.publish(BRANCH, one)
    repo.git("checkout", "--quiet", BRANCH)
    mine = repo.commit("mine", c="mine\n")
    repo.git("checkout", "--quiet", "main")
    answer = workspace.publish(BRANCH, two)
    assert isinstance(answer, NotPublished)
    assert "git branch -m" in answer.reason
    assert repo.git("rev-parse", BRANCH) == mine


def test_a_head_that_was_overtaken_is_not_published(repo, workspace, base, work):
    one = work("one", base, a="1\n")
    workspace.publish(BRANCH, one)
    assert isinstance(workspace.publish(BRANCH, base), NotPublished)
    assert repo.git("rev-parse", BRANCH) == one


def test_failing_hooks_and_odd_settings_of_the_user_do_not_matter(repo, workspace, base, work):
    one = work("one", base, a="1\n")
    for hook in ("reference-transaction", "pre-push", "post-merge"):
        path = repo.write(f".git/hooks/{hook}", "#!/bin/sh\nexit 1\n")
        path.chmod(0o755)
    for key, value in (("fetch.prune", "true"), ("fetch.fsckObjects", "true"), ("core.logAllRefUpdates", "always")):
        repo.git("config", key, value)
    assert workspace.publish(BRANCH, one) == Published(BRANCH, one)


def test_what_stands_in_the_way_is_answered_not_raised(repo, workspace, base, work):
    one = work("one", base, a="1\n")
    assert isinstance(workspace.publish("longtask/..", one), NotPublished)
    repo.git("branch", "longtask")
    answer = workspace.publish(BRANCH, one)
    assert isinstance(answer, NotPublished) and "refs/heads/longtask" in answer.reason
    repo.git("branch", "-D", "longtask")
    repo.write(".git/refs/heads/longtask/job-1.lock", "")
    assert isinstance(workspace.publish(BRANCH, one), NotPublished)
    shutil.rmtree(repo.path)
    answer = workspace.publish(BRANCH, one)
    assert isinstance(answer, NotPublished) and "gone" in answer.reason


def test_only_our_own_branches_are_written(workspace, base):
    with pytest.raises(ValueError, match="not ours"):
        workspace.publish("main", base)
