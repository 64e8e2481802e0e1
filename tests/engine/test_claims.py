"""Who gets what: leases, fences, fairness, limits, on the real engine.  Numbers: SEMANTICS §9."""

import pytest

from longtask.core.errors import LeaseLost
from longtask.core.events import StepClaimed, StepLost
from longtask.core.model import Done, Parked, WaitingFor
from longtask.core.policy import TICK_HOLE_MS
from longtask.engine.worker import TURN_MS
from longtask.store.contract import Chunk
from tests.engine.world import HANG, LEASE_MS, World, step


def claim(world: World, name: str = "other", pool: str = "default", limit: int = 1) -> list[str]:
    found = world.dispatch.claim(name, pool, limit)
    return [f"{world.store.get_task(c.task.id).name}/{c.step.key}" for c in found]


# --- leases and fences --------------------------------------------------------------------------------------------


def test_a_zombie_s_report_is_refused(world: World):
    world.submit(step("a"), acts={"a": [HANG]})
    world.settle()
    zombie = world.worker
    assert zombie is not None
    world.worker = None
    world.later(LEASE_MS * 2)
    world.reborn()
    world.settle()
    assert world.row("a").attempt == 2
    with pytest.raises(LeaseLost, match="attempt 1 is not the newest"):
        world.dispatch.report(world.ref("a"), 1, Done())
    world.hanging["a", 1].end(Done({"by": "zombie"}))
    zombie.tick()
    assert zombie.running == [] and world.row("a").result is None
    world.end("a", Done({"by": "owner"}))
    assert world.run() == "completed"
    assert world.row("a").result == {"by": "owner"}


def test_nothing_of_a_zombie_is_written(world: World):
    world.submit(step("a"), acts={"a": [HANG]})
    world.settle()
    world.worker = None
    world.later(LEASE_MS * 2)
    ref = world.ref("a")
    assert world.dispatch.beat(ref, 1) is None
    assert not world.dispatch.output(ref, 1, [Chunk(1, "out", b"x")])
    assert not world.dispatch.progress(ref, 1, 1, 2, "x")


def test_an_owner_revives_a_lease_that_nobody_took(world: World):
    world.submit(step("a"), acts={"a": [HANG]})
    world.settle()
    world.later(LEASE_MS * 3, beats=False, awake=False)  # the machine slept
    assert world.worker is not None
    world.worker.beat()
    world.later(LEASE_MS * 2)
    world.end("a", Done())
    assert world.run() == "completed"
    assert world.told(StepLost) == []


def test_a_late_report_counts_while_the_step_is_still_running(world: World):
    world.submit(step("a"), acts={"a": [HANG]})
    world.settle()
    world.later(LEASE_MS * 3, beats=False, awake=False)
    world.end("a", Done())
    assert world.worker is not None
    world.worker.tick()
    assert world.state("a") == "completed"


def test_a_scheduler_expires_nothing_before_it_has_ticked_a_whole_lease(world: World):
    world.submit(step("a"), acts={"a": [HANG]})
    world.settle()
    world.die()
    world.now += LEASE_MS * 10
    world.scheduler = world.new_scheduler()
    began = world.now
    while world.state("a") == "running":
        world.scheduler.tick()
        world.now += 1_000
    assert LEASE_MS <= world.now - 1_000 - began <= LEASE_MS + 1_000


def test_a_hole_in_its_ticks_makes_a_scheduler_wait_another_lease(world: World):
    world.submit(step("a"), acts={"a": [HANG]})
    world.settle()
    world.die()
    world.later(LEASE_MS - 2_000)
    world.now += TICK_HOLE_MS + 1
    world.later(LEASE_MS - 1_000)
    assert world.state("a") == "running"
    world.later(3_000)
    assert world.state("a") == "ready"


def test_many_leases_that_end_at_once_are_all_found(new_world):
    world = new_world(slots=150)
    world.submit(*(step(f"s{n}") for n in range(150)), acts={"s*": [HANG]}, parallel=150)
    world.settle()
    world.die()
    world.later(LEASE_MS * 2 + 3_000)
    assert world.task.counts.running == 0


# --- limits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [1, 2])
def test_parallel_is_never_exceeded_whatever_is_lost(new_world, parallel: int):  # (63)
    world = new_world(slots=8)
    world.submit(*(step(f"s{n}", losses_max=99) for n in range(6)), acts={"s*": [HANG, Done()]}, parallel=parallel)
    for n in range(12):
        world.settle()
        assert world.task.counts.running == min(parallel, world.task.counts.open) or world.task.ended
        world.die()
        world.later(LEASE_MS * 3)
        world.reborn(f"w{n}")
    assert world.run() == "completed"


def test_a_step_that_waits_does_not_count_for_parallel(world: World):
    world.submit(step("a"), step("b"), acts={"a": [Parked(WaitingFor.EVENT, {"name": "go"})]}, parallel=1)
    assert world.run() == "waiting_event"
    assert world.state("b") == "completed"


def test_a_worker_claims_no_more_than_it_has_slots(new_world):
    world = new_world(slots=3)
    world.submit(*(step(f"s{n}") for n in range(9)), acts={"s*": [HANG]})
    world.settle()
    assert world.task.counts.running == 3


def test_a_worker_claims_from_its_pools_only(world: World):
    world.submit(step("a", pool="gpu"), step("b"))
    world.run()
    assert world.states("a", "b") == ["ready", "completed"]
    world.worker = world.new_worker("w2", pools=["gpu"])
    assert world.run() == "completed"


# --- fairness -----------------------------------------------------------------------------------------------------


def test_a_task_of_one_step_is_served_in_the_next_round_beside_one_of_thousands(world: World):  # (62)
    world.submit(*(step(f"s{n:04}") for n in range(2_000)), name="big")
    assert claim(world) == ["big/s0000"]
    world.now += 1
    world.submit(step("a"), name="small")
    assert claim(world) == ["small/a"]
    world.now += 1
    assert claim(world) == ["big/s0001"]


def test_a_worker_that_is_handed_the_next_step_of_its_task_lets_others_in(new_world):
    world = new_world(slots=1)
    world.submit(*(step(f"s{n:03}") for n in range(400)), name="big")
    for _ in range(20):
        world.round()
        world.now += 5
    world.submit(step("a"), name="small")
    before = len(world.begun)
    for _ in range(TURN_MS // 5 + 2):
        world.round()
        world.now += 5
    assert "a" in [a.step for a in world.begun[before:]]


def test_a_task_keeps_its_slot_for_a_turn(new_world):
    world = new_world(slots=1)
    ids = [world.submit(*(step(f"s{n}") for n in range(10)), name=name).id for name in ("x", "y")]
    for _ in range(25):
        world.round()
        world.now += 5
    assert [a.task_id for a in world.begun] == [ids[0]] * 10 + [ids[1]] * 10
    assert TURN_MS > 25 * 5


def test_the_least_recently_served_task_comes_first(world: World):
    for name in ("x", "y", "z"):
        world.submit(step("a"), step("b"), name=name)
    served = []
    for _ in range(6):
        served += claim(world)
        world.now += 1
    assert served == ["x/a", "y/a", "z/a", "x/b", "y/b", "z/b"]


def test_priority_goes_before_fairness(world: World):
    world.submit(step("a"), step("b"), name="low")
    world.submit(step("a"), step("b"), name="high", priority=5)
    served = []
    for _ in range(4):
        served += claim(world)
        world.now += 1
    assert served == ["high/a", "high/b", "low/a", "low/b"]


def test_a_paused_task_of_any_size_stands_in_nobody_s_way(world: World):
    world.submit(*(step(f"s{n}") for n in range(50)), name="paused")
    world.desk.pause(world.tasks[0], "ann")
    world.submit(step("a"), name="small")
    assert claim(world, limit=10) == ["small/a"]


def test_two_workers_never_get_the_same_step(world: World):
    world.submit(*(step(f"s{n}") for n in range(20)), acts={"s*": [HANG]})
    others = [world.new_worker(f"v{n}", slots=4) for n in range(3)]
    for _ in range(20):
        world.round()
        for worker in others:
            worker.tick()
    claims = [(e.fact.step, e.fact.attempt) for e in world.events(StepClaimed)]  # type: ignore[union-attr]
    assert len(claims) == len(set(claims)) == 16
    assert len({(a.step, a.attempt) for a in world.begun}) == len(world.begun) == 16
