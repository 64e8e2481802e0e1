"""The merge queue: made outside any lock, recorded by compare-and-set on the head; references follow the journal."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from longtask.core import decide
from longtask.core.errors import LongTaskError, NotFound
from longtask.core.model import StepState, Task
from longtask.store.contract import Ref, Store

from .settling import settle_quietly
from .writing import write

log = logging.getLogger("longtask.merging")


@dataclass(frozen=True, slots=True)
class MergeResult:
    """`commit` is the new head; None: a conflict in `paths`."""

    commit: str | None
    paths: tuple[str, ...] = ()


class Merger(Protocol):
    """Git, as the engine needs it.  `merge` is a pure function of (head, commit), so that it may be repeated."""

    def merge(self, workspace_id: str, head: str, commit: str, message: str) -> MergeResult: ...
    def follow(self, task: Task) -> None:
        """Makes the references of the task equal its journal; safe to repeat, and to miss."""


def merge_step(store: Store, merger: Merger, ref: Ref) -> int:
    """One merging step, joined to the head or put behind a conflict step.  0: somebody else was faster."""
    task = store.get_task(ref.task_id)
    try:
        step = store.get_step(ref)
    except NotFound:
        return 0
    if step.state is not StepState.MERGING or step.commit is None or task.head is None:
        return 0
    result = merger.merge(task.workspace_id, task.head, step.commit, f"{task.name}: {step.key}")
    with write(store, ref.task_id, ref.step) as w:
        now_step = w.step(ref.step)
        if result.commit is not None:
            w.add(decide.merged(w.task, now_step, step.commit, task.head, result.commit))
            if w.step(ref.step).state is StepState.COMPLETED:
                settle_quietly(w, ref.step)
        else:
            spec = w.spec(now_step)
            conflict = None if spec.conflict is None else w.tx.spec(spec.conflict)
            w.add(decide.conflicted(w.task, now_step, spec, conflict, step.commit, task.head, result.paths))
        moved, after = w.moved, w.task
    if after.head != task.head:
        follow(merger, after)
    return moved


def follow_all(merger: Merger, tasks: Sequence[Task]) -> None:
    """The reconciler: after a crash between journal and reference the reference is moved again."""
    for task in tasks:
        if task.workspace_id and task.head:
            follow(merger, task)


def follow(merger: Merger, task: Task) -> None:
    """What cannot be moved now (its repository is gone, its disk full) stands in nobody's way, and is tried again."""
    try:
        merger.follow(task)
    except (LongTaskError, OSError) as error:
        log.warning("follow.failed task=%s: %s", task.id, error)
