"""`for_each` on the real engine.  Numbers: SEMANTICS §9."""

import json

import pytest

from longtask.core.errors import Refused
from longtask.core.model import Done, Expanded, Failed, Kind, Step, WhenFailed
from longtask.steps.contract import Assignment
from longtask.views.picture import look
from tests.engine.world import HANG, World, for_each, step, work

NO = Failed("no")


def numbered(a: Assignment) -> Done:
    """An item's output: its value and its place."""
    return Done({"of": a.scope["item"], "at": a.scope["index"]})


def row_of(world: World, key: str) -> Step:
    return world.row(key)


@pytest.mark.parametrize("items", [0, 1, 5])
def test_the_outputs_stand_in_the_order_of_the_list(world: World, items: int):  # (31)
    world.submit(for_each("x", [f"v{n}" for n in range(items)]), step("y", 2), acts={"x*": [numbered]})
    assert world.run() == "completed"
    assert row_of(world, "x").result == [{"of": f"v{n}", "at": n} for n in range(items)]


def test_after_a_failing_item_nothing_beyond_the_window_begins_and_the_owner_names_it(world: World):  # (32)
    items = for_each("x", list(range(40)), parallel_max=4)
    world.submit(items, acts={"x[[]17]": [NO]})
    assert world.run() == "failed"
    owner = row_of(world, "x")
    assert owner.state == "failed" and "x[17] (no)" in (owner.reason or "")
    begun = [row.item for row in world.owned("x")]
    assert max(n for n in begun if n is not None) <= 17 + 4
    assert "were not begun" in (owner.reason or "")


def test_continue_holds_null_in_place_and_a_list_of_failures(world: World):  # (33)
    items = for_each("x", list("abcde"), when_failed=WhenFailed.CONTINUE)
    world.submit(items, acts={"x[[]1]": [NO], "x[[]3]": [NO], "x*": [numbered]})
    assert world.run() == "completed"
    result = row_of(world, "x").result
    assert [None if r is None else r["at"] for r in result] == [0, None, 2, None, 4]
    (kept,) = world.store.artifacts(world.tasks[0], 10)
    assert kept.name == "failures/x.json"
    assert [f["index"] for f in json.loads(world.artifacts[kept.digest])] == [1, 3]


def test_a_late_expansion_in_a_cancelled_task_is_refused(world: World):  # (34)
    world.submit(for_each("x", [1, 2, 3]))
    claimed = world.dispatch.claim("w1", "system", 1)
    world.desk.cancel(world.tasks[0], "ann")
    world.scheduler.tick()
    with pytest.raises(Refused, match="is being cancelled"):
        world.dispatch.report(claimed[0].ref, 1, Expanded(3, [1, 2, 3]))
    world.die()
    world.later(40_000)
    assert world.run() == "cancelled"
    assert world.owned("x") == []


def test_an_item_has_its_own_fix_loop_which_sees_the_item(world: World):  # (35)
    seen: list[object] = []

    def fixed(a: Assignment) -> Done:
        seen.append(a.scope["item"])
        return Done()

    item = work(fix=work(Kind.AGENT))
    acts = {"x[[]1]": [Failed("red", digest="r"), Done(1)], "x[[]1].fix.1": [fixed], "x[[]0]": [Done(0)]}
    world.submit(for_each("x", ["a", "b"], item=item), acts=acts)
    assert world.run() == "completed"
    assert (row_of(world, "x").result, seen) == ([0, 1], ["b"])


def test_the_bar_never_goes_back_when_a_list_expands(world: World):  # (36)
    world.submit(step("a"), for_each("x", list(range(7)), needs=["a"]), step("b", 2))
    seen = [(0, 1)]
    while world.round():
        counts = world.task.counts
        seen.append((counts.weight_done, counts.weight))
    assert {whole for _, whole in seen[1:]} == {300}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (300, 300)


def test_a_retry_begins_the_failed_and_the_unbegun_items_only(world: World):  # (36b)
    acts = {"x[[]1]": [NO], "x[[]4]": [NO], "x*": [numbered]}
    world.submit(for_each("x", list("abcdefgh"), parallel_max=5), acts=acts)
    assert world.run() == "failed"
    begun = {row.item for row in world.owned("x")}
    assert len(begun) < 8
    world.begun.clear()
    world.desk.retry(world.ref("x"), "ann")
    assert world.run() == "completed"
    assert sorted(world.begun_keys()) == sorted(f"x[{n}]~2" for n in {*range(8)} - begun | {1, 4})
    assert [r["at"] for r in row_of(world, "x").result] == list(range(8))
    seen = look(world.store, world.tasks[-1])
    assert seen.items_of(row_of(world, "x")) == (8, 8, 0, 8), "what was passed over has ended, too"


def test_a_retry_while_items_are_being_cancelled_is_refused(world: World):  # (36b)
    world.submit(for_each("x", [1, 2]), acts={"x[[]*": [HANG]})
    world.settle()
    world.desk.cancel_step(world.ref("x"), "ann")
    world.settle()
    assert world.states("x", "x[0]") == ["cancelled", "running"]
    with pytest.raises(Refused, match="still being cancelled"):
        world.desk.retry(world.ref("x"), "ann")
    world.later(6_000)
    assert world.run() == "failed"
    world.desk.retry(world.ref("x"), "ann")
    world.acts["x[[]*"] = [Done()]
    assert world.run() == "completed"


def test_items_are_never_more_than_the_window_at_once(world: World):
    world.submit(for_each("x", list(range(30)), parallel_max=3), acts={"x[[]*": [HANG]})
    for _ in range(30):
        world.settle()
        running = [row.key for row in world.owned("x") if row.open]
        assert 1 <= len(running) <= 3
        seen = look(world.store, world.tasks[-1]).items_of(row_of(world, "x"))
        assert seen is not None and seen.begun == len(world.owned("x"))
        world.end(running[0], Done())
    assert world.run() == "completed"
