"""What stands between tasks, audited on a live database a page at a time: nothing is told of a family that is well, and
each thing that can be lost between two transactions is found once it is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from longtask.core.model import Kind
from longtask.store.contract import JournalRow, Ref
from longtask.store.postgres.store import PostgresStore
from longtask.views import families
from tests import postgres
from tests.engine.world import HANG, World, for_each, graph_of, step, subtask, work
from tests.raw import rows


@pytest.fixture(params=["sqlite", "postgresql"])
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Not audited at its end: some are damaged."""
    monkeypatch.setattr(families, "PAGE", 2)
    if request.param == "sqlite":
        world = World(slots=10)
    else:
        url = postgres.fresh_url()
        world = World(url, slots=10, opens=PostgresStore)
    yield world
    world.store.close()
    if request.param == "postgresql":
        postgres.drop(url)


def told(world: World) -> list[tuple[str, int]]:
    found = list(families.audit_below(world.store, world.store.get_task(world.tasks[0])))
    return sorted((wrong.rule, len(wrong.tasks)) for wrong in found)


def large(world: World) -> None:
    """Five children that run, each with a child of its own."""
    graph = graph_of(step("x", **subtask(graph_of(step("c", kind=Kind.AGENT), name="deepest"))), name="child")
    world.submit(for_each("x", [1, 2, 3, 4, 5], item=work(**subtask(graph)), parallel_max=5), acts={"c": [HANG]})
    world.settle()
    for child in world.children():
        world.tasks += [one.id for one in world.store.children(child.id, 10)]


def spend(world: World, task_id: str, n: int) -> None:
    row = JournalRow(n, "turn", "m", f"f{n}", 1, {}, 10, 5, 7)
    assert world.dispatch.journal_started(Ref(task_id, "c"), 1, 1, row)
    assert world.dispatch.journal_done(Ref(task_id, "c"), 1, 1, row)


def change(world: World, statement: str, *values: Any) -> None:
    rows(world.store, statement + " returning 1", *values)


def test_a_family_that_is_well_is_told_nothing_of_at_any_moment(world: World):
    large(world)
    assert told(world) == []
    spend(world, world.tasks[-1], 1)
    assert told(world) == [], "usage is on its way"
    while world.scheduler.tick():
        assert told(world) == []
    world.desk.pause(world.tasks[0], "ann", now=True)
    while world.scheduler.tick():
        assert told(world) == []
    world.desk.cancel(world.tasks[0], "ann")
    while world.scheduler.tick():
        assert told(world) == []
    world.audit()


def test_usage_is_not_found_wrong_while_it_grows(world: World, monkeypatch: pytest.MonkeyPatch):
    large(world)
    calls: list[int] = []
    own = families._own

    def meanwhile(store: Any, task_id: str) -> Any:
        calls.append(len(calls) + 1)
        spend(world, world.tasks[-1 - len(calls) % 3], (len(calls) + 2) // 3)
        if len(calls) % 2:
            world.scheduler.tick()
        return own(store, task_id)

    monkeypatch.setattr(families, "_own", meanwhile)
    assert told(world) == [] and len(calls) > 10


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("delete from outbox where kind = 'create'", [("child", 1)]),
        ("delete from outbox where kind = 'relay'", [("relay", 1)]),
    ],
)
def test_an_errand_that_is_lost_is_found(world: World, statement: str, found: list[tuple[str, int]]):
    graph = graph_of(step("c"), name="child")
    world.submit(step("x", **subtask(graph)), acts={"c": [HANG]})
    assert world.worker is not None
    while not world.store.errands(1):
        world.worker.tick()
    if "relay" in statement:
        world.settle()
        world.desk.pause(world.tasks[0], "ann")
    assert told(world) == []
    kept = rows(world.store, "select n, kind from outbox")
    change(world, statement)
    assert told(world) == found and len(kept) == 1


def test_what_is_wrong_between_two_tasks_names_both(world: World):
    large(world)
    child = world.children()[2]
    with world.store.task(child.id) as tx:
        followed = tx.task.followed
    change(
        world,
        'update task set rest = replace(rest, \'"parent_step"\', \'"parent_told":true,"parent_step"\') where id = ?',
        child.id,
    )
    assert (told(world), followed) == ([("end", 2)], 0)
    change(world, "update task set rest = replace(rest, '\"parent_told\":true,', '') where id = ?", child.id)
    assert told(world) == []


def test_usage_that_a_task_did_not_count_is_found(world: World):
    large(world)
    spend(world, world.tasks[-1], 1)
    change(world, "delete from outbox where kind = 'spent' and target = ?", world.tasks[0])
    assert told(world) == [("usage", 1)]
