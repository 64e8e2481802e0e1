"""The fix loop: before a step that fails a fix is put, then the same step runs again.  Numbers: SEMANTICS §9."""

import pytest

from longtask.core.errors import Refused
from longtask.core.model import Done, Failed, Kind, Parked, Role, StepSpec, TaskState, WaitingFor, WhenFailed
from longtask.core.policy import DEPTH_MAX
from tests.core.play import Play, planned


def fixing(attended: bool = True, spec: StepSpec | None = None, fix: StepSpec | None = None, **more) -> Play:
    """`t` has a fix; `u` needs it."""
    specs = (fix or StepSpec(Kind.RUN), spec or StepSpec(Kind.RUN, fix=0))
    return Play([planned("t", spec=1, **more), planned("u", needs=["t"])], specs=specs, attended=attended)


def red(digest: str) -> Failed:
    return Failed(f"failures {digest}", digest=digest)


def test_two_rounds_and_then_green():  # (23)
    play = fixing()
    for round_ in (1, 2):
        play.run("t", red(str(round_)))
        assert (play.state("t"), play.rows["t"].rounds, play.rows["t"].blockers) == ("blocked", round_, 1)
        play.run(f"t.fix.{round_}")
        play.settle_all()
        assert play.state("t") == "ready"
    play.run("t")
    row = play.rows["t"]
    assert (row.state, row.attempt, row.failures, row.rounds, row.run) == ("completed", 3, 0, 2, 3)
    assert play.drain() == "completed"


def test_retries_come_before_a_fix_and_begin_anew_after_it():
    play = fixing(spec=StepSpec(Kind.RUN, fix=0, failures_max=1))
    play.run("t", red("1"))
    assert (play.state("t"), play.rows["t"].failures) == ("ready", 1)
    play.run("t", red("1"))
    assert (play.state("t"), play.rows["t"].failures) == ("blocked", 0)


def test_the_same_failures_twice_ask_a_person():  # (24)
    play = fixing()
    play.run("t", red("same"))
    play.run("t.fix.1")
    play.settle_all()
    play.run("t", red("same"))
    assert (play.state("t"), play.rows["t"].waiting_for) == ("waiting", WaitingFor.USER)
    question = play.rows["t"].question
    assert question is not None
    assert (question["kind"], question["answers"]) == ("no_fix", ["again", "accept", "give_up"])
    assert "the same failures came back" in question["reason"]


def test_the_rounds_have_an_end():
    play = fixing(spec=StepSpec(Kind.RUN, fix=0, fix_rounds_max=2))
    for round_ in (1, 2):
        play.run("t", red(str(round_)))
        play.run(f"t.fix.{round_}")
        play.settle_all()
    play.run("t", red("3"))
    assert "2 of 2 rounds are used" in (play.rows["t"].question or {})["reason"]


def test_a_failure_that_is_not_to_be_retried_is_not_fixed_either():
    play = fixing(attended=False)
    play.run("t", Failed("bad input", retryable=False))
    assert play.state("t") == "failed"


def test_a_fix_of_a_fix_goes_so_deep_and_no_deeper():
    play = fixing(fix=StepSpec(Kind.RUN, fix=0), attended=False)
    key = "t"
    for depth in range(1, DEPTH_MAX + 1):
        play.run(key, red("x"))
        key = f"{key}.fix.1"
        assert play.rows[key].depth == depth
    play.run(key, red("x"))
    assert play.state(key) == "failed"
    assert play.drain() == "failed"  # each owner hears it, one after another
    assert play.state("t") == "failed"


@pytest.mark.parametrize("how", ["fails", "is cancelled"])
@pytest.mark.parametrize(("attended", "state"), [(True, "waiting"), (False, "failed")])
def test_a_fix_that_does_not_succeed_is_not_run_again_on_the_same_code(how, attended, state):  # (25)
    play = fixing(attended)
    play.run("t", red("1"))
    if how == "fails":
        play.run("t.fix.1", Failed("no idea", retryable=False))
    else:
        play.cancel_step("t.fix.1")
    play.settle_all()
    assert play.state("t") == state
    assert play.rows["t"].attempt == 1


def test_a_fix_that_waits_for_a_person_leaves_its_owner_blocked():  # (26)
    play = fixing()
    play.run("t", red("1"))
    play.run("t.fix.1", Parked(WaitingFor.USER, {"kind": "approval", "digest": "d"}))
    assert play.drain() == "waiting_user"
    assert play.state("t") == "blocked"


@pytest.mark.parametrize("running", [True, False])
def test_a_fix_ends_with_its_owner(running):  # (27)
    play = fixing()
    play.run("t", red("1"))
    if running:
        play.claim("t.fix.1")
    play.cancel_step("t")
    play.settle_all()
    if running:
        assert play.leases["t.fix.1"].stop == "cancel"
        with pytest.raises(Refused, match="being cancelled"):
            play.finish("t.fix.1")
        play.expire("t.fix.1")
    assert play.state("t.fix.1") == "cancelled"
    assert play.drain() == "failed"


def test_losses_leave_the_rounds_alone():  # (28)
    play = fixing()
    play.run("t", red("1"))
    play.run("t.fix.1")
    play.settle_all()
    for _ in range(3):
        play.claim("t")
        play.expire("t")
    assert (play.rows["t"].rounds, play.rows["t"].losses, play.rows["t"].failures) == (1, 3, 0)


def test_a_person_may_accept_what_no_fix_was_found_for():  # (30)
    play = fixing()
    play.run("t", red("same"))
    play.run("t.fix.1")
    play.settle_all()
    play.run("t", red("same"))
    play.answer("t", "accept")
    assert play.state("t") == "completed"
    assert play.events[-1].fact.by == "ann"  # type: ignore[union-attr]
    assert play.drain() == "completed"


def test_again_gives_new_rounds_and_a_new_run():
    play = fixing()
    play.run("t", red("same"))
    play.run("t.fix.1")
    play.settle_all()
    play.run("t", red("same"))
    play.answer("t", "again")
    row = play.rows["t"]
    assert (row.state, row.rounds, row.digest, row.failures, row.run) == ("ready", 0, None, 0, 3)
    play.run("t", red("same"))
    assert play.rows["t.fix.2"].state == "ready"


def test_giving_up_fails_the_step_and_says_who_did():
    play = fixing()
    play.run("t", red("1"))
    play.cancel_step("t.fix.1")
    play.settle_all()
    play.answer("t", "give_up", text="no use")
    assert play.rows["t"].reason == "given up by ann: no use"
    assert play.drain() == "failed"


def test_a_retry_does_not_hear_of_the_fix_of_the_life_before():
    """Its owner was cancelled in the middle of a fix: the fix's end must not count as `the fix did not succeed`."""
    play = fixing()
    play.run("t", red("1"))
    play.cancel_step("t")
    play.settle_all()
    play.retry("t")
    assert (play.state("t"), play.rows["t"].owned_verdict) == ("ready", "")
    assert play.drain() == "completed"


def test_a_retry_before_the_old_fix_is_told_waits_for_it_and_then_runs():
    play = fixing()
    play.run("t", red("1"))
    play.cancel_step("t")
    play.settle("t")
    assert play.state("t.fix.1") == "cancelled"
    play.retry("t")
    assert play.state("t") == "blocked"
    play.settle_all()
    assert play.state("t") == "ready"


def test_a_fix_is_ended_though_its_owner_ended_twice_and_was_told_once():
    """Cancelled, told, taken up again and cancelled again before that was told: nothing differs, but a fix is open."""
    play = fixing()
    play.cancel_step("t")
    play.settle_all()
    play.retry("t")
    play.run("t", red("1"))
    play.cancel_step("t")
    play.settle_all()
    assert play.state("t.fix.1") == "cancelled"
    assert play.task.state is TaskState.FAILED


def review() -> Play:
    return fixing(spec=StepSpec(Kind.APPROVAL, revise=0, revise_rounds_max=1), attended=False)


def test_a_review_that_rejects_puts_a_revision_before_the_step_until_its_rounds_are_used():
    play = review()
    play.run("t", Failed("name it better", revise=True))
    assert (play.state("t"), play.rows["t"].reason) == ("blocked", "name it better")
    play.run("t.fix.1")
    play.settle_all()
    play.run("t", Failed("still bad", revise=True))
    assert (play.state("t"), play.rows["t"].reason) == ("failed", "rejected after 1 rounds of revising: still bad")


def test_nothing_is_revised_that_is_being_cancelled():
    play = review()
    play.claim("t")
    play.cancel_step("t")
    with pytest.raises(Refused, match="is being cancelled"):
        play.finish("t", Failed("name it better", revise=True))
    play = review()
    play.claim("t")
    play.cancel()
    play.finish("t", Failed("name it better", revise=True))
    assert play.state("t") == "failed"


def test_a_tolerated_step_asks_nobody():
    play = fixing(when_failed=WhenFailed.CONTINUE)
    play.run("t", red("same"))
    play.run("t.fix.1", Failed("no idea", retryable=False))
    assert play.drain() == "completed"
    assert (play.state("t"), play.state("u")) == ("failed", "completed")


def test_owned_steps_weigh_nothing_and_are_nobody_elses_business():
    play = fixing()
    play.run("t", red("1"))
    fix = play.rows["t.fix.1"]
    assert (fix.role, fix.owner, fix.weight, fix.stage) == (Role.FIX, "t", 0, 1)
    play.run("t.fix.1", Failed("x", retryable=False))
    assert play.task.counts.bad == 0
    play.settle_all()
    with pytest.raises(Refused, match="belongs to 't': retry 't' instead"):
        play.retry("t.fix.1")


def test_the_fix_and_the_code_before_it_are_in_the_base_of_the_next_attempt():
    play = fixing(fix=StepSpec(Kind.RUN, commits=True))
    play.run("t", red("1"))
    play.claim("t.fix.1")
    play.finish("t.fix.1", play.commit("t.fix.1"))
    play.settle_all()
    assert play.claim("t").base == play.rows["t.fix.1"].commit
    play.finish("t", Done())
