"""The loop: what goes wrong in a round is tried again, and has an end."""

import signal

import pytest

from longtask.core.errors import StoreBusy, StoreError
from longtask.engine.loop import ERRORS_MAX, Loop
from longtask.store.contract import WorkerRow
from tests.engine.world import World, step


def loop_of(world: World) -> Loop:
    assert world.worker is not None
    row = WorkerRow("w1", "here", 1, ("default",), 4, world.now)
    world.store.worker_seen(row)
    return Loop(world.store, world.worker, world.scheduler, row)


def broken(error: Exception, times: int) -> tuple[list[int], object]:
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


def test_a_store_that_cannot_be_used_ends_the_loop_with_its_own_message(world: World, monkeypatch):
    _, act = broken(StoreError("the disk is full"), 1)
    monkeypatch.setattr(type(world.scheduler), "tick", act)
    with pytest.raises(StoreError, match="disk is full"):
        loop_of(world).run()


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
