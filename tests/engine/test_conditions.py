"""Conditions, `run_when`, `when_failed` and how a task ends, on the real engine.  Numbers: SEMANTICS §9."""

import pytest

from longtask.core.errors import Refused
from longtask.core.model import Done, Failed, RunWhen, StepState, WhenFailed
from tests.engine.world import HANG, World, step

NO = Failed("no")


def benign(world: World, key: str) -> bool:
    row = world.row(key)
    assert row.state is StepState.SKIPPED
    return row.benign


def test_what_needs_an_unwanted_step_is_not_wanted_and_the_task_completes(world: World):  # (8)
    world.submit(step("a", if_="false"), step("b", needs=["a"]), step("c", needs=["b"]))
    assert world.run() == "completed"
    assert benign(world, "a") and benign(world, "b") and benign(world, "c")


@pytest.mark.parametrize("first", ["unwanted", "failing"])
def test_a_veto_decides_over_an_unwanted_need_in_either_order(world: World, first: str):  # (9)
    later = {"unwanted": "failing", "failing": "unwanted"}[first]
    gate = step("go")
    unwanted = step("unwanted", needs=["go"] if later == "unwanted" else [], if_="false")
    failing = step("failing", needs=["go"] if later == "failing" else [])
    world.submit(
        gate, unwanted, failing, step("e", needs=["unwanted", "failing"]), acts={"go": [HANG], "failing": [NO]}
    )
    world.settle()
    assert world.state(first) in ("skipped", "failed")
    world.end("go", Done())
    assert world.run() == "failed"
    assert not benign(world, "e")


def test_run_when_always_runs_behind_a_failure_and_the_task_has_failed(world: World):  # (10)
    world.submit(
        step("a"),
        step("clean", needs=["a"], run_when=RunWhen.ALWAYS),
        step("tell", needs=["a"], run_when=RunWhen.FAILURE),
        step("b", needs=["a"]),
        acts={"a": [NO]},
    )
    assert world.run() == "failed"
    assert world.states("clean", "tell", "b") == ["completed", "completed", "skipped"]


def test_run_when_failure_is_not_wanted_behind_a_success(world: World):
    world.submit(step("a"), step("tell", needs=["a"], run_when=RunWhen.FAILURE))
    assert world.run() == "completed"
    assert benign(world, "tell")


def test_an_if_is_evaluated_over_the_outputs_that_it_names(world: World):
    more, less = "steps.a.outputs.n > 3", "steps.a.outputs.n < 3"
    steps = [step(key, needs=["a"], if_=text, reads=("a",)) for key, text in (("b", more), ("c", less))]
    world.submit(step("a"), *steps, acts={"a": [Done({"n": 4})]})
    assert world.run() == "completed"
    assert world.states("b", "c") == ["completed", "skipped"]


def test_an_if_with_an_unknown_output_fails_its_step_and_says_so(world: World):  # (11)
    world.submit(step("a"), step("b", needs=["a"], if_="steps.a.outputs.n > 3", reads=("a",)), acts={"a": [Done({})]})
    assert world.run() == "failed"
    assert "its `if` cannot be evaluated" in (world.row("b").reason or "")
    assert world.row("b").attempt == 0


def test_a_step_without_needs_and_with_a_false_if_is_skipped_at_submission(world: World):  # (11b)
    world.submit(step("a", if_="false"), step("b"), acts={"b": [HANG]})
    assert benign(world, "a")
    world.settle()
    world.end("b", Done())
    assert world.run() == "completed"


def test_a_tolerated_failure_lets_dependents_run_and_the_task_complete(world: World):  # (12)
    world.submit(step("a", when_failed=WhenFailed.CONTINUE), step("b", needs=["a"]), acts={"a": [NO]})
    assert world.run() == "completed"
    assert world.states("a", "b") == ["failed", "completed"]


def test_a_tolerated_cancelled_step_does_the_same(world: World):  # (13)
    world.submit(step("a", when_failed=WhenFailed.CONTINUE), step("b", needs=["a"]), acts={"a": [HANG]})
    world.settle()
    world.desk.cancel_step(world.ref("a"), "ann")
    world.later(1_000)
    assert world.run() == "completed"
    assert world.states("a", "b") == ["cancelled", "completed"]


def test_fail_fast_sweeps_what_is_open_and_the_task_cannot_be_taken_up_again(world: World):  # (14)
    world.submit(step("a"), step("b", 2), step("c"), acts={"a": [HANG], "c": [HANG]}, fail_fast=True)
    world.settle()
    world.end("a", NO)
    world.settle()
    assert (world.status, world.state("b")) == ("cancelling", "cancelled")
    world.later(6_000)  # the running one is asked to stop with the next beat
    assert world.run() == "failed"
    assert world.state("c") == "cancelled"
    with pytest.raises(Refused, match="fork it instead"):
        world.desk.retry(world.ref("a"), "ann")


def test_independent_branches_go_on_to_their_end_before_the_task_has_failed(world: World):  # (15)
    acts = {"a": [NO], "x": [HANG]}
    world.submit(step("a", needs=[]), step("x", needs=[]), step("y", needs=["x"]), acts=acts)
    world.settle()
    assert (world.state("a"), world.status) == ("failed", "running")
    world.end("x", Done())
    assert world.run() == "failed"
    assert world.states("x", "y") == ["completed", "completed"]
