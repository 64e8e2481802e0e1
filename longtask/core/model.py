"""The nouns.  Frozen values; nothing here decides anything.

A task is a header and a graph of step rows.  A step row carries all that a decision about it needs; what is written
once and never changes (the command, the prompt, its limits) stands in a `StepSpec`, shared by equal steps.
Instants are ms since 1970 UTC (`_at`), durations ms (`_ms`), money integer micro-dollars (`_micros`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

Json = Any  # what json.loads returns; checked where it enters, not here
JsonMap = Mapping[str, Any]


class StepState(StrEnum):
    BLOCKED = "blocked"  # waits for needs, or for a step that it owns
    READY = "ready"  # claimable from due_at
    RUNNING = "running"  # leased by a worker
    WAITING = "waiting"  # parked: holds nothing
    MERGING = "merging"  # delivered a commit that is to be joined to the head
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class TaskState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    CLOSING = "closing"  # cancelled or doomed; open steps are being swept
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Verdict(StrEnum):
    """What a step's end means to its dependents."""

    NONE = ""  # open
    OK = "ok"
    VETO = "veto"  # the only verdict that is ever taken back
    OMIT = "omit"  # not wanted; dependents that need it are not wanted either


class Kind(StrEnum):
    RUN = "run"
    FUNCTION = "function"
    AGENT = "agent"
    APPROVAL = "approval"
    WAIT = "wait"
    ARTIFACT = "artifact"
    FOR_EACH = "for_each"
    CALL = "call"
    TASK = "task"
    GATE = "gate"


class Role(StrEnum):
    """How a step stands to another one: an owned step stands before its owner and reports to it alone."""

    OWN = ""  # a step of the plan
    FIX = "fix"
    CONFLICT = "conflict"
    ITEM = "item"


class RunWhen(StrEnum):
    SUCCESS = "success"
    FAILURE = "failure"
    ALWAYS = "always"


class WhenFailed(StrEnum):
    STOP = "stop"
    CONTINUE = "continue"
    ASK = "ask"


class WaitingFor(StrEnum):
    NOTHING = ""
    USER = "user"
    CI = "ci"
    EVENT = "event"
    TIMER = "timer"
    TASK = "task"
    MUTEX = "mutex"


class Question(StrEnum):
    """What a waiting step asks of a person.  The answers that fit stand in `machine.ANSWERS`."""

    APPROVAL = "approval"  # the plan asks
    UNKNOWN = "unknown"  # the outcome of an attempt is not known and the step must not run twice
    FAILED = "failed"  # budgets are spent and `when_failed: ask`
    NO_FIX = "no_fix"  # the fix loop is exhausted, or a fix did not succeed
    CONFLICT = "conflict"  # its commit could not be joined to the head
    LIMIT = "limit"  # a step's or stage's own limit
    PLAN = "plan"  # a planner's steps are to be added


POOL_DEFAULT = "default"
POOL_SYSTEM = "system"  # claimed by schedulers, without a slot

OPEN = frozenset({StepState.BLOCKED, StepState.READY, StepState.RUNNING, StepState.WAITING, StepState.MERGING})
TASK_OPEN = frozenset({TaskState.ACTIVE, TaskState.PAUSED, TaskState.CLOSING})
PAUSED_BY_PERSON, PAUSED_BY_PARENT = 1, 2


@dataclass(frozen=True, slots=True)
class StepSpec:
    """What a step does and how often it may try; immutable, shared by the steps that name its number.

    `body` belongs to the executor (command, prompt, message ...).  `fix`, `revise`, `item` and `conflict` are numbers
    of other specs of the task.  `reads` are the steps whose outputs the expressions name; `condition` is the text of
    `if`; `items` the expression (or list) of `for_each`.  Of an agent, `item` is what it may spawn, `parallel_max` how
    many at once.  `outputs` maps a name to a type word.
    """

    kind: Kind
    body: JsonMap = field(default_factory=dict)
    pool: str = POOL_DEFAULT  # of the steps that the machine itself makes from it; a system kind's is always `system`
    failures_max: int = 0
    losses_max: int = 3
    timeout_ms: int | None = None
    repeatable: bool = True
    commits: bool = False
    condition: str | None = None
    reads: tuple[str, ...] = ()
    items: Json = None
    parallel_max: int = 16
    fix: int | None = None
    fix_rounds_max: int = 3
    revise: int | None = None
    revise_rounds_max: int = 3
    item: int | None = None
    conflict: int | None = None
    mutex: str | None = None
    retry_delay_ms: int = 1_000
    outputs: JsonMap = field(default_factory=dict)


class Step(NamedTuple):
    """One row of the graph.  Defaults are those of a new, blocked step.

    A tuple, as `Task` is, because it is read, changed and compared in every transaction: a frozen dataclass of so many
    fields takes 18 µs to copy, this 4.
    """

    key: str
    kind: Kind
    stage: int = 1  # counts from 1
    spec: int = 0
    role: Role = Role.OWN
    owner: str | None = None
    depth: int = 0  # fix of a fix of ...
    item: int | None = None  # index in its owner's list
    expansion: int = 0  # of an item: the expansion it belongs to; of its owner: the newest
    weight: int = 0
    run_when: RunWhen = RunWhen.SUCCESS
    when_failed: WhenFailed = WhenFailed.STOP
    conditional: bool = False  # its spec has an `if`
    pool: str = POOL_DEFAULT

    state: StepState = StepState.BLOCKED
    due_at: int = 0  # ready: claimable from; waiting: deadline (0: none); merging: next try
    waived: bool = False
    benign: bool = False  # skipped because it was not wanted
    reason: str | None = None  # of the last failure, retry or loss
    because: str | None = None  # the step that decided a skip

    # bookkeeping of telling; recounted by the oracle, not refolded
    blockers: int = 0
    vetoes: int = 0
    omits: int = 0
    told: Verdict = Verdict.NONE
    telling: Verdict | None = None  # verdict of a pass that is under way
    cursor: str = ""  # the last dependent that this pass has told
    owned_verdict: Verdict = Verdict.NONE  # of the fix or conflict step that ended last

    attempt: int = 0  # the newest; the fencing token
    run: int = 1
    failures: int = 0
    losses: int = 0
    rounds: int = 0
    raises: int = 0  # of its limit, by people
    conflicts: int = 0  # of its commit with the head
    digest: str | None = None  # of the failure that asked for the last fix
    owned: int = 0  # fix and conflict steps ever made for it; numbers their keys
    worker: str | None = None
    taken_by: str | None = None  # the person who has its newest attempt, and works on it by hand
    mutex: str | None = None  # running: what its attempt holds; else what it queues for
    base: str | None = None  # commit that the newest claim started from
    began_at: int = 0  # of the newest claim
    ended_at: int = 0
    timeout_at: int | None = None

    waiting_for: WaitingFor = WaitingFor.NOTHING
    ask: int = 0  # numbers the questions of this step
    question: JsonMap | None = None  # of a waiting step: what would wake it
    cause: JsonMap | None = None  # what woke it; stays until an attempt reports
    seen: int = 0  # newest signal number that it consumed

    child: str | None = None  # the newest task that was asked for
    commit: str | None = None  # delivered by the accepted outcome
    result: Json = None  # outputs of a completed step, or {"artifact": digest}

    # Of a for_each, and of an agent that has spawned, whose items are those of its newest expansion.  The list stands
    # inline or as {"artifact": digest}, kept for a retry; an agent's: {run, bound, tasks}, with such a list in `tasks`.
    listing: Json = None
    whole: int = 0  # its weight before its items took their shares
    items: int = 0  # length of the list; 0: not expanded since it was last restored
    items_next: int = 0  # index of the next item to begin
    items_ended: int = 0
    items_failed: int = 0

    @property
    def open(self) -> bool:
        return self.state in OPEN

    @property
    def tolerated(self) -> bool:
        return self.waived or self.when_failed is WhenFailed.CONTINUE

    @property
    def heedless(self) -> bool:
        return self.run_when is not RunWhen.SUCCESS

    @property
    def gate(self) -> bool:
        return self.kind is Kind.GATE

    @property
    def slotless(self) -> bool:
        """While it runs it takes none of its task's slots."""
        return self.pool == POOL_SYSTEM or self.taken_by is not None


class Tally(NamedTuple):
    """The header's counters: the sum of `machine.tally` over all rows.  Nothing else ever changes them."""

    steps: int = 0
    open: int = 0
    ready: int = 0
    ready_system: int = 0  # ready steps of pool `system`; part of `ready`
    running: int = 0  # counts for `parallel`
    running_system: int = 0  # system steps, and what people work on by hand: they take no slot
    merging: int = 0
    wait_user: int = 0
    wait_ci: int = 0
    wait_event: int = 0
    wait_timer: int = 0
    wait_task: int = 0
    wait_mutex: int = 0
    bad: int = 0
    untold: int = 0
    gates: int = 0  # ended gates: the number of the current stage is one more
    weight: int = 0
    weight_done: int = 0

    def plus(self, other: Tally, minus: Tally) -> Tally:
        return Tally._make([a + b - c for a, b, c in zip(self, other, minus, strict=True)])


class Origin(NamedTuple):
    """Where a fork comes from: what it has taken over is that task's journal up to event `seq`, before `step` began."""

    task: str
    seq: int
    step: str | None = None  # None: the whole journal, as it was then


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What the submitter chose for the whole task.  `workspace` is None for a task without a repository."""

    goal: str = ""
    fail_fast: bool = False
    attended: bool = False
    workspace: JsonMap | None = None  # repo, base branch, setup, cache
    stages: tuple[str, ...] = ()  # their names, in order
    budget_micros: int | None = None
    budget_tokens: int | None = None
    active_max_ms: int | None = None
    stage_limits: tuple[JsonMap, ...] = ()  # {tokens, micros} of each stage; (): none has any
    environment: JsonMap = field(default_factory=dict)  # `env` of the plan, literal values
    secrets: tuple[str, ...] = ()  # names only
    defaults: JsonMap = field(default_factory=dict)  # of steps that are added later, in the plan's words
    plan_digest: str | None = None
    forked: Origin | None = None
    inputs: JsonMap = field(default_factory=dict)  # what its parent hands down; large ones as {"$artifact": digest}


class Above(NamedTuple):
    """A task over a child, and the step of it that the child works for."""

    task_id: str
    step: str


class Task(NamedTuple):
    """The header."""

    id: str  # UUIDv7
    name: str
    options: TaskOptions
    workspace_id: str = ""
    created_by: str = ""
    created_at: int = 0
    idempotency_key: str | None = None
    state: TaskState = TaskState.ACTIVE
    loading: bool = False  # steps are still being submitted in batches
    seq: int = 0  # of the newest event
    head: str | None = None  # commit that holds all merged work
    base: str | None = None  # commit that the task began from
    counts: Tally = Tally()
    priority: int = 0
    parallel: int = 4
    pauses: int = 0  # a set of reasons: 1 person, 2 parent
    at_once: bool = False  # since it was paused, somebody asked that what runs gives back
    doomed: bool = False
    spent_micros: int = 0
    spent_tokens: int = 0
    unpriced: bool = False  # some usage had no price
    stage_spent: tuple[tuple[int, int], ...] = ()  # (tokens, micros) by stage, where stages have limits
    stage_raises: tuple[int, ...] = ()  # by stage, how often people have raised its limits; (): never
    budget_micros: int | None = None
    budget_tokens: int | None = None
    exceeded: str | None = None  # a limit that no counter shows (`active`)
    wish: int = 0  # numbers what its children are to follow: changes of `family.held`, and pauses at once
    followed: int = 0  # the newest wish of its parent that it followed
    relay: str | None = None  # the last step whose child has been told the newest wish; None: all is told and asked
    parent: str | None = None
    parent_step: str | None = None
    ancestors: tuple[Above, ...] = ()  # its parent first
    parent_told: bool = False  # of its end
    served_at: int = 0  # of the newest claim: fairness
    ended_at: int = 0
    number: int = 0  # counts tasks of this store; `NAME-number` is a handle for people

    @property
    def within_budget(self) -> bool:
        return (
            (self.budget_micros is None or self.spent_micros < self.budget_micros)
            and (self.budget_tokens is None or self.spent_tokens < self.budget_tokens)
            and self.exceeded is None
        )

    @property
    def admits(self) -> int:
        """0: no claims; 1: system steps only (all slots of the task are taken); 2: any ready step."""
        if self.state is not TaskState.ACTIVE or self.loading or not self.within_budget:
            return 0
        return 2 if self.counts.running < self.parallel else 1

    @property
    def ended(self) -> bool:
        return self.state not in TASK_OPEN


class Edge(NamedTuple):
    """`step` needs `need`."""

    need: str
    step: str


@dataclass(frozen=True, slots=True)
class Lease:
    """The time-bound right of one attempt to its step.  `stop` is a request that the next beat's answer carries."""

    task_id: str
    step: str
    attempt: int
    worker: str
    due_at: int
    timeout_at: int | None = None
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class MutexView:
    """A mutex as a step that wants it finds it.  It may be stale: exclusion is the mutex's row alone, and a claim that
    cannot take that row is refused."""

    holder: tuple[str, str] | None = None  # (task id, step)
    called: bool = False  # this step was called
    queued: bool = False  # others queue before it

    @property
    def free(self) -> bool:
        """For this step: whoever is called passes those who could not come; all others wait their turn."""
        return self.holder is None and (self.called or not self.queued)


@dataclass(frozen=True, slots=True)
class Signal:
    """A named message from outside, numbered within its task's inbox; a delivery id counts once."""

    number: int
    delivery: str
    name: str
    payload: JsonMap
    sender: str = ""
    at: int = 0


# --- outcomes: what an executor answers ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Done:
    """It worked.  `commit`: its change of the code, already on its own ref in the hub; None: nothing to merge.

    `base`: the commit that it was made on, None for the claim's.  A run that goes on stays on the base that its files
    come from, though its newest claim names a newer head: then its commit does not contain that head."""

    result: Json = None
    commit: str | None = None
    artifacts: tuple[JsonMap, ...] = ()
    base: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """It did not.  `retryable`: another attempt may help.  `digest` names the failure for the fix loop."""

    reason: str
    retryable: bool = True
    digest: str | None = None
    artifacts: tuple[JsonMap, ...] = ()
    revise: bool = False  # a reviewer's rejection: the plan's `revise` is put in front, if there is one


@dataclass(frozen=True, slots=True)
class Parked:
    """Asks to wait and gives the worker back.  `question` is frozen: what is asked or awaited, with its digest."""

    waiting_for: WaitingFor
    question: JsonMap
    due_at: int = 0  # 0: no deadline


@dataclass(frozen=True, slots=True)
class Expanded:
    """A `for_each` has its list: `items` of them, kept as an artifact or inline in `listing`.

    An agent spawns: `listing` is {run, bound, tasks}, which names the call of the run that waits for their ends."""

    items: int
    listing: Json


@dataclass(frozen=True, slots=True)
class SubTask:
    """Asks for a task of its own, made from the plan in its spec's body; `inputs`: what is handed down to it."""

    inputs: JsonMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Released:
    """Given back without a result (drain, `pause --now`, budget): counts as neither failure nor loss."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The process tree is dead, as was asked."""


Outcome = Done | Failed | Parked | Expanded | SubTask | Released | Stopped
