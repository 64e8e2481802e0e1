"""The journal, read from its beginning with a second, smaller memory of what each step is.

`MOVES` says the law the other way round than the machine: where each fact comes from and where it leads.  Whoever
changes one of the two has to change the other by hand; that is its use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from longtask.core import events as e
from longtask.core.machine import refold
from longtask.core.model import POOL_SYSTEM, Edge, JsonMap, Kind, Role, RunWhen, Step, Task, WaitingFor

from .view import OPEN_STATES, View, Violation, fits

MOVES: dict[type[e.Fact], tuple[str, str]] = {
    e.StepUnblocked: ("blocked", "ready"),
    e.GateOpened: ("blocked", "completed"),
    e.StepSkipped: ("blocked", "skipped"),
    e.MergeResumed: ("blocked waiting", "merging"),
    e.StepHeld: ("ready", "blocked"),
    e.StepClaimed: ("ready", "running"),
    e.MutexAwaited: ("ready", "waiting"),
    e.StepRetired: ("blocked ready waiting", "skipped"),
    e.StepCompleted: ("running waiting", "completed"),
    e.StepDelivered: ("running", "merging"),
    e.StepRetried: ("running", "ready"),
    e.StepLost: ("running", "ready"),
    e.StepReleased: ("running", "ready"),
    e.StepParked: ("running", "waiting"),
    e.FixRequested: ("running", "blocked"),
    e.StepExpanded: ("running", "blocked"),
    e.StepWoken: ("waiting", "ready"),
    e.StepMerged: ("merging", "completed"),
    e.MergeConflicted: ("merging", "blocked"),
    e.HelpAsked: ("blocked running merging", "waiting"),
    e.StepFailed: ("blocked running waiting merging", "failed"),
    e.StepCancelled: ("blocked ready running waiting merging", "cancelled"),
    e.StepRestored: ("failed cancelled skipped", "blocked"),
    e.StepWaived: ("failed cancelled", ""),  # stays what it is
    e.StepEdited: ("blocked ready waiting failed cancelled skipped", ""),
}
TASK_MOVES: dict[type[e.Fact], tuple[str, str]] = {
    e.TaskPaused: ("active paused", "paused"),
    e.TaskResumed: ("paused", "active"),
    e.CancelRequested: ("active paused", "closing"),
    e.TaskDoomed: ("active paused", "closing"),
    e.TaskCompleted: ("active paused", "completed"),
    e.TaskFailed: ("active paused closing", "failed"),
    e.TaskCancelled: ("closing", "cancelled"),
    e.TaskReopened: ("failed", "active"),
}
# A closing task starts nothing: what was under way may still report, a person may still answer.
IN_CLOSING = (e.StepCompleted, e.StepDelivered, e.StepFailed, e.StepCancelled, e.StepWoken, e.TaskFailed,
              e.TaskCancelled, e.UsageRecorded, e.BudgetRaised, e.BudgetNear, e.LimitNear,
              e.BudgetExceeded)  # fmt: skip
REPORTS = (e.StepRetried, e.StepReleased, e.StepParked, e.HelpAsked, e.FixRequested, e.StepExpanded, e.StepDelivered,
           e.StepCompleted)  # fmt: skip

# Columns that no fact moves (told and counted instead), and the header's that only its store or a relay moves.
KEPT_APART = frozenset("blockers vetoes omits told telling cursor owned_verdict items_ended items_failed".split())
HEADER_APART = frozenset("counts wish followed relay parent_told number".split())


@dataclass(slots=True)
class Known:
    """What the journal has told about a step so far."""

    kind: Kind
    system: bool
    state: str
    due_at: int
    weight: int
    heedless: bool
    needs: list[str] = field(default_factory=list)
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    rounds: int = 0
    run: int = 1
    ask: int = 0
    seen: int = 0
    question: JsonMap = field(default_factory=dict)  # of its last park
    commit: str | None = None
    benign: bool = False
    taken: bool = False
    was: str = ""  # of a step that a person has taken: what it was before, if it was not ready
    asked: JsonMap = field(default_factory=dict)  # by the machine, the last time
    behind: str | None = None  # the fix or conflict step that it waits for


@dataclass(slots=True)
class Past:
    """What the journal alone knows, and other checks need."""

    steps: dict[str, Known] = field(default_factory=dict)
    retired: set[str] = field(default_factory=set)
    accepted: set[str] = field(default_factory=set)  # completed by a person's word
    wholes: dict[str, tuple[int, int]] = field(default_factory=dict)  # who expands -> its first weight, its length
    expansions: dict[str, list[int]] = field(default_factory=dict)  # who expands -> length of each, in their order
    brought: set[str] = field(default_factory=set)  # who has expanded before the task was forked


def walk(view: View) -> tuple[Past, list[Violation]]:
    """The journal by itself; then what it says last, beside rows and header."""
    walker = _Walker(view)
    for event in view.events:
        walker.event(event)
    walker.compare()
    return walker.past, walker.found


def refolded(view: View) -> list[Violation]:
    """Rows and header are the journal folded from nothing, bookkeeping apart."""
    if not view.events:
        return [Violation("journal", "it is empty")]
    try:
        task, steps = refold(view.events)
    except (AssertionError, KeyError) as error:
        return [Violation("refold", f"the journal cannot be folded: {error}")]
    found = [
        Violation("refold", f"header: {name} is {getattr(view.task, name)!r}, the journal says {getattr(task, name)!r}")
        for name in Task._fields
        if name not in HEADER_APART and getattr(view.task, name) != getattr(task, name)
    ]
    for key in sorted(steps.keys() ^ view.steps.keys()):
        found.append(Violation("refold", f"step {key!r} is only in the {'journal' if key in steps else 'store'}"))
    for key in sorted(steps.keys() & view.steps.keys()):
        row, folded = view.steps[key], steps[key]
        for name in Step._fields:
            if name not in KEPT_APART and getattr(row, name) != getattr(folded, name):
                text = f"step {key!r}: {name} is {getattr(row, name)!r}, the journal says {getattr(folded, name)!r}"
                found.append(Violation("refold", text))
    return found


class _Walker:
    def __init__(self, view: View) -> None:
        self.view = view
        self.past = Past()
        self.found: list[Violation] = []
        self.seq = 0
        self.state = ""
        self.pauses = 0
        self.at_once = False
        self.loading = self.doomed = False
        self.head: str | None = None
        self.parallel = 0
        self.spent = [0, 0]
        self.budget: list[int | None] = [None, None]
        self.exceeded = False

    def wrong(self, rule: str, text: str) -> None:
        self.found.append(Violation(rule, f"event {self.seq}: {text}"))

    def event(self, event: e.Event) -> None:
        self.seq += 1
        fact = event.fact
        if event.seq != self.seq or event.task_id != self.view.task.id:
            self.wrong("journal", f"numbered {event.seq} of task {event.task_id!r}: a gap, or not its own")
            self.seq = event.seq
        if isinstance(fact, e.TaskSubmitted) != (event.seq == 1):
            self.wrong("journal", f"{type(fact).__name__} is out of place")
        late = isinstance(fact, e.TaskReopened) or (isinstance(fact, e.UsageRecorded) and fact.child is not None)
        if self.state in ("completed", "failed", "cancelled") and not late:
            self.wrong("after the end", f"{type(fact).__name__} in a task that is {self.state}")
        if self.state == "closing" and not isinstance(fact, IN_CLOSING):
            self.wrong("closing", f"{type(fact).__name__} in a closing task")
        if isinstance(fact, e.TaskSubmitted):
            self._submitted(fact, event.at)
        elif isinstance(fact, e.StepsAdded):
            self._added(fact.steps, fact.edges, event.at)
            self.loading = self.loading and fact.more
        elif type(fact) in MOVES:
            self._step(fact, event.at)
        else:
            self._header(fact)

    # growth

    def _submitted(self, fact: e.TaskSubmitted, at: int) -> None:
        self.state, self.head = "active", fact.head or fact.base
        self.loading, self.parallel = fact.more, fact.parallel
        self.budget = [fact.options.budget_micros, fact.options.budget_tokens]
        self._added(fact.steps, fact.edges, at)

    def _added(self, steps: Iterable[e.NewStep], edges: Iterable[Edge], at: int) -> None:
        new = {}
        for s in steps:
            if s.key in self.past.steps or s.key in new:
                self.wrong("growth", f"step {s.key!r} is there already")
            heedless = s.run_when is not RunWhen.SUCCESS
            state = "ready" if s.ready else "blocked"
            new[s.key] = Known(s.kind, s.pool == POOL_SYSTEM, state, at if s.ready else 0, s.weight, heedless)
            if s.brought is not None:
                self._brought(new[s.key], s, s.brought)
            if s.role in (Role.FIX, Role.CONFLICT) and s.owner in self.past.steps:
                self.past.steps[s.owner].behind = s.key
        self.past.steps |= new
        forked = self.view.task.options.forked is not None
        for edge in edges:
            step = self.past.steps.get(edge.step)
            if step is None:
                self.wrong("growth", f"an edge leads to {edge.step!r}, which is not there")
                continue
            begun = step.state not in ("blocked", "ready") and not (forked and self.loading)  # it was so from the first
            if edge.step not in new and begun:
                self.wrong("growth", f"{edge.need!r} is put before {edge.step!r}, which is {step.state}")
            step.needs.append(edge.need)

    def _brought(self, step: Known, new: e.NewStep, b: e.Brought) -> None:
        """Of a fork: what had ended for good is so from the first, and its code is in the head that the fork has."""
        if new.role is not Role.ITEM and new.expansion:
            self.past.brought.add(new.key)
            self.past.wholes[new.key] = (b.whole, 0)  # how long its lists were, the source's journal knows
            if new.kind is Kind.FOR_EACH:
                self.past.expansions[new.key] = [0] * new.expansion
        if b.state is None:
            return
        step.state, step.attempt, step.commit, step.benign = str(b.state), b.attempt, b.commit, b.benign
        if b.benign:
            self.past.retired.add(new.key)  # or unwanted: the source's journal knows
        if step.state in OPEN_STATES or self.view.task.options.forked is None:
            self.wrong("fork", f"{new.key!r} is brought along as {step.state}")
        if step.state == "completed":
            self.past.accepted.add(new.key)  # perhaps
            if not self._contained(b.commit, self.head):
                self.wrong("fork", f"{new.key!r} is brought along completed, and {b.commit!r} is not in {self.head!r}")

    # the task

    def _header(self, fact: e.Fact) -> None:
        match fact:
            case e.UsageRecorded():
                self.spent[0] += fact.micros or 0
                self.spent[1] += fact.tokens_in + fact.tokens_out
                return
            case e.BudgetRaised(stage=int()):
                return
            case e.BudgetRaised():
                raised = (fact.micros, fact.tokens)
                self.budget = [old if new is None else new for old, new in zip(self.budget, raised, strict=True)]
                self.exceeded = False
                return
            case e.BudgetNear() | e.LimitNear():
                return
            case e.BudgetExceeded():
                self.exceeded = True
                return
        source, target = TASK_MOVES[type(fact)]
        if self.state not in source.split():
            self.wrong("law", f"{type(fact).__name__} in a task that is {self.state}")
        if self.state == "closing":
            self.loading = False  # what was not submitted yet is not awaited any more
        self.state = target
        match fact:
            case e.TaskPaused():
                self.pauses |= fact.why
                self.at_once |= fact.now
            case e.TaskResumed():
                self.pauses &= ~fact.why
                self.state = "paused" if self.pauses else "active"
                self.at_once = self.at_once and self.pauses > 0
            case e.TaskDoomed():
                self.doomed = True
            case e.TaskReopened():
                self.pauses, self.at_once = 0, False
                if self.doomed or self.view.task.parent is not None:
                    self.wrong("law", "a task that is doomed, or has a parent, is reopened")
            case e.TaskFailed() | e.TaskCompleted() | e.TaskCancelled():
                left = [key for key, step in self.past.steps.items() if step.state in OPEN_STATES]
                if left or self.loading:
                    self.wrong("ended", f"{type(fact).__name__} with {len(left)} steps open, the first {left[:1]}")

    # steps

    def _step(self, fact: e.Fact, at: int) -> None:
        key: str = fact.step  # type: ignore[union-attr]
        step = self.past.steps.get(key)
        if step is None:
            self.wrong("journal", f"{type(fact).__name__} of {key!r}, which is not there")
            return
        source, target = MOVES[type(fact)]
        if step.state not in source.split():
            self.wrong("law", f"{type(fact).__name__} of {key!r}, which is {step.state}")
        if isinstance(fact, e.StepEdited):
            if step.benign or step.commit is not None:
                self.wrong("law", f"{key!r} is edited, and never runs again")
            return  # it waits for what it waits for
        if isinstance(fact, e.StepClaimed):
            self._claim(key, step, fact, at)
        elif getattr(fact, "attempt", 0) not in (0, step.attempt):
            self.wrong("fence", f"{type(fact).__name__} of {key!r} by another attempt than {step.attempt}")
        if isinstance(fact, e.StepRestored) and step.benign:
            self.wrong("final", f"{key!r} was not wanted, and is restored")
        if isinstance(fact, e.GateOpened) != (step.kind is Kind.GATE and target == "completed"):
            self.wrong("law", f"{type(fact).__name__} of {key!r}, a {step.kind}")
        self._behind(key, step, fact)
        self._code(key, step, fact)
        _budgets(step, fact)
        _wait(self, key, step, fact)
        _hands(self, key, step, fact)
        if isinstance(fact, e.StepExpanded):
            self._expanded(key, step, fact)
        if isinstance(fact, e.StepRetired):
            self.past.retired.add(key)
        step.benign = isinstance(fact, e.StepRetired) or (isinstance(fact, e.StepSkipped) and fact.benign)
        step.due_at = getattr(fact, "due_at", 0)
        step.state = target or step.state

    def _expanded(self, key: str, step: Known, fact: e.StepExpanded) -> None:
        lengths = self.past.expansions.setdefault(key, [])
        lengths.append(fact.items)
        if fact.expansion != len(lengths):
            self.wrong("items", f"{key!r} expands for the {len(lengths)}. time, as expansion {fact.expansion}")
        if fact.expansion == 1:
            self.past.wholes[key] = (step.weight, fact.items)

    def _claim(self, key: str, step: Known, fact: e.StepClaimed, at: int) -> None:
        """Lawful: the task active and within its budget, the step due, its base the head and all it needs in it."""
        within = all(b is None or s < b for b, s in zip(self.budget, self.spent, strict=True)) and not self.exceeded
        running = sum(s.state == "running" and not s.system and not s.taken for s in self.past.steps.values())
        step.taken = fact.by is not None  # by a person, who may work in a task that is paused, and takes no slot
        if self.loading or self.state not in ("active", "paused") or (not step.taken and self.state == "paused"):
            self.wrong("claim", f"{key!r} is claimed while its task admits no claim ({self.state})")
        if not within and not step.taken:
            self.wrong("claim", f"{key!r} is claimed while its task has spent its budget")
        if not step.system and not step.taken and running >= self.parallel:
            self.wrong("claim", f"{key!r} is claimed beside {running} others, {self.parallel} may run")
        if at < step.due_at and not step.taken:
            self.wrong("claim", f"{key!r} is claimed at {at}, due at {step.due_at}")
        if fact.attempt != step.attempt + 1:
            self.wrong("fence", f"{key!r}: attempt {fact.attempt} after {step.attempt}")
        if fact.base != self.head:
            self.wrong("claim", f"{key!r} starts from {fact.base!r}, the head is {self.head!r}")
        if step.commit is not None:
            self.wrong("claim", f"{key!r} is claimed again though it has delivered {step.commit!r}")
        for need in step.needs:
            behind = self.past.steps.get(need)
            if behind is None or (behind.state in OPEN_STATES and not step.heedless):
                self.wrong("claim", f"{key!r} is claimed before {need!r} has ended")
            elif behind.state == "completed" and not self._contained(behind.commit, fact.base):
                self.wrong("claim", f"{key!r}: its base {fact.base!r} lacks the work of {need!r}")

    def _behind(self, key: str, step: Known, fact: e.Fact) -> None:
        """Rule 19: after a fix or conflict step that did not succeed, its owner does not go on by itself."""
        behind, step.behind = step.behind, None
        resumed = isinstance(fact, e.StepUnblocked) or (isinstance(fact, e.MergeResumed) and fact.by is None)
        if behind is not None and resumed and self.past.steps[behind].state != "completed":
            self.wrong("fix", f"{key!r} goes on, though {behind!r} is {self.past.steps[behind].state}")

    def _contained(self, commit: str | None, head: str | None) -> bool:
        return commit is None or (head is not None and self.view.contains(commit, head) is not False)

    def _code(self, key: str, step: Known, fact: e.Fact) -> None:
        match fact:
            case e.StepDelivered():
                step.commit = fact.commit
            case e.MergeResumed() if fact.commit is not None:
                step.commit = fact.commit
            case e.StepMerged():
                for old in (self.head, step.commit):
                    if old is None or not self._contained(old, fact.head):
                        self.wrong("merge", f"{key!r}: the new head {fact.head!r} does not contain {old!r}")
                self.head = fact.head
            case e.StepCompleted() if step.commit is not None:
                self.wrong("merge", f"{key!r} is completed while its commit {step.commit!r} is on no branch")
            case e.StepCompleted() if fact.by is not None:
                self.past.accepted.add(key)
            case e.StepRestored() if fact.by is not None:
                step.commit = None

    def compare(self) -> None:
        """What the journal said last, beside the rows: an independent look at the columns that matter most."""
        task = self.view.task
        said = (self.seq, self.state, self.pauses, self.at_once, self.head, self.spent[0], self.spent[1], self.doomed,
                self.loading)  # fmt: skip
        kept = (task.seq, task.state, task.pauses, task.at_once, task.head, task.spent_micros, task.spent_tokens,
                task.doomed, task.loading)  # fmt: skip
        if said != kept:
            self.wrong("header", f"the header says {kept}, the journal {said}")
        names = ("state", "attempt", "failures", "rounds", "run", "ask", "seen", "commit", "benign", "losses")
        for key, step in self.past.steps.items():
            row = self.view.steps.get(key)
            for name in names if row is not None else ():
                if name == "losses" and step.state not in OPEN_STATES:
                    continue  # of a step that has ended they mean nothing
                if getattr(row, name) != getattr(step, name):
                    text = f"step {key!r}: {name} is {getattr(row, name)!r}, by the journal {getattr(step, name)!r}"
                    self.wrong("rows", text)


def _budgets(step: Known, fact: e.Fact) -> None:
    """Rules 17, 39, 48, 50: which facts touch which budget, and which begin another run."""
    again = isinstance(fact, e.StepWoken) and fact.cause.get("answer") == "again"
    fresh = again or (isinstance(fact, e.StepRestored) and fact.by is not None)
    if fresh:
        step.failures = step.losses = step.rounds = 0
    if isinstance(fact, e.StepRetried):
        step.failures += 1
    if isinstance(fact, e.FixRequested):
        step.failures = 0
        step.rounds += 1
    if isinstance(fact, REPORTS):
        step.losses = 0
    if isinstance(fact, e.StepLost):
        step.losses += 1
    if fresh or isinstance(fact, e.StepRetried | e.FixRequested):
        step.run += 1
    if isinstance(fact, e.StepClaimed):
        step.attempt = fact.attempt


def _hands(walker: _Walker, key: str, step: Known, fact: e.Fact) -> None:
    """What a person has taken and gives back is what it was, and asks what it asked."""
    if isinstance(fact, e.StepRestored):
        step.was = step.state if fact.taken is not None else ""
    elif isinstance(fact, e.StepWoken):
        step.was = "waiting" if "taken" in fact.cause else ""  # before there was that, it was ready again
    elif isinstance(fact, e.StepClaimed) and fact.by is None:
        step.was = ""
    elif step.state == "running" and step.taken and isinstance(fact, e.StepReleased | e.StepFailed | e.HelpAsked):
        back = MOVES[type(fact)][1]
        raised = back == "ready" and step.was == "waiting" and "stage" in step.asked  # for all of the stage, meanwhile
        if back != (step.was or "ready") and not raised:
            walker.wrong("hands", f"{key!r} was {step.was or 'ready'} when it was taken, and is given back {back}")
        if isinstance(fact, e.HelpAsked) and fact.question != step.asked:
            walker.wrong("hands", f"{key!r} is given back, and asks something else than before")
    if isinstance(fact, e.HelpAsked):
        step.asked = fact.question


def _wait(walker: _Walker, key: str, step: Known, fact: e.Fact) -> None:
    """Questions are numbered; a step takes the earliest signal that fits and that it has not taken yet."""
    if isinstance(fact, e.StepParked):
        step.question = fact.question
    if isinstance(fact, e.HelpAsked) or (isinstance(fact, e.StepParked) and fact.waiting_for is WaitingFor.USER):
        step.ask += 1
    if isinstance(fact, e.StepWoken) and fact.seen:
        if fact.seen <= step.seen:
            walker.wrong("signal", f"{key!r} takes signal {fact.seen} after {step.seen}")
        if not any(signal.number == fact.seen for signal in walker.view.signals):
            walker.wrong("signal", f"{key!r} takes signal {fact.seen}, which is not in the inbox")
        missed = [s.number for s in walker.view.signals if step.seen < s.number < fact.seen and fits(step.question, s)]
        if missed:
            walker.wrong("signal", f"{key!r} takes signal {fact.seen} before {missed}, which fit too")
        step.seen = fact.seen
