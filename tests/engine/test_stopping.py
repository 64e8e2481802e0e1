"""Cancelling, pausing, draining on the real engine.  Numbers: SEMANTICS §9."""

import pytest

from longtask.core.errors import Refused
from longtask.core.events import StepCancelled, StepReleased
from longtask.core.model import Done, Failed, Kind, Parked, WaitingFor
from tests.engine.world import HANG, LEASE_MS, World, step


def running(world: World, *keys: str, **words) -> None:
    world.submit(*(step(key, **words) for key in keys), acts={key: [HANG, Done()] for key in keys})
    world.settle()
    assert world.states(*keys) == ["running"] * len(keys)


# --- cancelling ---------------------------------------------------------------------------------------------------


def test_a_step_is_cancelled_only_when_its_process_tree_is_dead(world: World):  # (60b)
    running(world, "a", stubborn=True)
    world.desk.cancel_step(world.ref("a"), "ann")
    world.later(2_000)
    world.settle()  # TERM was sent, and is ignored
    assert world.state("a") == "running"
    world.later(9_000)
    world.settle()
    assert world.state("a") == "running"
    world.later(2_000)
    assert world.run() == "failed"
    assert world.state("a") == "cancelled"


def test_a_result_that_comes_after_a_cancel_was_asked_is_not_taken(world: World):
    running(world, "a")
    world.desk.cancel_step(world.ref("a"), "ann")
    with pytest.raises(Refused, match="is being cancelled"):
        world.dispatch.report(world.ref("a"), 1, Done())
    world.end("a", Done())  # it had ended before the stop reached it
    assert world.run() == "failed"
    assert world.told(StepCancelled) == ["a"]


def test_a_cancelled_step_whose_worker_is_dead_is_cancelled_when_its_lease_ends(world: World):  # (60c)
    running(world, "a")
    world.desk.cancel_step(world.ref("a"), "ann")
    world.die()
    world.later(LEASE_MS - 2_000)
    assert world.state("a") == "running"
    world.later(LEASE_MS + 4_000)
    assert world.state("a") == "cancelled"


def test_a_task_of_any_size_is_cancelled_in_batches(world: World):
    keys = [f"s{n:04}" for n in range(1_200)]
    world.submit(*(step(key) for key in keys), acts={"s*": [HANG]}, parallel=2)
    world.settle()
    world.desk.cancel(world.tasks[0], "ann", "changed my mind")
    world.settle()
    assert (world.status, world.task.counts.open) == ("cancelling", 2)
    world.later(1_000)
    assert world.run() == "cancelled"
    with pytest.raises(Refused, match="is cancelled"):
        world.desk.pause(world.tasks[0], "ann")


def test_a_second_cancel_is_answered_with_the_first(world: World):
    running(world, "a")
    seq = world.desk.cancel(world.tasks[0], "ann").seq
    assert world.desk.cancel(world.tasks[0], "bob").seq == seq


def test_what_waits_or_is_blocked_is_cancelled_at_once(world: World):
    asks = Parked(WaitingFor.USER, {"kind": "approval", "digest": "d"})
    world.submit(step("a"), step("b", needs=["a"]), acts={"a": [asks]})
    assert world.run() == "waiting_user"
    world.desk.cancel_step(world.ref("b"), "ann")
    world.desk.cancel_step(world.ref("a"), "ann")
    assert world.states("a", "b") == ["cancelled", "cancelled"]
    assert world.run() == "failed"


# --- pausing ------------------------------------------------------------------------------------------------------


def test_a_paused_task_claims_nothing_and_what_runs_goes_on(world: World):  # (36)
    world.submit(step("a"), step("b", 2), acts={"a": [HANG]})
    world.settle()
    world.desk.pause(world.tasks[0], "ann")
    world.end("a", Done())
    assert world.run() == "paused"
    assert world.states("a", "b") == ["completed", "ready"]
    world.desk.resume(world.tasks[0], "ann")
    assert world.run() == "completed"


def test_pause_now_asks_to_give_back_and_costs_no_budget(world: World):
    running(world, "a", failures_max=0, losses_max=0)
    world.desk.pause(world.tasks[0], "ann", now=True)
    world.later(6_000)
    assert world.run() == "paused"
    row = world.row("a")
    assert (row.state, row.failures, row.losses, row.run) == ("ready", 0, 0, 1)
    world.desk.resume(world.tasks[0], "ann")
    assert world.run() == "completed"
    assert world.row("a").attempt == 2


def test_pause_now_does_not_make_a_cancel_forgotten(world: World):
    running(world, "a", "b")
    world.desk.cancel_step(world.ref("a"), "ann")
    world.desk.pause(world.tasks[0], "ann", now=True)
    world.later(6_000)
    world.settle()
    assert world.states("a", "b") == ["cancelled", "ready"]


def test_a_cancel_after_a_pause_is_obeyed_by_what_has_not_stopped_yet(world: World):
    running(world, "a", stubborn=True)
    world.desk.pause(world.tasks[0], "ann", now=True)
    world.later(6_000)
    world.settle()
    world.desk.resume(world.tasks[0], "ann")
    world.desk.cancel_step(world.ref("a"), "ann")
    world.later(25_000)
    world.settle()
    assert world.state("a") == "cancelled"


def test_a_timeout_is_a_failure_though_a_pause_was_asked_meanwhile(world: World):
    running(world, "a", timeout_ms=10_000, stubborn=True)
    world.later(11_000)
    world.settle()
    world.desk.pause(world.tasks[0], "ann", now=True)
    world.later(3_000)
    world.settle()
    assert world.state("a") == "failed"
    assert (world.row("a").reason or "").startswith("timeout")


# --- draining and losing ------------------------------------------------------------------------------------------


def test_a_draining_worker_gives_back_and_claims_no_more(world: World):
    running(world, "a", failures_max=0, losses_max=0)
    assert world.worker is not None
    world.worker.drain()
    world.settle()
    assert (world.state("a"), world.worker.running, world.told(StepReleased)) == ("ready", [], ["a"])
    world.reborn()
    assert world.run() == "completed"


def test_what_ends_while_it_drains_is_still_recorded(world: World):
    running(world, "a", stubborn=True)
    assert world.worker is not None
    world.worker.drain()
    world.settle()
    world.end("a", Done({"n": 1}))
    world.settle()
    assert world.row("a").result == {"n": 1}


def test_a_lost_lease_ends_what_was_asked_to_stop_gently(world: World):
    running(world, "a", stubborn=True)
    assert world.worker is not None
    world.worker.drain()
    world.settle()
    world.later(LEASE_MS * 2, beats=False)
    assert world.state("a") == "ready"
    world.worker.beat()  # is told that it has lost
    world.settle()
    assert world.worker.running == []


def test_a_program_that_fails_while_it_is_being_cancelled_is_cancelled(world: World):
    running(world, "a", kind=Kind.AGENT)
    world.desk.cancel_step(world.ref("a"), "ann")
    world.end("a", Failed("killed"))
    assert world.run() == "failed"
    assert world.state("a") == "cancelled"
