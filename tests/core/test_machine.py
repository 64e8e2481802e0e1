"""The two tables, exhaustively: every state and every fact, beside a copy of the page that defines them."""

from typing import Any, get_args

import pytest

from longtask.core import events as e
from longtask.core.machine import fold, status, tally, verdict
from longtask.core.model import (
    Kind,
    Role,
    Step,
    StepSpec,
    StepState,
    Tally,
    Task,
    TaskOptions,
    TaskState,
    Verdict,
    WaitingFor,
    WhenFailed,
)

NOW = 5_000

# SEMANTICS §1 and §2, row by row.  Typed in from the page, not taken from the machine.
STEP_PAGE = {
    "blocked": {
        "StepUnblocked": "ready",
        "MergeResumed": "merging",
        "GateOpened": "completed",
        "HelpAsked": "waiting",
        "StepFailed": "failed",
        "StepSkipped": "skipped",
        "StepRetired": "skipped",
        "StepCancelled": "cancelled",
        "StepEdited": "blocked",
    },
    "ready": {
        "StepClaimed": "running",
        "StepHeld": "blocked",
        "MutexAwaited": "waiting",
        "StepRetired": "skipped",
        "StepCancelled": "cancelled",
        "StepEdited": "ready",
    },
    "running": {
        "StepCompleted": "completed",
        "StepDelivered": "merging",
        "StepFailed": "failed",
        "StepRetried": "ready",
        "StepLost": "ready",
        "StepReleased": "ready",
        "StepParked": "waiting",
        "HelpAsked": "waiting",
        "FixRequested": "blocked",
        "StepExpanded": "blocked",
        "StepCancelled": "cancelled",
    },
    "waiting": {
        "StepWoken": "ready",
        "MergeResumed": "merging",
        "StepCompleted": "completed",
        "StepFailed": "failed",
        "StepRetired": "skipped",
        "StepCancelled": "cancelled",
        "StepEdited": "waiting",
    },
    "merging": {
        "StepMerged": "completed",
        "MergeConflicted": "blocked",
        "HelpAsked": "waiting",
        "StepFailed": "failed",
        "StepCancelled": "cancelled",
    },
    "failed": {"StepRestored": "blocked", "StepWaived": "failed", "StepEdited": "failed"},
    "cancelled": {"StepRestored": "blocked", "StepWaived": "cancelled", "StepEdited": "cancelled"},
    "skipped": {"StepRestored": "blocked", "StepEdited": "skipped"},
    "completed": {},
}
TASK_PAGE = {
    "active": {
        "TaskPaused": "paused",
        "CancelRequested": "closing",
        "TaskDoomed": "closing",
        "TaskCompleted": "completed",
        "TaskFailed": "failed",
    },
    "paused": {
        "TaskPaused": "paused",
        "TaskResumed": "active",
        "CancelRequested": "closing",
        "TaskDoomed": "closing",
        "TaskCompleted": "completed",
        "TaskFailed": "failed",
    },
    "closing": {"TaskCancelled": "cancelled", "TaskFailed": "failed"},
    "failed": {"TaskReopened": "active"},
    "completed": {},
    "cancelled": {},
}
STEP_FACTS: dict[str, Any] = {
    "StepUnblocked": e.StepUnblocked("a", NOW),
    "StepHeld": e.StepHeld("a"),
    "StepClaimed": e.StepClaimed("a", 3, "w1", "c0"),
    "StepRetried": e.StepRetried("a", 2, "no", NOW),
    "StepLost": e.StepLost("a", 2, "gone", NOW),
    "StepReleased": e.StepReleased("a", 2, "drain", NOW),
    "StepParked": e.StepParked("a", 2, WaitingFor.EVENT, {"name": "go"}),
    "HelpAsked": e.HelpAsked("a", {"kind": "failed", "answers": ["again"]}),
    "StepWoken": e.StepWoken("a", {"signal": "go"}, seen=1, due_at=NOW),
    "MutexAwaited": e.MutexAwaited("a", "m"),
    "FixRequested": e.FixRequested("a", 2, 1, "no"),
    "StepExpanded": e.StepExpanded("a", 2, 3, 1, [1, 2, 3]),
    "StepDelivered": e.StepDelivered("a", 2, "c1"),
    "StepMerged": e.StepMerged("a", "c2"),
    "MergeConflicted": e.MergeConflicted("a", 1, "c0", ("f",)),
    "MergeResumed": e.MergeResumed("a", NOW, "c3"),
    "StepCompleted": e.StepCompleted("a", 2, {"x": 1}),
    "StepFailed": e.StepFailed("a", "no"),
    "StepCancelled": e.StepCancelled("a", "ann"),
    "StepSkipped": e.StepSkipped("a", "b"),
    "StepRetired": e.StepRetired("a", "ann"),
    "StepWaived": e.StepWaived("a", "ann"),
    "StepRestored": e.StepRestored("a", by="ann"),
    "StepEdited": e.StepEdited("a", 1, "ann", (StepSpec(Kind.RUN),), 1),
    "GateOpened": e.GateOpened("a"),
}
TASK_FACTS: dict[str, Any] = {
    "TaskPaused": e.TaskPaused(),
    "TaskResumed": e.TaskResumed(),
    "CancelRequested": e.CancelRequested("ann"),
    "TaskDoomed": e.TaskDoomed("a"),
    "TaskCompleted": e.TaskCompleted(),
    "TaskFailed": e.TaskFailed(),
    "TaskCancelled": e.TaskCancelled(),
    "TaskReopened": e.TaskReopened("a", "ann"),
}
MOVE_NOTHING: dict[str, Any] = {
    "UsageRecorded": e.UsageRecorded("a", 1, 10, 5, 7),
    "BudgetRaised": e.BudgetRaised("ann", micros=9),
    "BudgetNear": e.BudgetNear("tokens", 8, 10),
    "LimitNear": e.LimitNear("a", "tokens", 8, 10),
    "BudgetExceeded": e.BudgetExceeded("active"),
}


def step(state: str, **more: Any) -> Step:
    row = Step("a", Kind.RUN, state=StepState(state), attempt=2, worker="w0", base="c0")
    if state == "waiting":
        row = row._replace(waiting_for=WaitingFor.USER, question={"kind": "approval"})
    return row._replace(**more)


def task(*rows: Step, **more: Any) -> Task:
    """A header whose counters fit the rows, and one open step beside them so that the task does not end."""
    counts = Tally()
    for row in (*rows, Step("other", Kind.RUN)):
        counts = counts.plus(tally(row), Tally())
    return Task("t1", "n", TaskOptions(), head="c0", counts=counts, **more)


def after(row: Step, *facts: e.Fact, **more: Any) -> Step:
    return fold(task(row, **more), {"a": row}, facts, NOW).steps["a"]


def test_the_samples_above_are_all_the_facts():
    others = {"TaskSubmitted", "StepsAdded"}
    assert set(e.FACTS) == set(STEP_FACTS) | set(TASK_FACTS) | set(MOVE_NOTHING) | others
    assert {cls.__name__ for cls in get_args(e.Fact)} == set(e.FACTS)


@pytest.mark.parametrize("fact", STEP_FACTS)
@pytest.mark.parametrize("state", STEP_PAGE)
def test_a_step_moves_as_the_page_says_and_not_otherwise(state, fact):
    row = step(state)
    target = STEP_PAGE[state].get(fact)
    if target is None:
        with pytest.raises(AssertionError, match=f"step 'a' is {state}: {fact} cannot move it"):
            fold(task(row), {"a": row}, [STEP_FACTS[fact]], NOW)
    else:
        change = fold(task(row), {"a": row}, [STEP_FACTS[fact]], NOW)
        assert change.steps["a"].state == target
        assert [type(f).__name__ for _, f in change.facts] == [fact]


@pytest.mark.parametrize("fact", TASK_FACTS)
@pytest.mark.parametrize("state", TASK_PAGE)
def test_a_task_moves_as_the_page_says_and_not_otherwise(state, fact):
    header = task(state=TaskState(state), pauses=int(state == "paused"), doomed=state == "closing")
    target = TASK_PAGE[state].get(fact)
    if target is None:
        with pytest.raises(AssertionError, match=f"task is {state}: {fact} cannot move it"):
            fold(header, {}, [TASK_FACTS[fact]], NOW)
    else:
        assert fold(header, {}, [TASK_FACTS[fact]], NOW).task.state == target


@pytest.mark.parametrize("fact", MOVE_NOTHING)
@pytest.mark.parametrize("state", TASK_PAGE)
def test_usage_and_budgets_move_no_state_and_end_with_the_task(state, fact):
    header = task(state=TaskState(state))
    if state in ("completed", "failed", "cancelled"):
        with pytest.raises(AssertionError, match=f"task is {state}"):
            fold(header, {}, [MOVE_NOTHING[fact]], NOW)
    else:
        assert fold(header, {}, [MOVE_NOTHING[fact]], NOW).task.state == state


@pytest.mark.parametrize("fact", [name for name, fact in STEP_FACTS.items() if getattr(fact, "attempt", 0) == 2])
def test_an_attempt_that_is_not_the_newest_moves_nothing(fact):
    row = step("running", attempt=5)
    with pytest.raises(AssertionError, match="attempt 2 is not the newest"):
        fold(task(row), {"a": row}, [STEP_FACTS[fact]], NOW)


@pytest.mark.parametrize("attempt", [1, 2, 4])
def test_a_claim_takes_the_next_attempt_number(attempt):
    row = step("ready")
    with pytest.raises(AssertionError, match=f"claim {attempt} after attempt 2"):
        fold(task(row), {"a": row}, [e.StepClaimed("a", attempt, "w1")], NOW)


# --- effects ------------------------------------------------------------------------------------------------------


def test_a_second_reason_to_pause_keeps_the_task_paused_until_both_are_gone():
    paused = fold(task(), {}, [e.TaskPaused(1), e.TaskPaused(2)], NOW).task
    assert (paused.state, paused.pauses) == ("paused", 3)
    half = fold(paused, {}, [e.TaskResumed(1)], NOW).task
    assert (half.state, half.pauses) == ("paused", 2)
    assert fold(half, {}, [e.TaskResumed(2)], NOW).task.state == "active"


def test_a_reopened_task_is_paused_for_no_reason():
    row = step("failed", told=Verdict.VETO)
    failed = task(row, state=TaskState.FAILED, pauses=1)
    again = fold(failed, {"a": row}, [e.TaskReopened("a", "ann"), e.StepRestored("a", by="ann")], NOW).task
    assert (again.state, again.pauses, again.ended_at) == ("active", 0, 0)


def test_usage_adds_up_and_unpriced_usage_is_marked():
    spent = fold(task(), {}, [e.UsageRecorded("a", 1, 10, 5, 7), e.UsageRecorded("a", 1, 1, 1, None)], NOW).task
    assert (spent.spent_micros, spent.spent_tokens, spent.unpriced) == (7, 17, True)


def test_a_raised_budget_leaves_the_other_one_as_it_is():
    header = task(budget_micros=5, budget_tokens=6, exceeded="active")
    raised = fold(header, {}, [e.BudgetRaised("ann", tokens=60)], NOW).task
    assert (raised.budget_micros, raised.budget_tokens, raised.exceeded) == (5, 60, None)


@pytest.mark.parametrize("fact", ["StepLost", "StepReleased", "StepParked", "StepExpanded"])
def test_only_an_own_failure_counts_as_one(fact):
    assert after(step("running", failures=2), STEP_FACTS[fact]).failures == 2


@pytest.mark.parametrize("fact", ["StepRetried", "StepReleased", "StepParked", "HelpAsked", "FixRequested",
                                  "StepExpanded", "StepDelivered", "StepCompleted"])  # fmt: skip
def test_any_report_sets_losses_to_zero(fact):
    assert after(step("running", losses=2), STEP_FACTS[fact]).losses == 0


def test_a_loss_counts_as_a_loss_and_keeps_the_cause():
    row = after(step("running", losses=1, cause={"decision": "approve"}), STEP_FACTS["StepLost"])
    assert (row.losses, row.cause) == (2, {"decision": "approve"})


@pytest.mark.parametrize("fact", ["StepRetried", "FixRequested", "StepParked", "HelpAsked", "StepExpanded",
                                  "StepDelivered", "StepCompleted", "StepFailed"])  # fmt: skip
def test_an_attempt_that_reports_has_consumed_the_decision(fact):
    assert after(step("running", cause={"decision": "approve"}), STEP_FACTS[fact]).cause is None


NEXT_RUN = {"StepLost": 1, "StepReleased": 1, "StepParked": 1, "StepExpanded": 1, "StepRetried": 2, "FixRequested": 2}


@pytest.mark.parametrize(("fact", "next_run"), NEXT_RUN.items())
def test_a_failure_begins_another_run_and_nothing_else_does(fact, next_run):
    assert after(step("running"), STEP_FACTS[fact]).run == next_run


def test_a_retry_by_a_person_gives_new_budgets_and_forgets_the_last_life():
    row = step("failed", failures=1, losses=2, rounds=3, conflicts=1, digest="d", commit="c1", cause={"x": 1},
               owned_verdict=Verdict.VETO, items=4, items_next=2, items_ended=2, items_failed=1)  # fmt: skip
    again = after(row, e.StepRestored("a", by="ann"))
    assert (again.failures, again.losses, again.rounds, again.conflicts, again.digest) == (0, 0, 0, 0, None)
    assert (again.commit, again.cause, again.owned_verdict) == (None, None, Verdict.NONE)
    assert (again.items, again.items_next, again.items_ended, again.items_failed) == (0, 0, 0, 0)
    assert (again.attempt, again.run) == (2, 2)


def test_a_step_that_comes_back_by_itself_keeps_its_budgets():
    row = step("skipped", failures=1, run=3, because="b")
    again = after(row, e.StepRestored("a", because="b"))
    assert (again.failures, again.run, again.because) == (1, 3, None)


def test_conflicts_begin_anew_when_a_person_has_resolved_one():
    by_person = after(step("waiting", conflicts=3, commit="c1"), e.MergeResumed("a", NOW, "c2", by="ann"))
    assert (by_person.conflicts, by_person.commit) == (0, "c2")
    by_step = after(step("blocked", conflicts=2, commit="c1"), e.MergeResumed("a", NOW))
    assert (by_step.conflicts, by_step.commit) == (2, "c1")


def test_what_was_asked_is_gone_when_the_step_waits_no_more():
    for name in (name for name, state in STEP_PAGE["waiting"].items() if state != "waiting"):
        row = after(step("waiting", due_at=9_000), STEP_FACTS[name])
        assert (row.waiting_for, row.question) == (WaitingFor.NOTHING, None), name
        assert row.due_at in (0, NOW), name


def test_a_claim_opens_a_lease_that_ends_at_the_timeout_at_the_latest():
    row = step("ready")
    change = fold(task(row), {"a": row}, [e.StepClaimed("a", 3, "w1", "c0", 15_000, NOW + 100)], NOW)
    (lease,) = change.leases_opened
    assert (lease.step, lease.attempt, lease.worker, lease.due_at, lease.timeout_at) == (
        "a", 3, "w1", NOW + 100, NOW + 100)  # fmt: skip
    assert change.task.served_at == NOW


@pytest.mark.parametrize("fact", STEP_PAGE["running"])
def test_every_way_out_of_running_closes_the_lease(fact):
    row = step("running")
    assert fold(task(row), {"a": row}, [STEP_FACTS[fact]], NOW).leases_closed == ("a",)


def test_a_step_that_is_claimed_and_done_in_one_fold_leaves_no_lease():
    row = step("ready")
    change = fold(task(row), {"a": row}, [STEP_FACTS["StepClaimed"], e.StepCompleted("a", 3)], NOW)
    assert (change.leases_opened, change.leases_closed) == ((), ())


def test_a_wait_with_a_name_is_a_row_while_it_lasts():
    row = step("running")
    parked = fold(task(row), {"a": row}, [STEP_FACTS["StepParked"]], NOW)
    assert [(w.step, w.name) for w in parked.waits_opened] == [("a", "go")]
    row = parked.steps["a"]
    woken = fold(parked.task, {"a": row}, [STEP_FACTS["StepWoken"]], NOW)
    assert (woken.waits_closed, woken.waits_opened) == (("a",), ())


def test_a_signal_that_was_there_before_the_wait_leaves_no_wait_row():
    row = step("running")
    change = fold(task(row), {"a": row}, [STEP_FACTS["StepParked"], STEP_FACTS["StepWoken"]], NOW)
    assert (change.waits_opened, change.waits_closed) == ((), ())
    assert change.steps["a"].state == "ready"


def test_questions_of_people_are_numbered_and_other_waits_are_not():
    assert after(step("running", ask=4), STEP_FACTS["StepParked"]).ask == 4
    assert after(step("running", ask=4), STEP_FACTS["HelpAsked"]).ask == 5
    user = e.StepParked("a", 2, WaitingFor.USER, {"kind": "approval"})
    assert after(step("running", ask=4), user).ask == 5


def test_the_end_of_the_task_stands_in_the_fold_that_brings_it_about():
    row = step("completed", told=Verdict.NONE)
    header = Task("t1", "n", TaskOptions(), counts=tally(row), seq=7)
    change = fold(header, {"a": row}, [], NOW, told={"a": row._replace(told=Verdict.OK)})
    assert [(seq, type(f).__name__) for seq, f in change.facts] == [(8, "TaskCompleted")]
    assert (change.task.state, change.task.ended_at, change.task.seq) == ("completed", NOW, 8)


def test_a_task_with_something_untold_does_not_end():
    row = step("running")
    header = Task("t1", "n", TaskOptions(), counts=tally(row))
    change = fold(header, {"a": row}, [e.StepCompleted("a", 2)], NOW)
    assert change.task.state == "active"
    assert change.task.counts.untold == 1


def test_a_fold_changes_nothing_that_it_was_given():
    row = step("running")
    header, rows = task(row), {"a": row}
    fold(header, rows, [STEP_FACTS["StepCompleted"]], NOW)
    assert rows == {"a": row}
    assert row.state == "running"


def test_what_the_first_fold_knows_is_numbered_from_one():
    new = e.NewStep("a", Kind.RUN, ready=True)
    change = fold(None, {}, [e.TaskSubmitted("t1", "n", TaskOptions(), base="c0", steps=(new,))], NOW)
    assert change.created
    assert change.added == {"a"}
    assert (change.task.seq, change.task.head, change.task.base, change.task.created_at) == (1, "c0", "c0", NOW)
    assert (change.steps["a"].state, change.steps["a"].due_at) == ("ready", NOW)


# --- what a row counts for ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "more", "expected"), [
    *[(state, {}, "") for state in ("blocked", "ready", "running", "waiting", "merging")],
    ("completed", {}, "ok"),
    ("failed", {}, "veto"),
    ("cancelled", {}, "veto"),
    ("failed", {"when_failed": WhenFailed.CONTINUE}, "ok"),
    ("cancelled", {"when_failed": WhenFailed.CONTINUE}, "ok"),
    ("failed", {"when_failed": WhenFailed.ASK}, "veto"),
    ("failed", {"waived": True}, "ok"),
    ("cancelled", {"waived": True}, "ok"),
    ("skipped", {"benign": True}, "omit"),
    ("skipped", {}, "veto"),
    ("skipped", {"when_failed": WhenFailed.CONTINUE}, "veto"),
])  # fmt: skip
def test_a_verdict_is_what_the_page_says(state, more, expected):
    assert verdict(step(state, **more)) == expected


def test_only_a_step_of_the_plan_counts_as_bad():
    assert tally(step("failed")).bad == 1
    assert tally(step("cancelled")).bad == 1
    assert tally(step("skipped")).bad == 0
    assert tally(step("failed", waived=True)).bad == 0
    assert tally(step("failed", when_failed=WhenFailed.CONTINUE)).bad == 0
    assert tally(step("failed", role=Role.FIX, owner="b")).bad == 0
    assert tally(Step("gate.1", Kind.GATE, state=StepState.CANCELLED)).bad == 0


@pytest.mark.parametrize("state", list(StepState))
def test_an_open_step_counts_in_one_place_and_an_ended_one_counts_its_weight(state):
    counts = tally(step(state, weight=100))
    places = counts.ready + counts.running + counts.merging + counts.wait_user
    is_open = state in ("blocked", "ready", "running", "waiting", "merging")
    assert counts.open == is_open
    assert places == (is_open and state != "blocked")
    assert counts.weight_done == (0 if is_open else 100)
    assert (counts.steps, counts.weight) == (1, 100)


@pytest.mark.parametrize(("counts", "more", "word"), [
    ({}, {"state": TaskState.COMPLETED}, "completed"),
    ({"running": 1}, {"state": TaskState.CLOSING}, "cancelling"),
    ({"running": 1}, {"state": TaskState.PAUSED}, "paused"),
    ({"running": 1, "wait_user": 1}, {}, "running"),
    ({"running_system": 1}, {}, "running"),
    ({"merging": 1, "wait_user": 1}, {}, "running"),
    ({"untold": 1, "wait_user": 1}, {}, "running"),
    ({"ready": 1, "wait_user": 1}, {}, "queued"),
    ({"wait_mutex": 1, "wait_user": 1}, {}, "queued"),
    ({"ready": 1}, {"budget_micros": 5, "spent_micros": 5}, "waiting_budget"),
    ({"ready": 1}, {"exceeded": "active"}, "waiting_budget"),
    ({"wait_user": 1, "wait_task": 1}, {"budget_micros": 5, "spent_micros": 5}, "waiting_user"),
    ({"wait_task": 1, "wait_ci": 1}, {}, "running"),
    ({"wait_ci": 1, "wait_event": 1, "wait_timer": 1}, {}, "waiting_ci"),
    ({"wait_event": 1, "wait_timer": 1}, {}, "waiting_event"),
    ({"wait_timer": 1}, {}, "waiting_timer"),
])  # fmt: skip
def test_the_status_is_the_first_word_that_applies(counts, more, word):
    assert status(Task("t1", "n", TaskOptions(), counts=Tally(**counts), **more)) == word


def test_admits_tells_system_steps_from_those_that_take_a_slot():
    assert Task("t", "n", TaskOptions(), parallel=1).admits == 2
    assert Task("t", "n", TaskOptions(), parallel=1, counts=Tally(running=1)).admits == 1
    assert Task("t", "n", TaskOptions(), parallel=1, counts=Tally(running_system=1)).admits == 2
    assert Task("t", "n", TaskOptions(), loading=True).admits == 0
    assert Task("t", "n", TaskOptions(), state=TaskState.PAUSED).admits == 0
    assert Task("t", "n", TaskOptions(), budget_tokens=5, spent_tokens=5).admits == 0
