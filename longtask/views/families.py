"""What must hold between tasks, on a database that others write to: a page of children at a time.

Rows that are about one child are read again when something looks wrong, since a scheduler may have been between two of
its transactions; what stays wrong is told.  Usage only ever grows, so what journals say has to lie between what a task
counted before they were read, and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from longtask.core.errors import NotFound
from longtask.core.events import UsageRecorded
from longtask.core.family import delivery_of
from longtask.core.model import Task
from longtask.core.oracle.family import Kin, Used, awaits, between, counted, relayed
from longtask.core.oracle.view import Violation
from longtask.store.contract import ErrandRow, Ref, Store

PAGE = 500
READS_MAX = 5


@dataclass(frozen=True, slots=True)
class Wrong:
    """`tasks`: those that it is about, the parent first."""

    rule: str
    text: str
    tasks: tuple[str, ...]


def audit_below(store: Store, top: Task) -> Iterator[Wrong]:
    """Of a task and all below it."""
    for found in _walk(store, top):
        if isinstance(found, Wrong):
            yield found


def _walk(store: Store, task: Task) -> Iterator[Wrong | Used]:
    """What is wrong, and last what was used."""
    yield from _again(partial(_relay, store, task.id), task.id)
    yield from _unmade(store, task.id)
    used, below, first, after = _own(store, task.id), (0, 0), None, 0
    before: Used = (0, 0)
    while page := store.children(task.id, PAGE, after):
        for child in page:
            if first is None:
                first, before = child.id, _counts(store, task.id, child.id)
                used = _own(store, task.id)
            yield from _again(partial(_kin, store, task.id, child.id), task.id, child.id)
            for found in _walk(store, child):
                if isinstance(found, Wrong):
                    yield found
                else:
                    below = below[0] + found[0], below[1] + found[1]
        after = page[-1].number
    used = used[0] + below[0], used[1] + below[1]
    if first is not None:
        for violation in counted(task.id, before, used, _counts(store, task.id, first)):
            yield Wrong(violation.rule, violation.text, (task.id,))
    yield used


def _again(look: Callable[[], list[Violation]], *tasks: str) -> Iterator[Wrong]:
    found: list[Violation] = []
    for _ in range(READS_MAX):
        found = look()
        if not found:
            return
    for violation in found:
        yield Wrong(violation.rule, violation.text, tasks)


def _relay(store: Store, task_id: str) -> list[Violation]:
    try:
        task = store.get_task(task_id)
    except NotFound:
        return []
    return list(relayed(task, any(row.kind == "relay" for row in _errands(store, task_id))))


def _unmade(store: Store, task_id: str) -> Iterator[Wrong]:
    after = ""
    while page := store.awaited(task_id, after, PAGE):
        for key, child in page:
            yield from _again(partial(_kin, store, task_id, child, key), task_id)
        after = page[-1][0]


def _kin(store: Store, parent_id: str, child_id: str, step: str = "") -> list[Violation]:
    """What is wrong between the two.  `step`: of the parent, when the child was not there.

    The child is read first: what its parent has to do about it is written before it, and taken away after."""
    child = _found(store, child_id)
    if (child is None) is not bool(step):
        return []  # pruned meanwhile; or made, and then it comes with the children
    key = step if child is None else child.parent_step or ""
    tells = child is not None and any(row.kind == "ended" for row in _errands(store, child_id))
    try:
        parent, row = store.get_task(parent_id), store.get_step(Ref(parent_id, key))
    except NotFound:
        return []
    mine = {errand.kind for errand in _errands(store, parent_id) if errand.target == child_id}
    heard = child is not None and child.parent_told and store.has_heard(parent_id, delivery_of(child_id))
    waits = awaits(row) == child_id
    kin = Kin(child_id, child, parent, key, waits, "create" in mine, "cancel" in mine, tells, int(heard))
    return list(between(kin))


def _found(store: Store, task_id: str) -> Task | None:
    try:
        return store.get_task(task_id)
    except NotFound:
        return None


def _errands(store: Store, task_id: str) -> list[ErrandRow]:
    return store.errands_of(task_id, 100 * PAGE)


def _counts(store: Store, task_id: str, child: str) -> Used:
    """What the task counts, and is about to: of one moment."""
    for over in store.over(child):
        if over.task.id == task_id:
            return over.task.spent_tokens + over.tokens, over.task.spent_micros + over.micros
    return 0, 0


def _own(store: Store, task_id: str) -> Used:
    tokens = micros = after = 0
    while page := store.events(task_id, after, PAGE):
        for event in page:
            if isinstance(event.fact, UsageRecorded) and event.fact.child is None:
                tokens += event.fact.tokens_in + event.fact.tokens_out
                micros += event.fact.micros or 0
        after = page[-1].seq
    return tokens, micros
