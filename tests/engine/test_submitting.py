"""Submitting and growing to size on the real engine."""

import pytest

from longtask.core.errors import Refused
from longtask.core.events import StepsAdded, TaskSubmitted
from longtask.core.model import Done, Json
from tests.engine.world import World, step


class Killed(BaseException):
    """The submitter is gone in the middle."""


def broken_off(world: World, at: int, steps: list, key: str | None = "k") -> None:
    """Submits and dies at the `at`-th commit."""
    left = [at]

    def fault(point: str) -> None:
        if point == "commit":
            left[0] -= 1
            if not left[0]:
                raise Killed

    world.store.fault = fault
    with pytest.raises(Killed):
        world.submit(*steps, key=key)
    world.store.fault = lambda point: None


def many(n: int) -> list:
    return [step(f"s{i:05}", needs=[f"s{i - 1:05}"] if i % 500 else []) for i in range(n)]


def test_a_large_plan_is_stored_in_batches_of_500(world: World):
    world.submit(*many(1_700))
    added = world.events(TaskSubmitted, StepsAdded)
    assert [len(e.fact.steps) for e in added] == [500, 500, 500, 201, 0]  # type: ignore[union-attr]
    assert [e.fact.more for e in added] == [True, True, True, True, False]  # type: ignore[union-attr]
    assert (world.task.loading, world.task.counts.steps) == (False, 1_701)


@pytest.mark.parametrize("at", [2, 3, 4, 5])
def test_a_submission_that_broke_off_is_continued_by_its_key(world: World, at: int):
    broken_off(world, at, many(1_700))
    [loading] = world.store.tasks(open_only=False, workspace_id=None, before=0, limit=9)
    assert loading.loading and loading.admits == 0
    world.tasks.append(loading.id)
    world.settle()
    assert world.begun == []
    world.audit()
    task = world.submit(*many(1_700), key="k")
    assert (task.id, task.loading, task.counts.steps) == (loading.id, False, 1_701)
    world.round(), world.round()
    assert world.begun_keys()[0] == "s00000"


def test_a_submission_that_broke_off_before_its_first_commit_has_not_happened(world: World):
    broken_off(world, 1, many(3))
    assert world.store.tasks(open_only=False, workspace_id=None, before=0, limit=9) == []
    world.submit(*many(3), key="k")
    assert world.run() == "completed"


def test_the_same_key_is_the_same_task_and_another_plan_under_it_is_refused(world: World):
    task = world.submit(step("a"), key="k")
    assert world.submit(step("a"), key="k").id == task.id
    with pytest.raises(Refused, match="which has another plan"):
        world.submit(step("b"), key="k")
    assert world.run() == "completed"
    assert world.submit(step("a"), key="k").id == task.id


def test_without_a_key_each_submission_is_a_task(world: World):
    assert world.submit(step("a")).id != world.submit(step("a")).id
    assert [task.number for task in world.store.tasks(open_only=False, workspace_id=None, before=0, limit=9)] == [2, 1]


def test_conditions_at_submission_are_decided_in_batches_too(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("longtask.engine.desk.BATCH_MAX", 4)
    world.submit(*(step(f"s{n}", if_="false" if n % 2 else "true") for n in range(11)), stages=3)
    assert world.run() == "completed"
    assert [row.state for row in world.rows() if row.key.startswith("s")] == [
        "skipped" if n % 2 else "completed" for n in (0, 1, 10, 2, 3, 4, 5, 6, 7, 8, 9)
    ]


def test_a_plan_s_text_is_kept_as_it_was(world: World):
    task = world.submit(step("a"))
    world.store.put_plan(task.id, "longtask: 1\n# a comment\n")
    assert world.store.get_plan(task.id) == "longtask: 1\n# a comment\n"


@pytest.mark.parametrize("value", ["x" * 5_000, list(range(2_000)), {"a": "é" * 3_000}])
def test_a_large_result_goes_to_the_artifact_store_and_is_read_back(world: World, value: Json):
    big = step("b", needs=["a"], if_="steps.a.outputs != null", reads=("a",))
    world.submit(step("a"), big, acts={"a": [Done(value)]})
    assert world.run() == "completed"
    assert set(world.row("a").result) == {"$artifact"}
    assert len(str(world.events())) < 20_000
    assert next(a for a in world.begun if a.step == "b").scope["steps"]["a"]["outputs"] == value
