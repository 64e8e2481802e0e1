"""Tasks in tasks: what a task has to do to another one, and what it does about what it is told (SEMANTICS 30-35).

Nobody locks two tasks.  What one task owes another is an errand, a row of the outbox, written in the transaction that
makes it due and computed from what that transaction moved (`errands`), as waits and mutexes are.  Any scheduler carries
it out in a transaction of its own on the other task, which does nothing the second time, and then takes the row away.

    create   a step has parked on its child: make it
    cancel   a step has left that wait by anything but its waking: end the child
    ended    a child has ended: signal its parent
    spent    usage of a task: counts in each task above, once, by the number of its event
    relay    the task is held, or no longer: each child is told, in batches by the key of its step

A task is held while it is paused or over its budget.  Each change of that has a number, the task's `wish`; a child
follows a wish only if its number is above the one that it followed last, so that no slow messenger turns it back.
A pause at once is a wish of its own, also in a task that is paused already: whoever follows it asks what runs in it to
give back, a batch in the same transaction and the rest by its own relay, which passes the wish on to its children.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from . import events as e
from .model import (
    PAUSED_BY_PARENT,
    Above,
    Failed,
    JsonMap,
    Step,
    StepState,
    SubTask,
    Task,
    TaskState,
    WaitingFor,
)
from .policy import TASK_DEPTH_MAX

S = StepState
CREATE, CANCEL, ENDED, SPENT, RELAY = "create", "cancel", "ended", "spent", "relay"
END_NAME = "task.ended:"  # of the signal that a step waits for, followed by the child's id
BY_PARENT = "parent"  # who acts on a child, in its journal
_AFTER_WAKING = frozenset({S.READY, S.RUNNING})  # what a step that waited for its child is, once its end was told


@dataclass(frozen=True, slots=True)
class Errand:
    """`step`: of the task that has the errand; of `ended` and `spent`, which go upwards, of the task that is told."""

    kind: str
    step: str = ""
    target: str = ""  # the other task; of a relay: every child
    body: JsonMap | None = None
    seq: int = 0  # of usage: the number of its event
    tokens: int = 0
    micros: int = 0


# --- a child and its parent ---------------------------------------------------------------------------------------


def child_id(parent: str, step: str, attempt: int, at: int) -> str:
    """The id of the child that an attempt asks for at this instant: a UUIDv7 whose chance is the attempt's name, so
    that it is the same whoever makes it."""
    chance = int.from_bytes(hashlib.sha256(f"{parent}/{step}.{attempt}".encode()).digest()[:10])
    high, low = chance >> 62 & 0xFFF, chance & (1 << 62) - 1
    text = f"{at << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def child_of(step: Step) -> str | None:
    """The task that the step waits for."""
    if step.state is not S.WAITING or step.waiting_for is not WaitingFor.TASK or step.question is None:
        return None
    child: str = step.question["child"]
    return child


def delivery_of(child: str) -> str:
    """The id under which a child's end is delivered: once, however often it is told."""
    return f"end:{child}"


def usage_op(child: str, seq: int) -> str:
    """Names the operation that counts one usage of a child in a task above."""
    return f"spent {child} {seq}"


def above(parent: Task, step: str) -> tuple[Above, ...]:
    """All tasks over a child of that step, the nearest first."""
    return (Above(parent.id, step), *parent.ancestors)


def park(task: Task, step: Step, asked: SubTask, now: int) -> e.StepParked | Failed:
    """The step waits for its child, which is made by whoever carries out the errand: an attempt whose lease is lost may
    ask, and is not heard."""
    if len(task.ancestors) >= TASK_DEPTH_MAX:
        return Failed(f"tasks in tasks go {TASK_DEPTH_MAX} deep at most", retryable=False)
    child = child_id(task.id, step.key, step.attempt, now)
    question: JsonMap = {"name": END_NAME + child, "child": child}
    if asked.inputs:
        question = {**question, "inputs": dict(asked.inputs)}
    return e.StepParked(step.key, step.attempt, WaitingFor.TASK, question)


def held(task: Task) -> bool:
    """Nothing of it is begun, and nothing of its children shall be."""
    return task.state is TaskState.PAUSED or (task.state is TaskState.ACTIVE and not task.within_budget)


def follow(task: Task, wish: int, hold: bool, at_once: bool = False) -> tuple[e.Fact, ...] | None:
    """What a child does about its parent's wish; None: it followed that one, or a later one, before."""
    if wish <= task.followed:
        return None
    if task.state not in (TaskState.ACTIVE, TaskState.PAUSED):
        return ()
    by_parent = bool(task.pauses & PAUSED_BY_PARENT)
    if hold and (not by_parent or (at_once and not task.at_once)):
        return (e.TaskPaused(PAUSED_BY_PARENT, BY_PARENT, at_once),)
    if by_parent and not hold:
        return (e.TaskResumed(PAUSED_BY_PARENT, BY_PARENT),)
    return ()


# --- what a transaction leaves to be done -------------------------------------------------------------------------


def errands(
    before: Task | None, task: Task, moved: Iterable[tuple[Step | None, Step]], facts: Sequence[tuple[int, e.Fact]]
) -> list[Errand]:
    """`moved`: rows that were changed, as they were and as they are."""
    found: list[Errand] = []
    for old, row in moved:
        was, now = None if old is None else child_of(old), child_of(row)
        if was is not None and was != now and row.state not in _AFTER_WAKING:
            found.append(Errand(CANCEL, row.key, was))
        if now is not None and was != now:
            found.append(_creation(row, now, None if old is None else old.child))
    if task.ancestors:
        for seq, fact in facts:
            if isinstance(fact, e.UsageRecorded) and fact.child is None:
                found += _usage(task, seq, fact)
        if task.ended and not (before is not None and before.ended):
            found.append(Errand(ENDED, task.ancestors[0].step, task.ancestors[0].task_id))
    if task.relay is not None and (before is None or before.relay is None):
        found.append(Errand(RELAY))
    return found


def _creation(row: Step, child: str, after: str | None) -> Errand:
    """The spec by its number, since a step may be edited while it is under way.  `after`: the child before it."""
    assert row.question is not None
    body = {"spec": row.spec, "inputs": row.question.get("inputs") or {}}
    return Errand(CREATE, row.key, child, body if after is None else {**body, "after": after})


def _usage(task: Task, seq: int, fact: e.UsageRecorded) -> list[Errand]:
    tokens, micros = fact.tokens_in + fact.tokens_out, fact.micros or 0
    if not tokens and fact.micros == 0:
        return []
    body: Mapping[str, object] = {
        "tokens_in": fact.tokens_in, "tokens_out": fact.tokens_out, "micros": fact.micros, "model": fact.model
    }  # fmt: skip
    return [Errand(SPENT, over.step, over.task_id, body, seq, tokens, micros) for over in task.ancestors]
