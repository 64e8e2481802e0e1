"""A task as one look at the store shows it, and a cheap way to look again and again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from longtask.core import events as e
from longtask.core.errors import NotFound
from longtask.core.machine import status
from longtask.core.model import Kind, Role, Step, StepState, Task
from longtask.core.policy import BATCH_MAX
from longtask.store.contract import Progress, Ref, Store
from longtask.views.words import handle, percent

STEPS_MAX = 20_000  # what a view holds; a larger task is shown in part
PROGRESS_MAX = 1_000
CHILDREN_MAX = 1_000  # the newest: a step of which no child is shown has completed long ago
OLDER_MAX = 200  # beside them
UNDONE = (StepState.FAILED, StepState.CANCELLED, StepState.WAITING)
LONG_AGO = 1 << 62


class Child(NamedTuple):
    """A task that was made for a step."""

    task: str
    handle: str
    status: str
    percent: int


class Items(NamedTuple):
    """Of a `for_each`, and of an agent that has spawned: `ended` and `failed` of `total`.  `begun`: they are steps of
    the task already, and in its counts."""

    total: int
    ended: int
    failed: int
    begun: int


@dataclass(frozen=True, slots=True)
class Picture:
    """`steps`: without gates, in the plan's order, at most so many; `left_out`: how many more there are.

    `passed`: items of a `for_each` that was retried or forked which had completed before that, by its key."""

    task: Task
    steps: Sequence[Step]
    progress: Mapping[str, Progress]
    now: int
    left_out: int = 0
    children: Mapping[str, Child] = field(default_factory=dict)  # by step: the newest task that was made for it
    parent: str | None = None  # handle of the task that it was made for
    passed: Mapping[str, int] = field(default_factory=dict)

    def items_of(self, step: Step) -> Items | None:
        """None: it has no items, or not yet."""
        if not step.items or step.role is Role.ITEM:
            return None
        ended = step.items_ended + self.passed.get(step.key, 0)
        return Items(step.items, ended, step.items_failed, begun=max(step.items_next, ended))

    def progress_of(self, step: Step) -> Progress | None:
        """What its newest attempt has told."""
        found = self.progress.get(step.key)
        return found if found is not None and found.attempt == step.attempt else None


class Looker:
    """Reads all rows once; afterwards those that the journal says have moved."""

    def __init__(self, store: Store, task_id: str, steps_max: int = STEPS_MAX) -> None:
        self._store = store
        self._task_id = task_id
        self._steps_max = steps_max
        self._seq = -1
        self._rows: dict[str, Step] = {}
        self._order: dict[str, int] = {}
        self._sorted: list[Step] = []

    def look(self) -> Picture:
        store = self._store
        task = store.get_task(self._task_id)  # before the rows: they are as new as its `seq`, or newer
        if self._seq < 0:
            self._read_all()
        elif task.seq > self._seq:
            self._read_moved(task.seq)
        self._seq = task.seq
        progress = {row.step: row for row in store.progress(task.id, PROGRESS_MAX)}
        left_out = max(task.counts.steps - len(task.options.stages or ("",)) - len(self._rows), 0)
        parent = parent_of(store, task)
        above = None if parent is None else handle(parent)
        passed = passed_of(store, task.id, self._sorted)
        children = children_of(store, task.id, self._sorted)
        return Picture(task, self._sorted, progress, store.now(), left_out, children, above, passed)

    def _read_all(self) -> None:
        first = self._store.events(self._task_id, 0, 1)
        if first and isinstance(first[0].fact, e.TaskSubmitted):
            self._order = {step.key: i for i, step in enumerate(first[0].fact.steps)}
        after = ""
        while len(self._rows) < self._steps_max:
            page = self._store.steps(self._task_id, after, BATCH_MAX)
            self._rows |= {row.key: row for row in page if not row.gate}
            if len(page) < BATCH_MAX:
                break
            after = page[-1].key
        self._sort()

    def _read_moved(self, until: int) -> None:
        keys: dict[str, None] = {}
        at = self._seq
        while at < until:
            page = self._store.events(self._task_id, at, BATCH_MAX)
            if not page:
                break
            at = page[-1].seq
            for event in page:
                added = event.fact.steps if isinstance(event.fact, e.StepsAdded) else ()
                keys |= dict.fromkeys([*(new.key for new in added), str(getattr(event.fact, "step", ""))])
        names = [key for key in keys if key and (key in self._rows or len(self._rows) < self._steps_max)]
        for start in range(0, len(names), BATCH_MAX):
            found = self._store.results(self._task_id, names[start : start + BATCH_MAX])
            self._rows |= {key: row for key, row in found.items() if not row.gate}
        self._sort()

    def _sort(self) -> None:
        def place(step: Step) -> tuple[int, int, int, int, str]:
            return (step.stage, self._order.get(step.key, LONG_AGO), step.item or 0, len(step.key), step.key)

        self._sorted = sorted(self._rows.values(), key=place)


def children_of(store: Store, task_id: str, steps: Sequence[Step]) -> dict[str, Child]:
    """Of a single step its newest; of many those that are among the task's newest, and of what did not succeed or
    waits some that are older."""
    asked = [step for step in steps if step.kind is Kind.TASK]
    if not asked:
        return {}
    if len(asked) == 1 and asked[0].child is not None:
        newest = list(filter(None, [_found(store, asked[0].child)]))
    else:
        newest = store.newest_children(task_id, CHILDREN_MAX)
        shown = {task.id for task in newest}
        older = [step.child for step in asked if step.child not in shown and step.state in UNDONE]
        newest += filter(None, (_found(store, child) for child in older[:OLDER_MAX]))
    return {str(t.parent_step): Child(t.id, handle(t), status(t), percent(t)) for t in reversed(newest)}


def _found(store: Store, task_id: str | None) -> Task | None:
    """None: it is still to be made, or was pruned."""
    try:
        return None if task_id is None else store.get_task(task_id)
    except NotFound:
        return None


def passed_of(store: Store, task_id: str, steps: Iterable[Step]) -> dict[str, int]:
    again = [row for row in steps if row.kind is Kind.FOR_EACH and row.items and row.expansion > 1]
    return {row.key: store.items_passed(Ref(task_id, row.key)) for row in again}


def parent_of(store: Store, task: Task) -> Task | None:
    return None if task.parent is None else store.get_task(task.parent)


def look(store: Store, task_id: str, steps_max: int = STEPS_MAX) -> Picture:
    return Looker(store, task_id, steps_max).look()


def need_rows(store: Store, task: Task, key: str, limit: int) -> list[Step]:
    """The steps that `key` needs."""
    return list(store.results(task.id, store.needs(Ref(task.id, key), limit)).values())
