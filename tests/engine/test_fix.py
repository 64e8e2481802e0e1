"""The fix loop on the real engine.  Numbers: SEMANTICS §9."""

import pytest

from longtask.core.model import Done, Failed, Kind, Parked, Role, WaitingFor
from longtask.steps.contract import Assignment
from tests.engine.world import HANG, World, step, work

FIX = work(Kind.AGENT, losses_max=9)
ASK = Parked(WaitingFor.USER, {"kind": "approval", "text": "may I?", "digest": "d"})


def red(digest: str) -> Failed:
    return Failed(f"failures {digest}", digest=digest)


def submit(world: World, *acts, fix=(), attended: bool = True) -> None:
    named = {"t": list(acts), "t.fix.*": list(fix) or [Done()]}
    world.submit(step("t", fix=FIX), step("u", needs=["t"]), acts=named, attended=attended)


def told(world: World, key: str) -> list[Assignment]:
    return [a for a in world.begun if a.step == key]


def test_two_rounds_and_then_green(world: World):  # (23)
    submit(world, red("1"), red("2"), Done())
    assert world.run() == "completed"
    row = world.row("t")
    assert (row.attempt, row.failures, row.rounds, row.run) == (3, 0, 2, 3)
    assert world.begun_keys() == ["t", "t.fix.1", "t", "t.fix.2", "t", "u"]
    assert [a.failure for n in (1, 2) for a in told(world, f"t.fix.{n}")] == ["failures 1", "failures 2"]


def test_the_same_failures_twice_ask_after_the_second(world: World):  # (24)
    submit(world, red("same"))
    assert world.run() == "waiting_user"
    question = world.row("t").question or {}
    assert "the same failures came back" in question["reason"]
    assert (world.row("t").attempt, len(world.owned("t", Role.FIX))) == (2, 1)


@pytest.mark.parametrize("attended", [True, False])
def test_a_fix_that_fails_or_is_cancelled_asks_or_fails(world: World, attended: bool):  # (25)
    submit(world, red("1"), fix=[Failed("no idea")], attended=attended)
    assert world.run() == ("waiting_user" if attended else "failed")
    submit(world, red("1"), fix=[HANG], attended=attended)
    world.settle()
    world.desk.cancel_step(world.ref("t.fix.1"), "ann")
    world.later(6_000)
    assert world.run() == ("waiting_user" if attended else "failed")
    assert world.row("t").attempt == 1


def test_a_fix_that_waits_for_a_person_leaves_its_owner_blocked(world: World):  # (26)
    submit(world, red("1"), Done(), fix=[ASK, Done()])
    assert world.run() == "waiting_user"
    assert world.states("t", "t.fix.1") == ["blocked", "waiting"]
    world.answer("t.fix.1", "approve")
    assert world.run() == "completed"


def test_a_fix_ends_with_its_owner(world: World):  # (27)
    submit(world, red("1"), fix=[HANG])
    world.settle()
    world.desk.cancel_step(world.ref("t"), "ann")
    world.settle()
    assert world.states("t", "t.fix.1") == ["cancelled", "running"]
    world.later(6_000)
    assert world.run() == "failed"
    assert world.state("t.fix.1") == "cancelled"


def test_losses_in_a_fix_leave_the_rounds_and_tell_no_failure(world: World):  # (28)
    submit(world, red("1"), Done(), fix=[HANG, HANG, HANG, Done()])
    for n in range(3):
        world.settle()
        world.die()
        world.later(40_000)
        world.reborn(f"w{n}")
    assert world.run() == "completed"
    assert (world.row("t").rounds, world.row("t.fix.1").attempt, world.row("t.fix.1").run) == (1, 4, 1)
    assert {a.failure for a in told(world, "t.fix.1")} == {"failures 1"}


def test_a_fix_that_is_tried_again_hears_of_both_failures(world: World):
    named = {"t": [red("1"), Done()], "t.fix.1": [Failed("a typo"), Done()]}
    world.submit(step("t", fix=work(Kind.AGENT, failures_max=1)), acts=named)
    assert world.run() == "completed"
    first, second = told(world, "t.fix.1")
    assert first.failure == "failures 1"
    assert "failures 1" in (second.failure or "") and "a typo" in (second.failure or "")


def test_accept_completes_by_a_person_and_stands_in_the_journal(world: World):  # (30)
    submit(world, red("same"))
    assert world.run() == "waiting_user"
    world.answer("t", "accept", by="bob")
    assert world.run() == "completed"
    ended = [e.fact for e in world.events() if type(e.fact).__name__ == "StepCompleted"]
    assert [(f.step, f.by) for f in ended if f.by] == [("t", "bob")]  # type: ignore[union-attr]
