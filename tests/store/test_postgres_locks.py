"""Who waits for whom: late writes of an attempt, blocks of groups, mutexes."""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from longtask.core.errors import Refused, StoreError, StoreUnavailable, TaskLocked
from longtask.core.events import Fact, StepClaimed, StepReleased, TaskPaused, TaskSubmitted
from longtask.core.machine import fold
from longtask.core.model import Kind, StepSpec, TaskOptions
from longtask.store.contract import Checkpoint, Chunk, JournalRow, Ref
from longtask.store.postgres.session import Session
from longtask.store.postgres.store import PostgresStore
from longtask.store.queries import load
from tests.conformance.play import act, claim, ready, submit, task_id
from tests.store.aside import Aside, until_waiting

ROW = JournalRow(1, "tool", "x", "f1", 1, {"ok": 1})
LATE: dict[str, Callable[[PostgresStore, Ref], Any]] = {
    "beat": lambda s, ref: s.beat(ref, 1, 2_000_000_000_000),
    "tell_progress": lambda s, ref: s.tell_progress(ref, 1, 3, 9, "so far"),
    "journal_started": lambda s, ref: s.journal_started(ref, 1, 1, ROW),
    "journal_done": lambda s, ref: s.journal_done(ref, 1, 1, ROW),
    "put_checkpoint": lambda s, ref: s.put_checkpoint(ref, Checkpoint(1, 1, "tree", 1)),
    "put_chunks": lambda s, ref: s.put_output(ref, 1, [Chunk(1, "out", b"late")]),
    "drop_chunks": lambda s, ref: s.drop_output(ref, 1, range(1, 9)),
}


def traces(store: PostgresStore, ref: Ref) -> list[Any]:
    """What the writes of an attempt leave."""
    return [store.journal(ref, 1), store.checkpoint(ref, 1), [c.body for c in store.output(ref, 1, 0, 9)]]


@pytest.mark.parametrize("name", LATE)
def test_a_late_write_of_an_attempt_waits_for_who_closes_its_lease_and_is_refused(store, line, name):
    ref = claim(store, submit(store, 1, ready("a")), "a")
    assert store.put_output(ref, 1, [Chunk(3, "out", b"early")])
    before = traces(store, ref)
    with store.group():
        act(store, ref.task_id, StepReleased("a", 1, "drain"))
        with store.task(ref.task_id):  # a look, with which the writes of the block before travel
            late = Aside(lambda: LATE[name](store, ref))
            assert until_waiting(line, beside=late), "it went by a lease that is being closed"
    assert not late.result()
    assert traces(store, ref) == before


@pytest.mark.parametrize("name", LATE)
def test_a_late_write_is_accepted_when_the_lease_stays_after_all(store, line, name):
    ref = claim(store, submit(store, 1, ready("a")), "a")

    class Left(Exception):
        pass

    with pytest.raises(Left), store.group():
        act(store, ref.task_id, StepReleased("a", 1, "drain"))
        with store.task(ref.task_id):
            late = Aside(lambda: LATE[name](store, ref))
            assert until_waiting(line, beside=late)
        raise Left
    assert late.result()


def test_every_write_of_an_attempt_is_fenced_by_its_lease():
    """Whatever a later statement is called: one that looks a lease up and writes elsewhere holds that row."""
    for name, sql in load("postgres").items():
        if " lease l" in sql and ("insert into" in sql or "delete from" in sql):
            assert "for share of l" in sql, name
    assert {name for name, sql in load("postgres").items() if "for share of l" in sql} == set(LATE) - {"beat"}


def test_who_closes_a_lease_waits_for_a_write_that_is_under_way(store, line):
    ref = claim(store, submit(store, 1, ready("a")), "a")
    line.execute("begin")
    line.execute("select 1 from lease for share")
    closing = Aside(lambda: act(store, ref.task_id, StepReleased("a", 1, "drain")))
    assert until_waiting(line, beside=closing)
    line.execute("commit")
    closing.result()
    assert store.leases(ref.task_id, 9) == []


# --- groups


def test_a_later_block_of_a_group_waits_for_nobody_and_the_rest_is_committed(store, line):
    ids = [submit(store, n, ready("a")) for n in (1, 2, 3)]
    with store.task(ids[1]) as held:

        def group() -> list[str]:
            locked = []
            with store.group():
                for id_ in ids:
                    try:
                        act(store, id_, TaskPaused())
                    except TaskLocked as error:
                        locked.append(str(error))
            return locked

        locked = Aside(group).result()
        assert locked == [f"task {ids[1]!r}: another process holds it just now; try again"]
        assert [store.get_task(id_).seq for id_ in (ids[0], ids[2])] == [2, 2], "committed"
        held.save(fold(held.task, {}, [TaskPaused()], held.now))
    assert [store.get_task(id_).seq for id_ in ids] == [2, 2, 2]


def test_a_group_that_reads_ahead_waits_for_its_first_task_and_for_no_other(store, line):
    ids = [submit(store, n, ready("a")) for n in (1, 2, 3)]

    def group() -> list[tuple[str, int]]:
        got: list[tuple[str, int]] = []
        with store.group():
            store.ahead([Ref(id_, "a") for id_ in ids])
            for id_ in ids:
                with suppress(TaskLocked), store.task(id_, "a") as tx:
                    got.append((id_, tx.task.seq))
        return got

    with store.task(ids[1]):
        assert Aside(group).result() == [(ids[0], 1), (ids[2], 1)]
    with store.task(ids[0]) as tx:
        second = Aside(group)
        assert until_waiting(line, beside=second)
        tx.save(fold(tx.task, {}, [TaskPaused()], tx.now))
    assert second.result() == [(ids[0], 2), (ids[1], 1), (ids[2], 1)]


def test_who_searches_within_a_group_passes_over_what_another_holds(store, line):
    ids = [submit(store, n, ready("a")) for n in (1, 2, 3)]

    def searched(limit: int) -> list[str]:
        return [ref.task_id for ref in store.claimable("default", limit)]

    def group() -> list[str]:
        with store.group():
            return searched(9)

    with store.group():
        assert searched(2) == ids[:2]
        assert Aside(group).result() == ids[2:]
        assert Aside(lambda: searched(9)).result() == ids, "a peek sees all"
    assert searched(9) == ids


def test_a_group_that_reads_ahead_makes_two_journeys(url):
    """One to lock and read all, one to write all and commit; then others are told, apart."""
    store = PostgresStore(url)
    ids = [submit(store, n, ready("a")) for n in range(1, 30)]
    sent: list[str] = []

    def counted(name: str, send: Callable[..., Any]) -> Callable[..., Any]:
        def count(session: Session, *parts: bytes) -> Any:
            sent.append(name)
            return send(session, *parts)

        return count

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Session, "last", counted("last", Session.last))
        patched.setattr(Session, "send", counted("send", Session.send))
        with store.group():
            store.ahead([Ref(id_, "a") for id_ in ids])
            for id_ in ids:
                with store.task(id_, "a") as tx:
                    tx.save(fold(tx.task, {}, [TaskPaused()], tx.now))
    store.close()
    assert sent[:2] == ["send", "last"] and set(sent[2:]) <= {"last"}


def test_the_first_block_of_a_group_waits_and_reads_what_came_before(store, line):
    id_ = submit(store, 1, ready("a"))

    def group() -> int:
        with store.group(), store.task(id_) as tx:
            return tx.task.seq

    with store.task(id_) as tx:
        second = Aside(group)
        assert until_waiting(line, beside=second)
        tx.save(fold(tx.task, {}, [TaskPaused()], tx.now))
    assert second.result() == 2


def test_groups_over_the_same_tasks_in_opposite_order_never_stand_in_a_circle(store):
    ids = [submit(store, n, ready("a")) for n in range(1, 7)]
    barrier = threading.Barrier(3)
    rounds = 15

    def work(order: list[str]) -> int:
        done = 0
        for _ in range(rounds):
            barrier.wait(30)
            with store.group():
                for id_ in order:
                    try:
                        with store.task(id_, "a") as tx:
                            n = tx.step("a").attempt + 1
                            facts: list[Fact] = [StepClaimed("a", n, "w"), StepReleased("a", n, "drain")]
                            tx.save(fold(tx.task, {"a": tx.step("a")}, facts, tx.now))
                        done += 1
                    except TaskLocked:
                        continue
        return done

    others = [Aside(partial(work, order)) for order in (ids, ids[::-1], ids[3:] + ids[:3])]
    done = sum(other.result() for other in others)  # a circle would raise StoreBusy
    assert done >= 3 * rounds, "each group's first block goes through"
    assert sum(store.get_step(Ref(id_, "a")).attempt for id_ in ids) == done
    assert [store.get_task(id_).seq for id_ in ids] == [1 + 2 * store.get_step(Ref(id_, "a")).attempt for id_ in ids], (
        "no gap, nothing lost"
    )


def test_a_block_that_fails_on_the_server_dooms_its_group_though_the_error_is_swallowed(store, line):
    """The server has thrown the transaction away; nobody may take its commit for one."""
    first, second = submit(store, 1, ready("a")), submit(store, 2, ready("a"))
    with pytest.raises(StoreError, match="out of range"), store.group():
        act(store, first, TaskPaused())
        try:
            with store.task(second) as tx:
                tx.spec(2**70)
        except StoreError:
            pass
    assert store.get_task(first).seq == 1
    act(store, first, TaskPaused())


def test_a_block_that_swallows_an_error_of_the_server_is_not_taken_for_committed(store):
    id_ = submit(store, 1, ready("a"))
    unheeded = pytest.raises(StoreError, match="rolled back by an error that was not heeded")
    with unheeded, store.task(id_) as tx, suppress(StoreError):
        tx.spec(2**70)
    assert store.get_task(id_).seq == 1


def test_two_tasks_with_one_key_in_one_group_are_refused_as_a_whole(store, line):
    """The index decides, also between two that are under way at once."""
    other, id_ = submit(store, 1, ready("a")), task_id(2)
    fact = TaskSubmitted(id_, "play", TaskOptions(), steps=ready("a"), specs=(StepSpec(Kind.RUN),), idempotency_key="k")
    with pytest.raises(Refused, match="idempotency key 'k' belongs to task"), store.group():
        act(store, other, TaskPaused())
        with store.create(id_) as tx:
            tx.save(fold(None, {}, [fact], tx.now))
            Aside(lambda: submit(store, 3, ready("a"), idempotency_key="k")).result()
    assert store.get_task(other).seq == 1
    assert store.task_by_key("k").id == task_id(3)


# --- mutexes


def take(store: PostgresStore, id_: str, name: str = "m") -> None:
    act(store, id_, StepClaimed("a", store.get_step(Ref(id_, "a")).attempt + 1, "w", mutex=name))


def test_taking_a_mutex_never_waits_for_one_who_is_taking_it(store, line):
    one, two = submit(store, 1, ready("a")), submit(store, 2, ready("a"))
    with store.group():
        take(store, one)
        with store.task(one):
            other = Aside(lambda: take(store, two))
            with pytest.raises(Refused, match="mutex 'm' was taken a moment ago"):
                other.result()  # while the other transaction is open
    assert store.mutex("m").task_id == one
    assert store.get_step(Ref(two, "a")).attempt == 0


def test_taking_a_mutex_never_waits_for_one_who_is_giving_it_back(store, line):
    one, two = submit(store, 1, ready("a")), submit(store, 2, ready("a"))
    take(store, one)
    with store.group():
        act(store, one, StepReleased("a", 1, "drain"))
        with store.task(one):
            other = Aside(lambda: take(store, two))
            with pytest.raises(Refused, match="taken a moment ago"):
                other.result()
    assert store.mutex("m") is None
    take(store, two)
    assert store.mutex("m").task_id == two


def test_a_taker_that_is_rolled_back_leaves_the_mutex_to_others(store):
    one, two = submit(store, 1, ready("a")), submit(store, 2, ready("a"))
    with pytest.raises(StoreUnavailable), store.group():
        take(store, one)
        raise StoreUnavailable("as if")
    take(store, two)
    assert store.mutex("m").task_id == two


def test_a_refused_taker_in_a_group_leaves_the_group_as_it_is(store):
    ids = [submit(store, n, ready("a")) for n in (1, 2, 3)]
    take(store, ids[0])
    with store.group():
        act(store, ids[2], TaskPaused())
        with pytest.raises(Refused):
            take(store, ids[1])
    assert store.get_task(ids[2]).seq == 2
