"""What a worker may ask, the same at a store and at a server."""

from __future__ import annotations

import pytest

from longtask.core.errors import LeaseLost
from longtask.core.model import Done, Failed, Released
from longtask.engine.dispatcher import BrokenReport, Claimed, Dispatcher, Held, Report, Wanted
from longtask.store.contract import Checkpoint, Chunk, JournalRow
from tests.workers.conftest import ROOM, Bench, claimed, keys

TREE = "a" * 40 + "@" + "b" * 40


def report(claim: Claimed, outcome: object, **more: bool) -> Report:
    return Report(claim.ref, claim.step.attempt, outcome, claim.step.pool, **more)  # type: ignore[arg-type]


def test_a_report_brings_the_next_step_in_the_same_round(bench: Bench, asks: Dispatcher):
    bench.submit({"id": "a", "run": "true"}, {"id": "b", "run": "true", "needs": ["a"]})
    [a] = claimed(asks)
    assert (a.step.key, a.step.attempt, a.step.run, a.spec.body["command"]) == ("a", 1, 1, "true")
    told = asks.round("w1", [report(a, Done({"x": 1}), next=True)], ROOM)
    [one] = told.reported
    assert one.over and one.refused is None and one.claimed is not None and one.claimed.step.key == "b"
    assert keys(told) == []
    asks.round("w1", [report(one.claimed, Done())], None)
    assert [bench.state(key) for key in "ab"] == ["completed", "completed"]


def test_claims_keep_to_the_room_that_there_is(bench: Bench, asks: Dispatcher):
    for n in range(3):
        bench.submit({"id": "a", "run": "true"}, name=f"t{n}")
    assert claimed(asks, Wanted(("other",), 4, 0)) == []
    assert claimed(asks, Wanted(("default",), 0, 0)) == []
    [one] = claimed(asks, Wanted(("default",), 1, 0))
    told = asks.round("w1", [report(one, Done())], Wanted(("default",), 0, 0))
    assert len(told.found) == 1 and told.searched, "the slot that the report has given back"
    assert asks.round("w1", [], None).found in ([], ())


def test_an_assignment_holds_what_the_steps_before_have_made(bench: Bench, asks: Dispatcher):
    large = "x" * 9_000
    bench.submit(
        {"id": "a", "run": "true", "outputs": {"text": "string"}},
        {"id": "b", "run": 'echo "$T"', "env": {"T": "${{ steps.a.outputs.text }}"}, "needs": ["a"]},
    )
    [a] = claimed(asks)
    kept = {"name": "out.txt", **asks.put_artifact(a, b"made", "text/plain"), "media_type": "text/plain"}
    assert kept["size_bytes"] == 4
    told = asks.round("w1", [report(a, Done({"text": large}, artifacts=(kept,)), next=True)], ROOM)
    b = told.reported[0].claimed
    assert b is not None
    assignment = asks.brief(b)
    assert assignment.scope["steps"]["a"] == {"outputs": {"text": large}, "state": "completed"}
    assert [artifact["name"] for artifact in assignment.artifacts] == ["out.txt"]
    assert asks.read_artifact(b, kept["digest"]) == b"made"
    assert (assignment.task_id, assignment.step, assignment.attempt, assignment.spec) == (*b.ref, 1, b.spec)


def test_what_a_running_attempt_writes_is_kept_and_a_repetition_costs_nothing(bench: Bench, asks: Dispatcher):
    task = bench.submit({"id": "a", "agent": {"prompt": "x", "runtime": "recorded", "recording": "none.yaml"}})
    [a] = claimed(asks)
    begun = JournalRow(1, "turn", "model", "f", 1)
    done = JournalRow(1, "turn", "model", "f", 1, {"text": "hello"}, 10, 5, 1_000)
    for _ in range(2):
        assert asks.journal_started(a.ref, 1, 1, begun)
    for _ in range(2):
        assert asks.journal_done(a.ref, 1, 1, done)
        assert asks.checkpoint(a.ref, Checkpoint(1, 1, TREE, 1))
        assert asks.output(a.ref, 1, [Chunk(1, "out", b"\xff\x00one")])
        assert asks.progress(a.ref, 1, 3, 9, "three of nine")
    store = bench.parts.store
    assert store.get_task(task.id).spent_micros == 1_000
    assert [(row.body, row.tokens_in) for row in store.journal(a.ref, 1)] == [({"text": "hello"}, 10)]
    assert store.output(a.ref, 1, 0, 9)[0].body == b"\xff\x00one"
    assert [(row.done, row.total, row.text) for row in store.progress(task.id, 9)] == [(3, 9, "three of nine")]
    again = asks.round("w1", [report(a, Released("drain"))], ROOM)
    [b] = again.found
    assignment = asks.brief(b)
    assert (b.step.attempt, assignment.checkpoint, assignment.journal[0]["done"]) == (2, (1, TREE), True)
    assert asks.drop_output(a.ref, 1, range(1, 2)) is False


def test_a_flood_loses_its_middle(bench: Bench, asks: Dispatcher):
    bench.submit({"id": "a", "run": "true"})
    [a] = claimed(asks)
    assert asks.output(a.ref, 1, [Chunk(n, "out", b"x") for n in range(1, 6)])
    assert asks.drop_output(a.ref, 1, range(2, 5))
    assert [chunk.n for chunk in bench.parts.store.output(a.ref, 1, 0, 9)] == [1, 5]


def test_an_attempt_that_is_over_is_told_so_whatever_it_asks(bench: Bench, asks: Dispatcher):
    bench.submit({"id": "a", "run": "true"})
    [a] = claimed(asks)
    assert asks.round("w1", [report(a, Done())], None).reported[0].refused is None
    again = asks.round("w1", [report(a, Done())], None).reported[0]
    assert again.over and again.refused is not None
    assert asks.beats([Held(a.ref, 1)]) == [None]
    assert not asks.journal_started(a.ref, 1, 1, JournalRow(1, "turn", "m", "f", 1))
    assert not asks.checkpoint(a.ref, Checkpoint(1, 1, TREE, 1))
    assert not asks.output(a.ref, 1, [Chunk(1, "out", b"x")])
    assert not asks.progress(a.ref, 1, 1, 2, "x")


def test_a_beat_prolongs_the_lease_and_says_who_is_to_stop(bench: Bench, asks: Dispatcher):
    task = bench.submit({"id": "a", "run": "true"}, {"id": "b", "run": "true"})
    a, b = sorted([*claimed(asks), *claimed(asks)], key=lambda claim: claim.step.key)
    before = {lease.step: lease.due_at for lease in bench.parts.store.leases(task.id, 9)}
    bench.parts.desk.cancel_step(b.ref, "ann")
    one, two = asks.beats([Held(a.ref, 1), Held(b.ref, 1)])
    assert one is not None and not isinstance(one, Exception) and one.stop is None
    assert two is not None and not isinstance(two, Exception) and two.stop == "cancel"
    after = {lease.step: lease.due_at for lease in bench.parts.store.leases(task.id, 9)}
    assert after["a"] >= before["a"]


def test_what_comes_of_a_step_that_is_being_cancelled_counts_no_more(bench: Bench, asks: Dispatcher):
    bench.submit({"id": "a", "run": "true"})
    [a] = claimed(asks)
    bench.parts.desk.cancel_step(a.ref, "ann")
    assert asks.round("w1", [report(a, Done())], None).reported[0].over
    assert bench.state("a") == "cancelled"


@pytest.mark.parametrize("broken", [float("nan"), object()], ids=["nan", "no JSON"])
def test_an_outcome_that_cannot_be_recorded_is_named_and_nothing_has_happened(
    bench: Bench, asks: Dispatcher, broken: object
):
    bench.submit({"id": "a", "run": "true"}, {"id": "b", "run": "true"})
    a, b = [*claimed(asks), *claimed(asks)]
    with pytest.raises(BrokenReport) as error:
        asks.round("w1", [report(a, Done()), report(b, Done({"x": broken}))], ROOM)
    assert error.value.place == 1 and error.value.__cause__ is not None
    assert {bench.state("a"), bench.state("b")} == {"running"}
    asks.round("w1", [report(a, Done()), report(b, Failed("no", retryable=False))], ROOM)
    assert {bench.state("a"), bench.state("b")} == {"completed", "failed"}


def test_what_others_have_claimed_is_not_told(bench: Bench):
    """Nothing of it: neither its words, nor that it is there."""
    bench.submit({"id": "a", "run": "true"})
    one, other = bench.elsewhere("w1"), bench.elsewhere("w2")
    [a] = claimed(one)
    refused_by(other, a)
    assert bench.state("a") == "running"
    assert one.beats([Held(a.ref, 1)]) != [None]


def refused_by(other: Dispatcher, a: Claimed) -> None:
    assert other.beats([Held(a.ref, 1)]) == [None]
    told = other.round("w1", [report(a, Done())], None).reported[0]
    assert told.refused is not None and "not this worker's" in told.refused
    for ask in (lambda: other.brief(a), lambda: other.put_artifact(a, b"x", "text/plain")):
        with pytest.raises(LeaseLost, match="not this worker's"):
            ask()
    with pytest.raises(LeaseLost):
        other.read_artifact(a, "0" * 64)
    assert not other.output(a.ref, 1, [Chunk(1, "out", b"x")])
    assert not other.drop_output(a.ref, 1, range(1, 2))
    assert not other.progress(a.ref, 1, 1, 2, "x")
    assert not other.journal_started(a.ref, 1, 1, JournalRow(1, "turn", "m", "f", 1))
    assert not other.journal_done(a.ref, 1, 1, JournalRow(1, "turn", "m", "f", 1, {}))
    assert not other.checkpoint(a.ref, Checkpoint(1, 1, TREE, 1))
