"""Peeks: what there is to do, in which order."""

from typing import Any

from longtask.core.change import Change
from longtask.core.events import (
    BudgetExceeded,
    CancelRequested,
    StepClaimed,
    StepCompleted,
    StepDelivered,
    StepParked,
    StepRetried,
    StepsAdded,
    TaskPaused,
    TaskResumed,
)
from longtask.core.model import StepState, Task, Verdict, WaitingFor
from longtask.store.contract import Ref, Store
from tests.conformance.play import act, blocked, claim, ready, settle, submit


def change(store: Store, id_: str, **fields: Any) -> None:
    """Header fields as they are after some story that is not told here."""
    with store.task(id_) as tx:
        tx.save(Change(tx.task._replace(**fields), {}))


def test_tasks_are_served_least_recently_served_first(store, clock):
    first, second, third = (submit(store, n, ready("a", "b")) for n in (1, 2, 3))
    for id_ in (second, first):
        clock.forward(1)
        act(store, id_, StepClaimed("a", 1, "w"))
    assert store.claimable("default", 5) == [Ref(third, "a"), Ref(second, "b"), Ref(first, "b")]
    assert store.claimable("default", 1) == [Ref(third, "a")]
    change(store, first, priority=1)
    assert store.claimable("default", 1) == [Ref(first, "b")]


def test_a_task_offers_its_earliest_due_step_only(store, clock):
    id_ = submit(store, 1, ready("a", "b"))
    claim(store, id_, "a")
    act(store, id_, StepRetried("a", 1, "again", due_at=clock.at + 50))
    assert store.claimable("default", 5) == [Ref(id_, "b")]
    act(store, id_, StepClaimed("b", 1, "w"))
    assert store.claimable("default", 5) == [], "nothing is claimed before it is due"
    clock.forward(50)
    assert store.claimable("default", 5) == [Ref(id_, "a")]


def test_what_admits_no_claim_is_not_offered(store):
    id_ = submit(store, 1, ready("a", "b"), parallel=1)
    act(store, id_, TaskPaused())
    assert store.claimable("default", 5) == []
    act(store, id_, TaskResumed())
    act(store, id_, StepClaimed("a", 1, "w"))
    assert store.claimable("default", 5) == [], "parallel is reached"
    act(store, id_, StepCompleted("a", 1), BudgetExceeded("active"))
    assert store.claimable("default", 5) == []


def test_a_task_that_is_still_being_submitted_is_not_offered(store):
    id_ = submit(store, 1, ready("a"), more=True)
    assert store.claimable("default", 5) == []
    act(store, id_, StepsAdded(ready("b")))
    assert store.claimable("default", 5) == [Ref(id_, "a")]


def test_system_steps_are_offered_though_every_slot_is_taken(store):
    id_ = submit(store, 1, (*ready("a", "b"), *ready("ask", pool="system")), parallel=1)
    act(store, id_, StepClaimed("a", 1, "w"))
    assert store.claimable("default", 5) == []
    assert store.claimable("system", 5) == [Ref(id_, "ask")]
    act(store, id_, StepClaimed("ask", 1, "w"))
    assert store.claimable("system", 5) == []


def test_each_pool_is_offered_its_own(store):
    id_ = submit(store, 1, (*ready("a"), *ready("big", pool="gpu")))
    other = submit(store, 2, ready("big", pool="gpu"))
    assert store.claimable("default", 5) == [Ref(id_, "a")]
    assert store.claimable("gpu", 5) == [Ref(id_, "big"), Ref(other, "big")]
    assert store.claimable("fpga", 5) == []


def rivals(store: Store, task: Task, pool: str = "default") -> bool:
    with store.task(task.id) as tx:
        return tx.rival(pool, tx.task.served_at)


def test_a_rival_is_another_task_that_would_be_served_first(store, clock):
    mine = submit(store, 1, ready("a", "b", "c"))
    claim(store, mine, "a")
    assert not rivals(store, store.get_task(mine)), "a task is no rival of itself"
    clock.forward(1)
    other = submit(store, 2, (*ready("a", "b"), *ready("ask", pool="system")))
    assert rivals(store, store.get_task(mine)), "it was never served"
    assert not rivals(store, store.get_task(other))
    claim(store, other, "a")
    assert not rivals(store, store.get_task(mine)), "it was served later"
    assert rivals(store, store.get_task(other))
    assert not rivals(store, store.get_task(mine), "gpu")
    change(store, other, priority=1)
    assert rivals(store, store.get_task(mine)), "a higher priority goes first"
    assert not rivals(store, store.get_task(other)), "a lower one never does"
    act(store, other, TaskPaused())
    assert not rivals(store, store.get_task(mine))


def test_a_rival_for_the_system_pool(store, clock):
    mine = submit(store, 1, ready("a"))
    claim(store, mine, "a")
    other = submit(store, 2, ready("ask", pool="system"))
    assert rivals(store, store.get_task(mine), "system")
    assert not rivals(store, store.get_task(mine), "default")
    claim(store, other, "ask")
    assert not rivals(store, store.get_task(mine), "system")


def test_steps_whose_end_is_not_told_are_unsettled(store):
    id_ = submit(store, 1, (*ready("a", "b"), blocked("c")))
    act(store, id_, StepClaimed("a", 1, "w"), StepCompleted("a", 1))
    assert store.unsettled(5) == [Ref(id_, "a")]
    settle(store, id_, "a")
    assert store.unsettled(5) == []
    act(store, id_, StepClaimed("b", 1, "w"), StepCompleted("b", 1), CancelRequested("ann"))
    assert store.unsettled(5) == [], "a closing task is swept, not settled"


def test_deadlines_that_have_passed(store, clock):
    id_ = submit(store, 1, ready("a", "b", "c"))
    for key, due_at in (("a", clock.at + 20), ("b", clock.at + 10), ("c", 0)):
        claim(store, id_, key)
        act(store, id_, StepParked(key, 1, WaitingFor.TIMER, {}, due_at=due_at))
    assert store.overdue(5) == []
    assert store.next_due_at() == clock.at + 10
    clock.forward(20)
    assert store.overdue(5) == [Ref(id_, "b"), Ref(id_, "a")]
    assert store.overdue(1) == [Ref(id_, "b")]
    assert store.next_due_at() is None
    act(store, id_, TaskPaused())
    assert len(store.overdue(5)) == 2, "deadlines go on while a task is paused"
    act(store, id_, CancelRequested("ann"))
    assert store.overdue(5) == []


def test_merges_that_are_due(store, clock):
    id_ = submit(store, 1, ready("a", "b"))
    for key, due_at in (("a", 0), ("b", clock.at + 10)):
        claim(store, id_, key)
        act(store, id_, StepDelivered(key, 1, "c0ffee", due_at=due_at))
    assert store.mergeable(5) == [Ref(id_, "a")]
    assert store.next_due_at() == clock.at + 10
    clock.forward(10)
    assert store.mergeable(5) == [Ref(id_, "a"), Ref(id_, "b")]
    act(store, id_, CancelRequested("ann"))
    assert store.mergeable(5) == []


def test_leases_that_have_ended(store, clock):
    id_ = submit(store, 1, ready("a", "b"))
    claim(store, id_, "a", lease_ms=10)
    claim(store, id_, "b", lease_ms=20)
    assert (store.expired(5), store.next_due_at()) == ([], clock.at + 10)
    clock.forward(10)
    assert [(lease.task_id, lease.step, lease.attempt) for lease in store.expired(5)] == [(id_, "a", 1)]
    assert store.next_due_at() == clock.at + 10
    act(store, id_, CancelRequested("ann"))
    clock.forward(10)
    assert len(store.expired(5)) == 2, "a running step of a closing task ends with its lease"
    assert len(store.expired(1)) == 1


def test_closing_tasks_with_something_to_do(store):
    id_ = submit(store, 1, ready("a", "b"))
    claim(store, id_, "a")
    assert store.closing(5) == []
    act(store, id_, CancelRequested("ann"))
    assert store.closing(5) == [id_], "b is to be cancelled"
    with store.task(id_) as tx:
        b = tx.step("b")._replace(state=StepState.CANCELLED, ended_at=tx.now)
        counts = tx.task.counts._replace(open=1, ready=0)
        tx.save(Change(tx.task._replace(counts=counts), {"b": b}))
    assert store.closing(5) == [id_], "b is untold, a is to be stopped"
    settled = store.get_step(Ref(id_, "b"))
    with store.task(id_) as tx:
        tx.save(Change(tx.task, {"b": settled._replace(told=Verdict.VETO)}, stops=(("a", "cancel"),)))
    assert store.closing(5) == [], "all that is left is to wait for a"
    change(store, id_, counts=store.get_task(id_).counts._replace(open=0))
    assert store.closing(5) == [id_], "it can end"


def test_a_step_in_backoff_is_what_falls_due_next(store, clock):
    id_ = submit(store, 1, ready("a", "b"))
    assert store.next_due_at() is None, "what is due already does not fall due"
    claim(store, id_, "a", lease_ms=500)
    act(store, id_, StepRetried("a", 1, "again", due_at=clock.at + 70))
    assert store.next_due_at() == clock.at + 70
    clock.forward(70)
    assert store.next_due_at() is None


def test_waiting_holds_no_lease(store, clock):
    id_ = submit(store, 1, ready("a"))
    claim(store, id_, "a")
    act(store, id_, StepParked("a", 1, WaitingFor.USER, {"ask": "ok?"}))
    assert (store.leases(id_, 5), store.next_due_at()) == ([], None)
