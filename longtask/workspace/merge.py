"""Merging: a pure function of (head, commit), outside any worktree, lock or reference.

- A commit that the head contains merges as nothing: the answer is the head, so a merge may be repeated at any time.
- A head that the commit contains is fast-forwarded: the answer is the commit.  The work of an attempt whose base is the
  head thus needs no merge at all, and a conflict's commit, which has both sides as parents, ends its own merge.
- Otherwise a merge commit: ours in name, dated by the younger of the two, so that everybody who makes it gets one id.

What `.gitattributes` of the head says about merging (`union`, `-merge` for lock files ...) holds; merge programs named
in somebody's settings do not.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from longtask.core.errors import Refused
from longtask.workspace.exchange import need, send_merge
from longtask.workspace.git import Place, git
from longtask.workspace.hub import Hub, commit_tree, contains
from longtask.workspace.tree import Joined, Worktree, checkout

ATTRIBUTES = ".gitattributes"
ABOUT_MERGING = (b"merge", b"binary")  # `binary` is git's own word for: -diff -merge -text


@dataclass(frozen=True, slots=True)
class Merged:
    commit: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """`messages`: what git says about each, such as `CONFLICT (content): Merge conflict in a.py`."""

    paths: tuple[str, ...]
    messages: tuple[str, ...]


def merge(hub: Hub, head: str, commit: str, message: str) -> Merged | Conflict:
    """Join `commit` to `head`.  The same message gives the same id.  A shared hub has it before this returns."""
    need(hub, head, commit)
    if contains(hub, head, commit):
        return Merged(head)
    if contains(hub, commit, head):
        return Merged(commit)
    made = _merge_trees(hub, head, commit)
    if made.paths:
        return Conflict(made.paths, made.messages)
    dates = git(hub.place, "show", "--no-patch", "--format=%ct", head, commit).out.split()
    at = max(dates, key=int).decode()
    merged = commit_tree(hub, made.tree, (head, commit), message, at)
    send_merge(hub, commit, merged)
    return Merged(merged)


def moved(hub: Hub, task_id: str, base: str, tree: str, head: str) -> str | Conflict:
    """What `tree` has changed of `base`, on top of `head`, which contains `base`: the id of a tree."""
    need(hub, base, tree, head, task_id=task_id)
    made = _merge_trees(hub, head, commit_tree(hub, tree, (base,), "Work in progress\n"))
    return Conflict(made.paths, made.messages) if made.paths else made.tree


def conflict_checkout(
    hub: Hub,
    task_id: str,
    step: str,
    attempt: int,
    head: str,
    commit: str,
    *,
    tree: str | None = None,
    aside: Sequence[str] = (),
) -> Worktree:
    """A worktree at `head` with the conflict in its files, whose commit will have both sides as parents.

    `tree`: the files of a checkpoint of this work instead.  Refused when there is no conflict.
    """
    need(hub, head, commit, *([tree] if tree else []), task_id=task_id, tags=True)
    made = _merge_trees(hub, head, commit)
    if not made.paths:
        raise Refused(f"step {step!r}: {commit[:12]} and {head[:12]} merge without a conflict: merge them")
    joined = Joined(commit, made.tree, made.paths, made.stages)
    return checkout(hub, task_id, step, attempt, head, tree=tree, aside=aside, joined=joined)


@dataclass(frozen=True, slots=True)
class _Made:
    tree: str
    paths: tuple[str, ...]
    stages: bytes
    messages: tuple[str, ...]


def _merge_trees(hub: Hub, head: str, commit: str) -> _Made:
    with tempfile.TemporaryDirectory(prefix="longtask-") as folder:
        place = Place(git_dir=hub.path, work_tree=Path(folder))
        _write_attributes(hub, head, Path(folder))
        words = ("--write-tree", "-z", "--messages", head, commit)
        done = git(place, "merge-tree", *words, ok=(0, 1))
    tree, *fields = done.out.split(b"\0")
    if done.code == 0:
        return _Made(tree.decode(), (), b"", ())
    end = fields.index(b"")
    stages: dict[str, list[bytes]] = {}
    for entry in fields[:end]:
        name = os.fsdecode(entry.partition(b"\t")[2])
        stages.setdefault(name, []).append(entry + b"\0")
    none = b"0" * len(tree)
    index = b"".join(b"0 %b\t%b\0" % (none, os.fsencode(name)) + b"".join(lines) for name, lines in stages.items())
    return _Made(tree.decode(), tuple(stages), index, _conflicts(fields[end + 1 :]))


def _conflicts(fields: list[bytes]) -> tuple[str, ...]:
    """Of the messages (number of paths, paths, kind, text) those that tell of a conflict."""
    found: list[str] = []
    at = 0
    while at < len(fields) and fields[at].isdigit():
        at += int(fields[at]) + 1
        kind, text = fields[at : at + 2]
        if kind.startswith(b"CONFLICT"):
            found.append(text.decode("utf-8", "backslashreplace").strip())
        at += 2
    return tuple(found)


def _write_attributes(hub: Hub, head: str, folder: Path) -> None:
    """Git reads attributes from a worktree only (from a commit: since 2.43); give it one with nothing else in it."""
    listed = git(hub.place, "ls-tree", "-r", "-z", "--name-only", head).names
    for name in listed:
        if os.path.basename(name) != ATTRIBUTES:
            continue
        content = git(hub.place, "cat-file", "blob", f"{head}:{name}").out
        if any(word in content for word in ABOUT_MERGING):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
