"""What the simulator has found, as its smallest case."""

from collections.abc import Iterator

import pytest

from longtask.core.errors import Refused
from longtask.core.events import StepsAdded
from longtask.core.model import Done, Failed, Released, TaskState
from tests.engine.world import HANG, World, for_each, step, wait, work

from .world import small_batches


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.audit()
    made.store.close()


class Killed(BaseException):
    """The submitter is gone in the middle."""


def broken_off(world: World, commits: int, **plan) -> None:
    """A submission that dies before its commit number `commits + 1`; the task is there and loads."""
    left = [commits]

    def fault(point: str) -> None:
        left[0] -= point == "commit"
        if left[0] < 0:
            raise Killed

    world.store.fault = fault
    with pytest.raises(Killed):
        world.submit(*(step(key) for key in "abcde"), key="k", **plan)
    world.store.fault = lambda point: None
    [task] = world.store.tasks(open_only=True, workspace_id=None, before=0, limit=9)
    world.tasks.append(task.id)
    assert task.loading


def test_a_branch_follows_the_commit_that_ended_its_task(world: World):
    task = world.submit(step("a", commits=True), code=True, acts={"a": [world.commit("a.py")]})
    assert world.run() == "completed"
    world.later(61_000)
    assert world.code.refs[task.id] == world.task.head != world.task.base


def test_the_gate_of_an_empty_first_stage_opens_whatever_batch_it_came_in(world: World):
    with small_batches(2):
        world.submit(step("a", stage=2), step("b", stage=3))
        assert world.run() == "completed"


def test_a_report_in_a_closing_task_tells_nobody(world: World):
    task = world.submit(step("a", needs=[]), step("b", needs=["a"]), acts={"a": [HANG]})
    world.settle()
    world.desk.cancel(task.id, "ann")
    world.end("a", Failed("too late", retryable=False))
    assert world.worker is not None
    world.worker.tick()
    assert world.states("a", "b") == ["failed", "blocked"]
    assert world.run() == "cancelled"


def test_the_failure_that_dooms_a_task_tells_nobody(world: World):
    world.submit(step("a", needs=[]), step("b", needs=["a"]), fail_fast=True, acts={"a": [Failed("no")]})
    assert world.run() == "failed"
    assert world.states("a", "b", "gate.1") == ["failed", "cancelled", "cancelled"]


def test_a_task_that_is_cancelled_while_it_loads_ends(world: World):
    with small_batches(2):
        broken_off(world, 2)
        world.desk.cancel(world.task.id, "ann")
        assert world.run() == "cancelled"
        assert not world.task.loading
        again = world.submit(*(step(key) for key in "abcde"), key="k")
        assert (again.id, again.state) == (world.tasks[0], TaskState.CANCELLED)


def test_nothing_is_added_to_a_task_that_was_cancelled_while_it_loads(world: World):
    with small_batches(2):
        broken_off(world, 2)
        added = len(world.events(StepsAdded))
        world.desk.cancel(world.task.id, "ann")
        world.submit(*(step(key) for key in "abcde"), key="k")
        assert len(world.events(StepsAdded)) == added


def test_a_condition_that_dooms_a_task_while_it_loads_ends_it(world: World):
    with small_batches(2):
        broken = "steps.nobody.outputs.x"
        world.submit(*(step(key, needs=[], if_=broken) for key in "abcde"), fail_fast=True)
        assert world.run() == "failed"
        assert world.states("a", "e") == ["failed", "cancelled"]


def test_a_pause_does_not_take_the_place_of_a_cancel(world: World):
    task = world.submit(for_each("a", [1, 2], item=work(), needs=[]), acts={"a[[]*": [HANG]})
    world.settle()
    world.desk.cancel_step(world.ref("a[0]"), "ann")
    world.desk.pause(task.id, "ben", now=True)
    assert world.worker is not None
    world.worker.beat()
    world.worker.tick()
    assert world.states("a[0]", "a[1]") == ["cancelled", "ready"]


def test_what_is_given_back_after_a_cancel_is_refused(world: World):
    world.submit(step("a"), acts={"a": [HANG]})
    world.settle()
    world.desk.cancel_step(world.ref("a"), "ann")
    for outcome in (Released("pause"), Done()):
        with pytest.raises(Refused):
            world.dispatch.report(world.ref("a"), 1, outcome)


def test_a_later_signal_waits_until_every_waiter_has_heard_the_earlier_one(world: World):
    with small_batches(2):
        world.submit(*(wait(key, needs=[], signal="go") for key in "abcde"))
        world.settle()
        world.signal(payload={"n": 1})
        world.signal(payload={"n": 2})
        assert world.run() == "completed"
    assert [world.row(key).result for key in "abcde"] == [{"n": 1}] * 5
