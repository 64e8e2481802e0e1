"""Failures, losses, timeouts, money; stopping.  Numbers are those of SEMANTICS §9."""

import pytest

from longtask.core import decide, events
from longtask.core.errors import Refused
from longtask.core.machine import status
from longtask.core.model import (
    Done,
    Failed,
    Kind,
    Parked,
    Released,
    StepSpec,
    Stopped,
    TaskState,
    WaitingFor,
    WhenFailed,
)
from longtask.core.policy import BACKOFF_MAX_MS, LEASE_MS, TIMEOUT_SLACK_MS, backoff_ms
from tests.core.play import Play, planned


def alone(spec: StepSpec | None = None, **more) -> Play:
    """One step `a` and one behind it."""
    when_failed = more.pop("when_failed", WhenFailed.STOP)
    steps = [planned("a", when_failed=when_failed), planned("b", needs=["a"])]
    return Play(steps, specs=(spec or StepSpec(Kind.RUN),), **more)


# --- failures and losses ------------------------------------------------------------------------------------------


def test_a_hundred_parks_cost_nothing():  # (56)
    play = alone()
    play.checked = False
    for _ in range(100):
        play.run("a", Parked(WaitingFor.TIMER, {}, play.now + 1))
        play.overdue("a")
    assert (play.state("a"), play.rows["a"].failures, play.rows["a"].losses) == ("ready", 0, 0)
    assert play.violations() == []


def test_a_hang_that_still_beats_is_a_failure_of_its_own():  # (57)
    play = alone(StepSpec(Kind.RUN, timeout_ms=40_000, failures_max=1))
    for _ in range(2):
        began_at = play.claim("a").began_at
        for _ in range(11):
            play.now += 4_000
            play.beat("a")
        assert play.leases["a"].due_at == began_at + 40_000 + TIMEOUT_SLACK_MS
        play.expire("a")
        assert (play.rows["a"].failures, play.rows["a"].losses) == (1, 0)
    assert play.state("a") == "failed"
    assert "timeout: it ran longer than 40000 ms" in (play.rows["a"].reason or "")


def test_a_lease_that_ends_before_the_timeout_is_a_loss():
    play = alone(StepSpec(Kind.RUN, timeout_ms=40_000))
    play.claim("a")
    play.expire("a")
    assert (play.rows["a"].failures, play.rows["a"].losses) == (0, 1)


def test_a_lease_that_was_prolonged_meanwhile_is_left_alone():
    play = alone()
    play.claim("a")
    old = play.leases["a"]
    play.now += 14_000
    play.beat("a")
    play.now = old.due_at
    row = play.rows["a"]
    assert decide.expire(play.task, row, play.specs[0], play.leases["a"], play.now) == ()
    assert decide.expire(play.task, row._replace(attempt=2), play.specs[0], old, play.now) == ()


@pytest.mark.parametrize(("attended", "state"), [(True, "waiting"), (False, "failed")])
def test_what_must_not_run_twice_asks_when_its_outcome_is_unknown(attended, state):  # (58)
    play = alone(StepSpec(Kind.CALL, repeatable=False), attended=attended)
    play.claim("a")
    play.expire("a")
    assert play.state("a") == state
    assert "must not run twice" in (play.rows["a"].reason or "")
    if attended:
        play.answer("a", "accept")
        assert play.drain() == "completed"


def test_poison_is_failed_after_its_last_loss_in_a_row():  # (60)
    play = alone(StepSpec(Kind.RUN, losses_max=2))
    for _ in range(2):
        play.claim("a")
        play.expire("a")
        assert play.state("a") == "ready"
    play.claim("a")
    play.expire("a")
    assert play.state("a") == "failed"
    assert "lost 3 times in a row" in (play.rows["a"].reason or "")


def test_losses_count_in_a_row_only():
    play = alone(StepSpec(Kind.RUN, losses_max=1))
    for _ in range(5):
        play.claim("a")
        play.expire("a")
        play.run("a", Released("drain"))
    assert (play.state("a"), play.rows["a"].losses) == ("ready", 0)


def test_failures_and_losses_back_off_apart():
    play = alone(StepSpec(Kind.RUN, failures_max=9, losses_max=9, retry_delay_ms=2_000))
    play.run("a", Failed("boom"))
    assert play.rows["a"].due_at == play.now + 2_000
    play.run("a", Failed("boom"))
    assert play.rows["a"].due_at == play.now + 4_000
    play.claim("a")
    play.expire("a")
    assert play.rows["a"].due_at == play.now + 1_000


def test_a_step_is_not_claimed_before_it_is_due():
    play = alone(StepSpec(Kind.RUN, failures_max=1))
    play.run("a", Failed("boom"))
    with pytest.raises(Refused, match="only a ready step that is due"):
        decide.claim(play.task, play.rows["a"], play.specs[0], "w1", play.now)


BACKOFFS = {0: 1_000, 1: 1_000, 2: 2_000, 3: 4_000, 8: 128_000, 9: 256_000, 10: BACKOFF_MAX_MS, 9_999: BACKOFF_MAX_MS}


@pytest.mark.parametrize(("tries", "delay_ms"), BACKOFFS.items())
def test_backoff_doubles_up_to_five_minutes(tries, delay_ms):
    assert backoff_ms(tries) == delay_ms


def test_the_first_delay_is_the_plans():
    assert (backoff_ms(1, 50), backoff_ms(3, 50), backoff_ms(1, 10**9)) == (50, 200, BACKOFF_MAX_MS)


# --- money --------------------------------------------------------------------------------------------------------


def test_a_spent_budget_admits_no_claim_until_it_is_raised():  # (59)
    play = Play([planned("a"), planned("b")], budget_micros=100)
    play.claim("a")
    play._save([events.UsageRecorded("a", 1, 10, 10, 100)])
    play.finish("a")
    play.settle_all()
    assert status(play.task) == "waiting_budget"
    with pytest.raises(Refused, match="admits no claim"):
        play.claim("b")
    play._save([events.BudgetRaised("ann", micros=200)])
    assert status(play.task) == "queued"
    assert play.drain() == "completed"


def test_a_limit_that_no_counter_shows_admits_no_claim_either():
    play = Play([planned("a")])
    play._save([events.BudgetExceeded("active")])
    assert status(play.task) == "waiting_budget"
    play._save([events.BudgetRaised("ann", active_ms=1)])
    assert play.drain() == "completed"


def test_an_attempt_that_gives_back_for_the_budget_costs_nothing():
    play = Play([planned("a")], budget_micros=100)
    play.claim("a")
    play._save([events.UsageRecorded("a", 1, 10, 10, 100)])
    play.finish("a", Released("budget"))
    row = play.rows["a"]
    assert (row.state, row.failures, row.losses, row.run) == ("ready", 0, 0, 1)


# --- pausing and stopping -----------------------------------------------------------------------------------------


def test_a_paused_task_claims_nothing_and_everything_else_goes_on():
    play = Play([planned("a"), planned("b"), planned("c", needs=["b"])])
    play.run("a", Parked(WaitingFor.EVENT, {"name": "go"}))
    play.claim("b")
    play.pause()
    assert status(play.task) == "paused"
    play.signal("go")
    play.finish("b")
    play.settle_all()
    assert play.ready() == ["a", "c"]
    with pytest.raises(Refused, match="admits no claim"):
        play.claim("a")
    play.pause()  # once more changes nothing
    assert [type(e.fact).__name__ for e in play.events].count("TaskPaused") == 1
    play.resume()
    assert play.drain() == "completed"


def test_a_paused_task_may_end():
    play = Play([planned("a")])
    play.claim("a")
    play.pause()
    play.finish("a")
    play.settle_all()
    assert play.task.state is TaskState.COMPLETED


@pytest.mark.parametrize("act", ["pause", "resume", "cancel"])
def test_an_ended_task_is_not_paused_resumed_or_cancelled(act):
    play = Play([planned("a")])
    play.drain()
    with pytest.raises(Refused, match="is completed: only an open task can be"):
        getattr(play, act)()


def test_a_running_step_is_asked_to_stop_and_is_cancelled_when_it_has():  # (60b)
    play = alone()
    play.claim("a")
    play.cancel_step("a")
    assert (play.state("a"), play.leases["a"].stop) == ("running", "cancel")
    for outcome in (Done(), Failed("x"), Parked(WaitingFor.TIMER, {}, 9), Released("drain")):
        with pytest.raises(Refused, match="is being cancelled"):
            play.finish("a", outcome)
    play.finish("a", Stopped())
    assert play.state("a") == "cancelled"
    assert play.drain() == "failed"


def test_a_worker_that_dies_between_stop_and_report_leaves_a_cancelled_step():  # (60c)
    play = alone(StepSpec(Kind.RUN, repeatable=False, timeout_ms=LEASE_MS - TIMEOUT_SLACK_MS))
    play.claim("a")
    play.cancel_step("a")
    play.expire("a")
    assert play.state("a") == "cancelled"


def test_cancelling_a_task_sweeps_in_batches_and_tells_nobody():
    play = Play([planned("a"), *(planned(f"b{n}", needs=["a"]) for n in range(5))], batch=2)
    play.claim("a")
    play.cancel()
    assert status(play.task) == "cancelling"
    play.cancel()  # a second request is answered with the first
    for _ in range(4):
        play.sweep()
    assert play.leases["a"].stop == "cancel"
    assert sum(row.state == "cancelled" for row in play.rows.values()) == 6
    assert status(play.task) == "cancelling"
    play.finish("a", Stopped())
    play.sweep()
    assert status(play.task) == "cancelled"
    assert not any(row.vetoes for row in play.rows.values())


@pytest.mark.parametrize(("outcome", "state"), [
    (Done(), "completed"),
    (Failed("x"), "failed"),
    (Parked(WaitingFor.TIMER, {}, 9), "cancelled"),
    (Released("drain"), "cancelled"),
    (Stopped(), "cancelled"),
])  # fmt: skip
def test_in_a_closing_task_every_report_is_an_end(outcome, state):
    play = alone(StepSpec(Kind.RUN, failures_max=3, fix=0), attended=True)
    play.claim("a")
    play.cancel()
    play.finish("a", outcome)  # its worker has not heard of the stop yet
    assert play.state("a") == state


def test_what_ended_untold_before_the_task_was_cancelled_is_told_to_nobody():
    play = alone()
    play.run("a", Failed("x"))
    play.cancel()
    play.sweep()
    assert play.task.state is TaskState.CANCELLED
    assert (play.state("a"), play.rows["b"].vetoes) == ("failed", 0)


def test_a_task_whose_submission_broke_off_starts_nothing_and_can_be_cancelled():
    steps = [planned("a", needs=["c"]), planned("b"), planned("c")]
    play = Play(steps, submit_batch=2, submit_only=1)
    assert (play.task.loading, play.task.admits, play.task.ended) == (True, 0, False)
    with pytest.raises(Refused, match="admits no claim"):
        play.claim("b")
    for act in (play.cancel_step, play.retire):
        with pytest.raises(Refused, match="still being submitted"):
            act("b")
    play.cancel()
    play.sweep()
    assert (play.task.state, play.task.loading) == (TaskState.CANCELLED, False)


def test_a_lease_that_ends_in_a_closing_task_ends_the_step():
    play = alone()
    play.claim("a")
    play.cancel()
    play.expire("a")  # nobody had asked it to stop yet
    assert (play.state("a"), play.rows["a"].losses) == ("cancelled", 0)
