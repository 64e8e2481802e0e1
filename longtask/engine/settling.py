"""One hop of telling in its transaction, with what the pure decision needs from the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from longtask.core.errors import Refused
from longtask.core.machine import untold
from longtask.core.model import Step, TaskState
from longtask.core.policy import BATCH_MAX
from longtask.core.settle import Condition, ConditionNeeded, Item, settle
from longtask.store.contract import Ref, Store

from .scope import Expressions, Scopes, still
from .writing import Writing, write

T = TypeVar("T")
CONDITION_ROUNDS_MAX = 8  # each learns one more set of conditions; a race repeats one
TELLING = BATCH_MAX + 1  # so many dependents are read of a step that has ended: one more than are told at once


def settle_step(w: Writing, key: str, conditions: Mapping[str, Condition] | None = None) -> None:
    """Tells the step's direct dependents, at most a batch of them.  Raises ConditionNeeded before anything is added.

    In a closing task nobody is told anything: it is swept."""
    step = w.step(key)
    if not untold(step) or w.task.state is TaskState.CLOSING:
        return
    rows = w.see(w.tx.dependents(key, step.cursor, TELLING))
    more = len(rows) > BATCH_MAX
    owned = w.see(w.tx.owned_open(key, BATCH_MAX)) if not step.open and (step.owned or step.expansion) else []
    move = settle(
        w.task,
        step,
        rows[:BATCH_MAX],
        more,
        w.now,
        conditions=conditions,
        owned_open=[row for row in owned if row.open],
        item=lambda owner: next_item(w, owner),
    )
    w.move(move)


def settle_quietly(w: Writing, key: str) -> bool:
    """Tells in the same transaction; False: nothing was told, because an `if` has to be evaluated first, or because the
    transaction itself has made steps that need this one, which the store does not know yet."""
    if w.joined(key):
        return False
    try:
        settle_step(w, key)
    except ConditionNeeded:
        return False
    return True


def next_item(w: Writing, owner: Step) -> Item:
    spec = w.spec(owner)
    assert spec.item is not None
    index = owner.items_next
    if owner.expansion > 1:
        index = next(iter(open_items(w, owner.key, index, owner.items, 1)), owner.items)
    return Item(spec, w.tx.spec(spec.item), index)


def open_items(w: Writing, key: str, index: int, items: int, limit: int) -> list[int]:
    """The first indexes from `index` on that no expansion has completed, at most `limit`."""
    found: list[int] = []
    while index < items and len(found) < limit:
        done = w.tx.completed_items(key, index - 1, BATCH_MAX)
        known = done[-1] + 1 if len(done) == BATCH_MAX else items  # below it, what is not in the page is open
        gone = set(done)
        found += [i for i in range(index, min(known, index + BATCH_MAX + limit)) if i not in gone]
        index = min(known, index + BATCH_MAX + limit)
    return found[:limit]


def evaluate(
    store: Store, scopes: Scopes, expressions: Expressions, task_id: str, keys: tuple[str, ...]
) -> dict[str, Condition]:
    """Values of the `if`s of some steps, over what is completed now; outside any lock."""
    task = store.get_task(task_id)
    out = {}
    for key in keys:
        step = store.get_step(Ref(task_id, key))
        out[key] = scopes.condition(expressions, task, step, store.spec(task_id, step.spec))
    return out


def settle_apart(store: Store, scopes: Scopes, expressions: Expressions, ref: Ref) -> int:
    """A settle in a transaction of its own, with the conditions that it turns out to need; how much it moved."""
    conditions: dict[str, Condition] = {}
    for _ in range(CONDITION_ROUNDS_MAX):
        try:
            with write(store, ref.task_id, ref.step) as w:
                if w.task.ended:
                    return 0
                for condition in conditions.values():
                    if not still(condition, w.tx.steps([key for key, _, _ in condition.read])):
                        raise ConditionNeeded(list(conditions))
                settle_step(w, ref.step, conditions)
                return w.moved
        except ConditionNeeded as needed:
            conditions |= evaluate(store, scopes, expressions, ref.task_id, needed.keys)
    raise Refused(f"step {ref.step!r} of task {ref.task_id!r}: what its dependents' conditions read keeps changing")


def with_conditions(
    store: Store,
    scopes: Scopes,
    expressions: Expressions,
    ref: Ref,
    by: str,
    act: Callable[[Writing, Mapping[str, Condition]], T],
) -> T:
    """`act` in a transaction about the step, with the values of the `if`s that it needs.  Raises Refused."""
    conditions: dict[str, Condition] = {}
    for _ in range(CONDITION_ROUNDS_MAX):
        try:
            with write(store, ref.task_id, ref.step, actor=by) as w:
                return act(w, conditions)
        except ConditionNeeded as needed:
            conditions |= evaluate(store, scopes, expressions, ref.task_id, needed.keys)
    raise Refused(f"step {ref.step!r}: what its condition reads keeps changing; try again")
