"""Decisions about one step or one task: values and `now` in, facts out.  Nothing here changes anything.

    claim, call, finish, expire, overdue   an attempt, its mutex and its clock
    woken_by, answer                    what ends a wait
    merged, conflicted                  the merge queue
    cancel_step, retry, waive           people, about a step
    pause, resume, cancel_task, sweep   people, about a task

Refusals are errors from the tree; what cannot happen is an assert.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import events as e
from . import family
from .errors import LeaseLost, Refused
from .graph import SYSTEM_KINDS
from .machine import untold, verdict
from .model import (
    OPEN,
    POOL_SYSTEM,
    Done,
    Edge,
    Expanded,
    Failed,
    Json,
    JsonMap,
    Kind,
    Lease,
    MutexView,
    Outcome,
    Parked,
    Question,
    Released,
    Role,
    Signal,
    Step,
    StepSpec,
    StepState,
    Stopped,
    SubTask,
    Task,
    TaskState,
    WaitingFor,
    WhenFailed,
)
from .policy import DEPTH_MAX, LEASE_MS, ROUNDS_MAX, TIMEOUT_SLACK_MS, backoff_ms
from .spending import reached, stage_spent_up

S = StepState

ANSWERS: dict[Question, tuple[str, ...]] = {
    Question.APPROVAL: ("approve", "reject", "edit", "respond"),
    Question.UNKNOWN: ("again", "accept", "give_up"),
    Question.FAILED: ("again", "accept", "give_up"),
    Question.NO_FIX: ("again", "accept", "give_up"),
    Question.CONFLICT: ("resolve", "again", "give_up"),  # accepting would complete a step whose commit is on no branch
    Question.LIMIT: ("raise", "give_up"),  # of a stage's limit: RAISE_STAGE too
    Question.PLAN: ("approve", "reject"),  # a rejected planner plans anew, with the reviewer's words
}

RAISE_STAGE = "raise_stage"  # for all its steps, where "raise" is for the one that is asked about
STOP_CANCEL = "cancel"  # the one stop after which an attempt cannot complete any more
STOP_BUDGET = "budget"  # agents give back at their next turn; what costs nothing runs on
STOP_PAUSE = "pause"  # whatever runs gives back
STOP_LIMIT = "limit"  # what its step may spend is spent: whoever gives back asks a person


@dataclass(frozen=True, slots=True)
class Move:
    """Facts, rows with new bookkeeping (`told`), and running steps that are to be asked to stop."""

    facts: tuple[e.Fact, ...] = ()
    told: dict[str, Step] | None = None
    stops: tuple[tuple[str, str], ...] = ()


# --- an attempt ---------------------------------------------------------------------------------------------------


def claim(
    task: Task,
    step: Step,
    spec: StepSpec,
    worker: str,
    now: int,
    runtime: str | None = None,
    lease_ms: int = LEASE_MS,
    mutex: MutexView | None = None,
) -> e.StepClaimed | e.MutexAwaited:
    """`mutex`: the one that the spec names, as it is found now; the step queues for it unless it is free for it.

    Raises Refused when the step is not ready, not due, or the task admits no claim."""
    if step.state is not S.READY or step.due_at > now:
        raise Refused(f"step {step.key!r} is {step.state}: only a ready step that is due can be claimed")
    if task.admits < (1 if step.pool == POOL_SYSTEM else 2):
        raise Refused(f"task {task.id!r} admits no claim of step {step.key!r} now")
    if spec.mutex is not None:
        assert mutex is not None, f"step {step.key!r} is claimed without a look at its mutex {spec.mutex!r}"
        if not mutex.free:
            return e.MutexAwaited(step.key, spec.mutex)
    timeout_at = None if spec.timeout_ms is None else now + spec.timeout_ms + TIMEOUT_SLACK_MS
    return e.StepClaimed(step.key, step.attempt + 1, worker, task.head, lease_ms, timeout_at, runtime, spec.mutex)


def call(task: Task, step: Step, mutex: MutexView) -> tuple[e.Fact, ...]:
    """The step's turn at its mutex has come; nothing if it cannot come now.

    It takes its old place among the ready steps of its task, else those that came later would be claimed before it."""
    if step.state is not S.WAITING or step.waiting_for is not WaitingFor.MUTEX or step.question is None:
        return ()
    if mutex.holder is not None or task.admits < (1 if step.pool == POOL_SYSTEM else 2):
        return ()
    return (e.StepWoken(step.key, {"mutex": step.question["mutex"]}, due_at=step.question["due_at"]),)


def _newest(step: Step, attempt: int) -> None:
    if step.attempt != attempt:
        raise LeaseLost(f"step {step.key!r}: attempt {attempt} is not the newest ({step.attempt})")
    if step.state is not S.RUNNING:
        raise LeaseLost(f"step {step.key!r}: attempt {attempt} is over, the step is {step.state}")


def finish(
    task: Task,
    step: Step,
    spec: StepSpec,
    attempt: int,
    outcome: Outcome,
    now: int,
    *,
    stop: str | None = None,
    signal: Signal | None = None,
    owned: StepSpec | None = None,
    left: Sequence[int] = (),
) -> tuple[e.Fact, ...]:
    """An attempt reports.  A late report of the newest attempt is accepted while the step is running.

    `stop`: what the lease's mark asks for.  `signal`: the earliest unseen one that fits, if the outcome parks on a
    signal.  `owned`: the spec of the fix or the revision (if it failed and has one) or of the item (if it expands).
    `left`: the first indexes that are not completed, if a for_each expands once more.  Raises LeaseLost, Refused.
    """
    _newest(step, attempt)
    if stop == STOP_CANCEL:
        if isinstance(outcome, Stopped):
            return (e.StepCancelled(step.key, by="stop"),)
        raise Refused(f"step {step.key!r} is being cancelled: its outcome is not taken, report that it has stopped")
    closing = task.state is TaskState.CLOSING
    match outcome:
        case Done(commit=None):
            return (e.StepCompleted(step.key, attempt, outcome.result, outcome.artifacts),)
        case Done(commit=str(commit)):
            delivered = e.StepDelivered(step.key, attempt, commit, outcome.result, outcome.artifacts, now)
            if (outcome.base or step.base) == task.head and not closing:
                return (delivered, e.StepMerged(step.key, commit))
            return (delivered,)
        case Failed():
            if closing:
                return (e.StepFailed(step.key, outcome.reason, attempt, outcome.digest, outcome.artifacts),)
            if outcome.revise and spec.revise is not None and owned is not None:
                return revise(step, spec, owned, attempt, outcome.reason)
            return _failed(task, step, spec, owned, outcome, now)
        case Parked():
            if closing:
                return (e.StepCancelled(step.key, by="closing"),)
            parked = e.StepParked(step.key, attempt, outcome.waiting_for, outcome.question, outcome.due_at)
            if signal is None:
                return (parked,)
            return (parked, _woken(step.key, signal, now))
        case SubTask():
            if closing:
                raise Refused(f"step {step.key!r}: its task is being cancelled, it has no child any more")
            asked = family.park(task, step, outcome, now)
            return _failed(task, step, spec, None, asked, now) if isinstance(asked, Failed) else (asked,)
        case Expanded():
            if closing:
                raise Refused(f"step {step.key!r}: its task is being cancelled, it expands no more")
            assert owned is not None
            if step.kind is Kind.AGENT:
                return _spawned(step, spec, owned, outcome)
            return _expanded(step, spec, owned, outcome, left, now)
        case Released() | Stopped():
            if closing:
                return (e.StepCancelled(step.key, by="closing"),)
            if stop == STOP_LIMIT and (spec.body.get("limits") or stage_spent_up(task, step)):
                return ask_or_fail(task, step, Question.LIMIT, reached(task, step, spec))
            reason = outcome.reason if isinstance(outcome, Released) else (stop or "stopped")
            return (e.StepReleased(step.key, attempt, reason, now),)
    raise AssertionError(f"unknown outcome {outcome!r}")


def propose(
    task: Task, step: Step, attempt: int, result: Json, reason: str, digest: str, stop: str | None
) -> tuple[e.Fact, ...]:
    """A planner has its steps, and the plan wants them seen before they are added.  Raises LeaseLost, Refused."""
    _newest(step, attempt)
    if stop == STOP_CANCEL:
        raise Refused(f"step {step.key!r} is being cancelled: its outcome is not taken, report that it has stopped")
    if task.state is TaskState.CLOSING:
        return (e.StepCancelled(step.key, by="closing"),)
    answers = list(ANSWERS[Question.PLAN])
    question = {"kind": str(Question.PLAN), "reason": reason, "answers": answers, "digest": digest, "result": result}
    return (e.HelpAsked(step.key, question, attempt),)


def _failed(
    task: Task, step: Step, spec: StepSpec, fix: StepSpec | None, failed: Failed, now: int
) -> tuple[e.Fact, ...]:
    """Retry, then fix, then ask, then fail."""
    if failed.retryable and step.failures < spec.failures_max:
        due_at = now + backoff_ms(step.failures + 1, spec.retry_delay_ms)
        return (e.StepRetried(step.key, step.attempt, failed.reason, due_at),)
    if failed.retryable and spec.fix is not None and fix is not None:
        again = failed.digest is not None and failed.digest == step.digest
        if step.rounds < spec.fix_rounds_max and not again and step.depth < DEPTH_MAX:
            return _fix(step, spec.fix, fix, failed.reason, failed.digest)
        why = (
            "the same failures came back"
            if again
            else f"{step.rounds} of {spec.fix_rounds_max} rounds are used"
            if step.rounds >= spec.fix_rounds_max
            else f"a fix of a fix goes {DEPTH_MAX} deep at most"
        )
        return ask_or_fail(task, step, Question.NO_FIX, f"no fix found ({why}): {failed.reason}", failed)
    if step.when_failed is WhenFailed.ASK:
        return ask_or_fail(task, step, Question.FAILED, failed.reason, failed)
    return (e.StepFailed(step.key, failed.reason, step.attempt, failed.digest, failed.artifacts),)


def ask_or_fail(
    task: Task, step: Step, kind: Question, reason: str, failed: Failed | None = None
) -> tuple[e.Fact, ...]:
    """A person is asked if somebody attends the task and the failure matters; otherwise the step fails."""
    attempt = step.attempt if step.state is S.RUNNING else 0
    if not task.options.attended or step.when_failed is WhenFailed.CONTINUE:
        digest, artifacts = (failed.digest, failed.artifacts) if failed else (None, ())
        return (e.StepFailed(step.key, reason, attempt, digest, artifacts),)
    answers = ANSWERS[kind]
    if step.commit is not None:
        answers = tuple(a for a in answers if a != "accept")
    question: JsonMap = {"kind": str(kind), "reason": reason, "answers": list(answers)}
    if kind is Question.LIMIT and stage_spent_up(task, step):
        question = {**question, "answers": ["raise", RAISE_STAGE, "give_up"], "stage": step.stage}
    return (e.HelpAsked(step.key, question, attempt),)


def stage_raised(task: Task, step: Step, by: str, now: int) -> tuple[e.Fact, ...]:
    """Somebody has raised the limits of a stage while another step was asked about: one that asks for no more than that
    goes on as well."""
    asks = step.state is S.WAITING and step.waiting_for is WaitingFor.USER and (step.question or {}).get("stage")
    if not asks or stage_spent_up(task, step):
        return ()
    return (e.StepWoken(step.key, {"answer": "stage_raised", "by": by}, by=by, due_at=now),)


def owned_step(step: Step, role: Role, number: int, spec_number: int, spec: StepSpec) -> tuple[e.NewStep, Edge]:
    """A fix or conflict step that stands before `step`; nothing stands before it, so it is born ready."""
    key = f"{step.key}.{role}.{number}"
    new = e.NewStep(
        key=key,
        kind=spec.kind,
        spec=spec_number,
        stage=step.stage,
        role=role,
        owner=step.key,
        depth=step.depth + 1,
        pool=pool_of(spec),
        ready=True,
    )
    return new, Edge(key, step.key)


def pool_of(spec: StepSpec) -> str:
    return POOL_SYSTEM if spec.kind in SYSTEM_KINDS else spec.pool


def _fix(
    step: Step, number: int, fix: StepSpec, reason: str, digest: str | None, revise: bool = False
) -> tuple[e.Fact, ...]:
    new, edge = owned_step(step, Role.FIX, step.owned + 1, number, fix)
    asked = e.FixRequested(step.key, step.attempt, step.rounds + 1, reason, digest, revise)
    return (asked, e.StepsAdded((new,), (edge,)))


def revise(step: Step, spec: StepSpec, fix: StepSpec, attempt: int, text: str) -> tuple[e.Fact, ...]:
    """A reviewer rejected and the plan says `revise`: a fix is put in front, with the reviewer's text.

    The step fails when its rounds are used up.  Raises LeaseLost."""
    _newest(step, attempt)
    assert spec.revise is not None
    if step.rounds >= spec.revise_rounds_max or step.depth >= DEPTH_MAX:
        return (e.StepFailed(step.key, f"rejected after {step.rounds} rounds of revising: {text}", step.attempt),)
    return _fix(step, spec.revise, fix, text, None, revise=True)


# --- for_each, and agents that spawn ------------------------------------------------------------------------------


def _expanded(
    step: Step, spec: StepSpec, item: StepSpec, expanded: Expanded, left: Sequence[int], now: int
) -> tuple[e.Fact, ...]:
    if expanded.items == 0:
        return (e.StepCompleted(step.key, step.attempt, []),)
    expansion = step.expansion + 1
    fact = e.StepExpanded(
        step.key, step.attempt, expanded.items, expansion, expanded.listing if expansion == 1 else None
    )
    if expansion > 1 and not left:  # a retry, and only collecting had gone wrong: that is done again
        return (fact, e.StepUnblocked(step.key, now))
    begun = left[: spec.parallel_max] if expansion > 1 else range(min(spec.parallel_max, expanded.items))
    whole = step.whole if expansion > 1 else step.weight
    pairs = [item_step(step, spec, item, i, expansion, expanded.items, whole) for i in begun]
    return (fact, e.StepsAdded(tuple(n for n, _ in pairs), tuple(edge for _, edge in pairs)))


def _spawned(step: Step, spec: StepSpec, item: StepSpec, expanded: Expanded) -> tuple[e.Fact, ...]:
    """An agent has given out work: all of it begins at once, and the same run goes on when all has ended, however.

    Each time is an expansion of its own, with its own list: nothing of an earlier one is taken up or passed over.  Its
    items weigh nothing, since what the agent itself has left to do is not known from them."""
    assert 0 < expanded.items <= spec.parallel_max, f"step {step.key!r} spawns {expanded.items} items"
    expansion = step.expansion + 1
    fact = e.StepExpanded(step.key, step.attempt, expanded.items, expansion, expanded.listing)
    pairs = [item_step(step, spec, item, i, expansion, expanded.items, 0) for i in range(expanded.items)]
    return (fact, e.StepsAdded(tuple(n for n, _ in pairs), tuple(edge for _, edge in pairs)))


def item_key(owner: str, index: int, expansion: int) -> str:
    return f"{owner}[{index}]" + (f"~{expansion}" if expansion > 1 else "")


def item_step(
    step: Step, spec: StepSpec, item: StepSpec, index: int, expansion: int, items: int, whole: int
) -> tuple[e.NewStep, Edge]:
    """The row of one item.  Weight: its share of the owner's, as a difference of floor sums, so that shares add up.

    An agent judges itself what the failure of an item means: nobody is asked about one."""
    assert spec.item is not None
    key = item_key(step.key, index, expansion)
    share = whole * (index + 1) // items - whole * index // items if expansion == 1 else 0
    new = e.NewStep(
        key=key,
        kind=item.kind,
        spec=spec.item,
        stage=step.stage,
        role=Role.ITEM,
        owner=step.key,
        depth=step.depth + 1,
        item=index,
        expansion=expansion,
        weight=share,
        when_failed=WhenFailed.CONTINUE if step.kind is Kind.AGENT else step.when_failed,
        pool=pool_of(item),
        ready=True,
    )
    return new, Edge(key, step.key)


# --- the clock ----------------------------------------------------------------------------------------------------


def expire(
    task: Task, step: Step, spec: StepSpec, lease: Lease, now: int, fix: StepSpec | None = None
) -> tuple[e.Fact, ...]:
    """The lease has ended; nothing if it has been prolonged meanwhile.

    At or after the attempt's timeout it is an own failure; before, a loss."""
    if step.state is not S.RUNNING or step.attempt != lease.attempt or lease.due_at > now:
        return ()
    if lease.stop == STOP_CANCEL or task.state is TaskState.CLOSING:
        return (e.StepCancelled(step.key, by="lease end"),)
    if lease.timeout_at is not None and lease.timeout_at <= now:
        return _failed(task, step, spec, fix, Failed(f"timeout: it ran longer than {spec.timeout_ms} ms"), now)
    if step.taken_by is not None:
        return given_back(task, step, step.taken_by, f"{step.taken_by}'s time is over", now)
    gone = f"worker {lease.worker!r} is gone: its lease of attempt {lease.attempt} has ended"
    if not spec.repeatable:
        return ask_or_fail(task, step, Question.UNKNOWN, f"outcome unknown, and the step must not run twice; {gone}")
    if step.losses >= spec.losses_max:
        reason = f"lost {step.losses + 1} times in a row; {gone}"
        if step.when_failed is WhenFailed.ASK:
            return ask_or_fail(task, step, Question.FAILED, reason)
        return (e.StepFailed(step.key, reason, step.attempt),)
    return (e.StepLost(step.key, step.attempt, gone, now + backoff_ms(step.losses + 1)),)


def given_back(task: Task, step: Step, by: str, why: str, now: int) -> tuple[e.Fact, ...]:
    """What a person has taken is what it was when they took it: ready, or failed, cancelled, or asking what it asked.
    Else what nobody has mended would run again."""
    if task.state is TaskState.CLOSING:
        return (e.StepCancelled(step.key, by="closing"),)
    was: JsonMap = (step.cause or {}).get("taken") or {}
    if "question" in was and "stage" in was["question"] and not stage_spent_up(task, step):
        return (e.StepReleased(step.key, step.attempt, why, now),)  # it was raised for all of the stage meanwhile
    if "question" in was:
        return (e.HelpAsked(step.key, was["question"], step.attempt),)
    if was.get("state") == S.FAILED:
        return (e.StepFailed(step.key, was["reason"] or why),)
    if was.get("state") == S.CANCELLED:
        return (e.StepCancelled(step.key, by),)
    return (e.StepReleased(step.key, step.attempt, why, now),)


def overdue(task: Task, step: Step, now: int) -> tuple[e.Fact, ...]:
    """A deadline counts when it is recorded, not when it passes."""
    if step.state is not S.WAITING or not step.due_at or step.due_at > now or task.state is TaskState.CLOSING:
        return ()
    return (e.StepWoken(step.key, {"deadline": True}, due_at=now),)


# --- waiting ------------------------------------------------------------------------------------------------------


def fits(question: JsonMap, signal: Signal) -> bool:
    """Name and match: each field of `match` stands in the payload with the same value."""
    match: JsonMap = question.get("match") or {}
    return question.get("name") == signal.name and all(signal.payload.get(k) == v for k, v in match.items())


def _woken(key: str, signal: Signal, now: int) -> e.StepWoken:
    cause = {"signal": signal.name, "number": signal.number, "payload": signal.payload}
    return e.StepWoken(key, cause, seen=signal.number, by=signal.sender or None, due_at=now)


def woken_by(step: Step, signal: Signal, now: int) -> tuple[e.Fact, ...]:
    """A signal is not used up: every waiter that fits is woken, but the same step never takes it twice."""
    if step.state is not S.WAITING or step.question is None or signal.number <= step.seen:
        return ()
    return (_woken(step.key, signal, now),) if fits(step.question, signal) else ()


def answer(
    task: Task,
    step: Step,
    *,
    word: str,
    by: str,
    now: int,
    ask: int | None = None,
    digest: str | None = None,
    text: str = "",
    commit: str | None = None,
    edited: Any = None,
) -> tuple[e.Fact, ...]:
    """A person answers.  `ask` and `digest` None: whatever is asked now.

    Raises Refused: wrong, old, or decided already."""
    if step.state is not S.WAITING or step.waiting_for is not WaitingFor.USER or step.question is None:
        raise Refused(f"step {step.key!r} is {step.state}: it asks nothing now")
    if ask is not None and ask != step.ask:
        raise Refused(f"step {step.key!r}: question {ask} is not the newest ({step.ask}); look at it again")
    question = step.question
    if digest is not None and digest != question.get("digest"):
        raise Refused(f"step {step.key!r}: what was shown has changed since; look at it again")
    kind = Question(question["kind"])
    allowed = question.get("answers") or ANSWERS[kind]
    if word not in allowed:
        raise Refused(f"step {step.key!r} asks {kind!s}: answer {' | '.join(allowed)}, not {word!r}")
    if kind is Question.APPROVAL:
        if question.get("bind") == "head" and question.get("head") != task.head:
            return (e.StepWoken(step.key, {"superseded": True}, by=by, due_at=now),)
        cause = {"decision": word, "by": by, "text": text, "ask": step.ask, "at": now}
        if edited is not None:
            cause["edited"] = edited
        if "bound" in question:  # an agent's: the decision counts for that one call
            cause["bound"] = question["bound"]
        return (e.StepWoken(step.key, cause, by=by, due_at=now),)
    if kind is Question.CONFLICT:
        if word == "give_up":
            return (e.StepFailed(step.key, _given_up(by, text), by=by),)
        if word == "resolve" and commit is None:
            raise Refused(f"step {step.key!r}: resolving a conflict takes a commit that contains both sides")
        return (e.MergeResumed(step.key, now, commit, by=by),)
    if kind is Question.PLAN:
        if word == "approve":
            return (e.StepCompleted(step.key, step.attempt, question["result"], by=by),)
        return (e.StepWoken(step.key, {"answer": "again", "by": by, "text": text}, by=by, due_at=now),)
    if word == "give_up":
        return (e.StepFailed(step.key, _given_up(by, text), by=by),)
    if word == RAISE_STAGE:
        raised = e.BudgetRaised(by, stage=question["stage"])
        return (raised, e.StepWoken(step.key, {"answer": word, "by": by, "text": text}, by=by, due_at=now))
    if word == "accept":
        return (e.StepCompleted(step.key, step.attempt, by=by),)
    return (e.StepWoken(step.key, {"answer": word, "by": by, "text": text}, by=by, due_at=now),)


def _given_up(by: str, text: str) -> str:
    return f"given up by {by}" + (f": {text}" if text else "")


# --- the merge queue ----------------------------------------------------------------------------------------------


def merged(task: Task, step: Step, commit: str, head: str, new_head: str) -> tuple[e.Fact, ...]:
    """Compare-and-set: nothing if the head or the commit is not the one that was merged; look and merge again."""
    if step.state is not S.MERGING or step.commit != commit or task.head != head or task.state is TaskState.CLOSING:
        return ()
    return (e.StepMerged(step.key, new_head),)


def conflicted(
    task: Task, step: Step, spec: StepSpec, conflict: StepSpec | None, commit: str, head: str, paths: Sequence[str]
) -> tuple[e.Fact, ...]:
    """The commit does not join the head: an agent is put in front if there is one, else a person is asked."""
    if step.state is not S.MERGING or step.commit != commit or task.head != head or task.state is TaskState.CLOSING:
        return ()
    shown = ", ".join(paths[:10]) + ("" if len(paths) <= 10 else f" and {len(paths) - 10} more")
    if conflict is None or spec.conflict is None or step.conflicts >= ROUNDS_MAX or step.depth >= DEPTH_MAX:
        return ask_or_fail(
            task, step, Question.CONFLICT, f"its commit {commit[:12]} conflicts with the head in {shown}"
        )
    new, edge = owned_step(step, Role.CONFLICT, step.owned + 1, spec.conflict, conflict)
    asked = e.MergeConflicted(step.key, step.conflicts + 1, head, tuple(paths[:100]))
    return (asked, e.StepsAdded((new,), (edge,)))


# --- people, about a step -----------------------------------------------------------------------------------------


def cancel_step(task: Task, step: Step, by: str) -> Move:
    """Any open step but a gate.  A running one is only asked to stop: it is cancelled when its process tree is dead."""
    if step.gate:
        raise Refused(f"step {step.key!r} is a gate; cancel the steps of its stage, or the task")
    if step.state not in OPEN:
        raise Refused(f"step {step.key!r} is {step.state}: only an open step can be cancelled")
    loaded(task)
    if task.state is TaskState.CLOSING:
        raise Refused(f"task {task.id!r} is being cancelled as a whole")
    if step.state is S.RUNNING and step.taken_by is None:
        return Move(stops=((step.key, STOP_CANCEL),))
    return Move((e.StepCancelled(step.key, by),))


def loaded(task: Task) -> None:
    """While steps are still being submitted no end is told, else who comes later would never hear of it."""
    if task.loading:
        raise Refused(f"task {task.id!r} is still being submitted; wait until it is, or cancel it as a whole")


def reopened(task: Task, step: Step, by: str, verb: str, owned_open: int) -> tuple[e.Fact, ...]:
    if step.role is not Role.OWN:
        raise Refused(f"step {step.key!r} belongs to {step.owner!r}: {verb} {step.owner!r} instead")
    if step.state is S.SKIPPED and not step.benign:
        raise Refused(f"step {step.key!r} was skipped because {step.because!r} did not succeed: {verb} that one")
    if step.state not in (S.FAILED, S.CANCELLED):
        raise Refused(
            f"step {step.key!r} is {step.state}: only a failed or cancelled step can be taken up again; "
            "a completed one never runs again"
        )
    if step.tolerated:
        raise Refused(f"step {step.key!r} failed and its failure was tolerated: others have gone on without it")
    if step.vetoes and not step.heedless:
        raise Refused(f"step {step.key!r}: a step that it needs has failed; {verb} that one first")
    if task.parent is not None and (task.ended or task.state is TaskState.CLOSING):
        raise Refused(
            f"task {task.id!r} is {task.state} and belongs to a step of another one: {verb} step {task.parent_step!r} "
            f"of task {task.parent!r} instead"
        )
    if task.doomed or task.state in (TaskState.COMPLETED, TaskState.CANCELLED, TaskState.CLOSING):
        word = "failed fast" if task.doomed else str(task.state)
        raise Refused(f"task {task.id!r} is {word} and cannot be taken up again; fork it instead")
    if owned_open:
        raise Refused(f"step {step.key!r}: steps of its last attempt are still being cancelled; try again in a moment")
    return (e.TaskReopened(step.key, by),) if task.state is TaskState.FAILED else ()


def retry(task: Task, step: Step, by: str, owned_open: int = 0) -> tuple[e.Fact, ...]:
    """Failed or cancelled, not tolerated, not owned, no veto above it.  The caller lets the restored row react."""
    return (*reopened(task, step, by, "retry", owned_open), e.StepRestored(step.key, by=by))


def waive(task: Task, step: Step, by: str, owned_open: int = 0) -> tuple[e.Fact, ...]:
    """Go on without it: dependents hear `ok`."""
    return (*reopened(task, step, by, "waive", owned_open), e.StepWaived(step.key, by))


def retire(task: Task, step: Step, by: str) -> tuple[e.Fact, ...]:
    """Not wanted any more: a blocked, ready or waiting step is skipped for good, as if its `if` had been false."""
    if step.gate or step.role is not Role.OWN:
        raise Refused(f"step {step.key!r} belongs to {step.owner or 'its stage'!r}: it cannot be skipped by itself")
    if step.state not in (S.BLOCKED, S.READY, S.WAITING):
        raise Refused(f"step {step.key!r} is {step.state}: cancel it first, then skip it")
    loaded(task)
    if task.state is TaskState.CLOSING:
        raise Refused(f"task {task.id!r} is being cancelled as a whole")
    return (e.StepRetired(step.key, by),)


# --- people, about a task -----------------------------------------------------------------------------------------


def pause(task: Task, by: str, why: int = 1, now: bool = False) -> tuple[e.Fact, ...]:
    """Nothing if it is paused for that reason already, and, with `now`, at once.

    Whoever takes it writes the stops beside it: `STOP_PAUSE` for what runs, a batch; the rest is the relay's."""
    _open(task, "paused")
    return () if task.pauses & why and (task.at_once or not now) else (e.TaskPaused(why, by, now),)


def resume(task: Task, by: str, why: int = 1) -> tuple[e.Fact, ...]:
    _open(task, "resumed")
    if task.state is TaskState.PAUSED and why == 1 and task.pauses & 2:
        raise Refused(f"task {task.id!r} is held by its parent {task.parent!r}: resume that one, or raise its budget")
    if task.state is not TaskState.PAUSED or not task.pauses & why:
        raise Refused(f"task {task.id!r} is {task.state}: only a paused task can be resumed")
    return (e.TaskResumed(why, by),)


def cancel_task(task: Task, by: str, reason: str = "") -> tuple[e.Fact, ...]:
    """Always works on an open task, at any size; a second request is answered with the first."""
    if task.state is TaskState.CLOSING:
        return ()
    _open(task, "cancelled")
    return (e.CancelRequested(by, reason),)


def _open(task: Task, word: str) -> None:
    if task.ended or (task.state is TaskState.CLOSING and word != "cancelled"):
        raise Refused(f"task {task.id!r} is {task.state}: only an open task can be {word}")


def sweep(task: Task, steps: Sequence[Step]) -> Move:
    """One batch of a closing task.  What is not running is cancelled and told at once, so that nothing is settled
    afterwards; what is running is asked to stop.  What had ended and was not told yet is told to nobody."""
    assert task.state is TaskState.CLOSING
    facts: list[e.Fact] = []
    told: dict[str, Step] = {}
    stops: list[tuple[str, str]] = []
    for step in steps:
        if step.state is S.RUNNING and step.taken_by is None:
            stops.append((step.key, STOP_CANCEL))
        elif step.state in OPEN:
            facts.append(e.StepCancelled(step.key, by="task", told=True))
        elif untold(step):
            told[step.key] = step._replace(told=verdict(step), telling=None, cursor="")
    return Move(tuple(facts), told, tuple(stops))
