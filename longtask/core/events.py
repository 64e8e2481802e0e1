"""The facts: what happened, in the past tense.

A fact, numbered and stored, is an event; a task's events are its journal.


Every step fact has `step`; facts of an attempt have `attempt` and move nothing unless it is the newest.
A field equal to its default is left out of the stored form, so a default may never change: add a version instead.
`PUBLIC` gives the names that people and streams see.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from .model import (
    Above,
    Edge,
    Json,
    JsonMap,
    Kind,
    Role,
    RunWhen,
    StepSpec,
    StepState,
    TaskOptions,
    WaitingFor,
    WhenFailed,
)


@dataclass(frozen=True, slots=True)
class Brought:
    """What a row of a fork brings along from the task that it was forked from.

    `state`: how it had ended there, for good; None: it is to run, and of a for_each the list is kept with the items
    that had completed.  `attempt` and `base`: of the attempt that ended it.
    """

    state: StepState | None = None
    attempt: int = 0
    commit: str | None = None
    result: Json = None
    artifacts: tuple[JsonMap, ...] = ()
    reason: str | None = None
    because: str | None = None
    benign: bool = False
    waived: bool = False
    base: str | None = None
    began_at: int = 0
    ended_at: int = 0
    listing: Json = None
    whole: int = 0
    items: int = 0
    items_next: int = 0
    items_ended: int = 0
    items_failed: int = 0


@dataclass(frozen=True, slots=True)
class NewStep:
    """A row as added.  The counts are what its needs had told when it was added.

    `ready`: nothing stands before it and it has no `if`, so it is born ready instead of blocked.
    """

    key: str
    kind: Kind
    spec: int = 0
    stage: int = 1
    role: Role = Role.OWN
    owner: str | None = None
    depth: int = 0
    item: int | None = None
    expansion: int = 0
    weight: int = 0
    run_when: RunWhen = RunWhen.SUCCESS
    when_failed: WhenFailed = WhenFailed.STOP
    conditional: bool = False
    pool: str = "default"
    blockers: int = 0
    vetoes: int = 0
    omits: int = 0
    ready: bool = False
    brought: Brought | None = None


# --- growth -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskSubmitted:
    """The header and the first rows.  `more`: further rows follow; until the last of them the task is `loading`.

    `head`: of a fork, the commit that holds what it has taken over; None: `base`."""

    id: str
    name: str
    options: TaskOptions
    workspace_id: str = ""
    created_by: str = ""
    idempotency_key: str | None = None
    base: str | None = None
    priority: int = 0
    parallel: int = 4
    parent: str | None = None
    parent_step: str | None = None
    ancestors: tuple[Above, ...] = ()
    number: int = 0
    specs: tuple[StepSpec, ...] = ()
    steps: tuple[NewStep, ...] = ()
    edges: tuple[Edge, ...] = ()
    more: bool = False
    head: str | None = None


@dataclass(frozen=True, slots=True)
class StepsAdded:
    """`by` is None for growth by the machine itself.  `first_spec` numbers the first of `specs`."""

    steps: tuple[NewStep, ...]
    edges: tuple[Edge, ...] = ()
    specs: tuple[StepSpec, ...] = ()
    first_spec: int = 0
    by: str | None = None
    more: bool = False


# --- steps --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StepUnblocked:
    step: str
    due_at: int = 0


@dataclass(frozen=True, slots=True)
class StepHeld:
    step: str


@dataclass(frozen=True, slots=True)
class StepClaimed:
    step: str
    attempt: int
    worker: str
    base: str | None = None
    lease_ms: int = 15_000
    timeout_at: int | None = None
    runtime: str | None = None  # name and version of the agent runtime
    mutex: str | None = None  # taken with the claim, held by this attempt
    by: str | None = None  # a person, who works on it by hand


@dataclass(frozen=True, slots=True)
class StepRetried:
    step: str
    attempt: int
    reason: str
    due_at: int = 0


@dataclass(frozen=True, slots=True)
class StepLost:
    step: str
    attempt: int
    reason: str
    due_at: int = 0


@dataclass(frozen=True, slots=True)
class StepReleased:
    step: str
    attempt: int
    reason: str
    due_at: int = 0


@dataclass(frozen=True, slots=True)
class StepParked:
    """`question`: name and match of what is awaited, or what is asked, frozen, with its digest (`bound`)."""

    step: str
    attempt: int
    waiting_for: WaitingFor
    question: JsonMap
    due_at: int = 0


@dataclass(frozen=True, slots=True)
class HelpAsked:
    """The machine asks a person.  `question` holds `kind`, `text` and the `answers` that fit."""

    step: str
    question: JsonMap
    attempt: int = 0
    due_at: int = 0


@dataclass(frozen=True, slots=True)
class StepWoken:
    """`cause` travels to the next attempt; `seen` is the signal's number, 0 when no signal woke it."""

    step: str
    cause: JsonMap
    seen: int = 0
    by: str | None = None
    due_at: int = 0


@dataclass(frozen=True, slots=True)
class MutexAwaited:
    """Instead of a claim: the mutex is held, or others queue for it."""

    step: str
    mutex: str


@dataclass(frozen=True, slots=True)
class FixRequested:
    step: str
    attempt: int
    round: int
    reason: str
    digest: str | None = None
    revise: bool = False  # asked for by a reviewer, not by a failure


@dataclass(frozen=True, slots=True)
class StepExpanded:
    step: str
    attempt: int
    items: int
    expansion: int
    listing: Json = None


@dataclass(frozen=True, slots=True)
class StepDelivered:
    step: str
    attempt: int
    commit: str
    result: Json = None
    artifacts: tuple[JsonMap, ...] = ()
    due_at: int = 0


@dataclass(frozen=True, slots=True)
class StepMerged:
    step: str
    head: str


@dataclass(frozen=True, slots=True)
class MergeConflicted:
    step: str
    round: int
    head: str
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MergeResumed:
    step: str
    due_at: int = 0
    commit: str | None = None  # brought by a person
    by: str | None = None


@dataclass(frozen=True, slots=True)
class StepCompleted:
    step: str
    attempt: int
    result: Json = None
    artifacts: tuple[JsonMap, ...] = ()
    by: str | None = None  # a person who accepted


@dataclass(frozen=True, slots=True)
class StepFailed:
    """`attempt` is 0 when no attempt reported it (an `if` that cannot be evaluated, a person's `give up`)."""

    step: str
    reason: str
    attempt: int = 0
    digest: str | None = None
    artifacts: tuple[JsonMap, ...] = ()
    by: str | None = None


@dataclass(frozen=True, slots=True)
class StepCancelled:
    step: str
    by: str = ""
    told: bool = False  # swept with its whole task: nothing is settled afterwards


@dataclass(frozen=True, slots=True)
class StepSkipped:
    step: str
    because: str | None = None
    benign: bool = False


@dataclass(frozen=True, slots=True)
class StepRetired:
    step: str
    by: str


@dataclass(frozen=True, slots=True)
class StepWaived:
    step: str
    by: str


@dataclass(frozen=True, slots=True)
class StepRestored:
    """`by` is a person's retry; None: what vetoed it was taken up again.  `taken`: by somebody who works on it by hand;
    what it is again when it is given back."""

    step: str
    because: str | None = None
    by: str | None = None
    taken: JsonMap | None = None


@dataclass(frozen=True, slots=True)
class StepEdited:
    """What has not completed is to be done differently from the next attempt on.  `spec` is the number of its new spec;
    `specs`, the first of which is `first_spec`, are new."""

    step: str
    spec: int
    by: str
    specs: tuple[StepSpec, ...] = ()
    first_spec: int = 0


@dataclass(frozen=True, slots=True)
class GateOpened:
    step: str


# --- the task -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskPaused:
    """`now`: what runs in the task and in all below it is asked to give back, too."""

    why: int = 1
    by: str = ""
    now: bool = False


@dataclass(frozen=True, slots=True)
class TaskResumed:
    why: int = 1
    by: str = ""


@dataclass(frozen=True, slots=True)
class CancelRequested:
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TaskReopened:
    step: str
    by: str


@dataclass(frozen=True, slots=True)
class UsageRecorded:
    """Deltas.  `micros` None: the usage has no known price.  `child`: a task below `step`, whose own journal has it."""

    step: str
    attempt: int
    tokens_in: int = 0
    tokens_out: int = 0
    micros: int | None = 0
    model: str | None = None
    child: str | None = None


@dataclass(frozen=True, slots=True)
class BudgetRaised:
    by: str
    micros: int | None = None
    tokens: int | None = None
    active_ms: int | None = None
    stage: int | None = None  # from 1: all limits of that stage, once more by what the plan says; then no others


@dataclass(frozen=True, slots=True)
class BudgetNear:
    """Of a limit of the task, or of one of its stages.  `which`: `tokens`, `micros` or `active_ms`, the unit of `used`
    and `limit`."""

    which: str
    used: int
    limit: int
    stage: int | None = None  # from 1


@dataclass(frozen=True, slots=True)
class LimitNear:
    """Of a step's own limit.  `which`: `tokens`, `micros` or `requests`, the unit of `used` and `limit`."""

    step: str
    which: str
    used: int
    limit: int


@dataclass(frozen=True, slots=True)
class BudgetExceeded:
    which: str


@dataclass(frozen=True, slots=True)
class TaskDoomed:
    """Written by `fold` alone, like the three ends."""

    step: str


@dataclass(frozen=True, slots=True)
class TaskCompleted:
    pass


@dataclass(frozen=True, slots=True)
class TaskFailed:
    pass


@dataclass(frozen=True, slots=True)
class TaskCancelled:
    pass


Fact = (
    TaskSubmitted | StepsAdded | StepUnblocked | StepHeld | StepClaimed | StepRetried | StepLost | StepReleased
    | StepParked | HelpAsked | StepWoken | MutexAwaited | FixRequested | StepExpanded | StepDelivered | StepMerged
    | MergeConflicted | MergeResumed | StepCompleted | StepFailed | StepCancelled | StepSkipped | StepRetired
    | StepWaived | StepRestored | StepEdited | GateOpened | TaskPaused | TaskResumed | CancelRequested | TaskReopened
    | UsageRecorded | BudgetRaised | BudgetNear | LimitNear | BudgetExceeded | TaskDoomed | TaskCompleted | TaskFailed
    | TaskCancelled
)  # fmt: skip

FACTS: dict[str, type[Fact]] = {cls.__name__: cls for cls in Fact.__args__}

PUBLIC: dict[str, str] = {
    "TaskSubmitted": "longtask.started",
    "StepsAdded": "step.added",
    "StepUnblocked": "step.ready",
    "StepClaimed": "step.started",
    "StepRetried": "step.retried",
    "StepLost": "step.retried",
    "StepParked": "wait.started",
    "HelpAsked": "approval.required",
    "StepWoken": "wait.resolved",
    "StepCompleted": "step.completed",
    "StepFailed": "step.failed",
    "StepCancelled": "step.cancelled",
    "StepSkipped": "step.skipped",
    "StepEdited": "step.edited",
    "GateOpened": "stage.completed",
    "TaskPaused": "longtask.paused",
    "TaskResumed": "longtask.resumed",
    "CancelRequested": "longtask.requested",
    "TaskReopened": "longtask.reopened",
    "UsageRecorded": "longtask.recorded",
    "BudgetRaised": "longtask.raised",
    "BudgetNear": "budget.near",
    "LimitNear": "budget.near",
    "BudgetExceeded": "budget.exceeded",
    "TaskDoomed": "longtask.doomed",
    "TaskCompleted": "longtask.completed",
    "TaskFailed": "longtask.failed",
    "TaskCancelled": "longtask.cancelled",
}


class Event(NamedTuple):
    """A stored fact.  `seq` is gapless within its task; `pos` orders the events of one store."""

    task_id: str
    seq: int
    at: int
    fact: Fact
    actor: str = ""
    op: str | None = None
    pos: int = 0


@dataclass(frozen=True, slots=True)
class PublicEvent:
    """What a stream shows of an event: a dotted name and plain fields."""

    name: str
    fields: JsonMap = field(default_factory=dict)
