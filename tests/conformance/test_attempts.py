"""What a running attempt writes outside the task's lock: fenced by its lease, in the same statement."""

import pytest

from longtask.core.change import Change
from longtask.core.errors import Refused
from longtask.core.events import StepCompleted, StepLost
from longtask.store.contract import Beat, Checkpoint, Chunk, JournalRow, Ref, Store
from tests.conformance.play import act, claim, ready, submit


@pytest.fixture
def ref(store: Store) -> Ref:
    return claim(store, submit(store, 1, ready("a", "b")), "a", lease_ms=100)


def take_over(store: Store, ref: Ref) -> None:
    """The attempt is lost and the next one runs."""
    act(store, ref.task_id, StepLost(ref.step, 1, "lease ended"))
    claim(store, ref.task_id, ref.step)


def test_a_beat_prolongs_the_lease(store, ref, clock):
    assert store.beat(ref, 1, clock.at + 900) == Beat(None)
    assert store.leases(ref.task_id, 5)[0].due_at == clock.at + 900


def test_a_beat_never_goes_beyond_the_timeout(store, clock):
    ref = claim(store, submit(store, 1, ready("a")), "a", timeout_at=clock.at + 300)
    assert store.beat(ref, 1, clock.at + 200) == Beat(None)
    assert store.leases(ref.task_id, 5)[0].due_at == clock.at + 200
    assert store.beat(ref, 1, clock.at + 900) == Beat(None)
    assert store.leases(ref.task_id, 5)[0].due_at == clock.at + 300


def test_an_owner_revives_a_lease_that_nobody_took(store, ref, clock):
    clock.forward(1_000)
    assert store.expired(5) != []
    assert store.beat(ref, 1, clock.at + 100) == Beat(None)
    assert store.expired(5) == []


def test_a_beat_carries_the_request_to_stop(store, ref, clock):
    with store.task(ref.task_id) as tx:
        tx.save(Change(tx.task, {}, stops=(("a", "pause"), ("a", "cancel"))))
    assert store.beat(ref, 1, clock.at + 900) == Beat("cancel")


def test_a_lost_attempt_can_write_nothing(store, ref, clock):
    take_over(store, ref)
    row = JournalRow(1, "turn", "m", "f", 1)
    assert store.beat(ref, 1, clock.at + 900) is None
    assert store.tell_progress(ref, 1, 1, 2, "") is False
    assert store.journal_started(ref, 1, 1, row) is False
    assert store.journal_done(ref, 1, 1, row) is False
    assert store.put_checkpoint(ref, Checkpoint(1, 1, "tree", 1)) is False
    assert store.put_output(ref, 1, [Chunk(1, "out", b"x")]) is False
    assert store.put_output(ref, 1, [Chunk(1, "out", b"x"), Chunk(2, "out", b"y")]) is False
    assert store.drop_output(ref, 1, range(1, 2)) is False
    assert (store.journal(ref, 1), store.checkpoint(ref, 1), store.progress(ref.task_id, 5)) == ([], None, [])
    assert store.output(ref, 1, 0, 5) == []


def test_an_attempt_that_reported_can_write_nothing(store, ref, clock):
    act(store, ref.task_id, StepCompleted("a", 1))
    assert store.beat(ref, 1, clock.at + 900) is None
    assert store.journal_started(ref, 1, 1, JournalRow(1, "turn", "m", "f", 1)) is False


def test_nobody_writes_for_what_is_not_there(store, ref, clock):
    assert store.beat(Ref("nowhere", "a"), 1, clock.at) is None
    assert store.beat(Ref(ref.task_id, "b"), 0, clock.at) is None
    assert store.put_output(Ref("nowhere", "a"), 1, [Chunk(1, "out", b"x")]) is False


def test_a_call_is_begun_then_done(store, ref, clock):
    began_at = clock.at
    assert store.journal_started(ref, 1, 1, JournalRow(1, "tool", "shell", "f1", 1))
    assert store.journal(ref, 1) == [JournalRow(1, "tool", "shell", "f1", 1, started_at=began_at)]
    clock.forward(7)
    done = JournalRow(1, "tool", "shell", "f1", 1, {"exit": 0}, 3, 4, None, began_at)
    assert store.journal_done(ref, 1, 1, done)
    [row] = store.journal(ref, 1)
    assert (row.body, row.tokens_in, row.tokens_out, row.micros) == ({"exit": 0}, 3, 4, None)
    assert (row.started_at, row.done_at) == (began_at, clock.at)


def test_what_is_done_stands(store, ref):
    row = JournalRow(1, "turn", "m", "f1", 1, body="first")
    assert store.journal_done(ref, 1, 1, row), "a turn may be recorded when it has ended only"
    assert store.journal_done(ref, 1, 1, JournalRow(1, "turn", "m", "f1", 1, body="second"))
    assert store.journal_started(ref, 1, 1, row)
    assert [(x.body, x.attempt) for x in store.journal(ref, 1)] == [("first", 1)]


def test_the_next_attempt_begins_an_unfinished_call_again(store, ref):
    assert store.journal_started(ref, 1, 1, JournalRow(1, "tool", "shell", "f1", 1))
    take_over(store, ref)
    assert store.journal_started(ref, 2, 1, JournalRow(1, "tool", "shell", "f1", 2))
    assert store.journal_done(ref, 1, 1, JournalRow(1, "tool", "shell", "f1", 1, body="late")) is False
    assert [(x.body, x.attempt) for x in store.journal(ref, 1)] == [(None, 2)]


def test_another_request_in_the_place_of_a_recorded_one_is_refused(store, ref):
    assert store.journal_started(ref, 1, 1, JournalRow(1, "turn", "m", "f1", 1))
    for write in (store.journal_started, store.journal_done):
        with pytest.raises(Refused, match=r"call 1 of run 1 is on record as another request \('f1', now 'f2'\)"):
            write(ref, 1, 1, JournalRow(1, "turn", "m", "f2", 1))
    assert store.journal_started(ref, 1, 2, JournalRow(1, "turn", "m", "f2", 1)), "another run may"


def test_what_a_step_has_spent_is_that_of_all_runs_and_its_requests_those_of_one(store, ref):
    assert store.spent(ref, 1) == {"tokens": 0, "micros": 0, "requests": 0}
    for run, n, kind, micros in ((1, 1, "turn", 5), (1, 2, "tool", None), (2, 1, "turn", 7), (2, 2, "turn", None)):
        assert store.journal_done(ref, 1, run, JournalRow(n, kind, "m", "f", 1, {}, 10, 2, micros))
    assert store.spent(ref, 2) == {"tokens": 48, "micros": 12, "requests": 2}
    with store.task(ref.task_id) as tx:
        assert tx.spent("a", 2, but=1) == {"tokens": 36, "micros": 5, "requests": 1}
        assert tx.spent("b", 1) == {"tokens": 0, "micros": 0, "requests": 0}


def test_a_run_keeps_its_order(store, ref):
    for n in (2, 1, 10):
        assert store.journal_started(ref, 1, 1, JournalRow(n, "turn", "m", "f", 1))
    assert [row.n for row in store.journal(ref, 1)] == [1, 2, 10]
    assert store.journal(ref, 2) == []


def test_the_newest_checkpoint_of_the_run_counts(store, ref, clock):
    assert store.checkpoint(ref, 1) is None
    for position, tree in ((1, "t1"), (2, "t2"), (2, "t3")):
        clock.forward(1)
        assert store.put_checkpoint(ref, Checkpoint(1, position, tree, 1))
    assert store.put_checkpoint(ref, Checkpoint(2, 0, None, 1))
    assert store.checkpoint(ref, 1) == Checkpoint(1, 2, "t3", 1, clock.at)
    assert store.checkpoint(ref, 2) == Checkpoint(2, 0, None, 1, clock.at)


def test_output_is_bytes_in_order(store, ref, clock):
    assert store.put_output(ref, 1, [Chunk(1, "out", b"\xff\x00a"), Chunk(2, "err", b"")])
    assert store.put_output(ref, 1, [Chunk(3, "out", b"z")])
    assert store.put_output(ref, 1, [Chunk(3, "out", b"again")]), "a second delivery is fine"
    chunks = store.output(ref, 1, 0, 9)
    assert chunks == [
        Chunk(1, "out", b"\xff\x00a", clock.at),
        Chunk(2, "err", b"", clock.at),
        Chunk(3, "out", b"z", clock.at),
    ]
    assert store.output(ref, 1, 1, 1) == chunks[1:2]
    assert store.output(ref, 2, 0, 9) == []


def test_the_middle_of_a_flood_is_dropped(store, ref):
    assert store.put_output(ref, 1, [Chunk(n, "out", b"x") for n in range(1, 6)])
    assert store.drop_output(ref, 1, range(2, 5))
    assert [chunk.n for chunk in store.output(ref, 1, 0, 9)] == [1, 5]


def test_progress_is_that_of_the_running_attempt(store, ref, clock):
    assert store.tell_progress(ref, 1, 3, 10, "tests")
    assert store.tell_progress(ref, 1, 4, 10, "tests")
    [progress] = store.progress(ref.task_id, 5)
    assert (progress.step, progress.done, progress.total, progress.text) == ("a", 4, 10, "tests")
    assert progress.at == clock.at
    take_over(store, ref)
    assert store.progress(ref.task_id, 5) == [], "a claim resets it"


def test_no_beat_is_lost_in_a_group(store, ref, clock):
    with store.group():
        act(store, ref.task_id)
        assert store.beat(ref, 1, clock.at + 900) == Beat(None)
        assert store.put_output(ref, 1, [Chunk(1, "out", b"x")])
    assert store.leases(ref.task_id, 5)[0].due_at == clock.at + 900
    assert len(store.output(ref, 1, 0, 5)) == 1
