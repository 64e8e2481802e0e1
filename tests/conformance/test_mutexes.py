"""Mutexes by the contract alone: one holder, places in the queue, calls; what a stale look leads to."""

import threading
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from longtask.core.change import MutexRow, TicketRow
from longtask.core.errors import Refused, StoreBusy
from longtask.core.events import (
    MutexAwaited,
    StepCancelled,
    StepClaimed,
    StepCompleted,
    StepLost,
    StepReleased,
    StepWoken,
    TaskPaused,
)
from longtask.core.machine import fold
from longtask.core.model import Kind, MutexView, StepSpec, StepState
from longtask.core.policy import CALL_MS
from longtask.store.contract import Ref, Store
from tests.conformance.play import act, ready, submit


def three(store: Store, *keys: str, **more: Any) -> list[str]:
    """Tasks 1, 2, 3 with these ready steps."""
    return [
        submit(store, n, ready(*(keys or ("a",)), **more), specs=(StepSpec(Kind.RUN, mutex="m"),)) for n in (1, 2, 3)
    ]


def take(store: Store, id_: str, key: str = "a", name: str = "m", worker: str = "w-1") -> None:
    attempt = store.get_step(Ref(id_, key)).attempt + 1
    act(store, id_, StepClaimed(key, attempt, worker, mutex=name))


def wait(store: Store, id_: str, *keys: str, name: str = "m") -> None:
    act(store, id_, *(MutexAwaited(key, name) for key in keys or ("a",)))


def call(store: Store, id_: str, key: str = "a") -> None:
    act(store, id_, StepWoken(key, {"mutex": "m"}))


def held(store: Store, id_: str) -> list[str]:
    return [row.step for row in store.mutexes(id_, 5)]


def seen(store: Store, id_: str, key: str = "a", name: str = "m") -> MutexView:
    with store.task(id_) as tx:
        return tx.mutex(name, key)


def test_a_claim_takes_the_mutex_and_the_end_of_the_attempt_frees_it(store, clock):
    x, y, _ = three(store)
    take(store, x)
    assert store.mutex("m") == MutexRow("m", x, "a", 1, clock.at)
    assert store.mutexes(x, 5) == [MutexRow("m", x, "a", 1, clock.at)] and store.mutexes(y, 5) == []
    assert seen(store, y) == MutexView((x, "a"))
    act(store, x, StepCompleted("a", 1))
    assert store.mutex("m") is None
    assert seen(store, y) == MutexView()


@pytest.mark.parametrize(
    "fact", [StepCompleted("a", 1), StepLost("a", 1, "gone"), StepReleased("a", 1, "drain"), StepCancelled("a", by="x")]
)
def test_no_end_of_an_attempt_leaves_its_mutex(store, fact):
    x, y, _ = three(store)
    take(store, x)
    act(store, x, fact)
    assert store.mutex("m") is None
    take(store, y)
    assert held(store, y) == ["a"]


def test_a_claim_that_comes_too_late_is_refused_and_writes_nothing(store):
    x, y, _ = three(store)
    take(store, x)
    with pytest.raises(Refused, match="mutex 'm' was taken a moment ago"):
        take(store, y)
    assert store.get_step(Ref(y, "a")).state is StepState.READY
    assert (store.get_task(y).seq, store.leases(y, 5), held(store, x)) == (1, [], ["a"])


def test_a_group_goes_on_after_a_claim_that_came_too_late(store):
    x, y, z = three(store)
    with store.group():
        take(store, x)
        with pytest.raises(Refused):
            take(store, y)
        act(store, z, TaskPaused())
    assert (held(store, x), held(store, y)) == (["a"], [])
    assert store.get_task(z).seq == 2 and store.get_task(y).seq == 1


def test_a_block_that_is_left_takes_no_mutex(store):
    x, y, _ = three(store)
    with store.group():
        with pytest.raises(Refused, match="not now"), store.task(x) as tx:
            row = tx.step("a")
            tx.save(fold(tx.task, {"a": row}, [StepClaimed("a", 1, "w-1", mutex="m")], tx.now))
            raise Refused("not now")
        take(store, y)
    assert (held(store, x), held(store, y)) == ([], ["a"])


def test_blocks_of_a_group_see_what_was_freed_and_taken_before(store):
    x, y, z = three(store)
    take(store, x)
    with store.group():
        act(store, x, StepCompleted("a", 1))
        assert seen(store, y) == MutexView()
        take(store, y)
        assert seen(store, z) == MutexView((y, "a"))
    assert held(store, y) == ["a"]


def test_a_report_hands_the_mutex_to_the_next_step_of_its_task(store, clock):
    x, *_ = three(store, "a", "b")
    take(store, x)
    clock.forward(7)
    act(store, x, StepCompleted("a", 1), StepClaimed("b", 1, "w-2", mutex="m"))
    assert store.mutex("m") == MutexRow("m", x, "b", 1, clock.at)


def test_the_same_step_may_take_it_again_in_one_block(store):
    x, *_ = three(store)
    take(store, x)
    act(store, x, StepReleased("a", 1, "drain"), StepClaimed("a", 2, "w-2", mutex="m"))
    assert [(row.step, row.attempt) for row in store.mutexes(x, 5)] == [("a", 2)]


def test_mutexes_of_other_names_are_apart(store):
    x, y, _ = three(store)
    take(store, x, name="m")
    take(store, y, name="M")
    assert [row.name for id_ in (x, y) for row in store.mutexes(id_, 5)] == ["m", "M"]


def test_a_queue_is_first_come_first_served(store, clock):
    x, y, z = three(store, "a", "b")
    take(store, x)
    wait(store, y, "b", "a")
    clock.forward(5)
    wait(store, z)
    rows = store.queue("m", 9)
    assert [(row.task_id, row.step) for row in rows] == [(y, "b"), (y, "a"), (z, "a")]
    assert [row.n for row in rows] == sorted({row.n for row in rows})
    assert rows[2] == TicketRow(rows[2].n, "m", z, "a", clock.at, 0)
    assert store.queue("m", 1) == rows[:1]
    assert store.tickets(y, 9) == rows[:2]
    assert store.get_task(y).counts.wait_mutex == 2


def test_a_step_knows_its_place(store):
    x, y, z = three(store)
    take(store, x)
    for id_ in (y, z):
        wait(store, id_)
    act(store, x, StepCompleted("a", 1))
    assert seen(store, y) == MutexView()
    assert seen(store, z) == MutexView(queued=True)
    assert seen(store, x, "b") == MutexView(queued=True), "who has no place comes after all"
    call(store, z)
    assert seen(store, z) == MutexView(called=True, queued=True) and seen(store, z).free


def test_a_place_is_kept_until_the_step_is_claimed_or_ends(store, clock):
    x, y, z = three(store)
    take(store, x)
    for id_ in (y, z):
        wait(store, id_)
    before = store.queue("m", 9)
    call(store, y)
    assert store.queue("m", 9) == [replace(before[0], called_at=clock.at), before[1]]
    wait(store, y)
    assert store.queue("m", 9) == before, "it came in vain and keeps its place"
    act(store, z, StepCancelled("a", by="ann"))
    assert [row.task_id for row in store.queue("m", 9)] == [y]
    act(store, x, StepCompleted("a", 1))
    call(store, y)
    take(store, y)
    assert store.queue("m", 9) == []


def test_the_first_whose_task_admits_is_called(store, clock):
    x, y, z = three(store)
    take(store, x)
    for id_ in (y, z):
        wait(store, id_)
    assert store.callable(9) == [], "it is held"
    act(store, x, StepCompleted("a", 1))
    assert store.callable(9) == [Ref(y, "a")]
    act(store, y, TaskPaused())
    assert store.callable(9) == [Ref(z, "a")]
    act(store, z, TaskPaused())
    assert store.callable(9) == []


def test_one_is_called_at_a_time_and_the_next_when_it_does_not_come(store, clock):
    x, y, z = three(store)
    take(store, x)
    for id_ in (y, z):
        wait(store, id_)
    act(store, x, StepCompleted("a", 1))
    call(store, y)
    called_at = clock.at
    assert store.callable(9) == []
    assert store.next_due_at() == called_at + CALL_MS
    clock.forward(CALL_MS - 1)
    assert store.callable(9) == []
    clock.forward(1)
    assert store.callable(9) == [Ref(z, "a")]


def test_of_each_free_mutex_the_first_is_called(store):
    x, y, z = three(store, "a", "b", "c")
    take(store, x)
    wait(store, y, "a", "b")
    wait(store, z, "a")
    wait(store, z, "b", name="n")
    wait(store, y, "c", name="n")
    wait(store, z, "c", name="o")
    assert store.callable(9) == [Ref(z, "b"), Ref(z, "c")]
    act(store, x, StepCompleted("a", 1))
    assert store.callable(9) == [Ref(y, "a"), Ref(z, "b"), Ref(z, "c")]
    assert store.callable(2) == [Ref(y, "a"), Ref(z, "b")]


def test_a_task_whose_slots_are_taken_is_not_called(store):
    x = submit(store, 1, ready("a", "b"), parallel=1)
    y = submit(store, 2, ready("a"))
    wait(store, x)
    wait(store, y)
    assert store.callable(9) == [Ref(x, "a")]
    act(store, x, StepClaimed("b", 1, "w-1"))
    assert store.callable(9) == [Ref(y, "a")]


def test_threads_that_race_for_it_never_hold_it_together(store):
    """Each looks, claims, and gives back; whoever looked at a stale row is refused."""
    ids = [submit(store, n, ready("a"), specs=(StepSpec(Kind.RUN, mutex="m"),)) for n in range(1, 5)]
    holders, together, claims = set[str](), list[set[str]](), Counter[str]()
    guard = threading.Lock()

    def work(id_: str) -> None:
        end = time.monotonic() + 60
        while claims[id_] < 8 and time.monotonic() < end:
            try:
                with store.task(id_, "a") as tx:
                    row = tx.step("a")
                    if not tx.mutex("m", "a").free:
                        continue
                    tx.save(fold(tx.task, {"a": row}, [StepClaimed("a", row.attempt + 1, "w", mutex="m")], tx.now))
            except (Refused, StoreBusy):
                continue
            with guard:
                holders.add(id_)
                together.append(set(holders))
            claims[id_] += 1
            with guard:
                holders.remove(id_)
            act(store, id_, StepReleased("a", row.attempt + 1, "next"))

    threads = [threading.Thread(target=work, args=(id_,)) for id_ in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert claims == Counter(dict.fromkeys(ids, 8))
    assert max(map(len, together)) == 1
    assert store.mutex("m") is None
