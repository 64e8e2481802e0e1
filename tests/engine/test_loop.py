"""The loop: what goes wrong in a round is tried again, and has an end."""

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from longtask.core.errors import StoreBusy, StoreError, StoreUnavailable
from longtask.core.model import Done
from longtask.core.patience import PATIENCE_MS
from longtask.engine.loop import ERRORS_MAX, Loop, Pulse
from longtask.store.contract import WorkerRow
from longtask.views.health import judged
from tests.engine.world import HANG, World, step
from tests.steps.trees import until


def loop_of(world: World, patience_ms: int = PATIENCE_MS) -> Loop:
    assert world.worker is not None
    row = WorkerRow("w1", "here", 1, ("default",), 4, world.now)
    world.store.worker_seen(row)
    return Loop(world.store, world.worker, world.scheduler, row, patience_ms=patience_ms)


def broken(error: Exception, times: int) -> tuple[list[int], Callable[[object], int]]:
    left = [times]

    def act(self: object) -> int:
        left[0] -= 1
        if left[0] >= 0:
            raise error
        return 0

    return left, act


def test_it_works_until_all_is_done_and_takes_its_leave(world: World):
    world.submit(step("a"), step("b", 2))
    loop = loop_of(world)
    loop.run(lambda: world.task.ended)
    assert world.status == "completed"
    assert world.store.workers(10) == []


@pytest.mark.parametrize("error", [StoreBusy("another process holds it"), KeyError("a bug")])
def test_a_round_that_fails_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch, error: Exception):
    left, act = broken(error, 3)
    monkeypatch.setattr(type(world.scheduler), "tick", act)
    loop_of(world).run(lambda: left[0] < 0)
    assert left[0] < 0


def test_a_scheduler_that_always_fails_ends_the_loop_though_the_worker_is_fine(world: World, monkeypatch):
    left, act = broken(KeyError("a bug"), 1_000)
    monkeypatch.setattr(type(world.scheduler), "tick", act)
    with pytest.raises(KeyError, match="a bug"):
        loop_of(world).run()
    assert left[0] == 1_000 - ERRORS_MAX


def test_what_waiting_does_not_mend_ends_the_loop_at_once_with_its_own_message(world: World, monkeypatch):
    left, act = broken(StoreError("the database is damaged"), 1_000)
    monkeypatch.setattr(type(world.scheduler), "tick", act)
    with pytest.raises(StoreError, match="is damaged"):
        loop_of(world).run()
    assert left[0] == 999


@pytest.mark.parametrize("what", ["scheduler", "worker"])
def test_a_store_that_is_back_in_time_is_told_twice_and_nothing_is_lost(world: World, monkeypatch, caplog, what: str):
    world.submit(step("a"), acts={"a": [HANG]})
    world.settle()
    left, act = broken(StoreUnavailable("the disk is full"), 5)
    part = getattr(world, what)
    real = type(part).tick

    def tick(self: Any) -> int:
        act(self)
        if left[0] == -1:
            world.end("a", Done())
        return int(real(self))

    monkeypatch.setattr(type(part), "tick", tick)
    loop_of(world).run(lambda: world.task.ended)
    assert (world.status, world.row("a").attempt) == ("completed", 1)
    told = [record.getMessage().split(" ")[0] for record in caplog.records]
    assert told == ["store.unavailable", "store.back"]


def test_the_store_is_back_when_a_write_goes_through(world: World, monkeypatch, caplog):
    """Rounds that only read are in order on a full disk."""
    failed, act = broken(StoreUnavailable("the disk is full"), 1)
    monkeypatch.setattr(type(world.scheduler), "tick", act)
    writes, write = broken(StoreUnavailable("the disk is still full"), 3)
    loop = loop_of(world)
    monkeypatch.setattr(type(world.store), "worker_seen", lambda self, row: write(self))
    loop.run(lambda: writes[0] < 0)
    assert failed[0] < 0
    assert [record.getMessage().split(" ")[0] for record in caplog.records] == ["store.unavailable", "store.back"]


def test_a_store_that_stays_away_ends_the_loop_when_its_patience_is_over(world: World, monkeypatch, caplog):
    _, act = broken(StoreUnavailable("the disk is full"), 1_000)
    monkeypatch.setattr(type(world.scheduler), "tick", act)
    loop = loop_of(world, patience_ms=300)
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable, match="disk is full"):
        loop.run()
    assert time.monotonic() - begun >= 0.3
    assert len(caplog.records) == 1


def test_a_busy_store_is_waited_for_without_end(world: World, monkeypatch, caplog):
    left, act = broken(StoreBusy("another process holds it"), 4)
    monkeypatch.setattr(type(world.scheduler), "tick", act)
    loop_of(world, patience_ms=0).run(lambda: left[0] < 0)
    assert [record.getMessage().split(" ")[0] for record in caplog.records] == ["store.busy", "store.back"]


# What it tells of itself.


def pulse_while(world: World, monkeypatch: pytest.MonkeyPatch, act: Callable[[Loop], int]) -> list[Pulse]:
    """Of a loop whose scheduler does this; the loop ends when it answers -1."""
    pulses: list[Pulse] = []
    loop = loop_of(world)

    def tick(self: object) -> int:
        moved = act(loop)
        pulses.append(loop.pulse())
        if moved < 0:
            loop.stop()
        return 0

    monkeypatch.setattr(type(world.scheduler), "tick", tick)
    loop.run()
    return pulses


def test_rounds_that_end_well_are_progress(world: World, monkeypatch):
    begun = time.monotonic()
    pulses = pulse_while(world, monkeypatch, lambda loop: -1 if time.monotonic() > begun + 0.3 else 0)
    assert len(pulses) > 1
    assert all(pulse.reason is None and judged(pulse, 15_000) is None for pulse in pulses)
    assert pulses[-1].progress_age_ms < pulses[-1].beat_age_ms  # the first beat is not due yet


@pytest.mark.parametrize("error", [KeyError("a bug"), StoreUnavailable("the disk is full"), StoreBusy("locked")])
def test_rounds_that_fail_are_none_though_the_others_and_the_beats_go_well(world: World, monkeypatch, error: Exception):
    monkeypatch.setattr("longtask.engine.loop.SEEN_EVERY_S", 0.0)
    loop = loop_of(world)
    begun = time.monotonic()

    def tick(self: object) -> int:
        if time.monotonic() < begun + 0.4:
            raise error
        pulses.append(loop.pulse())
        loop.stop()
        return 0

    pulses: list[Pulse] = []
    monkeypatch.setattr(type(world.scheduler), "tick", tick)
    loop.run()
    assert pulses[0].progress_age_ms >= 400
    assert pulses[0].reason is not None and str(error) in pulses[0].reason
    assert loop.pulse().reason is None


def test_a_round_that_hangs_is_none(world: World, monkeypatch):
    let_go, hangs = threading.Event(), threading.Event()
    loop = loop_of(world)

    def tick(self: object) -> int:
        hangs.set()
        let_go.wait(20)
        loop.stop()
        return 0

    monkeypatch.setattr(type(world.scheduler), "tick", tick)
    running = threading.Thread(target=loop.run)
    running.start()
    try:
        assert hangs.wait(20)
        until(lambda: loop.pulse().progress_age_ms > 100)
        assert judged(loop.pulse(), 15_000, stalled_ms=100) is not None
        assert judged(loop.pulse(), 15_000, stalled_ms=100_000) is None
    finally:
        let_go.set()
        running.join()


def test_a_signal_handler_may_stop_it_at_any_moment(world: World):
    """It once hung: the handler waited for a lock that the thread which it had interrupted was holding."""
    before = signal.signal(signal.SIGALRM, lambda number, frame: loop.stop())
    try:
        for after_s in [n / 4_000 for n in range(1, 60)]:
            loop = loop_of(world)
            assert world.worker is not None
            world.worker.draining = False
            signal.setitimer(signal.ITIMER_REAL, after_s)
            loop.run()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_whether_it_is_idle_is_asked_again_when_the_store_cannot_say(world: World, caplog):
    left, ask = broken(StoreUnavailable("the connection is lost"), 2)
    loop_of(world).run(lambda: ask(None) == 0)
    assert left[0] == -1
    assert caplog.records[0].getMessage().startswith("store.unavailable")
