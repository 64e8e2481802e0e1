"""A big task starves nobody, and costs nobody: rules 54, 55 with figures (SEMANTICS case 62)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import apsw
import pytest

from longtask.core.model import Done, Kind
from longtask.engine.worker import TURN_MS
from longtask.store.queries import load
from tests.engine.world import HANG, World, step

BIG = 10_000
ROUND_MS = 5
NAMES = {sql: name for name, sql in load("sqlite").items()}


def big(world: World, count: int = BIG, name: str = "big", **words: Any) -> str:
    steps = (step(f"s{n:05}", needs=[], kind=Kind.FUNCTION, inline=True) for n in range(count))
    return world.submit(*steps, name=name, **words).id


def small(world: World, name: str) -> str:
    return world.submit(step("a", needs=[], kind=Kind.FUNCTION, inline=True), name=name).id


def work_of(world: World, call: Callable[[], Any]) -> int:
    """Steps of the database's own machine: what rows and index entries a call looked at."""
    counted = 0

    def profile(event: dict[str, Any]) -> None:
        nonlocal counted
        counted += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    world.store._line.db.trace_v2(apsw.SQLITE_TRACE_PROFILE, profile)
    try:
        call()
    finally:
        world.store._line.db.trace_v2(0)
    return counted


def claim(world: World, limit: int = 1) -> list[str]:
    found = world.dispatch.claim("w", "default", limit)
    return [world.store.get_task(c.task.id).name for c in found]


def test_one_step_is_served_in_the_next_round_beside_ten_thousand(new_world: Callable[..., World]):  # (62)
    seen: list[str] = []
    world = new_world(trace=lambda sql, _params: seen.append(str(NAMES.get(sql, sql))))
    big(world)
    assert claim(world) == ["big"]
    world.now += 1
    small(world, "small")
    seen.clear()
    assert claim(world) == ["small"]
    counts = Counter(seen)
    assert counts["claimable"] == 1 and counts["header"] == 1, "no other task is locked on the way"
    assert len(seen) <= 13, counts
    assert claim(world) == ["big"]


def test_a_claim_costs_the_same_at_ten_thousand_ready_steps_as_at_ten(new_world: Callable[..., World]):
    costs = []
    for count in (10, BIG):
        world = new_world()
        big(world, count)
        claim(world)
        costs.append(work_of(world, lambda: claim(world)))  # noqa: B023  called at once
    few, many = costs
    assert many <= few * 1.2, f"{many} steps of the database at {BIG:,} ready ones, {few} at ten"


@pytest.mark.parametrize("stop", ["paused", "full"])
def test_ten_thousand_steps_that_may_not_be_claimed_are_not_looked_at(new_world: Callable[..., World], stop: str):
    costs = []
    for count in (0, BIG):
        world = new_world()
        if count:
            id_ = big(world, count, parallel=1)
            world.desk.pause(id_, "ann") if stop == "paused" else claim(world)
        small(world, "small")
        costs.append(work_of(world, lambda: world.store.claimable("default", 50)))  # noqa: B023
        assert claim(world, 50) == ["small"]
    assert costs[1] <= costs[0] + 20, costs


def test_twenty_tasks_of_one_step_wait_for_their_turn_and_no_longer(new_world: Callable[..., World]):
    """One slot, a task of ten thousand ready steps, twenty that come while it works: each is begun after those that
    came before it, and after what the big one still gets in its turn."""
    turn = TURN_MS // ROUND_MS
    world = new_world(slots=1)
    big(world)
    for _ in range(50):
        world.round()
        world.now += ROUND_MS
    served = len(world.begun)
    assert served >= 45, "it works, and nobody else is there"
    names = {small(world, f"t{n:02}"): n for n in range(20)}
    came = len(world.begun)
    while any(not world.store.get_task(id_).ended for id_ in names):
        world.round()
        world.now += ROUND_MS
    order = [a.task_id for a in world.begun[came:]]
    waits = {names[id_]: order.index(id_) for id_ in names}
    assert all(waited < place + turn for place, waited in waits.items()), f"attempts begun before it: {waits}"
    assert len(order) <= 20 + turn
    for _ in range(10):
        world.round()
        world.now += ROUND_MS
    assert len(world.begun) >= came + 25, "and the big one goes on"


def test_two_big_tasks_share_the_slots(new_world: Callable[..., World]):
    world = new_world(slots=1)
    ids = [big(world, 300, name) for name in ("x", "y")]
    for _ in range(100):
        world.round()
        world.now += 25
    shares = Counter(a.task_id for a in world.begun)
    assert min(shares[id_] for id_ in ids) >= 0.4 * len(world.begun), shares


@pytest.mark.parametrize("stop", [False, True])
def test_the_search_for_whom_to_call_costs_the_same_however_many_queue(new_world: Callable[..., World], stop: bool):
    costs = []
    for count in (10, 2_000):
        world = new_world(slots=1)
        world.submit(step("a", mutex="m"), acts={"a": [HANG]}, name="a")
        world.settle()
        id_ = world.submit(*(step(f"s{n:04}", needs=[], mutex="m") for n in range(count)), name="many").id
        while queued(world) < count:
            claim(world)
        world.submit(step("z", needs=[], mutex="m"), name="z")
        assert claim(world) == []
        if stop:
            world.desk.pause(id_, "ann")
        costs.append(work_of(world, lambda: world.store.callable(50)))  # noqa: B023  called at once
        world.end("a", Done())
        assert world.worker is not None
        world.worker.tick()
        first = world.store.callable(50)
        assert [ref.step for ref in first] == (["z"] if stop else ["s0000"])
        costs.append(work_of(world, lambda: world.store.callable(50)))  # noqa: B023
    held, free, held_many, free_many = costs
    assert held_many <= held + 20 and free_many <= free + 20, costs


def queued(world: World) -> int:
    return len(world.store.tickets(world.tasks[-1], 100_000))
