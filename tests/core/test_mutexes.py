"""Claims with a mutex, calls, and what a change says of mutex and ticket rows."""

import pytest

from longtask.core import decide
from longtask.core import events as e
from longtask.core.errors import Refused
from longtask.core.machine import fold, tally
from longtask.core.model import (
    Kind,
    MutexView,
    Step,
    StepSpec,
    StepState,
    Tally,
    Task,
    TaskOptions,
    TaskState,
    WaitingFor,
)

S = StepState
NOW = 1_000
SPEC = StepSpec(Kind.RUN, mutex="m")
HELD = MutexView(("other", "x"))
QUEUED, CALLED, FREE = MutexView(queued=True), MutexView(called=True, queued=True), MutexView()


def task(*steps: Step, **more) -> Task:
    total = Tally()
    for step in steps:
        total = total.plus(tally(step), Tally())
    return Task("t", "t", TaskOptions(), counts=total, **more)


def row(state: StepState = S.READY, **more) -> Step:
    return Step("a", Kind.RUN, state=state, **more)


def waiting(**more) -> Step:
    question = {"mutex": "m", "due_at": 7}
    return row(S.WAITING, waiting_for=WaitingFor.MUTEX, question=question, mutex="m", **more)


def claimed(view: MutexView, step: Step | None = None):
    step = step or row()
    return decide.claim(task(step), step, SPEC, "w", NOW, mutex=view)


@pytest.mark.parametrize("view", [FREE, CALLED])
def test_a_free_mutex_is_taken_with_the_claim(view):
    fact = claimed(view)
    assert isinstance(fact, e.StepClaimed) and fact.mutex == "m"


@pytest.mark.parametrize("view", [HELD, QUEUED, MutexView(("other", "x"), called=True)])
def test_a_step_queues_behind_the_holder_and_those_who_came_first(view):
    assert claimed(view) == e.MutexAwaited("a", "m")


def test_a_task_that_admits_no_claim_queues_for_nothing():
    step = row()
    with pytest.raises(Refused, match="admits no claim"):
        decide.claim(task(step, state=TaskState.PAUSED), step, SPEC, "w", NOW, mutex=HELD)


def test_a_step_without_a_mutex_needs_no_look():
    fact = decide.claim(task(row()), row(), StepSpec(Kind.RUN), "w", NOW)
    assert isinstance(fact, e.StepClaimed) and fact.mutex is None


def test_who_is_called_takes_its_old_place_among_the_ready_steps():
    step = row(due_at=7)
    queued = fold(task(step), {"a": step}, [e.MutexAwaited("a", "m")], NOW).steps["a"]
    assert (queued.state, queued.waiting_for, queued.due_at) == (S.WAITING, WaitingFor.MUTEX, 0)
    assert decide.overdue(task(queued), queued, NOW) == ()
    (call,) = decide.call(task(queued), queued, FREE)
    assert call == e.StepWoken("a", {"mutex": "m"}, due_at=7)


@pytest.mark.parametrize(
    ("state", "view"), [(TaskState.PAUSED, FREE), (TaskState.CLOSING, FREE), (TaskState.ACTIVE, HELD)]
)
def test_nobody_is_called_who_could_not_come(state, view):
    assert decide.call(task(waiting(), state=state), waiting(), view) == ()


def test_a_full_task_is_not_called():
    other = Step("b", Kind.RUN, state=S.RUNNING)
    assert decide.call(task(waiting(), other, parallel=1), waiting(), FREE) == ()
    assert decide.call(task(waiting(), other, parallel=2), waiting(), FREE) != ()


@pytest.mark.parametrize("step", [row(), row(S.RUNNING), row(S.WAITING, waiting_for=WaitingFor.USER, question={})])
def test_only_who_queues_is_called(step):
    assert decide.call(task(step), step, FREE) == ()


def test_a_call_does_not_take_the_place_of_what_woke_the_step_before():
    step = waiting(cause={"decision": "approve"})
    woken = fold(task(step), {"a": step}, decide.call(task(step), step, FREE), NOW).steps["a"]
    assert (woken.state, woken.cause, woken.mutex) == (S.READY, {"decision": "approve"}, "m")


# --- what a store has to write ------------------------------------------------------------------------------------


def change(step: Step, *facts: e.Fact):
    return fold(task(step), {"a": step}, facts, NOW)


CLAIM = e.StepClaimed("a", 2, "w", mutex="m")
RUNNING = row(S.RUNNING, attempt=1, mutex="m")


@pytest.mark.parametrize(
    "fact",
    [
        e.StepCompleted("a", 1),
        e.StepDelivered("a", 1, "c1"),
        e.StepFailed("a", "no", 1),
        e.StepRetried("a", 1, "no"),
        e.StepLost("a", 1, "gone"),
        e.StepReleased("a", 1, "drain"),
        e.StepParked("a", 1, WaitingFor.EVENT, {"name": "go"}),
        e.HelpAsked("a", {"kind": "failed"}, 1),
        e.FixRequested("a", 1, 1, "no"),
        e.StepExpanded("a", 1, 3, 1),
        e.StepCancelled("a"),
    ],
)
def test_every_fact_that_leaves_running_frees_the_mutex(fact):
    made = change(RUNNING, fact)
    assert (made.mutexes_freed, made.mutex_taken, made.steps["a"].mutex) == ((("a", "m"),), None, None)
    assert made.tickets_opened == made.tickets_closed == ()


def test_a_claim_takes_and_leaves_the_queue():
    assert change(row(attempt=1), CLAIM).mutex_taken == ("a", 2, "m")
    made = change(row(attempt=1, mutex="m"), CLAIM)
    assert (made.mutex_taken, made.tickets_closed) == (("a", 2, "m"), ("a",))


def test_queueing_opens_a_place_and_a_call_marks_it():
    made = change(row(), e.MutexAwaited("a", "m"))
    assert (made.tickets_opened, made.tickets_called, made.tickets_closed) == ((("a", "m"),), (), ())
    made = change(waiting(), e.StepWoken("a", {"mutex": "m"}))
    assert (made.tickets_opened, made.tickets_called, made.tickets_closed) == ((), ("a",), ())
    made = change(row(mutex="m"), e.MutexAwaited("a", "m"))
    assert made.tickets_opened == (("a", "m"),), "who came in vain queues again, in its old place"


@pytest.mark.parametrize("fact", [e.StepCancelled("a"), e.StepRetired("a", "ann")])
@pytest.mark.parametrize("step", [waiting(), row(mutex="m"), row(S.BLOCKED, mutex="m", blockers=1)])
def test_who_ends_leaves_the_queue(step, fact):
    made = change(step, fact)
    assert (made.tickets_closed, made.steps["a"].mutex) == (("a",), None)


def test_who_is_held_back_keeps_its_place():
    made = change(row(mutex="m"), e.StepHeld("a"))
    assert (made.tickets_closed, made.steps["a"].mutex) == ((), "m")


def test_an_attempt_that_is_given_back_and_claimed_again_hands_the_mutex_on():
    made = change(RUNNING, e.StepReleased("a", 1, "drain"), CLAIM)
    assert (made.mutexes_freed, made.mutex_taken) == ((("a", "m"),), ("a", 2, "m"))


def test_one_transaction_takes_one_mutex():
    steps = {key: Step(key, Kind.RUN, state=S.READY) for key in "ab"}
    facts = [e.StepClaimed(key, 1, "w", mutex=f"m{key}") for key in "ab"]
    with pytest.raises(AssertionError, match="take a mutex in one transaction"):
        fold(task(*steps.values()), steps, facts, NOW)
