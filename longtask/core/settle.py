"""Telling: the one propagation mechanism (SEMANTICS rules 1-5, 7, 8, 10-12, 16, 19-23).

Each row keeps `told`, the verdict that its dependents know.  `told` differing from the verdict is the only mark for
work to do.  `settle` handles every difference by one formula on each direct dependent: its counts of blockers, vetoes
and omits change by new minus old.  An end, a retry, a retry that already succeeded and a waive are the same code; one
hop per transaction.
`ok` and `omit` are final; only a veto is ever taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from . import events as e
from .decide import STOP_CANCEL, Move, ask_or_fail, item_step
from .machine import verdict
from .model import (
    Question,
    Role,
    RunWhen,
    Step,
    StepSpec,
    StepState,
    Task,
    Verdict,
    WhenFailed,
)

S, V = StepState, Verdict


@dataclass(frozen=True, slots=True)
class Condition:
    """The value of an `if`, evaluated before the lock.  `error` not None: it could not be evaluated.

    `read` is what it was evaluated over, as (step, attempt, state) of each step that it names."""

    value: bool
    error: str | None = None
    read: tuple[tuple[str, int, str], ...] = ()


class ConditionNeeded(Exception):
    """A step is about to be unblocked and its `if` has not been evaluated: evaluate it outside the lock, then again."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(f"conditions of {list(keys)!r} are needed")
        self.keys = tuple(keys)


@dataclass(frozen=True, slots=True)
class Item:
    """What `settle` needs to begin the next item of a for_each: specs of owner and item, and the first index from
    `items_next` on that is not completed (its list's length: none is left)."""

    owner: StepSpec
    item: StepSpec
    next_index: int


def counts(told: Verdict) -> tuple[int, int, int]:
    """What a need that has told this adds to its dependent's blockers, vetoes and omits."""
    return (int(told is V.NONE), int(told is V.VETO), int(told is V.OMIT))


def settle(
    task: Task,
    step: Step,
    dependents: Sequence[Step],
    more: bool,
    now: int,
    *,
    conditions: Mapping[str, Condition] | None = None,
    owned_open: Sequence[Step] = (),
    item: Callable[[Step], Item] | None = None,
) -> Move:
    """One pass: `dependents` are the next by key after `step.cursor`; `more`: others follow.

    A pass keeps the verdict that it began with; if the step has changed meanwhile, another pass follows.
    `owned_open`: open steps that `step`, having ended, still owns.  Raises ConditionNeeded.
    """
    telling = verdict(step) if step.telling is None else step.telling
    facts: list[e.Fact] = []
    told: dict[str, Step] = {}
    wanting: list[str] = []
    for dependent in dependents:
        if step.owner == dependent.key:
            row = _tell_owner(step, dependent, telling)
        else:
            new, old = counts(telling), counts(step.told)
            row = dependent._replace(
                blockers=dependent.blockers + new[0] - old[0],
                vetoes=dependent.vetoes + new[1] - old[1],
                omits=dependent.omits + new[2] - old[2],
            )
        told[row.key] = row
        begun = _next_item(step, row, item)
        if begun:
            facts.append(begun)
            continue
        try:
            facts += react(task, row, step.key, now, conditions or {})
        except ConditionNeeded as needed:
            wanting += needed.keys
    if wanting:
        raise ConditionNeeded(wanting)
    if more:
        told[step.key] = step._replace(telling=telling, cursor=dependents[-1].key)
    else:
        told[step.key] = step._replace(told=telling, telling=None, cursor="")
    stops: list[tuple[str, str]] = []
    for child in owned_open:  # when an owner ends, what it owns is cancelled; their ends cancel theirs
        if child.state is S.RUNNING:
            stops.append((child.key, STOP_CANCEL))
        else:
            facts.append(e.StepCancelled(child.key, by=f"end of {step.key}"))
    return Move(tuple(facts), told, tuple(stops))


def _tell_owner(step: Step, owner: Step, telling: Verdict) -> Step:
    """An owned step counts as a blocker alone: its end is for the owner to judge, not a veto."""
    blockers = owner.blockers + int(telling is V.NONE) - int(step.told is V.NONE)
    if step.role is not Role.ITEM:
        # what an earlier life of the owner had put before it only counts down: the owner waits for something else
        awaited = owner.state is S.BLOCKED and (owner.rounds or owner.conflicts)
        return owner._replace(blockers=blockers, owned_verdict=telling if awaited else owner.owned_verdict)
    if step.expansion != owner.expansion or not owner.items:
        return owner._replace(blockers=blockers)  # an item of an earlier expansion only counts down
    failed = int(step.state is not S.COMPLETED)
    return owner._replace(
        blockers=blockers, items_ended=owner.items_ended + 1, items_failed=owner.items_failed + failed
    )


def _next_item(step: Step, owner: Step, item: Callable[[Step], Item] | None) -> e.StepsAdded | None:
    if step.role is not Role.ITEM or step.owner != owner.key or owner.state is not S.BLOCKED or not owner.items:
        return None
    if step.expansion != owner.expansion or (owner.items_failed and owner.when_failed is not WhenFailed.CONTINUE):
        return None
    if owner.items_next >= owner.items:
        return None
    assert item is not None
    found = item(owner)
    if found.next_index >= owner.items:
        return None
    new, edge = item_step(owner, found.owner, found.item, found.next_index, owner.expansion, owner.items, owner.whole)
    return e.StepsAdded((new,), (edge,))


# --- how a blocked or skipped step reacts to its counts ------------------------------------------------------------


def react(task: Task, step: Step, because: str | None, now: int, conditions: Mapping[str, Condition]) -> list[e.Fact]:
    """The facts that follow from the counts of a row, none if it has to wait on.  Raises ConditionNeeded."""
    facts: list[e.Fact] = []
    if step.state is S.SKIPPED and not step.benign and (step.vetoes == 0 or (step.gate and step.blockers > 0)):
        facts.append(e.StepRestored(step.key, because=because))
    elif step.state is not S.BLOCKED:
        return facts
    if step.gate:
        if step.blockers:
            return facts
        return [*facts, e.StepSkipped(step.key, because) if step.vetoes else e.GateOpened(step.key)]
    if step.heedless:
        if step.blockers:
            return facts
        if step.run_when is RunWhen.FAILURE and not step.vetoes:
            return [*facts, e.StepSkipped(step.key, because, benign=True)]
    else:
        if step.vetoes:
            return [*facts, e.StepSkipped(step.key, because)]
        if step.blockers:
            return facts
        if step.omits:
            return [*facts, e.StepSkipped(step.key, because, benign=True)]
    return [*facts, *_begin(task, step, because, now, conditions)]


def _begin(
    task: Task, step: Step, because: str | None, now: int, conditions: Mapping[str, Condition]
) -> tuple[e.Fact, ...]:
    """Nothing stands before it any more: on after its own fix, conflict or items; else its `if` decides."""
    if step.owned_verdict is V.OK:
        return (e.MergeResumed(step.key, now) if step.commit is not None else e.StepUnblocked(step.key, now),)
    if step.owned_verdict is not V.NONE:
        kind = Question.NO_FIX if step.commit is None else Question.CONFLICT
        return ask_or_fail(task, step, kind, f"{because!r} did not succeed; before that: {step.reason}")
    if step.conditional and not step.items:
        if step.key not in conditions:
            raise ConditionNeeded([step.key])
        condition = conditions[step.key]
        if condition.error is not None:
            return (e.StepFailed(step.key, condition.error),)
        if not condition.value:
            return (e.StepSkipped(step.key, because, benign=True),)
    return (e.StepUnblocked(step.key, now),)
