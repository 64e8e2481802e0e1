"""Stages and gates on the real engine.  Numbers: SEMANTICS §9."""

import pytest

from longtask.core.errors import BadPlan
from longtask.core.events import GateOpened, StepSkipped
from longtask.core.model import Done, Failed
from tests.engine.world import HANG, World, step


def test_a_step_with_empty_needs_starts_at_once_in_whatever_stage(world: World):  # (1)
    world.submit(step("a"), step("b", 2), step("c", 3, needs=[]), acts={"a": [HANG]})
    world.settle()
    assert world.states("a", "b", "c") == ["running", "blocked", "completed"]
    world.end("a", Done())
    assert world.run() == "completed"
    assert world.told(GateOpened) == ["gate.1", "gate.2", "gate.3"]


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_an_empty_stage_passes_in_its_order(world: World, stage: int):  # (2)
    others = [n for n in (1, 2, 3) if n != stage]
    world.submit(*(step(f"s{n}", n) for n in others), stages=3)
    assert world.run() == "completed"
    assert world.told(GateOpened) == ["gate.1", "gate.2", "gate.3"]


def test_a_stage_of_which_nothing_is_wanted_passes(world: World):  # (3)
    world.submit(step("a", if_="false"), step("b", if_="false"), step("c", 2))
    assert world.run() == "completed"
    assert world.states("a", "b", "gate.1", "c") == ["skipped", "skipped", "completed", "completed"]


def test_a_gate_waits_for_its_stage_to_drain_before_it_shuts(world: World):  # (4)
    world.submit(step("a"), step("b"), step("c", 2), acts={"a": [Failed("no")], "b": [HANG]})
    world.settle()
    assert world.states("a", "b", "gate.1", "c") == ["failed", "running", "blocked", "blocked"]
    world.end("b", Done())
    assert world.run() == "failed"
    assert world.states("gate.1", "c", "gate.2") == ["skipped"] * 3


def test_needs_into_a_later_stage_that_waits_for_this_one_are_a_cycle_that_is_drawn(world: World):  # (5)
    with pytest.raises(BadPlan, match=r"steps wait for each other: .*stage 1"):
        world.submit(step("a", needs=["b"]), step("b", 2))


def test_gates_end_in_order_though_an_early_starter_of_a_later_stage_fails(world: World):  # (6)
    acts = {"a": [HANG], "c": [Failed("no")]}
    world.submit(step("a"), step("b", 2), step("c", 3, needs=[]), acts=acts)
    world.settle()
    assert world.states("c", "gate.3", "gate.1") == ["failed", "blocked", "blocked"]
    world.end("a", Done())
    assert world.run() == "failed"
    ended = [e.fact.step for e in world.events(GateOpened, StepSkipped) if "gate" in e.fact.step]  # type: ignore[union-attr]
    assert ended == ["gate.1", "gate.2", "gate.3"]
    assert world.states("b", "gate.2", "gate.3") == ["completed", "completed", "skipped"]


def test_a_retry_reopens_shut_stages_in_their_order(world: World):  # (7)
    world.submit(step("a"), step("b", 2), step("c", 3), acts={"a": [Failed("no"), Done()]})
    assert world.run() == "failed"
    assert (world.task.counts.gates, world.states("gate.1", "gate.2", "gate.3")) == (3, ["skipped"] * 3)
    world.desk.retry(world.ref("a"), "ann")
    assert world.run() == "completed"
    assert world.told(GateOpened) == ["gate.1", "gate.2", "gate.3"]
    assert (world.task.counts.gates, world.states("b", "c")) == (3, ["completed"] * 2)
