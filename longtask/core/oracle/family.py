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
from dataclasses import dataclass, field

from longtask.core.model import Step, StepState, Task, TaskState, WaitingFor

from .view import Violation

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
    awaited: dict[str, str] = field(default_factory=dict)  # child -> the step that waits for it

    def owes(self, kind: str, target: str) -> bool:
        return any(errand.kind == kind and errand.target == target for errand in self.errands)


def audit_family(members: Mapping[str, Member]) -> list[Violation]:
    """`members`: every task of the store that has a parent or a child, by id, all of one moment."""
    for member in members.values():
        for step in member.steps.values():
            if step.state is StepState.WAITING and step.waiting_for is WaitingFor.TASK and step.question is not None:
                member.awaited[step.question["child"]] = step.key
    found: list[Violation] = []
    for check in (_waits, _orphans, _ends, _pauses, _usage):
        found += check(members)
    return found


def _waits(members: Mapping[str, Member]) -> Iterator[Violation]:
    for member in members.values():
        for child, key in member.awaited.items():
            if child not in members and not member.owes("create", child):
                yield Violation("child", f"step {key!r} waits for task {child!r}, which nobody is to make")


def _orphans(members: Mapping[str, Member]) -> Iterator[Violation]:
    for id_, child in members.items():
        parent = members.get(child.task.parent or "")
        if child.task.parent is None or parent is None:
            continue
        if child.task.state in UNDER_WAY and id_ not in parent.awaited and not parent.owes("cancel", id_):
            yield Violation("orphan", f"task {id_!r} is {child.task.state}, and nobody waits for it or is to end it")


def _ends(members: Mapping[str, Member]) -> Iterator[Violation]:
    for id_, child in members.items():
        if child.task.parent is None:
            continue
        owed = child.owes("ended", child.task.parent)
        if not child.task.ended:
            if owed or child.task.parent_told:
                yield Violation("end", f"task {id_!r} is {child.task.state}, and its end is told")
            continue
        if owed is child.task.parent_told:
            yield Violation("end", f"task {id_!r} has ended; told: {child.task.parent_told}, to be told: {owed}")
        parent = members.get(child.task.parent)
        if parent is None:
            continue
        heard = parent.signals.count(f"task.ended:{id_}")
        if heard > 1 or (child.task.parent_told and id_ in parent.awaited and not heard):
            yield Violation("end", f"task {id_!r} has told its end, and its parent has heard of it {heard} times")


def _held(task: Task) -> bool:
    within = (task.budget_micros is None or task.spent_micros < task.budget_micros) and (
        task.budget_tokens is None or task.spent_tokens < task.budget_tokens
    )
    return task.state is TaskState.PAUSED or (task.state is TaskState.ACTIVE and not (within and task.exceeded is None))


def _pauses(members: Mapping[str, Member]) -> Iterator[Violation]:
    for id_, parent in members.items():
        relaying = parent.task.relay is not None
        if relaying and not parent.owes("relay", "") and not parent.task.ended:
            yield Violation("relay", f"task {id_!r} has children to tell, and nobody is to do it")
        for child_id in parent.awaited:
            child = members.get(child_id)
            if child is None or relaying or parent.owes("create", child_id) or parent.task.state not in UNDER_WAY:
                continue
            if child.task.followed != parent.task.wish:
                yield Violation("relay", f"task {child_id!r} follows {child.task.followed}, not {parent.task.wish}")
            if child.task.state in UNDER_WAY and bool(child.task.pauses & 2) is not _held(parent.task):
                yield Violation(
                    "relay", f"task {child_id!r} has pauses {child.task.pauses}, its parent held: {_held(parent.task)}"
                )
            if child.task.state in UNDER_WAY and parent.task.at_once and not child.task.at_once:
                yield Violation("relay", f"task {child_id!r} is not to pause at once, and its parent is")


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
        if known != used:
            yield Violation("usage", f"task {id_!r} counts {known} tokens and micros, {used} were used in it and below")
