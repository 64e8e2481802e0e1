"""Making references equal the journal, and cleaning up, which never deletes work that is not merged.

An attempt's reference goes only when the task's head contains its commit; a worktree of a dead attempt is saved as a
checkpoint before it goes; what cannot be saved stays and is named.

All workers of a machine hear of a task's end, and each cleans up: one does it, the others wait and find it done.  Two
at once would save what the other has half taken away.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from longtask.core.errors import WorkspaceError
from longtask.workspace import names
from longtask.workspace.exchange import can_have, drop, listed, missing, need, send
from longtask.workspace.git import locked
from longtask.workspace.hub import Hub, Move, contains, has_commit, move_refs, read_ref, read_refs
from longtask.workspace.save import own_tree, pin, snapshot
from longtask.workspace.tree import Worktree, delete, read_worktree, remove, task_folder, worktrees

LOCK = "cleaning.lock"


@dataclass(frozen=True, slots=True)
class Reconciled:
    """`moved`: references that were put right.  `missing`: commits of the journal that the hub does not have."""

    moved: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cleaned:
    """`removed` and `stayed` are worktrees, `saved` those of which a checkpoint was made; `kept` are references whose
    work is not merged, `dropped` those that nobody needs any more."""

    removed: tuple[Path, ...]
    saved: tuple[tuple[str, int, str], ...]
    stayed: tuple[tuple[Path, str], ...]
    kept: tuple[str, ...]
    dropped: tuple[str, ...]


def reconcile(hub: Hub, task_id: str, head: str, attempts: Iterable[tuple[str, int, str]]) -> Reconciled:
    """Make the head's and the delivered attempts' references be what the journal says.  All other references stay.

    Here, and in the hub that machines share.
    """
    wanted = {names.attempt_ref(task_id, step, attempt): commit for step, attempt, commit in attempts}
    wanted[names.head_ref(task_id)] = head
    found = read_refs(hub, names.task_refs(task_id))
    there = listed(hub, f"{names.task_refs(task_id)}/*") if hub.remote else wanted
    wrong = {ref: commit for ref, commit in wanted.items() if not found.get(ref) == there.get(ref) == commit}
    lost = {commit for commit in wrong.values() if not has_commit(hub, commit) and not can_have(hub, commit)}
    moves = [Move(ref, commit) for ref, commit in sorted(wrong.items()) if commit not in lost]
    move_refs(hub, moves)
    send(hub, "putting references right", *moves)
    return Reconciled(tuple(move.ref for move in moves), tuple(sorted(lost)))


def clean(
    hub: Hub,
    task_id: str,
    keep: Collection[str] = (),
    done: Collection[str] = (),
    busy: Collection[tuple[str, int]] = (),
) -> Cleaned:
    """Take away what a task no longer needs.

    `keep`: commits whose references stay.  `done`: steps that completed, so that what their attempts left lying about
    is of no use.  `busy`: attempts (step, number) that may still be running; their worktrees are not touched.
    """
    with locked(hub.path / LOCK):
        return _cleaned(hub, task_id, keep, done, busy)


def _cleaned(
    hub: Hub, task_id: str, keep: Collection[str], done: Collection[str], busy: Collection[tuple[str, int]]
) -> Cleaned:
    removed: list[Path] = []
    saved: list[tuple[str, int, str]] = []
    stayed: list[tuple[Path, str]] = []
    spared = {names.attempt_name(step, attempt) for step, attempt in busy}
    for path in worktrees(hub.home, task_id):
        if path.name in spared:
            continue
        try:
            wt = read_worktree(path)
            tree = _save(hub, wt) if wt is not None and wt.step not in done else None
        except WorkspaceError as error:
            stayed.append((path, str(error)))
            continue
        if wt is not None and tree is not None:
            saved.append((wt.step, wt.attempt, tree))
        remove(hub.home, path)
        removed.append(path)
    kept, dropped = _drop_refs(hub, task_id, set(keep), {names.safe(step) for step in done})
    _sweep(hub, task_id)
    return Cleaned(tuple(removed), tuple(saved), tuple(stayed), tuple(kept), tuple(dropped))


def _save(hub: Hub, wt: Worktree) -> str | None:
    """Pin what no reference holds yet; returns its tree."""
    if not wt.path.exists():
        return None
    tree = own_tree(hub, wt, snapshot(hub, wt))
    if tree in (wt.base_tree, read_ref(hub, names.attempt_ref(wt.task_id, wt.step, wt.attempt), "tree")):
        return None
    pin(hub, wt, tree)
    return tree


def _drop_refs(hub: Hub, task_id: str, keep: set[str], done: set[str]) -> tuple[list[str], list[str]]:
    here = read_refs(hub, names.task_refs(task_id))
    there = listed(hub, f"{names.task_refs(task_id)}/*", names.merge_ref("*")) if hub.remote else {}
    merges = {ref: there.pop(ref) for ref in list(there) if ref.startswith(names.merge_ref(""))}
    refs = here | there
    head = refs.pop(names.head_ref(task_id), None)
    if head is not None:
        need(hub, head, task_id=task_id)
    assert all("/attempts/" in ref or "/checkpoints/" in ref for ref in refs), refs
    elsewhere = set(missing(hub, there.values())) if there else set()  # what the head holds is here, as it is
    contained = {
        ref
        for ref, commit in refs.items()
        if "/attempts/" in ref and head is not None and commit not in elsewhere and contains(hub, head, commit)
    }
    merged: dict[str, int] = {}  # step: its newest merged attempt; checkpoints up to it are overtaken
    for ref in contained:
        step, attempt = _parts(ref)
        merged[step] = max(attempt, merged.get(step, 0))
    kept: list[str] = []
    dropped: list[str] = []
    for ref, commit in sorted(refs.items()):
        step, attempt = _parts(ref)
        useless = ref in contained if "/attempts/" in ref else step in done or attempt <= merged.get(step, 0)
        (dropped if useless and commit not in keep else kept).append(ref)
    pins = [names.merge_ref(commit) for ref, commit in refs.items() if "/attempts/" in ref]
    if hub.remote:  # before ours go: what is left there is found again by them
        gone = [Move(ref, None, there[ref]) for ref in dropped if ref in there]
        drop(hub, [*gone, *(Move(pin, None, merges[pin]) for pin in pins if pin in merges)])
    move_refs(hub, [Move(ref, None, here[ref]) for ref in dropped if ref in here])
    return kept, dropped


def _parts(ref: str) -> tuple[str, int]:
    """Of an attempt's reference, of one that resolves its conflict, or of its checkpoint's."""
    step, _, attempt = ref.rsplit("/", 1)[1].rpartition(".")
    return step, int(attempt.partition("-")[0])


def _sweep(hub: Hub, task_id: str) -> None:
    """What kills left in the trash, and the task's folder if nothing is in it."""
    trash = hub.home / names.TREES / ".trash"
    if trash.is_dir():
        for thing in trash.iterdir():
            delete(thing)
    folder = task_folder(hub.home, task_id)
    if folder.is_dir() and not any(folder.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)


def forget(hub: Hub, task_id: str) -> None:
    """Take away all that is left of a task that is no more: references here and in a shared hub, and worktrees.

    Whatever it has not merged is lost once garbage is collected.  Safe to repeat.
    """
    with locked(hub.path / LOCK):
        for path in worktrees(hub.home, task_id):
            remove(hub.home, path)
        under = names.task_refs(task_id)
        here = read_refs(hub, under)
        if hub.remote:
            there = listed(hub, f"{under}/*", names.merge_ref("*"))
            pins = {names.merge_ref(commit) for ref, commit in (here | there).items() if "/attempts/" in ref}
            mine = {ref: commit for ref, commit in there.items() if ref in pins or ref.startswith(f"{under}/")}
            drop(hub, [Move(ref, None, commit) for ref, commit in mine.items()])
        move_refs(hub, [Move(ref, None, commit) for ref, commit in here.items()])
        _sweep(hub, task_id)
