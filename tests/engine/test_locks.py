"""How much one transaction may lock, whatever the size of what it is part of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from longtask.core.policy import BATCH_MAX, EDGES_BATCH_MAX
from longtask.store.queries import load
from tests.engine.world import World, step

NAMES = {sql: name for name, sql in load("sqlite").items()}


class Rows:
    """How many rows of a table each commit has written."""

    def __init__(self) -> None:
        self.commits: list[dict[str, int]] = [{}]

    def __call__(self, sql: str, params: Any) -> None:
        if sql == "commit":
            self.commits.append({})
        name = NAMES.get(sql, "")
        if name in ("upsert_steps", "insert_edges", "insert_specs"):
            assert isinstance(params, Mapping)
            self.commits[-1][name] = self.commits[-1].get(name, 0) + len(json.loads(params["rows"]))

    def most(self, name: str) -> int:
        return max(commit.get(name, 0) for commit in self.commits)


def large(steps: int, **more: Any) -> list[Any]:
    return [step(f"s{n:05}", **more) for n in range(steps)]


def test_a_wide_stage_is_submitted_without_a_wide_lock(new_world):
    """Its gate has an edge from every step: they come with the steps, not with the gate."""
    rows = Rows()
    world = new_world(trace=rows)
    world.submit(*large(3_000), step("then", stage=2))
    assert world.row("gate.1").blockers == 3_000
    assert rows.most("upsert_steps") <= BATCH_MAX + 2  # and the gates, which count their edges
    assert rows.most("insert_edges") <= EDGES_BATCH_MAX


def test_steps_that_need_much_are_submitted_in_smaller_batches(new_world):
    rows = Rows()
    world = new_world(trace=rows)
    first = large(400)
    needs = [row.key for row, _ in first]
    world.submit(*first, *(step(f"t{n}", needs=needs) for n in range(30)))
    assert {world.row(f"t{n}").blockers for n in range(30)} == {400}
    assert rows.most("insert_edges") <= EDGES_BATCH_MAX


def test_a_need_that_comes_later_in_the_plan_counts_as_a_blocker(world: World):
    world.submit(step("first", needs=["s00509"]), *large(510))
    assert (world.state("first"), world.row("first").blockers) == ("blocked", 1)
    assert world.run() == "completed"
    assert world.begun_keys().index("s00509") < world.begun_keys().index("first")


def test_commands_that_are_all_different_are_stored_in_parts(new_world):
    rows = Rows()
    world = new_world(trace=rows)
    task = world.submit(*(step(f"s{n:05}", run=f"echo {n}") for n in range(1_001)))
    assert rows.most("insert_specs") <= BATCH_MAX
    for n in (0, 400, 1_000):
        assert world.store.spec(task.id, world.row(f"s{n:05}").spec).body["run"] == f"echo {n}"


def test_many_cancelled_tasks_are_not_swept_under_one_lock(new_world):
    rows = Rows()
    world = new_world(trace=rows)
    tasks = [world.submit(*large(300), name=f"n{n}") for n in range(6)]
    for task in tasks:
        world.desk.cancel(task.id, "ann")
    rows.commits.append({})
    world.settle()
    assert {world.store.get_task(task.id).state for task in tasks} == {"cancelled"}
    assert rows.most("upsert_steps") <= 2 * BATCH_MAX
