"""What a transaction may cost: rows and statements, counted in what the store is sent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from longtask.core.model import Done, Kind
from longtask.engine import worker as worker_module
from longtask.store.queries import load
from tests.engine.world import approval, for_each, step, work

ITEM_ROWS_MAX = 6
STATEMENTS_MAX = 10
NAMES = {sql: name for name, sql in load("sqlite").items()}


class Trace:
    """Statements by transaction, and how many step rows each writes."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.rows: list[int] = []

    def __call__(self, sql: str, params: Any) -> None:
        name = NAMES.get(sql, sql)
        self.names.append(name)
        if name == "upsert_steps":
            assert isinstance(params, Mapping)
            self.rows.append(len(json.loads(params["rows"])))


def test_no_transaction_of_ten_thousand_items_writes_more_than_six_rows(new_world):  # (31)
    trace = Trace()
    world = new_world(slots=8, trace=trace)
    world.submit(for_each("x", list(range(10_000)), item=work(Kind.FUNCTION, inline=True), parallel_max=8))
    world.settle_until(lambda: bool(world.owned("x")))
    assert trace.rows[-1] <= 8 + 1  # the window, and the list
    trace.rows.clear()
    world.settle_until(lambda: world.row("x").items_ended >= 400)
    assert max(trace.rows) <= ITEM_ROWS_MAX
    trace.rows.clear()
    world.desk.cancel(world.tasks[0], "ann")
    world.run()
    assert world.status == "cancelled"
    assert sum(trace.rows) <= 40  # items that have not begun have no row


def test_a_small_list_costs_as_much_for_each_item_as_a_large_one(new_world):
    trace = Trace()
    world = new_world(trace=trace)
    world.submit(for_each("x", list(range(20)), parallel_max=4), acts={"x[[]*": [Done(1)]})
    assert world.run() == "completed"
    assert max(trace.rows) <= ITEM_ROWS_MAX


def test_a_chained_step_takes_ten_statements_and_one_commit(new_world):
    trace = Trace()
    world = new_world(trace=trace)
    chain = [step(f"s{n:02}", needs=[f"s{n - 1:02}"] if n else [], kind=Kind.FUNCTION, inline=True) for n in range(50)]
    world.submit(*chain)
    trace.names.clear()
    assert world.worker is not None
    while world.worker.tick() or world.worker.running:
        pass
    assert len(world.begun) == 50
    counts = Counter(trace.names)
    told = f"{len(trace.names) / 50:.1f} statements a step: {dict(counts.most_common())}"
    assert counts["commit"] <= 50 + 1, told
    assert len(trace.names) <= 50 * STATEMENTS_MAX, told


def test_who_parks_an_approval_takes_the_next_one_of_its_task_in_the_same_commit(new_world, monkeypatch):
    monkeypatch.setattr(worker_module, "SYSTEM_MAX", 1)
    trace = Trace()
    world = new_world(trace=trace)
    world.submit(*(approval(f"s{n:02}") for n in range(50)))
    trace.names.clear()
    assert world.worker is not None
    while world.worker.tick() or world.worker.running:
        pass
    assert [world.state(f"s{n:02}") for n in (0, 49)] == ["waiting", "waiting"]
    assert Counter(trace.names)["commit"] <= 50 + 1
