"""How much there is, and what an attempt has called."""

from __future__ import annotations

from longtask.core.model import WaitingFor
from longtask.store.contract import JournalRow, Ref
from longtask.store.gauges import OpenCounts
from tests.conformance.play import blocked, claim, ready, submit


def test_of_nothing_there_is_nothing(store):
    assert store.open_counts(10) == OpenCounts()
    assert store.queues(10) == []
    assert store.calls("t", "s", 1, 10) == []


def test_counts_are_sums_over_open_tasks(store):
    for number in (1, 2, 3):
        submit(store, number, (*ready("a", "b"), blocked("c", 2)))
    claim(store, store.tasks(open_only=True, workspace_id=None, before=0, limit=1)[0].id, "a")
    counts = store.open_counts(10)
    assert (counts.tasks, counts.open, counts.ready, counts.running, counts.blocked) == (3, 9, 5, 1, 3)
    assert set(counts.waiting) == {str(word) for word in WaitingFor if word}
    assert store.open_counts(2).tasks == 2  # the oldest ones


def test_a_queue_is_as_old_as_its_oldest_ready_step(store, clock):
    submit(store, 1, ready("a"))
    began_at = clock.at
    clock.forward(5_000)
    submit(store, 2, ready("a"))
    assert [(queue.pool, queue.tasks, queue.due_at) for queue in store.queues(10)] == [("default", 2, began_at)]
    assert store.queues(1)[0].tasks == 1


def test_calls_are_those_of_the_attempt_without_their_bodies(store):
    id_ = submit(store, 1, ready("a"))
    claim(store, id_, "a")
    ref = Ref(id_, "a")
    for n in (1, 2):
        assert store.journal_started(ref, 1, 1, JournalRow(n, "turn", "m", f"f{n}", 1, started_at=7))
    done = JournalRow(1, "turn", "m", "f1", 1, {"text": "hm"}, 5, 6, None, done_at=9)
    assert store.journal_done(ref, 1, 1, done)
    first, second = store.calls(id_, "a", 1, 10)
    assert first == (1, 1, "turn", "m", 5, 6, None, 7, 9, None)
    assert (second.n, second.done_at) == (2, 0)
    assert store.calls(id_, "a", 1, 1, bodies=True)[0].body == {"text": "hm"}
    assert store.calls(id_, "a", 2, 10) == []
