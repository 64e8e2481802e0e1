"""A server has carried out what was asked, and its answer is lost: nothing is done twice, and nothing is forgotten."""

from __future__ import annotations

import time

import pytest

from longtask.client.dispatcher import AWAY_MS, ServerDispatcher
from longtask.core.errors import StoreUnavailable
from longtask.core.events import StepClaimed, StepCompleted
from longtask.core.model import Done
from longtask.engine.dispatcher import Held
from longtask.store.contract import Checkpoint, Chunk, JournalRow
from tests.cli.shell import until
from tests.workers.conftest import ROOM, Bench, claimed, keys
from tests.workers.test_dispatcher import TREE, report


def told(bench: Bench, kind: type[StepClaimed | StepCompleted]) -> list[tuple[str, int]]:
    events = bench.parts.store.events(bench.parts.store.get_task("@last").id, 0, 500)
    return [(e.fact.step, e.fact.attempt) for e in events if isinstance(e.fact, kind)]


def come_back(bench: Bench, asks: ServerDispatcher) -> None:
    """A server that did not answer is left alone for a moment; then all arrives."""
    assert bench.cutter is not None
    bench.cutter.cuts.clear()
    until(lambda: time.monotonic_ns() // 1_000_000 > asks._away_until_ms, AWAY_MS)


@pytest.mark.parametrize("times", [1, 2], ids=["asked again at once", "asked again in the next round"])
def test_a_claim_that_nobody_has_heard_of_is_told_again(bench: Bench, times: int):
    asks = bench.elsewhere()
    bench.submit({"id": "a", "run": "true"}, {"id": "b", "run": "true", "needs": ["a"]})
    bench.lose_the_next_answer(times)
    if times == 2:
        with pytest.raises(StoreUnavailable, match="does not answer"):
            asks.round("w1", [], ROOM)
        with pytest.raises(StoreUnavailable):
            asks.round("w1", [], ROOM)  # it is away, and nothing is sent
        assert asks.has_work(None), "there may be something, though no more is wanted"
        come_back(bench, asks)
        found = asks.round("w1", [], None)
    else:
        found = asks.round("w1", [], ROOM)
    assert keys(found) == ["a"]
    assert not asks.has_work(None)
    assert told(bench, StepClaimed) == [("a", 1)]
    assert asks.round("w1", [], ROOM).found == []


@pytest.mark.parametrize("times", [1, 2])
def test_a_report_is_recorded_once_and_what_it_has_brought_is_found(bench: Bench, times: int):
    asks = bench.elsewhere()
    bench.submit({"id": "a", "run": "true"}, {"id": "b", "run": "true", "needs": ["a"]}, {"id": "c", "run": "true"})
    mine = {claim.step.key: claim for claim in [*claimed(asks), *claimed(asks)]}
    assert sorted(mine) == ["a", "c"]
    bench.lose_the_next_answer(times)
    reports = [report(mine["a"], Done(), next=True)]
    if times == 2:
        with pytest.raises(StoreUnavailable):
            asks.round("w1", reports, ROOM)
        come_back(bench, asks)
    round = asks.round("w1", reports, ROOM)
    [one] = round.reported
    assert one.over and one.refused is None, "that is no loss"
    assert keys(round) == ["b"], "and what is in hand is not told again"
    assert told(bench, StepCompleted) == [("a", 1)]
    assert told(bench, StepClaimed).count(("b", 1)) == 1


def test_a_report_that_did_not_arrive_is_recorded_the_next_time(bench: Bench):
    asks = bench.elsewhere()
    bench.submit({"id": "a", "run": "true"})
    [a] = claimed(asks)
    assert bench.cutter is not None
    bench.cutter.cut()
    bench.cutter.cuts = [-1, -1]
    with pytest.raises(StoreUnavailable):
        asks.round("w1", [report(a, Done())], ROOM)
    assert bench.state("a") == "running"
    come_back(bench, asks)
    assert asks.round("w1", [report(a, Done())], ROOM).reported[0].refused is None
    assert bench.state("a") == "completed"


def test_a_beat_tells_of_a_claim_that_came_late(bench: Bench):
    """As from a server that was slow, when another one had answered already."""
    asks, slow = bench.elsewhere(), bench.elsewhere()  # of one name
    bench.submit({"id": "a", "run": "true"}, {"id": "b", "run": "true"})
    [one] = claimed(asks)
    [late] = claimed(slow)
    beats = asks.beats([Held(one.ref, 1)])
    assert beats[0] is not None and asks.has_work(None)
    assert keys(asks.round("w1", [], None)) == [late.step.key]
    asks.beats([Held(one.ref, 1), Held(late.ref, 1)])
    assert not asks.has_work(None)


def test_what_an_attempt_writes_is_written_once(bench: Bench):
    asks = bench.elsewhere()
    task = bench.submit({"id": "a", "agent": {"prompt": "x", "runtime": "recorded", "recording": "none.yaml"}})
    [a] = claimed(asks)
    done = JournalRow(1, "turn", "model", "f", 1, {"text": "hello"}, 10, 5, 1_000)
    for ask in (
        lambda: asks.journal_started(a.ref, 1, 1, JournalRow(1, "turn", "model", "f", 1)),
        lambda: asks.journal_done(a.ref, 1, 1, done),
        lambda: asks.checkpoint(a.ref, Checkpoint(1, 1, TREE, 1)),
        lambda: asks.output(a.ref, 1, [Chunk(1, "out", b"one")]),
        lambda: asks.progress(a.ref, 1, 1, 2, "x"),
        lambda: asks.put_artifact(a, b"made", "text/plain"),
        lambda: asks.beats([Held(a.ref, 1)])[0],
        lambda: asks.brief(a).checkpoint is None,  # of a first attempt
    ):
        bench.lose_the_next_answer()
        assert ask()
    store = bench.parts.store
    assert store.get_task(task.id).spent_micros == 1_000
    assert len(store.journal(a.ref, 1)) == len(store.output(a.ref, 1, 0, 9)) == 1
