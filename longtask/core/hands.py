"""Decisions about people who lay hands on a step: take it, give it back, say anew what it does."""

from __future__ import annotations

from collections.abc import Sequence

from . import events as e
from .decide import given_back, loaded, reopened
from .errors import Refused
from .graph import SYSTEM_KINDS
from .model import MutexView, Question, Role, Step, StepSpec, StepState, Task, TaskState, WaitingFor

S = StepState

TAKEN_FROM = frozenset({Question.FAILED, Question.NO_FIX, Question.UNKNOWN, Question.LIMIT})


def take(
    task: Task,
    step: Step,
    spec: StepSpec,
    by: str,
    now: int,
    lease_ms: int,
    *,
    owned_open: int = 0,
    mutex: MutexView | None = None,
) -> tuple[e.Fact, ...]:
    """A person works on it by hand: ready, asking because it went wrong, failed or cancelled.

    It holds no slot, and its task may be paused.  When `lease_ms` is over it is given back.  What restores it is not a
    claim yet: the caller lets the row react, and takes it then.  Raises Refused."""
    if step.gate or step.role is not Role.OWN:
        raise Refused(f"step {step.key!r} belongs to {step.owner or 'its stage'!r}: take that one when it asks")
    if step.kind in SYSTEM_KINDS:
        raise Refused(f"step {step.key!r} is a {step.kind} step: there is nothing to work on by hand")
    if step.state in (S.FAILED, S.CANCELLED):
        was = {"state": str(step.state), "reason": step.reason}
        return (*reopened(task, step, by, "take", owned_open), e.StepRestored(step.key, by=by, taken=was))
    loaded(task)
    if task.ended or task.state is TaskState.CLOSING:
        raise Refused(f"task {task.id!r} is {task.state}: nothing of it can be taken; fork it instead")
    if spec.mutex is not None and (mutex is None or not mutex.free):
        raise Refused(f"step {step.key!r} needs mutex {spec.mutex!r}, which others hold or queue for; take it later")
    claimed = e.StepClaimed(step.key, step.attempt + 1, f"person:{by}", task.head, lease_ms, mutex=spec.mutex, by=by)
    if step.state is S.READY:
        return (claimed,)
    if step.state is S.WAITING and (step.question or {}).get("kind") in TAKEN_FROM:
        taken = {"answer": "take", "by": by, "taken": {"question": step.question}}
        return (e.StepWoken(step.key, taken, by=by, due_at=now), claimed)
    if step.state is S.RUNNING and step.taken_by is not None:
        raise Refused(f"step {step.key!r} is taken by {step.taken_by} already")
    hint = {
        S.RUNNING: "a worker has it; cancel it or pause the task with --now, then take it",
        S.BLOCKED: "it waits for other steps; take it when it is ready",
        S.WAITING: f"it waits for {step.waiting_for}; answer, signal or skip it",
    }.get(step.state, "its work is done")
    raise Refused(f"step {step.key!r} is {step.state}: {hint}")


def held_by(step: Step, by: str) -> bool:
    """`by` has taken it, and has it still."""
    return step.state is S.RUNNING and step.taken_by == by


def need_own(key: str, taken_by: str | None, by: str) -> None:
    """`taken_by`: whoever has the step; None: no person.  Raises Refused: it is not `by`'s to say that it is done."""
    if taken_by not in (None, by):
        raise Refused(f"step {key!r} is taken by {taken_by}; it is theirs to say that it is done")


def give_back(task: Task, step: Step, by: str, now: int) -> tuple[e.Fact, ...]:
    """Whoever has taken it does not go on: it is as it was.  Raises Refused."""
    if step.state is not S.RUNNING or step.taken_by is None:
        raise Refused(f"step {step.key!r} is {step.state}: nobody has taken it")
    return given_back(task, step, by, f"given back by {by}", now)


def edit(task: Task, step: Step, spec: int, by: str, specs: Sequence[StepSpec], first: int) -> tuple[e.Fact, ...]:
    """What it does from its next attempt on.  An approval that is being asked is asked anew.  Raises Refused."""
    if step.gate or step.role is not Role.OWN:
        raise Refused(f"step {step.key!r} belongs to {step.owner or 'its stage'!r}: edit that one")
    if step.state in (S.RUNNING, S.MERGING, S.COMPLETED) or step.commit is not None:
        hint = (
            "a completed step never runs again; fork the task before it" if step.commit is None else "its work is done"
        )
        hint = "cancel it first, or pause the task with --now" if step.state is S.RUNNING else hint
        raise Refused(f"step {step.key!r} is {step.state}: {hint}")
    if step.state is S.SKIPPED and step.benign:
        raise Refused(f"step {step.key!r} was not wanted and never runs; add another one")
    if step.items and step.open:
        raise Refused(f"step {step.key!r}: its items are under way; cancel it, edit it, retry it")
    if task.doomed or task.state in (TaskState.COMPLETED, TaskState.CANCELLED, TaskState.CLOSING):
        raise Refused(f"task {task.id!r} is {task.state}: nothing of it runs again; fork it instead")
    if task.state is TaskState.FAILED:
        raise Refused(f"task {task.id!r} has failed: edit step {step.key!r} and retry it in one go")
    loaded(task)
    kind = (step.question or {}).get("kind")
    if step.state is S.WAITING and (step.waiting_for is not WaitingFor.USER or kind == Question.CONFLICT):
        raise Refused(f"step {step.key!r} waits for {step.waiting_for}; answer, signal, skip or cancel it first")
    edited = e.StepEdited(step.key, spec, by, tuple(specs), first)
    if step.state is S.WAITING and kind == Question.APPROVAL:
        return (edited, e.StepWoken(step.key, {"superseded": True}, by=by))
    return (edited,)
