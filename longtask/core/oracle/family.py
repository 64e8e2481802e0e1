"""What must hold between tasks (SEMANTICS 30-35), restated from what a store keeps of each of them.

waits     who waits for a child has one, or an errand to make it
orphans   a child that is open is waited for, or an errand is to end it
ends      an end was told once, or an errand is to tell it
pauses    a child is held by its parent exactly if that one is held, and at once if that one is, when no errand is
          under way
usage     a task counts its own usage and that of all below it, what is under way included, each once
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from longtask.core.model import Step, StepState, Task, TaskState, WaitingFor

from .view import Violation

Used = tuple[int, int]
UNDER_WAY = (TaskState.ACTIVE, TaskState.PAUSED)


@dataclass(frozen=True, slots=True)
class Owed:
    """An errand as its store keeps it."""

    kind: str
    step: str
    target: str
    seq: int = 0
    tokens: int = 0
    micros: int = 0


@dataclass(frozen=True, slots=True)
class Member:
    """One task, with what its journal says that it used itself: tokens and micro-dollars."""

    task: Task
    steps: Mapping[str, Step]
    errands: Sequence[Owed]
    signals: Sequence[str] = ()  # names of those in its inbox
    ops: Collection[str] = ()  # that its journal names
    tokens: int = 0
    micros: int = 0

    def owes(self, kind: str, target: str) -> bool:
        return any(errand.kind == kind and errand.target == target for errand in self.errands)


@dataclass(frozen=True, slots=True)
class Kin:
    """A task that a step asked for, and the task of that step, as far as one is about the other."""

    id: str  # of the child
    child: Task | None  # None: it is not there
    parent: Task | None
    step: str  # of the parent
    waits: bool  # that step waits for this child
    creating: bool = False  # the parent has an errand to make it
    cancelling: bool = False  # ... to end it
    ending: bool = False  # the child has one to tell its end
    heard: int = 0  # how often its end lies in the parent's inbox


def audit_family(members: Mapping[str, Member]) -> list[Violation]:
    """`members`: every task of the store that has a parent or a child, by id, all of one moment."""
    found: list[Violation] = []
    for kin in _kin(members):
        found += between(kin)
    for member in members.values():
        found += relayed(member.task, member.owes("relay", ""))
    found += _usage(members)
    return found


def _kin(members: Mapping[str, Member]) -> Iterator[Kin]:
    for member in members.values():
        for row in member.steps.values():
            child = awaits(row)
            if child is not None and child not in members:
                yield Kin(child, None, member.task, row.key, True, member.owes("create", child))
    for id_, member in members.items():
        if member.task.parent is None:
            continue
        parent, step = members.get(member.task.parent), member.task.parent_step or ""
        ending = member.owes("ended", member.task.parent)
        if parent is None:
            yield Kin(id_, member.task, None, step, False, ending=ending)
            continue
        yield Kin(
            id_,
            member.task,
            parent.task,
            step,
            waits=step in parent.steps and awaits(parent.steps[step]) == id_,
            creating=parent.owes("create", id_),
            cancelling=parent.owes("cancel", id_),
            ending=ending,
            heard=parent.signals.count(f"task.ended:{id_}"),
        )


def awaits(step: Step) -> str | None:
    """The task that the step waits for."""
    if step.state is not StepState.WAITING or step.waiting_for is not WaitingFor.TASK or step.question is None:
        return None
    child: str = step.question["child"]
    return child


def between(kin: Kin) -> Iterator[Violation]:
    if kin.child is None:
        if kin.waits and not kin.creating:
            yield Violation("child", f"step {kin.step!r} waits for task {kin.id!r}, which nobody is to make")
        return
    under_way = kin.child.state in UNDER_WAY
    if kin.parent is not None and under_way and not kin.waits and not kin.cancelling:
        yield Violation("orphan", f"task {kin.id!r} is {kin.child.state}, and nobody waits for it or is to end it")
    yield from _end(kin, kin.child)
    if kin.parent is not None and kin.waits and not kin.creating and kin.parent.relay is None:
        yield from _followed(kin, kin.child, kin.parent)


def _end(kin: Kin, child: Task) -> Iterator[Violation]:
    if not child.ended:
        if kin.ending or child.parent_told:
            yield Violation("end", f"task {kin.id!r} is {child.state}, and its end is told")
        return
    if kin.ending is child.parent_told:
        yield Violation("end", f"task {kin.id!r} has ended; told: {child.parent_told}, to be told: {kin.ending}")
    if kin.heard > 1 or (kin.parent is not None and child.parent_told and kin.waits and not kin.heard):
        yield Violation("end", f"task {kin.id!r} has told its end, and its parent has heard of it {kin.heard} times")


def _followed(kin: Kin, child: Task, parent: Task) -> Iterator[Violation]:
    if parent.state not in UNDER_WAY:
        return
    if child.followed != parent.wish:
        yield Violation("relay", f"task {kin.id!r} follows {child.followed}, not {parent.wish}")
    if child.state in UNDER_WAY and bool(child.pauses & 2) is not _held(parent):
        yield Violation("relay", f"task {kin.id!r} has pauses {child.pauses}, its parent held: {_held(parent)}")
    if child.state in UNDER_WAY and parent.at_once and not child.at_once:
        yield Violation("relay", f"task {kin.id!r} is not to pause at once, and its parent is")


def relayed(task: Task, owed: bool) -> Iterator[Violation]:
    """`owed`: it has the errand."""
    if task.relay is not None and not owed and not task.ended:
        yield Violation("relay", f"task {task.id!r} has children to tell, and nobody is to do it")


def counted(task_id: str, before: Used, used: Used, after: Used) -> Iterator[Violation]:
    """`before` and `after`: tokens and micro-dollars that a task counts, or is about to, at two moments; `used`: what
    the journals of it and of all below say, read between them.  None of it ever shrinks."""
    if not all(low <= one <= high for low, one, high in zip(before, used, after, strict=True)):
        counts = before if before == after else f"{before} to {after}"
        yield Violation(
            "usage", f"task {task_id!r} counts {counts} tokens and micros, {used} were used in it and below"
        )


def _held(task: Task) -> bool:
    within = (task.budget_micros is None or task.spent_micros < task.budget_micros) and (
        task.budget_tokens is None or task.spent_tokens < task.budget_tokens
    )
    return task.state is TaskState.PAUSED or (task.state is TaskState.ACTIVE and not (within and task.exceeded is None))


def _usage(members: Mapping[str, Member]) -> Iterator[Violation]:
    below: dict[str, list[str]] = {id_: [id_] for id_ in members}
    for id_, member in members.items():
        for over in member.task.ancestors:
            if over.task_id in below:
                below[over.task_id].append(id_)
    for id_, member in members.items():
        owed = [
            errand
            for other in below[id_]
            for errand in members[other].errands
            if errand.kind == "spent" and errand.target == id_ and f"spent {other} {errand.seq}" not in member.ops
        ]
        known = (
            member.task.spent_tokens + sum(errand.tokens for errand in owed),
            member.task.spent_micros + sum(errand.micros for errand in owed),
        )
        used = (sum(members[k].tokens for k in below[id_]), sum(members[k].micros for k in below[id_]))
        yield from counted(id_, known, used, known)
