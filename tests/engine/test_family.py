"""Tasks in tasks on the real engine: cases 44 to 49b, usage that is counted upward, and what may not be asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from longtask.core import family
from longtask.core.errors import LeaseLost, Refused
from longtask.core.events import StepParked, StepWoken, TaskPaused, TaskResumed, UsageRecorded
from longtask.core.model import Done, Failed, Kind, SubTask, Task
from longtask.store.contract import JournalRow, Ref
from tests.engine.world import HANG, World, for_each, graph_of, step, subtask, wait, work

RESULTS = {"said": "${{ steps.c.outputs.said }}"}
Made = Callable[..., World]


def parent(child: Any = None, **words: Any) -> Any:
    """A step `x` whose child does `c`."""
    graph = graph_of(child or step("c"), name="child", **words.pop("limits", {}))
    return step("x", **subtask(graph, results=RESULTS, sources=["c"], **words))


def says(text: str) -> list[Any]:
    return [Done({"said": text})]


def the(world: World, key: str, task: int = 0) -> Any:
    return world.store.get_step(Ref(world.tasks[task], key))


def kids(world: World) -> list[Any]:
    return list(world.children())


def top(world: World) -> Any:
    return world.store.get_task(world.tasks[0])


def asks(world: World) -> None:
    """The attempt has asked for its child, and nobody has made it."""
    assert world.worker is not None
    while "create" not in errands(world):
        assert world.worker.tick()


def errands(world: World) -> list[str]:
    return [row.kind for row in world.store.errands(100)]


def dying_at(point: str) -> tuple[list[int], Callable[[str], None]]:
    """How often the point is passed before a process dies there, to be set by the test; and what makes it die."""
    left = [1 << 30]

    def fault(at: str) -> None:
        if at == point:
            left[0] -= 1
            if left[0] == 0:
                raise Dead

    return left, fault


# --- a life -------------------------------------------------------------------------------------------------------


def test_a_step_is_carried_out_by_a_task_of_its_own(world: World):
    world.submit(parent(inputs={"who": "Ada"}), step("y", 2), acts={"c": [lambda a: Done({"said": a.scope["inputs"]})]})
    assert world.run() == "completed"
    (child,) = kids(world)
    assert the(world, "x").result == {"said": {"who": "Ada"}}
    assert (child.parent, child.parent_step, str(child.state)) == (world.tasks[0], "x", "completed")
    assert child.ancestors == ((world.tasks[0], "x"),) and child.parent_told
    assert world.begun_keys() == ["c", "y"] and the(world, "x").attempt == 2
    assert errands(world) == []


def test_a_failed_child_fails_its_step_and_a_retry_begins_another_one(world: World):
    acts = {"c": [lambda a: Done({"said": "at last"}) if len(kids(world)) > 1 else Failed("no", retryable=False)]}
    world.submit(parent(failures_max=3), acts=acts)
    assert world.run() == "failed"
    assert "failed: c: no" in the(world, "x").reason and the(world, "x").attempt == 2
    world.desk.retry(Ref(world.tasks[0], "x"), "ann")
    world.run()
    assert str(top(world).state) == "completed" and the(world, "x").result == {"said": "at last"}
    first, second = kids(world)
    assert (str(first.state), str(second.state)) == ("failed", "completed")


def test_a_retry_takes_over_what_the_last_child_had_completed(world: World):
    graph = graph_of(step("b"), step("c", needs=["b"]), name="child")
    x = step("x", **subtask(graph, inputs={"n": 1}))
    acts = {"b": [Done({"n": 1})], "c": [lambda a: Done() if len(kids(world)) > 1 else Failed("no")]}
    world.submit(x, acts=acts)
    assert world.run() == "failed"
    world.desk.retry(Ref(world.tasks[0], "x"), "ann")
    world.run()
    first, second = kids(world)
    assert str(top(world).state) == "completed" and world.begun_keys() == ["b", "c", "c"]
    assert second.options.forked.task == first.id and second.options.inputs == {"n": 1}
    assert (second.parent, second.ancestors, second.parent_told) == (first.parent, first.ancestors, True)
    assert world.store.get_step(Ref(second.id, "b")).result == {"n": 1}


def test_a_retry_takes_the_code_of_the_last_child_over(world: World):
    graph = graph_of(step("b", commits=True), step("c", needs=["b"], commits=True), name="child")
    c = lambda a: world.commit("c")(a) if len(kids(world)) > 1 else Failed("no", retryable=False)  # noqa: E731
    world.submit(step("x", **subtask(graph)), acts={"b": [world.commit("b")], "c": [c]}, code=True)
    assert world.run() == "failed"
    world.desk.retry(Ref(world.tasks[0], "x"), "ann")
    world.run()
    first, second = kids(world)
    assert str(top(world).state) == "completed" and world.begun_keys() == ["b", "c", "c"]
    assert second.base == first.base and world.code.contains(first.head, second.head)
    assert top(world).head == second.head


def test_a_cancelled_child_fails_its_step(world: World):
    world.submit(parent(), acts={"c": [HANG]})
    world.settle()
    (child,) = kids(world)
    world.desk.cancel(child.id, "ann")
    world.later(20_000)
    world.settle()
    assert str(top(world).state) == "failed" and "been cancelled" in the(world, "x").reason


def test_what_a_child_has_merged_is_the_commit_of_its_step(world: World):
    acts = {"c": [world.commit("a")], "y": [world.commit("b")]}
    x = step("x", **subtask(graph_of(step("c", commits=True), name="child")))
    world.submit(x, step("y", commits=True), step("z", 2), acts=acts, code=True)
    assert world.run() == "completed"
    (child,) = kids(world)
    assert child.base != child.head and world.code.contains(top(world).base, child.base)
    assert the(world, "x").commit == child.head
    assert world.code.contains(child.head, top(world).head) and world.code.contains(
        the(world, "y").commit, the(world, "z").base
    )


def test_items_may_be_tasks(world: World):
    graph = graph_of(step("c"), name="child")
    item = work(**subtask(graph, results=RESULTS, sources=["c"], inputs={"n": "${{ item }}"}))
    world.submit(
        for_each("x", [1, 2, 3, 4, 5], item=item, parallel_max=2),
        acts={"c": [lambda a: Done({"said": a.scope["inputs"]["n"] * 10})]},
    )
    assert world.run() == "completed"
    assert [one["said"] for one in the(world, "x").result] == [10, 20, 30, 40, 50]
    assert len(kids(world)) == 5


def test_tasks_in_tasks_go_four_deep(world: World):
    graph = graph_of(step("c"), name="deepest")
    for name in ("d4", "d3", "d2", "d1", "d0"):
        graph = graph_of(step("x", **subtask(graph)), name=name)
    world.submit(step("x", **subtask(graph)))
    world.run()
    assert str(top(world).state) == "failed"
    tasks = world.store.tasks(open_only=False, workspace_id=None, before=0, limit=10)
    assert sorted(len(task.ancestors) for task in tasks) == [0, 1, 2, 3, 4]
    assert "4 deep at most" in world.store.get_step(Ref(tasks[0].id, "x")).reason


def test_a_child_of_a_thousand_steps_comes_in_batches_and_begins_when_it_is_whole(world: World):
    graph = graph_of(*[step(f"s{n}", if_="true") for n in range(1_100)], name="child")
    world.submit(step("x", **subtask(graph)))
    assert world.run() == "completed"
    assert kids(world)[0].counts.steps == 1_101


# --- crashes and slow messengers ----------------------------------------------------------------------------------


class Dead(BaseException):
    pass


@pytest.mark.parametrize("point", ["commit", "committed"])
@pytest.mark.parametrize("dies", range(1, 12))
def test_one_child_and_one_waking_whichever_commit_is_the_last_of_a_life(new_world: Made, point: str, dies: int):
    left, fault = dying_at(point)
    world = new_world(fault=fault)
    world.submit(parent(), acts={"c": says("hello")})
    left[0] = dies
    try:
        world.run()
    except Dead:
        left[0] = 1 << 30
        world.die()
        world.later(20_000, awake=True)
        world.scheduler = world.new_scheduler()
        world.reborn()
        world.later(20_000)
    assert world.run() == "completed"
    (child,) = kids(world)
    events = world.store.events(world.tasks[0], 0, 1_000)
    assert sum(isinstance(event.fact, StepWoken) for event in events) == 1
    assert errands(world) == [] and str(child.state) == "completed"


def test_a_child_that_ends_before_anybody_waits_for_it_wakes_its_parent(world: World):
    """The signal lies in the inbox: whoever parks looks there first."""
    world.submit(parent(), acts={"c": says("early")})
    world.settle_until(lambda: the(world, "x").state == "running")
    ref = Ref(world.tasks[0], "x")
    child = family.child_id(world.tasks[0], "x", 1, world.now)
    assert world.run() == "completed"
    assert kids(world)[0].id == child
    inbox = world.store.inbox(ref.task_id, 0, 10)
    assert [signal.delivery for signal in inbox] == [f"end:{child}"]


def test_an_end_that_is_told_twice_counts_once(world: World):
    world.submit(parent(), acts={"c": says("hello")})
    world.settle_until(lambda: "ended" in errands(world))
    (row,) = [row for row in world.store.errands(10) if row.kind == "ended"]
    world.run()
    world.scheduler._family.act(row)
    assert len(world.store.inbox(world.tasks[0], 0, 10)) == 1
    assert world.run() == "completed"


def test_a_creation_that_comes_late_makes_no_second_child(world: World):
    world.submit(parent(), acts={"c": says("hello")})
    asks(world)
    (row,) = world.store.errands(10)
    world.run()
    world.scheduler._family.act(row)
    assert len(kids(world)) == 1 and world.run() == "completed"


def test_a_zombie_of_a_cancelled_step_makes_no_child(world: World):
    """Case 49."""
    world.submit(parent())
    claimed = world.dispatch.claim("zombie", "system", 1)
    assert [one.step.key for one in claimed] == ["x"]
    ref = Ref(world.tasks[0], "x")
    world.desk.cancel_step(ref, "ann")
    with pytest.raises(Refused):
        world.dispatch.report(ref, 1, SubTask())
    world.later(20_000)
    with pytest.raises(LeaseLost):
        world.dispatch.report(ref, 1, SubTask())
    world.settle()
    assert kids(world) == [] and errands(world) == [] and world.begun_keys() == []


# --- ends that pass down ------------------------------------------------------------------------------------------


def test_whoever_leaves_the_wait_ends_the_child_and_a_retry_begins_a_new_one(world: World):
    """Case 49b: before anything is told."""
    world.submit(parent(), acts={"c": [HANG]})
    world.settle()
    ref = Ref(world.tasks[0], "x")
    world.desk.cancel_step(ref, "ann")
    world.desk.retry(ref, "ann")
    world.acts["c"] = says("anew")
    world.later(20_000)
    world.settle()
    old, new = kids(world)
    assert (str(old.state), str(new.state)) == ("cancelled", "completed")
    assert str(top(world).state) == "completed" and the(world, "x").result == {"said": "anew"}


def test_a_child_that_is_not_wanted_before_it_is_made_is_made_and_ended(world: World):
    world.submit(parent(), acts={"c": [HANG]})
    asks(world)
    world.desk.cancel_step(Ref(world.tasks[0], "x"), "ann")
    assert errands(world) == ["create"], "the end waits for the beginning"
    world.settle()
    world.later(20_000)
    world.settle()
    (child,) = kids(world)
    assert str(child.state) == "cancelled" and errands(world) == []


def test_cancelling_a_task_cancels_all_below_it(world: World):
    graph = graph_of(step("x", **subtask(graph_of(step("c"), name="grandchild"))), name="child")
    item = work(**subtask(graph))
    world.submit(for_each("x", list(range(30)), item=item, parallel_max=30), acts={"c": [HANG]})
    world.settle()
    world.desk.cancel(world.tasks[0], "ann")
    for _ in range(10):
        world.later(6_000)
        world.settle()
    tasks = world.store.tasks(open_only=False, workspace_id=None, before=0, limit=100)
    assert len(tasks) == 61 and {str(task.state) for task in tasks} == {"cancelled"}
    assert errands(world) == []


# --- pausing ------------------------------------------------------------------------------------------------------


def paused(world: World, n: int = 0) -> int:
    return kids(world)[n].pauses


def test_a_pause_passes_down_and_so_does_a_resume(world: World):
    graph = graph_of(step("x", **subtask(graph_of(step("c"), step("d", needs=["c"]), name="grandchild"))), name="child")
    world.submit(step("x", **subtask(graph)), acts={"c": [HANG]})
    world.settle()
    child = kids(world)[0]
    world.desk.pause(world.tasks[0], "ann")
    world.settle()
    (grandchild,) = world.store.children(child.id, 10)
    assert (world.store.get_task(child.id).pauses, grandchild.pauses) == (2, 2)
    world.end("c", Done())
    world.settle()
    assert world.store.get_step(Ref(grandchild.id, "d")).state == "ready"
    world.desk.resume(world.tasks[0], "ann")
    assert world.run() == "completed"
    assert str(world.store.get_task(grandchild.id).state) == "completed"


def test_quick_changes_and_a_slow_messenger_leave_the_child_paused(world: World):
    """Case 46: who has the first wish in hand delivers it last."""
    world.submit(parent(), acts={"c": [HANG]})
    world.settle()
    (child,) = kids(world)
    slow = world.scheduler._family
    world.desk.pause(world.tasks[0], "ann")
    world.desk.resume(world.tasks[0], "ann")
    world.desk.pause(world.tasks[0], "ann")
    world.settle()
    assert paused(world) == 2
    slow._follow(child.id, 2, False)
    assert paused(world) == 2
    slow._follow(child.id, 1, True)
    world.desk.resume(world.tasks[0], "ann")
    world.settle()
    slow._follow(child.id, 3, True)
    assert paused(world) == 0 and top(world).relay is None
    told = [event.fact for event in world.store.events(child.id, 0, 100)]
    assert [type(f) for f in told if isinstance(f, TaskPaused | TaskResumed)] == [TaskPaused, TaskResumed]


def test_a_child_that_is_being_made_while_its_parent_is_paused_is_paused(world: World):
    """Case 47, at both moments: before it is looked at what the parent is, and after."""
    world.submit(parent(), acts={"c": [HANG]})
    asks(world)
    (row,) = world.store.errands(10)
    family_ = world.scheduler._family
    done = family_.act(row)  # made from a parent that is active
    assert paused(world) == 0
    world.desk.pause(world.tasks[0], "ann")
    relay = next(row for row in world.store.errands(10) if row.kind == "relay")
    family_.over(world.tasks[0], [family_.act(relay)])
    family_.over(world.tasks[0], [done])
    world.settle()
    assert paused(world) == 2 and errands(world) == []


def test_a_relay_that_ends_and_begins_anew_in_one_transaction_keeps_its_errand(world: World):
    world.submit(parent(), acts={"c": [HANG]})
    asks(world)
    (row,) = world.store.errands(10)
    family_ = world.scheduler._family
    done = family_.act(row)  # made from a parent that is active
    world.desk.pause(world.tasks[0], "ann")
    relay = next(row for row in world.store.errands(10) if row.kind == "relay")
    family_.over(world.tasks[0], [family_.act(relay), done])
    assert (top(world).relay, errands(world)) == ("", ["relay"])
    world.settle()
    assert paused(world) == 2 and errands(world) == []


@pytest.mark.parametrize("relayed_first", [True, False])
def test_a_child_born_into_an_older_wish_is_told_the_new_one(world: World, relayed_first: bool):
    world.submit(parent(), acts={"c": [HANG]})
    asks(world)
    world.desk.pause(world.tasks[0], "ann")
    rows = {row.kind: row for row in world.store.errands(10)}
    family_ = world.scheduler._family
    for kind in ("relay", "create") if relayed_first else ("create", "relay"):
        family_.over(world.tasks[0], [family_.act(rows[kind])])
    world.settle()
    assert paused(world) == 2 and top(world).relay is None and errands(world) == []


def test_a_person_s_own_pause_survives_the_parent_s_resume(world: World):
    """Case 48."""
    world.submit(parent(), acts={"c": [HANG]})
    world.settle()
    (child,) = kids(world)
    world.desk.pause(child.id, "ann")
    world.desk.pause(world.tasks[0], "ann")
    world.settle()
    assert paused(world) == 3
    with pytest.raises(Refused, match="held by its parent"):
        world.desk.resume(child.id, "ann")
    world.desk.resume(world.tasks[0], "ann")
    world.settle()
    assert paused(world) == 1
    world.desk.resume(child.id, "ann")
    assert paused(world) == 0


def test_a_relay_goes_on_where_a_dead_scheduler_left_it(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("longtask.engine.family.CHILDREN_MAX", 3)
    item = work(**subtask(graph_of(wait("c", signal="go"), name="child")))
    world.submit(for_each("x", list(range(10)), item=item, parallel_max=10))
    world.settle()
    assert len(kids(world)) == 10
    world.desk.pause(world.tasks[0], "ann")
    world.scheduler.tick()
    assert [child.pauses for child in kids(world)].count(2) == 3 and top(world).relay == "x[2]"
    world.scheduler = world.new_scheduler()
    world.settle()
    assert [child.pauses for child in kids(world)].count(2) == 10 and top(world).relay is None


# --- pausing at once ----------------------------------------------------------------------------------------------


def under_way(world: World, depth: int = 2) -> list[Task]:
    """An attempt that runs in each task of a line; all of them, from the top."""
    graph = graph_of(step("c"), name="deepest")
    for n in range(depth - 1):
        graph = graph_of(step("x", **subtask(graph)), step("c"), name=f"d{n}")
    world.submit(step("x", **subtask(graph)), step("c"), acts={"c": [HANG]})
    world.settle()
    line = [top(world)]
    while below := world.store.children(line[-1].id, 10):
        line += below
    world.tasks += [task.id for task in line if task.id not in world.tasks]
    return line


def states(world: World, line: list[Task], key: str = "c") -> list[str]:
    return [str(world.store.get_step(Ref(task.id, key)).state) for task in line]


def test_a_pause_at_once_makes_all_below_give_back(world: World):
    line = under_way(world, 3)
    assert states(world, line) == ["running"] * 4
    world.desk.pause(line[0].id, "ann", now=True)
    world.settle()
    world.later(6_000)
    world.settle()
    assert states(world, line) == ["ready"] * 4
    rows = [world.store.get_step(Ref(task.id, "c")) for task in line]
    assert [(row.failures, row.losses) for row in rows] == [(0, 0)] * 4, "that costs no budget"
    tasks = [world.store.get_task(task.id) for task in line]
    assert [(task.pauses, task.at_once) for task in tasks] == [(1, True), (2, True), (2, True), (2, True)]
    world.audit()
    world.acts["c"] = [Done()]
    world.desk.resume(line[0].id, "ann")
    assert world.run() == "completed"
    assert not any(world.store.get_task(task.id).at_once for task in line)
    world.audit()


def test_a_task_that_is_paused_already_is_paused_at_once_with_all_below(world: World):
    line = under_way(world)
    world.desk.pause(line[0].id, "ann")
    world.desk.pause(line[1].id, "ben")
    world.later(6_000)
    assert states(world, line) == ["running"] * 3, "what runs goes on to its end"
    world.desk.pause(line[0].id, "ann", now=True)
    world.desk.pause(line[0].id, "ann", now=True)
    world.later(6_000)
    world.settle()
    assert states(world, line) == ["ready"] * 3
    told = [event.fact for event in world.store.events(line[0].id, 0, 100) if isinstance(event.fact, TaskPaused)]
    assert [fact.now for fact in told] == [False, True], "a second request is answered with the first"
    world.audit()


def test_a_pause_at_once_of_a_child_that_its_parent_holds_reaches_what_is_below(world: World):
    line = under_way(world)
    world.desk.pause(line[0].id, "ann")
    world.settle()
    world.desk.pause(line[1].id, "ann", now=True)
    world.later(6_000)
    world.settle()
    assert states(world, line) == ["running", "ready", "ready"]
    world.audit()


def test_a_child_that_was_made_from_a_task_that_ran_is_paused_at_once_with_it(world: World):
    """Its creation is under way while the parent pauses, and so far it ran."""
    world.submit(parent(), acts={"c": [HANG]})
    asks(world)
    (row,) = world.store.errands(10)
    made = world.scheduler._family.act(row)
    world.settle_until(lambda: the(world, "c", -1).state == "running" if kids(world) else False)
    world.desk.pause(world.tasks[0], "ann", now=True)
    world.scheduler._family.over(world.tasks[0], [made])
    world.later(6_000)
    world.settle()
    assert the(world, "c", -1).state == "ready" and kids(world)[0].at_once
    world.audit()


def test_a_child_that_is_born_into_a_pause_at_once_runs_nothing(world: World):
    world.submit(parent(), acts={"c": [HANG]})
    asks(world)
    world.desk.pause(world.tasks[0], "ann", now=True)
    world.later(6_000)
    world.settle()
    (child,) = kids(world)
    assert (child.pauses, child.at_once) == (2, True) and world.begun_keys() == []
    world.audit()


def test_what_runs_is_asked_in_batches_and_a_dead_scheduler_s_work_is_taken_up(
    new_world: Made, monkeypatch: pytest.MonkeyPatch
):
    for place in ("longtask.core.machine", "longtask.engine.writing"):
        monkeypatch.setattr(f"{place}.STOPS_MAX", 3)
    world = new_world(slots=20)
    graph = graph_of(*[step(f"c{n}") for n in range(8)], name="child")
    world.submit(step("x", **subtask(graph)), *[step(f"a{n}") for n in range(7)], acts={"*": [HANG]})
    world.settle()
    (child,) = kids(world)
    world.desk.pause(world.tasks[0], "ann", now=True)
    asked = lambda task: sum(lease.stop == "pause" for lease in world.store.leases(task, 100))  # noqa: E731
    assert (asked(world.tasks[0]), asked(child.id)) == (3, 0)
    world.scheduler.tick()
    assert 3 < asked(world.tasks[0]) < 7
    world.scheduler = world.new_scheduler()
    while world.scheduler.tick():
        world.audit()
    assert (asked(world.tasks[0]), asked(child.id)) == (7, 8)
    assert top(world).relay is None and errands(world) == []


def test_a_request_to_cancel_is_not_weakened_by_a_pause_at_once(world: World):
    line = under_way(world, 1)
    world.desk.cancel_step(Ref(line[1].id, "c"), "ann")
    world.desk.pause(line[0].id, "ann", now=True)
    world.settle()
    assert [lease.stop for lease in world.store.leases(line[1].id, 10)] == ["cancel"]
    world.audit()


@pytest.mark.parametrize("dies", range(1, 9))
@pytest.mark.parametrize("point", ["commit", "committed"])
def test_a_pause_at_once_arrives_whichever_commit_is_the_last_of_a_life(new_world: Made, point: str, dies: int):
    left, fault = dying_at(point)
    world = new_world(fault=fault)
    line = under_way(world)
    world.desk.pause(line[0].id, "ann", now=True)
    left[0] = dies
    try:
        while world.scheduler.tick():
            pass
    except Dead:
        world.scheduler = world.new_scheduler()
    left[0] = 1 << 30
    world.later(20_000)
    world.settle()
    assert states(world, line) == ["ready"] * 3 and errands(world) == []
    world.audit()


# --- usage and budgets --------------------------------------------------------------------------------------------


def turn(n: int, micros: int | None = 1, attempt: int = 1) -> JournalRow:
    return JournalRow(n, "turn", "m", f"f{n}", attempt, {}, 10, 5, micros)


def family_of_three(world: World, **limits: Any) -> tuple[Ref, Task, Task]:
    """An agent at work in a grandchild; its step, the child and the grandchild."""
    grandchild = graph_of(step("c", kind=Kind.AGENT), name="grandchild")
    child = graph_of(step("x", **subtask(grandchild)), step("a", kind=Kind.AGENT), name="child")
    world.submit(step("x", **subtask(child)), acts={"c": [HANG], "a": [HANG]}, **limits)
    world.settle()
    (first,) = kids(world)
    (second,) = world.store.children(first.id, 10)
    world.tasks.append(second.id)
    return Ref(second.id, "c"), first, second


def spend(world: World, ref: Ref, n: int, micros: int | None = 1, attempt: int = 1) -> None:
    assert world.dispatch.journal_started(ref, attempt, 1, turn(n, micros, attempt))
    assert world.dispatch.journal_done(ref, attempt, 1, turn(n, micros, attempt))


def test_usage_counts_in_every_task_above_once(world: World):
    ref, child, grandchild = family_of_three(world)
    spend(world, ref, 1, 7)
    spend(world, Ref(child.id, "a"), 1, None)
    rows = [row for row in world.store.errands(10) if row.kind == "spent"]
    assert [(row.task_id, row.target) for row in rows] == [
        (grandchild.id, child.id),
        (grandchild.id, world.tasks[0]),
        (child.id, world.tasks[0]),
    ]
    late = [world.scheduler._family.act(row) for row in rows]
    world.settle()
    for row in rows:
        world.scheduler._family.act(row)
    assert len(late) == 3
    found = [world.store.get_task(id_) for id_ in (world.tasks[0], child.id, grandchild.id)]
    assert [(t.spent_micros, t.spent_tokens, t.unpriced) for t in found] == [
        (7, 30, True),
        (7, 30, True),
        (7, 15, False),
    ]
    told = [e for e in world.store.events(world.tasks[0], 0, 100) if isinstance(e.fact, UsageRecorded)]
    assert [(e.fact.step, e.fact.child, e.fact.model) for e in told] == [
        ("x", grandchild.id, "m"),
        ("x", child.id, "m"),
    ]


def test_no_turn_begins_once_a_task_above_has_spent_its_budget_told_or_not(world: World):
    ref, child, grandchild = family_of_three(world, budget_micros=10)
    other = Ref(child.id, "a")
    assert world.dispatch.journal_started(other, 1, 1, turn(1))
    spend(world, ref, 1, 10)
    assert top(world).spent_micros == 0, "nothing was told yet"
    with pytest.raises(Refused, match="budget"):
        world.dispatch.journal_started(ref, 1, 1, turn(2))
    assert world.dispatch.journal_done(other, 1, 1, turn(1, 3)), "what was begun before is taken"
    with pytest.raises(Refused, match="budget"):
        world.dispatch.journal_started(other, 1, 1, turn(2))
    world.settle()
    assert top(world).spent_micros == 13 and world.store.get_task(grandchild.id).pauses == 2
    assert world.worker is not None
    world.worker.beat()
    world.settle()
    assert world.store.get_step(ref).state == world.store.get_step(other).state == "ready"
    assert world.store.get_step(ref).failures == 0
    assert str(top(world).state) == "active" and world.dispatch.claim("w", "default", 5) == []
    world.desk.raise_budget(world.tasks[0], "ann", micros=100)
    world.settle()
    assert world.store.get_task(grandchild.id).pauses == 0
    spend(world, ref, 2, 5, attempt=2)


def test_usage_that_is_told_and_not_yet_taken_away_is_counted_once(world: World):
    ref, *_ = family_of_three(world, budget_micros=10)
    spend(world, ref, 1, 6)
    for row in world.store.errands(10):
        world.scheduler._family.act(row)
    (_own, first, second) = world.store.over(ref.task_id)
    assert (first.task.spent_micros, first.micros) == (second.task.spent_micros, second.micros) == (6, 0)
    spend(world, ref, 2, 3)
    counted = [(o.task.spent_micros, o.tokens, o.micros) for o in world.store.over(ref.task_id)]
    assert counted == [(9, 0, 0), *[(6, 15, 3)] * 2]


def test_usage_after_the_end_of_a_parent_still_counts_above_it(world: World):
    ref, child, _grandchild = family_of_three(world)
    assert world.dispatch.journal_started(ref, 1, 1, turn(1))
    world.desk.cancel_step(Ref(world.tasks[0], "x"), "ann")
    world.settle_until(lambda: str(world.store.get_task(child.id).state) == "closing")
    assert world.dispatch.journal_done(ref, 1, 1, turn(1, 4))
    world.later(40_000)
    world.settle()
    assert {str(world.store.get_task(id_).state) for id_ in (child.id, ref.task_id)} == {"cancelled"}
    assert errands(world) == []


# --- refusals -----------------------------------------------------------------------------------------------------


def test_a_child_is_taken_up_again_by_its_parent_s_step_only(world: World):
    world.submit(parent(), acts={"c": [Failed("no", retryable=False)]})
    world.run()
    (child,) = kids(world)
    with pytest.raises(Refused, match="retry step 'x' of task"):
        world.desk.retry(Ref(child.id, "c"), "ann")
    with pytest.raises(Refused, match="waive step 'x' of task"):
        world.desk.skip(Ref(child.id, "c"), "ann")


def test_nobody_but_a_task_tells_its_end(world: World):
    world.submit(parent(), acts={"c": [HANG]})
    world.settle()
    parked = next(e.fact for e in world.store.events(world.tasks[0], 0, 100) if isinstance(e.fact, StepParked))
    with pytest.raises(Refused, match="only that task"):
        world.desk.signal(world.tasks[0], parked.question["name"], {"state": "completed"})
