"""The one branch that appears in the user's repository: `longtask/<task>`.

It is made on the machine that has that repository, and on no other.  It only goes forward, by fetch from the hub; never
while a worktree has it checked out (its files would silently differ from it), and never over commits of the user's own.
Whatever stands in the way is answered, not raised: a task does not fail because its result cannot be shown there yet,
and publishing may be tried again at any time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from longtask.core.errors import WorkspaceError
from longtask.workspace.exchange import need
from longtask.workspace.git import GitFailed, Place, git, shown
from longtask.workspace.hub import Hub, contains, has_commit
from longtask.workspace.repo import SERVE

PREFIX = "longtask/"


@dataclass(frozen=True, slots=True)
class Published:
    branch: str
    commit: str


@dataclass(frozen=True, slots=True)
class NotPublished:
    branch: str
    reason: str


def publish(hub: Hub, branch: str, head: str) -> Published | NotPublished:
    """Make `branch` of the user's repository be `head`.  `branch` begins with `longtask/`."""
    if not branch.startswith(PREFIX):
        raise ValueError(f"branch {branch!r} is not ours to write: it must begin with {PREFIX!r}")
    if hub.host is not None:
        return NotPublished(branch, f"its repository is on host {hub.host!r}, which will fetch it")
    if hub.origin is not None:
        return NotPublished(
            branch, f"its repository is at '{hub.origin.url}', to which nothing is pushed but by a step"
        )
    try:
        need(hub, head)
        reason = _hindrance(hub, branch, head) or _fetch(hub, branch, head)
    except WorkspaceError as error:
        reason = str(error)
    return NotPublished(branch, reason) if reason else Published(branch, head)


def _hindrance(hub: Hub, branch: str, head: str) -> str:
    user = Place(git_dir=hub.repository)
    if git(user, "check-ref-format", f"refs/heads/{branch}", ok=(0, 1)).code:
        return f"branch {shown(branch)!r} is no name that git allows"
    for where in _checked_out(user, branch):
        return f"branch {branch!r} is checked out at '{shown(where)}': switch to another one there"
    found = git(user, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", ok=(0, 1))
    if found.code or found.line == head:
        return ""
    if not has_commit(hub, found.line) or not contains(hub, head, found.line):
        return (
            f"branch {branch!r} holds commits that the task has not made (at {found.line[:12]}): "
            "rename it (`git branch -m`), and the task's own will appear"
        )
    return ""


def _checked_out(user: Place, branch: str) -> list[str]:
    listed = git(user, "worktree", "list", "--porcelain", "-z").out.split(b"\0")
    places: list[str] = []
    folder = ""
    for line in listed:
        if line.startswith(b"worktree "):
            folder = os.fsdecode(line.removeprefix(b"worktree "))
        elif line == os.fsencode(f"branch refs/heads/{branch}"):
            places.append(folder)
    return places


def _fetch(hub: Hub, branch: str, head: str) -> str:
    """Git looks again at both conditions while it holds the reference."""
    words = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-prune"]
    words += ["--no-auto-maintenance", "--no-write-commit-graph", f"--upload-pack={SERVE}"]
    try:
        git(Place(git_dir=hub.repository), *words, str(hub.path), f"{head}:refs/heads/{branch}")
    except GitFailed as error:
        return str(error)
    return ""
