"""What tasks owe each other: written with what makes it due, found until it is taken away."""

from typing import Any

from longtask.core.events import (
    StepCancelled,
    StepClaimed,
    StepCompleted,
    StepParked,
    StepWoken,
    TaskPaused,
    UsageRecorded,
)
from longtask.core.model import Above, WaitingFor
from longtask.store.contract import Store
from tests.conformance.play import act, claim, ready, submit, task_id

CHILD = task_id(7)
QUESTION = {"name": f"task.ended:{CHILD}", "child": CHILD, "inputs": {"n": 1}}
ABOVE = (Above(task_id(2), "x"), Above(task_id(1), "y"))


def kinds(store: Store) -> list[tuple[str, str]]:
    return [(row.kind, row.target) for row in store.errands(9)]


def drop(store: Store, id_: str, *numbers: int) -> None:
    with store.task(id_) as tx:
        tx.drop_errands(numbers)


def parked(store: Store) -> str:
    id_ = submit(store, 1, ready("a", "b"))
    act(store, id_, StepClaimed("a", 1, "w"))
    act(store, id_, StepParked("a", 1, WaitingFor.TASK, QUESTION))
    return id_


def test_a_step_that_parks_on_a_child_leaves_an_errand_to_make_it(store: Store):
    id_ = parked(store)
    (row,) = store.errands(9)
    assert (row.task_id, row.step, row.kind, row.target) == (id_, "a", "create", CHILD)
    assert row.body == '{"spec":0,"inputs":{"n":1}}' and store.errands_of(id_, 9) == [row]
    assert store.awaited(id_, "", 9) == [("a", CHILD)] and store.awaited(id_, "a", 9) == []
    drop(store, id_, row.n)
    assert store.errands(9) == []
    drop(store, id_, row.n)


def test_a_child_is_ended_after_it_was_made(store: Store):
    id_ = parked(store)
    act(store, id_, StepCancelled("a", "ann"))
    assert kinds(store) == [("create", CHILD)] and len(store.errands_of(id_, 9)) == 2
    drop(store, id_, store.errands(9)[0].n)
    assert kinds(store) == [("cancel", CHILD)] and store.awaited(id_, "", 9) == []


def test_whoever_is_woken_leaves_its_child_alone(store: Store):
    id_ = parked(store)
    act(store, id_, StepWoken("a", {"signal": QUESTION["name"]}))
    assert kinds(store) == [("create", CHILD)]


def test_a_pause_is_to_be_told_once_to_those_that_wait_for_children(store: Store):
    other = submit(store, 3, ready("a"))
    act(store, other, TaskPaused())
    id_ = parked(store)
    act(store, id_, TaskPaused())
    assert [(row.task_id, row.kind) for row in store.errands(9)] == [(id_, "create"), (id_, "relay")]
    assert store.get_task(id_).relay == "" and store.get_task(other).relay is None
    act(store, id_, TaskPaused(2))
    assert len(store.errands(9)) == 2, "it is held as before"
    assert store.get_task(id_).wish == store.get_task(other).wish == 1


def test_an_end_is_to_be_told_to_the_parent(store: Store):
    id_ = submit(store, 4, ready("a"), parent=task_id(2), parent_step="x", ancestors=ABOVE)
    assert store.get_task(id_).ancestors == ABOVE
    claim(store, id_, "a")
    act(store, id_, StepCancelled("a", "task", told=True))
    assert store.get_task(id_).ended and [(r.kind, r.step, r.target) for r in store.errands(9)] == [
        ("ended", "x", task_id(2))
    ]


def test_usage_counts_above_as_soon_as_it_is_there_and_once(store: Store):
    top = submit(store, 1, ready("y"))
    middle = submit(store, 2, ready("x"), parent=top, parent_step="y", ancestors=ABOVE[1:])
    low = submit(store, 3, ready("a"), parent=middle, parent_step="x", ancestors=ABOVE)
    claim(store, low, "a")
    act(store, low, UsageRecorded("a", 1, 10, 5, 70))
    act(store, low, UsageRecorded("a", 1, 1, 0, None))
    owed = [(middle, 16, 70), (top, 16, 70)]
    assert [(o.task.id, o.tokens, o.micros) for o in store.over(low)] == [(low, 0, 0), *owed]
    assert [(o.task.id, o.tokens, o.micros) for o in store.over(middle)] == owed
    assert [(o.task.id, o.tokens, o.micros) for o in store.over(top)] == owed[1:]
    row = next(row for row in store.errands(9) if row.target == top)
    assert (row.task_id, row.step, row.tokens, row.micros) == (low, "y", 15, 70)
    act(store, top, UsageRecorded("y", 0, 10, 5, 70, child=low), op=f"spent {low} {row.seq}")
    over = store.over(low)[2]
    assert (over.task.spent_micros, over.tokens, over.micros) == (70, 1, 0), "what is counted is not owed"
    drop(store, low, row.n)
    assert store.over(low)[2] == over


def test_children_may_be_left_out_of_lists(store: Store):
    top = submit(store, 1, ready("y"))
    first, second = [submit(store, n, ready("a"), parent=top, parent_step="y") for n in (2, 3)]
    act(store, top, StepClaimed("y", 1, "w"))
    act(store, top, StepCompleted("y", 1))
    some: dict[str, Any] = {"open_only": False, "workspace_id": None, "before": 0, "limit": 9}
    assert [t.id for t in store.tasks(**some)] == [second, first, top]
    assert [t.id for t in store.tasks(**some, children=False)] == [top]
    assert [t.id for t in store.newest_children(top, 1)] == [second] and store.get_task("@last").id == top
