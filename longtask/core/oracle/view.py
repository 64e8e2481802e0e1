"""What is audited: one task as its store keeps it, indexed, and the few words that all checks share.

Verdict and hearing are restated here from SEMANTICS, not taken from the machine: the oracle must not share its bugs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from longtask.core.change import WaitRow
from longtask.core.events import Event
from longtask.core.model import (
    Edge,
    JsonMap,
    Lease,
    Role,
    Signal,
    Step,
    StepSpec,
    StepState,
    Task,
    TaskState,
    Verdict,
    WhenFailed,
)

Contains = Callable[[str, str], bool | None]  # (ancestor, commit): is it contained?  None: not known


class Violation(NamedTuple):
    """`rule` is the same word for the same rule, so that failures can be counted; `text` names rows and values."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"[{self.rule}] {self.text}"


@dataclass(frozen=True, slots=True)
class View:
    """One task at one moment, between two transactions."""

    task: Task
    steps: Mapping[str, Step]
    edges: Sequence[Edge]
    events: Sequence[Event]
    leases: Sequence[Lease]
    signals: Sequence[Signal]
    specs: Mapping[int, StepSpec]
    waits: Sequence[WaitRow] | None
    now: int
    contains: Contains
    unheard: Collection[int]
    needs: dict[str, list[str]] = field(default_factory=dict)  # step -> what it needs, owned steps included
    owned: dict[str, list[Step]] = field(default_factory=dict)  # owner -> its fix, conflict and item steps

    @property
    def tells(self) -> bool:
        """Ends are told.  A closing task sweeps instead: it tells nobody, so counts and gates mean nothing in it."""
        return self.task.state not in (TaskState.CLOSING, TaskState.CANCELLED) and not self.task.doomed

    @property
    def settled(self) -> bool:
        return self.tells and all(known(step) for step in self.steps.values())

    def heard(self, need: Step, step: Step) -> Verdict:
        """What `need` has told `step`: in a pass that is under way, the new verdict up to the cursor."""
        if need.telling is not None and step.key <= need.cursor:
            return need.telling
        return need.told


def look(
    task: Task,
    steps: Mapping[str, Step],
    edges: Sequence[Edge],
    events: Sequence[Event],
    leases: Sequence[Lease],
    signals: Sequence[Signal],
    specs: Mapping[int, StepSpec],
    waits: Sequence[WaitRow] | None,
    now: int,
    contains: Contains | None,
    unheard: Collection[int],
) -> View:
    answers: dict[tuple[str, str], bool | None] = {}

    def ask(ancestor: str, commit: str) -> bool | None:
        if contains is None or ancestor == commit:
            return None if contains is None else True
        if (ancestor, commit) not in answers:
            answers[ancestor, commit] = contains(ancestor, commit)
        return answers[ancestor, commit]

    view = View(task, steps, edges, events, leases, signals, specs, waits, now, ask, unheard)
    for need, step in edges:
        view.needs.setdefault(step, []).append(need)
    for row in steps.values():
        if row.owner is not None:
            view.owned.setdefault(row.owner, []).append(row)
    return view


OPEN_STATES = ("blocked", "ready", "running", "waiting", "merging")


def is_open(step: Step) -> bool:
    return step.state in OPEN_STATES


def tolerated(step: Step) -> bool:
    return step.waived or step.when_failed is WhenFailed.CONTINUE


def meaning(step: Step) -> Verdict:
    """Rule 1: what an end means to those that need it."""
    if is_open(step):
        return Verdict.NONE
    if step.state is StepState.COMPLETED:
        return Verdict.OK
    if step.state is StepState.SKIPPED:
        return Verdict.OMIT if step.benign else Verdict.VETO
    return Verdict.OK if tolerated(step) else Verdict.VETO


def fits(question: JsonMap, signal: Signal) -> bool:
    wanted = dict(question.get("match") or {})
    return question.get("name") == signal.name and {k: signal.payload.get(k) for k in wanted} == wanted


def known(step: Step) -> bool:
    """Everybody knows its verdict."""
    return step.telling is None and step.told == meaning(step)


def counts_as_bad(step: Step) -> bool:
    """Rule 15."""
    ended_badly = step.state in (StepState.FAILED, StepState.CANCELLED)
    return ended_badly and not tolerated(step) and step.role is Role.OWN and not step.gate


def shown(keys: Iterable[str]) -> str:
    """At most eight keys, for a message."""
    found = sorted(keys)
    return ", ".join(found[:8]) + (f" and {len(found) - 8} more" if len(found) > 8 else "")
