"""What a task offers to each pool, kept beside its rows: always a recount of them."""

from typing import Any

import pytest

from longtask.core.change import OfferRow
from longtask.core.events import (
    BudgetExceeded,
    BudgetRaised,
    CancelRequested,
    Fact,
    StepCancelled,
    StepClaimed,
    StepCompleted,
    StepRetried,
    StepsAdded,
    StepUnblocked,
    TaskPaused,
    TaskResumed,
)
from longtask.core.machine import fold
from longtask.core.model import Kind, StepState
from longtask.store.contract import Ref, Store
from tests.conformance.play import act, blocked, claim, complete, ready, submit


def offered(store: Store, id_: str) -> dict[str, int | None]:
    return {row.pool: row.offer_at for row in store.offers(id_, 9)}


def recount(store: Store, id_: str) -> dict[str, int]:
    task = store.get_task(id_)
    out: dict[str, int] = {}
    for step in store.steps(id_, "", 500):
        if step.state is StepState.READY and task.admits >= (1 if step.pool == "system" else 2):
            out[step.pool] = min(step.due_at, out.get(step.pool, step.due_at))
    return out


def check(store: Store, id_: str) -> dict[str, int]:
    found = {pool: at for pool, at in offered(store, id_).items() if at is not None}
    assert found == recount(store, id_)
    task = store.get_task(id_)
    rows = [row for row in store.offers(id_, 9) if row.offer_at is not None]
    assert all((row.priority, row.served_at) == (task.priority, task.served_at) for row in rows)
    return found


def several(store: Store, **more: Any) -> str:
    return submit(store, 1, (*ready("a", "b"), *ready("g", pool="gpu"), *ready("s", pool="system")), **more)


def test_what_is_ready_is_offered_to_each_pool(store, clock):
    id_ = several(store, priority=3)
    assert store.offers(id_, 9) == [OfferRow(pool, 3, 0, clock.at) for pool in ("default", "gpu", "system")]


def test_the_earliest_due_step_counts(store, clock):
    id_ = submit(store, 1, ready("a", "b"))
    claim(store, id_, "a")
    later = clock.at + 5_000
    act(store, id_, StepRetried("a", 1, "no", due_at=later))
    assert check(store, id_) == {"default": clock.at}
    claim(store, id_, "b")
    assert check(store, id_) == {"default": later}
    assert store.claimable("default", 5) == []
    clock.forward(5_000)
    assert store.claimable("default", 5) == [Ref(id_, "a")]


def test_a_claim_moves_the_task_behind_the_others(store, clock):
    x, y = submit(store, 1, ready("a", "b")), submit(store, 2, ready("a", "b"))
    assert [ref.task_id for ref in store.claimable("default", 5)] == [x, y]
    clock.forward(1)
    claim(store, x, "a")
    check(store, x)
    assert [ref.task_id for ref in store.claimable("default", 5)] == [y, x]
    assert store.claimable("default", 5) == [Ref(y, "a"), Ref(x, "b")]


def test_who_serves_some_workspaces_finds_their_tasks_however_many_others_wait(store, clock):
    many = [submit(store, n, ready("a"), workspace_id=f"w{n}") for n in range(1, 10)]
    assert store.claimable("default", 2, ["w8", "w9", "none"]) == [Ref(many[7], "a"), Ref(many[8], "a")]
    assert store.claimable("default", 1, ["w9"]) == [Ref(many[8], "a")]
    assert store.claimable("gpu", 2, ["w9"]) == store.claimable("default", 2, []) == []
    with store.group():
        assert store.claimable("default", 9, ["w9"]) == [Ref(many[8], "a")]


def test_a_worker_finds_what_is_leased_to_it(store):
    x, y = submit(store, 1, ready("a", "b")), submit(store, 2, ready("a"))
    for id_, key, worker in ((x, "a", "w-1"), (x, "b", "w-2"), (y, "a", "w-1")):
        act(store, id_, StepClaimed(key, 1, worker))
    assert [(lease.task_id, lease.step) for lease in store.leases_of_worker("w-1", 9)] == [(x, "a"), (y, "a")]
    assert store.leases_of_worker("w-3", 9) == []


def test_a_system_step_moves_nobody(store, clock):
    id_ = several(store)
    clock.forward(1)
    claim(store, id_, "s")
    assert check(store, id_).keys() == {"default", "gpu"}
    assert store.get_task(id_).served_at == 0


@pytest.mark.parametrize("stop", [TaskPaused(), BudgetExceeded("active"), CancelRequested("ann")])
def test_a_task_that_admits_nothing_offers_nothing(store, stop):
    id_ = several(store)
    act(store, id_, stop)
    assert check(store, id_) == {}
    for pool in ("default", "gpu", "system"):
        assert store.claimable(pool, 5) == []


def test_what_admits_again_offers_again(store, clock):
    id_ = several(store)
    act(store, id_, TaskPaused())
    act(store, id_, TaskResumed())
    assert check(store, id_).keys() == {"default", "gpu", "system"}
    act(store, id_, BudgetExceeded("active"))
    act(store, id_, BudgetRaised("ann"))
    assert check(store, id_).keys() == {"default", "gpu", "system"}


def test_a_full_task_offers_its_system_steps_only(store):
    id_ = several(store, parallel=1)
    claim(store, id_, "a")
    assert check(store, id_).keys() == {"system"}
    assert store.claimable("default", 5) == [] and store.claimable("system", 5) == [Ref(id_, "s")]
    act(store, id_, StepCompleted("a", 1))
    assert check(store, id_).keys() == {"default", "gpu", "system"}


def test_a_task_that_is_still_being_submitted_offers_nothing(store):
    id_ = submit(store, 1, ready("a"), more=True)
    assert check(store, id_) == {}
    act(store, id_, StepsAdded(ready("b"), more=True))
    assert check(store, id_) == {}
    act(store, id_, StepsAdded(ready("c")))
    assert check(store, id_).keys() == {"default"}


def test_a_task_that_has_ended_has_no_rows(store):
    id_ = several(store)
    for key in ("a", "b", "g"):
        complete(store, id_, key)
    assert check(store, id_).keys() == {"system"}
    complete(store, id_, "s")
    assert store.get_task(id_).ended and store.offers(id_, 9) == []


def test_a_ready_step_that_is_cancelled_is_offered_no_more(store):
    id_ = submit(store, 1, (*ready("a"), blocked("z")))
    act(store, id_, StepCancelled("a", by="ann"))
    assert check(store, id_) == {}


def test_a_pool_s_search_finds_its_own_tasks_by_priority_then_by_service(store, clock):
    low, high = submit(store, 1, ready("a", "b")), submit(store, 2, ready("a", "b"), priority=1)
    gpu = submit(store, 3, ready("a", pool="gpu"), priority=9)
    assert store.claimable("default", 9) == [Ref(high, "a"), Ref(low, "a")]
    assert store.claimable("default", 1) == [Ref(high, "a")]
    assert store.claimable("gpu", 9) == [Ref(gpu, "a")]
    assert store.claimable("none", 9) == []


def test_a_rival_is_a_task_that_is_served_before(store, clock):
    x, y = submit(store, 1, ready("a", "b")), submit(store, 2, ready("a"))

    def rival(id_: str, served_at: int, pool: str = "default") -> bool:
        with store.task(id_) as tx:
            return tx.rival(pool, served_at)

    clock.forward(1)
    claim(store, x, "a")
    assert rival(x, clock.at) and not rival(x, 0)
    assert not rival(y, 0)
    assert not rival(x, clock.at, "gpu")
    act(store, y, TaskPaused())
    assert not rival(x, clock.at)
    urgent = submit(store, 3, ready("a"), priority=1)
    assert rival(x, 0)
    assert not rival(urgent, clock.at)


def test_one_block_may_move_several_pools(store):
    id_ = several(store)
    with store.task(id_) as tx:
        facts: list[Fact] = [StepClaimed("a", 1, "w"), StepClaimed("g", 1, "w"), StepsAdded(ready("n", pool="new"))]
        tx.save(fold(tx.task, tx.steps(["a", "g"]), facts, tx.now))
    assert check(store, id_).keys() == {"default", "system", "new"}


def test_a_chain_writes_no_offer(store, clock):
    """Each step is claimed by the report of the one before: nothing is ever ready between two blocks."""
    id_ = submit(store, 1, (*ready("a"), blocked("b"), blocked("gate.1", kind=Kind.GATE)))
    claim(store, id_, "a")
    before = store.offers(id_, 9)
    assert [row.offer_at for row in before] == [None]
    clock.forward(1)
    act(store, id_, StepCompleted("a", 1), StepUnblocked("b", clock.at), StepClaimed("b", 1, "w-1"))
    assert store.get_task(id_).served_at == clock.at
    assert store.offers(id_, 9) == before
