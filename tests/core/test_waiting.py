"""Signals, deadlines, questions and answers.  Numbers are those of SEMANTICS §9."""

import pytest

from longtask.core import decide
from longtask.core.errors import LeaseLost, Refused
from longtask.core.model import Done, Failed, Kind, Parked, Question, StepSpec, WaitingFor, WhenFailed
from tests.core.play import Play, planned

GO = Parked(WaitingFor.EVENT, {"name": "go"})


def approval(**more) -> Parked:
    return Parked(WaitingFor.USER, {"kind": "approval", "digest": "d1", **more})


def asking(spec: StepSpec | None = None, **more) -> Play:
    """`a` has asked for an approval."""
    play = Play([planned("a"), planned("b", needs=["a"])], specs=(spec or StepSpec(Kind.RUN),), attended=True)
    play.run("a", approval(**more))
    return play


# --- signals ------------------------------------------------------------------------------------------------------


def test_a_signal_before_the_wait_counts_once_and_the_next_park_takes_the_next():  # (50)
    play = Play([planned("a")])
    first = play.signal("go", {"n": 1}, delivery="x")
    assert play.signal("go", {"n": 1}, delivery="x") is first
    play.signal("go", {"n": 2}, delivery="y")
    play.run("a", GO)
    assert play.state("a") == "ready"
    assert (play.rows["a"].cause or {})["payload"] == {"n": 1}
    play.run("a", GO)
    assert (play.rows["a"].cause or {})["payload"] == {"n": 2}
    play.run("a", GO)
    assert play.state("a") == "waiting"
    play.signal("go", {"n": 2}, delivery="y")  # the same one again is nothing new
    assert play.state("a") == "waiting"


def test_a_signal_that_does_not_match_leaves_the_step_waiting():  # (51)
    play = Play([planned("a")])
    play.run("a", Parked(WaitingFor.CI, {"name": "ci.completed", "match": {"sha": "c1"}}))
    play.signal("ci.completed", {"sha": "c2"})
    play.signal("other", {"sha": "c1"})
    play.signal("ci.completed", {})
    assert play.drain() == "waiting_ci"
    play.signal("ci.completed", {"sha": "c1", "more": 1})
    assert play.state("a") == "ready"


def test_one_signal_wakes_everybody_whom_it_fits():  # (52)
    play = Play([planned(key) for key in "abc"])
    for key in "abc":
        play.run(key, GO)
    play.signal("go")
    assert play.ready() == ["a", "b", "c"]


def test_a_signal_in_time_for_the_lock_wins_over_a_deadline_that_has_passed():  # (53)
    play = Play([planned("a")])
    play.run("a", Parked(WaitingFor.EVENT, {"name": "go"}, play.now + 10))
    play.now += 1_000
    play.signal("go")
    assert "signal" in (play.rows["a"].cause or {})
    play.overdue("a")
    assert [type(e.fact).__name__ for e in play.events].count("StepWoken") == 1


def test_a_deadline_wakes_and_says_so():
    play = Play([planned("a")])
    play.run("a", Parked(WaitingFor.TIMER, {}, play.now + 10))
    assert decide.overdue(play.task, play.rows["a"], play.now + 9) == ()
    assert play.drain() == "waiting_timer"
    play.overdue("a")
    assert play.rows["a"].cause == {"deadline": True}


def test_waiting_takes_no_slot():
    play = Play([planned("a"), planned("b")], parallel=1)
    play.run("a", GO)
    play.run("b")


# --- approvals ----------------------------------------------------------------------------------------------------


def test_an_answer_fits_what_was_shown_and_is_given_once():  # (54)
    play = asking()
    with pytest.raises(Refused, match="what was shown has changed"):
        play.answer("a", "approve", digest="d0")
    with pytest.raises(Refused, match=r"question 0 is not the newest \(1\)"):
        play.answer("a", "approve", ask=0)
    with pytest.raises(Refused, match=r"answer approve \| reject \| edit \| respond, not 'accept'"):
        play.answer("a", "accept")
    play.answer("a", "approve", ask=1, digest="d1")
    assert play.state("a") == "ready"
    with pytest.raises(Refused, match="asks nothing now"):
        play.answer("a", "reject", ask=1, digest="d1")


@pytest.mark.parametrize(("bind", "key"), [(None, "decision"), ("head", "superseded")])
def test_what_was_shown_is_frozen_unless_it_is_bound_to_the_head(bind, key):  # (54)
    specs = (StepSpec(Kind.RUN), StepSpec(Kind.RUN, commits=True))
    play = Play([planned("a"), planned("b", spec=1)], specs=specs)
    play.run("a", approval(bind=bind, head="c0"))
    play.claim("b")
    play.finish("b", play.commit("b"))
    play.answer("a", "approve", digest="d1")
    assert key in (play.rows["a"].cause or {})


def test_a_decision_survives_the_attempt_that_was_to_act_on_it():  # (55)
    play = asking()
    play.answer("a", "edit", edited={"x": 1}, text="so")
    decision = play.rows["a"].cause
    assert decision is not None
    assert (decision["decision"], decision["by"], decision["edited"], decision["text"]) == (
        "edit",
        "ann",
        {"x": 1},
        "so",
    )
    play.claim("a")
    play.expire("a")
    assert play.claim("a").cause == decision
    play.finish("a")
    assert play.rows["a"].cause is None


def test_a_second_question_is_another_one():
    play = asking()
    play.answer("a", "respond", text="why?")
    play.run("a", approval(digest="d2"))
    assert play.rows["a"].ask == 2
    with pytest.raises(Refused, match=r"question 1 is not the newest \(2\)"):
        play.answer("a", "approve", ask=1)


def test_a_decision_of_a_life_before_is_forgotten_by_a_retry():
    play = asking()
    play.answer("a", "approve")
    play.cancel_step("a")
    play.settle_all()
    play.retry("a")
    assert play.claim("a").cause is None


def test_cancelling_and_retiring_end_a_wait():
    for act in ("cancel_step", "retire"):
        play = asking()
        getattr(play, act)("a")
        assert play.state("a") in ("cancelled", "skipped")
        with pytest.raises(Refused, match="asks nothing now"):
            play.answer("a", "approve")


# --- the machine's own questions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(Question))
def test_every_question_has_answers_and_only_questions_without_a_commit_can_be_accepted(kind):
    assert decide.ANSWERS[kind]
    assert ("accept" in decide.ANSWERS[kind]) == (kind in ("unknown", "failed", "no_fix"))


@pytest.mark.parametrize(("attended", "when_failed", "state"), [
    (True, WhenFailed.ASK, "waiting"),
    (False, WhenFailed.ASK, "failed"),
    (True, WhenFailed.STOP, "failed"),
    (True, WhenFailed.CONTINUE, "failed"),
])  # fmt: skip
def test_a_step_asks_instead_of_failing_if_somebody_attends_and_the_plan_says_so(attended, when_failed, state):
    play = Play([planned("a", when_failed=when_failed)], attended=attended)
    play.run("a", Failed("boom"))
    assert play.state("a") == state


def test_while_a_step_asks_the_others_go_on_and_the_word_is_waiting_user():
    play = Play([planned("a", when_failed=WhenFailed.ASK), planned("b"), planned("c", needs=["b"])], attended=True)
    assert play.drain({"a": Failed("boom")}) == "waiting_user"
    assert play.state("c") == "completed"
    play.answer("a", "again")
    assert play.rows["a"].cause == {"answer": "again", "by": "ann", "text": ""}
    assert play.drain() == "completed"


# --- zombies ------------------------------------------------------------------------------------------------------


def test_an_attempt_that_is_over_reports_nothing():
    play = Play([planned("a")])
    play.claim("a")
    play.expire("a")
    with pytest.raises(LeaseLost, match="attempt 1 is over, the step is ready"):
        play.finish("a", Done(), attempt=1)
    play.claim("a")
    with pytest.raises(LeaseLost, match=r"attempt 1 is not the newest \(2\)"):
        play.finish("a", Done(), attempt=1)
    play.finish("a", Done({"by": 2}), attempt=2)
    assert play.rows["a"].result == {"by": 2}


def test_a_late_report_of_the_newest_attempt_is_taken():
    play = Play([planned("a")])
    play.claim("a")
    play.now += 60_000
    play.finish("a")
    assert play.state("a") == "completed"
