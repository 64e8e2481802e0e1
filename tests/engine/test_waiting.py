"""Signals, deadlines, approvals and questions on the real engine.  Numbers: SEMANTICS §9."""

from typing import Any

import pytest

from longtask.core.errors import BadPlan, LeaseLost, Refused
from longtask.core.events import StepParked, StepWoken
from longtask.core.model import Done, Failed, Kind, Parked, WaitingFor
from longtask.core.policy import SIGNAL_BYTES_MAX
from longtask.engine.desk import Superseded
from tests.engine.world import HANG, World, approval, step, wait, work

GO = Parked(WaitingFor.EVENT, {"name": "go"})
NO = Failed("no")


def test_a_signal_before_the_wait_counts_and_a_second_delivery_is_the_first(world: World):  # (50)
    world.submit(step("a"), acts={"a": [GO, GO, Done()]})
    first = world.signal(payload={"n": 1}, delivery="x")
    again = world.signal(payload={"n": 9}, delivery="x")
    assert (again.number, again.payload) == (first.number, {"n": 1})
    world.signal(payload={"n": 2}, delivery="y")
    assert world.run() == "completed"
    causes = [event.fact.cause["payload"]["n"] for event in world.events(StepWoken)]  # type: ignore[union-attr]
    assert causes == [1, 2]


def test_a_signal_that_was_taken_does_not_wake_the_same_step_again(world: World):
    world.submit(step("a"), acts={"a": [GO]})
    world.signal()
    assert world.run() == "waiting_event"
    world.signal(delivery="another")
    world.run()
    assert (world.state("a"), world.row("a").attempt) == ("waiting", 3)


def test_a_signal_for_another_commit_leaves_it_waiting(world: World):  # (51)
    world.submit(wait("a", signal="ci.completed", match={"sha": "${{ task.head }}"}, reads=()), code=True)
    assert world.run() == "waiting_ci"
    world.signal("ci.completed", {"sha": "another"})
    assert world.run() == "waiting_ci"
    world.signal("ci.completed", {"sha": world.task.head, "conclusion": "success"})
    assert world.run() == "completed"
    assert world.row("a").result["conclusion"] == "success"


def test_one_signal_wakes_everybody_whom_it_fits(world: World):  # (52)
    world.submit(*(wait(key, signal="go") for key in "abc"))
    assert world.run() == "waiting_event"
    world.signal()
    assert world.run() == "completed"


def test_more_waiters_than_a_batch_are_woken_all_the_same(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("longtask.engine.desk.BATCH_MAX", 2)
    world.submit(*(wait(key, signal="go") for key in "abcde"))
    assert world.run() == "waiting_event"
    world.signal()
    assert world.run() == "completed"


def test_a_signal_in_time_for_the_lock_wins_over_a_deadline_that_has_passed(world: World):  # (53)
    world.submit(wait("a", signal="go", within_ms=5_000))
    world.settle()
    assert world.status == "waiting_event"
    world.later(6_000, awake=False)
    world.signal(payload={"n": 1})
    assert world.run() == "completed"
    assert world.row("a").result == {"n": 1}


def test_a_wait_that_was_woken_by_its_deadline_looks_into_the_inbox_once_more(world: World):
    world.submit(wait("a", signal="go", within_ms=5_000))
    world.settle()
    world.later(6_000)
    assert world.row("a").cause == {"deadline": True}
    world.signal(payload={"n": 1})
    assert world.run() == "completed"


def test_a_wait_that_meets_its_deadline_fails_without_a_retry(world: World):
    world.submit(wait("a", signal="go", within_ms=5_000, failures_max=3))
    assert world.run() == "failed"
    assert "deadline" in (world.row("a").reason or "")


def test_a_timer_completes(world: World):
    world.submit(wait("a", timer_ms=90_000), step("b", 2))
    world.settle()
    assert world.status == "waiting_timer"
    began = world.now
    assert world.run() == "completed"
    assert world.now - began >= 90_000


@pytest.mark.parametrize(("name", "payload"), [("go", {"a": float("nan")}), ("n\udcff", {}), ("go", {"a": {1, 2}})])
def test_a_signal_that_no_row_can_hold_is_refused_and_says_why(world: World, name: str, payload: Any):
    world.submit(wait("a", signal="go"))
    with pytest.raises(BadPlan, match=r"cannot be kept: .*; send JSON"):
        world.signal(name, payload)
    assert world.store.inbox(world.tasks[0], 0, 5) == []


def test_a_large_signal_is_refused_and_says_what_to_do(world: World):
    world.submit(wait("a", signal="go"))
    with pytest.raises(BadPlan, match="send their address"):
        world.signal(payload={"x": "y" * SIGNAL_BYTES_MAX})


# --- approvals ----------------------------------------------------------------------------------------------------


def asked(world: World, **words) -> tuple[int, str]:
    """An approval stands behind a commit; the number of its question and the digest of what it shows."""
    world.submit(
        step("a", commits=True), approval("ok", needs=["a"], show=["diff"], **words), step("c", needs=["ok"]),
        acts={"a": [world.commit("f")]}, code=True,
    )  # fmt: skip
    assert world.run() == "waiting_user"
    row = world.row("ok")
    return row.ask, (row.question or {})["digest"]


def test_an_answer_to_something_else_is_refused_and_one_counts(world: World):  # (54)
    ask, digest = asked(world)
    with pytest.raises(Refused, match="has changed since"):
        world.answer("ok", "approve", digest="old")
    with pytest.raises(Refused, match="is not the newest"):
        world.answer("ok", "approve", ask=ask - 1)
    world.answer("ok", "approve", ask=ask, digest=digest)
    with pytest.raises(Refused, match="asks nothing now"):
        world.answer("ok", "approve", ask=ask, digest=digest)
    assert world.run() == "completed"
    assert world.row("ok").result["by"] == "ann"


def test_only_those_who_are_named_may_decide(world: World):
    asked(world, who=["bob"])
    with pytest.raises(Refused, match="asks bob"):
        world.answer("ok", "approve", by="ann")
    world.answer("ok", "approve", by="bob")
    assert world.run() == "completed"


@pytest.mark.parametrize("bind", ["frozen", "head"])
def test_a_head_that_moves_meanwhile_supersedes_a_question_bound_to_it(world: World, bind: str):  # (54)
    world.submit(
        approval("ok", needs=[], show=["diff"], bind=bind), step("late", commits=True, needs=[]),
        acts={"late": [HANG]}, code=True,
    )  # fmt: skip
    world.settle()
    ask, digest = world.row("ok").ask, (world.row("ok").question or {})["digest"]
    world.end("late", world.commit("f")(world.begun[-1]))
    world.settle()
    if bind == "frozen":
        world.answer("ok", "approve", ask=ask, digest=digest)
        assert world.run() == "completed"
        return
    with pytest.raises(Superseded, match="does not count, it is asked anew"):
        world.answer("ok", "approve", ask=ask, digest=digest)
    assert world.run() == "waiting_user"
    row = world.row("ok")
    assert row.ask == ask + 1 and (row.question or {})["head"] == world.task.head
    world.answer("ok", "approve", ask=row.ask)
    assert world.run() == "completed"


def test_a_decision_outlives_the_attempt_that_was_to_act_on_it(world: World):  # (55)
    world.submit(step("a", kind=Kind.AGENT), acts={"a": [parked(), HANG, Done()]})
    assert world.run() == "waiting_user"
    world.answer("a", "approve", text="go on")
    world.settle()
    world.die()
    world.later(40_000)
    world.reborn()
    assert world.run() == "completed"
    assert [(a.attempt, (a.cause or {}).get("text")) for a in world.begun] == [(1, None), (2, "go on"), (3, "go on")]


def parked() -> Parked:
    return Parked(WaitingFor.USER, {"kind": "approval", "text": "may I?", "digest": "call 3"})


def test_an_attempt_that_reports_has_consumed_its_decision(world: World):
    world.submit(step("a"), acts={"a": [parked(), parked(), Done()]})
    world.run()
    world.answer("a", "approve")
    assert world.run() == "waiting_user"
    assert world.row("a").cause is None
    world.answer("a", "approve")
    assert world.run() == "completed"


def test_a_rejection_fails_the_step_with_the_reviewer_s_text(world: World):
    asked(world)
    world.answer("ok", "reject", text="not like this")
    assert world.run() == "failed"
    assert world.row("ok").reason == "not like this"


def test_a_rejection_with_revise_puts_a_fix_in_front_and_asks_anew(world: World):
    revise = work(Kind.AGENT, commits=True)
    world.submit(
        step("a", commits=True), approval("ok", 2, show=["diff"], revise=revise),
        acts={"a": [world.commit("f")], "ok.fix.1": [world.commit("f")]}, code=True,
    )  # fmt: skip
    assert world.run() == "waiting_user"
    world.answer("ok", "reject", text="rename it")
    assert world.run() == "waiting_user"
    assert world.begun[-1].failure == "rename it"
    row = world.row("ok")
    assert (row.ask, (row.question or {})["head"]) == (2, world.task.head)
    world.answer("ok", "approve", ask=2)
    assert world.run() == "completed"


def test_an_approval_that_expires_is_expired_and_not_rejected(world: World):
    world.submit(approval("ok", expires_ms=60_000))
    assert world.run() == "failed"
    assert (world.row("ok").reason or "").startswith("expired")


def test_a_person_is_asked_though_every_slot_is_busy(new_world):
    world = new_world(slots=1)
    world.submit(step("a"), approval("ok"), acts={"a": [HANG]}, parallel=1)
    world.settle()
    assert world.states("a", "ok") == ["running", "waiting"]


def test_what_waits_holds_no_lease_and_no_slot(new_world):
    world = new_world(slots=1)
    world.submit(step("a"), step("b"), acts={"a": [GO, Done()]}, parallel=1)
    assert world.run() == "waiting_event"
    assert world.state("b") == "completed"
    assert world.store.leases(world.tasks[0], 10) == [] and not world.worker.running


def test_a_report_of_an_attempt_that_has_parked_is_refused(world: World):
    world.submit(step("a"), acts={"a": [GO]})
    world.run()
    with pytest.raises(LeaseLost):
        world.dispatch.report(world.ref("a"), 1, Done())
    assert world.told(StepParked) == ["a"]
