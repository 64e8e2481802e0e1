"""Stages, gates, conditions and the ways a task ends.  Numbers in brackets are those of SEMANTICS §9."""

import pytest

from longtask.core import events
from longtask.core.errors import BadPlan, Refused
from longtask.core.graph import Graph, build
from longtask.core.machine import fold
from longtask.core.model import (
    Done,
    Failed,
    Kind,
    RunWhen,
    StepSpec,
    StepState,
    TaskOptions,
    TaskState,
    WhenFailed,
)
from tests.core.play import Play, planned

NO = Failed("boom")


def gates(play: Play) -> list[tuple[str, str]]:
    """How the gates have ended, in the order of the journal."""
    facts = [event.fact for event in play.events if getattr(event.fact, "step", "").startswith("gate.")]
    return [(type(fact).__name__, fact.step) for fact in facts]  # type: ignore[union-attr]


# --- stages -------------------------------------------------------------------------------------------------------


def test_a_step_that_needs_nothing_starts_before_its_stage():  # (1)
    play = Play([planned("a"), planned("b", 2), planned("c", 3, [])], stages=3)
    assert play.ready() == ["a", "c"]
    play.run("c")
    play.settle_all()
    assert play.state("gate.3") == "blocked"


@pytest.mark.parametrize("empty", [1, 2, 3])
def test_an_empty_stage_passes_in_its_turn(empty):  # (2)
    play = Play([planned(f"s{k}", k) for k in (1, 2, 3) if k != empty], stages=3)
    assert play.drain() == "completed"
    assert gates(play) == [("GateOpened", f"gate.{k}") for k in (1, 2, 3)]


def test_a_task_of_nothing_but_empty_stages_completes():
    play = Play([], stages=2)
    play.settle_all()
    assert play.task.state is TaskState.COMPLETED


def test_a_stage_of_which_nothing_is_wanted_passes():  # (3)
    play = Play([planned("a", conditional=True), planned("b", conditional=True), planned("c", 2)], stages=2,
                ifs={"a": False, "b": False})  # fmt: skip
    assert play.drain() == "completed"
    assert gates(play) == [("GateOpened", "gate.1"), ("GateOpened", "gate.2")]
    assert play.state("c") == "completed"


def test_a_stage_drains_before_its_gate_is_shut():  # (4)
    play = Play([planned("a"), planned("b"), planned("c", 2)], stages=2)
    play.claim("a")
    play.claim("b")
    play.finish("a", NO)
    play.settle_all()
    assert (play.state("gate.1"), play.state("c")) == ("blocked", "blocked")
    play.finish("b")
    play.settle_all()
    assert (play.state("gate.1"), play.state("c")) == ("skipped", "skipped")
    assert play.task.state is TaskState.FAILED


def test_a_need_in_a_later_stage_that_waits_for_this_one_is_a_cycle_and_is_drawn():  # (5)
    with pytest.raises(BadPlan, match="a → stage 1 → b → a"):
        Play([planned("a", 1, ["b"]), planned("b", 2)], stages=2)


def test_gates_end_in_order_though_a_later_stage_failed_first():  # (6)
    play = Play([planned("a"), planned("b", 2), planned("c", 3, [])], stages=3)
    play.run("c", NO)
    play.settle_all()
    assert gates(play) == []
    assert play.drain() == "failed"
    assert gates(play) == [("GateOpened", "gate.1"), ("GateOpened", "gate.2"), ("StepSkipped", "gate.3")]


def test_retrying_reopens_the_stages_in_order():  # (7)
    play = Play([planned("a"), planned("b", 2), planned("c", 3)], stages=3)
    play.run("a", NO)
    play.settle_all()
    assert [name for name, _ in gates(play)] == ["StepSkipped"] * 3
    assert (play.task.state, play.task.counts.gates) == (TaskState.FAILED, 3)
    play.retry("a")
    play.settle_all()
    assert (play.task.state, play.task.counts.gates) == (TaskState.ACTIVE, 0)
    assert [key for name, key in gates(play) if name == "StepRestored"] == ["gate.1", "gate.2", "gate.3"]
    assert play.drain() == "completed"


def test_a_gate_is_never_claimed_and_weighs_nothing():
    play = Play([planned("a"), planned("b", 2)], stages=2)
    play.drain()
    gate = play.rows["gate.1"]
    assert (gate.attempt, gate.weight) == (0, 0)
    with pytest.raises(Refused, match="is a gate"):
        Play([planned("a")]).cancel_step("gate.1")


def test_a_boundary_costs_as_many_edges_as_the_two_stages_have_steps():
    play = Play([planned(f"a{n}") for n in range(5)] + [planned(f"b{n}", 2) for n in range(7)], stages=2)
    assert len(play.edges) == 5 + 7 + 7 + 1


def test_a_task_that_is_still_loading_starts_nothing_and_ends_not():
    rows, edges = build(Graph("n", TaskOptions(), (), (planned("a", 1, []), planned("b", 1, []))))
    first = events.TaskSubmitted("t1", "n", TaskOptions(), steps=tuple(rows[:1]), more=True)
    change = fold(None, {}, [first], 1)
    assert (change.task.loading, change.task.admits, change.task.ended) == (True, 0, False)
    rest = events.StepsAdded(tuple(rows[1:]), tuple(edges[1:]))
    assert not fold(change.task, dict(change.steps), [rest], 2).task.loading


# --- conditions ---------------------------------------------------------------------------------------------------


def test_what_needs_an_unwanted_step_is_not_wanted_either():  # (8)
    play = Play([planned("a", conditional=True), planned("b", needs=["a"]), planned("c")], ifs={"a": False})
    assert play.drain() == "completed"
    assert (play.state("b"), play.rows["b"].benign) == ("skipped", True)


@pytest.mark.parametrize("first", ["unwanted", "failed"])
def test_the_kind_of_skip_does_not_depend_on_the_order_of_ends(first):  # (9)
    steps = [planned("x"), planned("u", needs=["x"], conditional=True), planned("f"), planned("d", needs=["u", "f"])]
    play = Play(steps, ifs={"u": False})
    for key in ("x", "f") if first == "unwanted" else ("f", "x"):
        play.run(key, NO if key == "f" else Done())
        play.settle_all()
    assert (play.state("u"), play.state("d"), play.rows["d"].benign) == ("skipped", "skipped", False)
    assert play.task.state is TaskState.FAILED


def test_a_step_that_always_runs_does_so_behind_a_failure_and_the_task_still_fails():  # (10)
    play = Play([planned("a"), planned("b", needs=["a"], run_when=RunWhen.ALWAYS)])
    assert play.drain({"a": NO}) == "failed"
    assert play.state("b") == "completed"


@pytest.mark.parametrize(("outcome", "end"), [(NO, "completed"), (Done(), "skipped")])
def test_a_step_for_failures_runs_behind_one_and_only_then(outcome, end):
    play = Play([planned("a"), planned("b", needs=["a"], run_when=RunWhen.FAILURE)])
    play.drain({"a": outcome})
    assert (play.state("b"), play.rows["b"].benign) == (end, end == "skipped")


def test_a_condition_that_cannot_be_evaluated_fails_the_step_and_says_why():  # (11)
    why = "no output 'x' of step 'a'"
    play = Play([planned("a"), planned("b", needs=["a"], conditional=True)], ifs={"b": why})
    assert play.drain() == "failed"
    assert (play.state("b"), play.rows["b"].reason, play.rows["b"].attempt) == ("failed", why, 0)


def test_a_false_condition_of_a_step_without_needs_is_found_at_submission():  # (11b)
    play = Play([planned("a", conditional=True), planned("b", conditional=True)], ifs={"a": False, "b": True})
    assert (play.state("a"), play.state("b")) == ("skipped", "ready")
    assert play.drain() == "completed"


@pytest.mark.parametrize("how", ["failed", "cancelled"])
def test_a_tolerated_end_lets_dependents_run_and_the_task_complete(how):  # (12, 13)
    play = Play([planned("a", when_failed=WhenFailed.CONTINUE), planned("b", needs=["a"])])
    if how == "failed":
        play.run("a", NO)
    else:
        play.cancel_step("a")
    assert play.drain() == "completed"
    assert (play.state("a"), play.state("b")) == (how, "completed")


def test_a_single_cancelled_step_fails_the_task():
    play = Play([planned("a"), planned("b")])
    play.cancel_step("a")
    assert play.drain() == "failed"


def test_fail_fast_cancels_what_is_open_and_the_task_is_not_taken_up_again():  # (14)
    play = Play([planned("a"), planned("b"), planned("c"), planned("d", needs=["c"])], fail_fast=True)
    play.claim("b")
    play.run("a", NO)
    assert (play.task.state, play.task.doomed) == (TaskState.CLOSING, True)
    play.sweep()
    assert (play.state("c"), play.state("d"), play.state("b")) == ("cancelled", "cancelled", "running")
    assert play.leases["b"].stop == "cancel"
    play.expire("b")
    play.sweep()
    assert play.task.state is TaskState.FAILED
    with pytest.raises(Refused, match=r"failed fast.*fork"):
        play.retry("a")


def test_a_tolerated_failure_dooms_nothing():
    play = Play([planned("a", when_failed=WhenFailed.CONTINUE), planned("b")], fail_fast=True)
    assert play.drain({"a": NO}) == "completed"


def test_a_task_drains_before_it_fails():  # (15)
    play = Play([planned("a"), planned("b"), planned("c", needs=["b"])])
    play.run("a", NO)
    play.settle_all()
    assert play.task.state is TaskState.ACTIVE
    assert play.drain() == "failed"
    assert (play.state("b"), play.state("c")) == ("completed", "completed")


def test_parallel_is_never_exceeded_and_system_steps_do_not_count():  # (63)
    specs = [StepSpec(Kind.RUN), StepSpec(Kind.APPROVAL)]
    play = Play([planned("a"), planned("b"), planned("c"), planned("d", spec=1, kind=Kind.APPROVAL)], specs=specs,
                parallel=2)  # fmt: skip
    play.claim("a")
    play.claim("b")
    with pytest.raises(Refused, match="admits no claim"):
        play.claim("c")
    assert play.claim("d").state is StepState.RUNNING
    play.finish("a")
    play.claim("c")
