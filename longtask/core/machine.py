"""THE MACHINE: two tables, what a row counts for, and one fold.

    law      STEP and TASK say which fact may move which state where.  A move that is not in a table does not exist.
    counts   `verdict` and `tally` say what a row means to its dependents and to its header.
    effect   `fold` is the only code that moves a state, an attempt or a header counter.

What is decided (which fact, when, for whom) stands in `decide` and `settle`; both change nothing.  Where an outcome
depends on more than the state, the decision picks a different fact; the tables stay plain maps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from . import events as e
from . import family
from .change import ArtifactRow, Change, MutexMoves, WaitRow
from .model import (
    OPEN,
    POOL_SYSTEM,
    Edge,
    Lease,
    Role,
    Step,
    StepSpec,
    StepState,
    Tally,
    Task,
    TaskState,
    Verdict,
    WaitingFor,
)
from .policy import STOPS_MAX

S, T = StepState, TaskState
State = TypeVar("State", StepState, TaskState)

# --- law ----------------------------------------------------------------------------------------------------------

STEP: dict[StepState, dict[type[e.Fact], StepState]] = {
    S.BLOCKED: {
        e.StepUnblocked: S.READY,
        e.MergeResumed: S.MERGING,
        e.GateOpened: S.COMPLETED,
        e.HelpAsked: S.WAITING,
        e.StepFailed: S.FAILED,
        e.StepSkipped: S.SKIPPED,
        e.StepRetired: S.SKIPPED,
        e.StepCancelled: S.CANCELLED,
        e.StepEdited: S.BLOCKED,
    },
    S.READY: {
        e.StepClaimed: S.RUNNING,
        e.StepHeld: S.BLOCKED,
        e.MutexAwaited: S.WAITING,
        e.StepRetired: S.SKIPPED,
        e.StepCancelled: S.CANCELLED,
        e.StepEdited: S.READY,
    },
    S.RUNNING: {
        e.StepCompleted: S.COMPLETED,
        e.StepDelivered: S.MERGING,
        e.StepFailed: S.FAILED,
        e.StepRetried: S.READY,
        e.StepLost: S.READY,
        e.StepReleased: S.READY,
        e.StepParked: S.WAITING,
        e.HelpAsked: S.WAITING,
        e.FixRequested: S.BLOCKED,
        e.StepExpanded: S.BLOCKED,
        e.StepCancelled: S.CANCELLED,
    },
    S.WAITING: {
        e.StepWoken: S.READY,
        e.MergeResumed: S.MERGING,
        e.StepCompleted: S.COMPLETED,
        e.StepFailed: S.FAILED,
        e.StepRetired: S.SKIPPED,
        e.StepCancelled: S.CANCELLED,
        e.StepEdited: S.WAITING,
    },
    S.MERGING: {
        e.StepMerged: S.COMPLETED,
        e.MergeConflicted: S.BLOCKED,
        e.HelpAsked: S.WAITING,
        e.StepFailed: S.FAILED,
        e.StepCancelled: S.CANCELLED,
    },
    S.FAILED: {e.StepRestored: S.BLOCKED, e.StepWaived: S.FAILED, e.StepEdited: S.FAILED},
    S.CANCELLED: {e.StepRestored: S.BLOCKED, e.StepWaived: S.CANCELLED, e.StepEdited: S.CANCELLED},
    S.SKIPPED: {e.StepRestored: S.BLOCKED, e.StepEdited: S.SKIPPED},
    S.COMPLETED: {},
}

_OPEN_TASK: dict[type[e.Fact], TaskState] = {
    e.CancelRequested: T.CLOSING,
    e.TaskDoomed: T.CLOSING,
    e.TaskCompleted: T.COMPLETED,
    e.TaskFailed: T.FAILED,
}

TASK: dict[TaskState, dict[type[e.Fact], TaskState]] = {
    T.ACTIVE: {e.TaskPaused: T.PAUSED, **_OPEN_TASK},
    # a second reason to pause, and a resume that leaves one, keep the state: `pauses` is a set, and `fold` looks at it
    T.PAUSED: {e.TaskPaused: T.PAUSED, e.TaskResumed: T.ACTIVE, **_OPEN_TASK},
    T.CLOSING: {e.TaskCancelled: T.CANCELLED, e.TaskFailed: T.FAILED},
    T.FAILED: {e.TaskReopened: T.ACTIVE},
    T.COMPLETED: {},
    T.CANCELLED: {},
}

# --- counts -------------------------------------------------------------------------------------------------------

_VERDICT = {S.COMPLETED: Verdict.OK, S.FAILED: Verdict.VETO, S.CANCELLED: Verdict.VETO}
_WAIT_COUNTER = {
    WaitingFor.USER: "wait_user",
    WaitingFor.CI: "wait_ci",
    WaitingFor.EVENT: "wait_event",
    WaitingFor.TIMER: "wait_timer",
    WaitingFor.TASK: "wait_task",
    WaitingFor.MUTEX: "wait_mutex",
}
_PLACE = {name: i for i, name in enumerate(Tally._fields)}


def verdict(step: Step) -> Verdict:
    """What the step's end means to those that need it; `Verdict.NONE` while it is open."""
    if step.state in OPEN:
        return Verdict.NONE
    if step.state is S.SKIPPED:
        return Verdict.OMIT if step.benign else Verdict.VETO
    told = _VERDICT[step.state]
    return Verdict.OK if told is Verdict.VETO and step.tolerated else told


def untold(step: Step) -> bool:
    """Its dependents do not (all) know its verdict: the only mark for work to do."""
    return step.telling is not None or step.told is not verdict(step)


def tally(step: Step) -> Tally:
    """What one row adds to its header's counters."""
    sums = [0] * len(_PLACE)
    _count(sums, step, 1)
    return Tally._make(sums)


def _count(sums: list[int], step: Step, sign: int) -> None:
    """Adds (1) what one row counts for, or takes it away (-1)."""
    state = step.state
    sums[_PLACE["steps"]] += sign
    sums[_PLACE["weight"]] += sign * step.weight
    if state in OPEN:
        sums[_PLACE["open"]] += sign
        if state is S.READY:
            sums[_PLACE["ready"]] += sign
            sums[_PLACE["ready_system"]] += sign * (step.pool == POOL_SYSTEM)
        elif state is S.RUNNING:
            sums[_PLACE["running_system" if step.slotless else "running"]] += sign
        elif state is S.MERGING:
            sums[_PLACE["merging"]] += sign
        elif state is S.WAITING:
            sums[_PLACE[_WAIT_COUNTER[step.waiting_for]]] += sign
    else:
        sums[_PLACE["weight_done"]] += sign * step.weight
        sums[_PLACE["gates"]] += sign * step.gate
        ended_badly = state is S.FAILED or state is S.CANCELLED
        sums[_PLACE["bad"]] += sign * (ended_badly and not step.tolerated and step.role is Role.OWN and not step.gate)
    sums[_PLACE["untold"]] += sign * untold(step)


def status(task: Task) -> str:
    """One word for people (rule 64).  Never from the clock: a step in backoff is `queued`."""
    c = task.counts
    if task.ended:
        return str(task.state)
    if task.state is T.CLOSING:
        return "cancelling"
    if task.state is T.PAUSED:
        return "paused"
    if c.running or c.running_system or c.merging or c.untold:
        return "running"
    if c.ready or c.wait_mutex:
        return "queued" if task.within_budget else "waiting_budget"
    if c.wait_user:
        return "waiting_user"
    if c.wait_task:
        return "running" if task.within_budget else "waiting_budget"  # its children are held with it
    if c.wait_ci:
        return "waiting_ci"
    if c.wait_event:
        return "waiting_event"
    return "waiting_timer" if c.wait_timer else "queued"


# --- effect -------------------------------------------------------------------------------------------------------


def fold(
    task: Task | None,
    steps: Mapping[str, Step],
    facts: Iterable[e.Fact],
    now: int,
    told: Mapping[str, Step] | None = None,
) -> Change:
    """What the facts move.

    `task` None: the first fact is TaskSubmitted.  `steps` holds every existing step that a fact names (or that an
    added edge leads to).  `told` holds rows of `steps` with new bookkeeping of telling, which is not a fact.
    `fold` adds the task's own end, and its doom, when the facts bring them about.
    """
    draft = Draft(task, steps, now)
    draft.add(facts, told)
    return draft.change()


def refold(events: Iterable[e.Event]) -> tuple[Task, dict[str, Step]]:
    """Header and rows as the journal tells them, one fact after another from nothing.

    Bookkeeping, which is no fact, means nothing in them, and the header's counters stay 0.  Ends and doom are in the
    journal, so that nothing is added to it."""
    draft = Draft(None, {}, 0)
    for event in events:
        draft.now = event.at
        draft.apply(event.fact)
    return draft.task._replace(seq=draft.seq), draft.rows


def _take(table: Mapping[type[e.Fact], State], state: State, fact: e.Fact, who: str) -> State:
    assert type(fact) in table, f"{who} is {state}: {type(fact).__name__} cannot move it"
    return table[type(fact)]


def _brought(row: Step, b: e.Brought) -> Step:
    """A new row with what it brings along.  That it has ended is known to all from the first: nobody is told."""
    row = row._replace(
        listing=b.listing,
        whole=b.whole,
        items=b.items,
        items_next=b.items_next,
        items_ended=b.items_ended,
        items_failed=b.items_failed,
    )
    if b.state is None:
        return row
    ended = row._replace(
        state=b.state,
        due_at=0,
        attempt=b.attempt,
        commit=b.commit,
        result=b.result,
        reason=b.reason,
        because=b.because,
        benign=b.benign,
        waived=b.waived,
        base=b.base,
        began_at=b.began_at,
        ended_at=b.ended_at,
    )
    return ended._replace(told=verdict(ended))


class Draft:
    """A fold under way: rows and header as they become, and what the store must write beside them.

    `steps` may grow while it lasts: a row must be there before a fact names it.
    """

    def __init__(self, task: Task | None, steps: Mapping[str, Step], now: int) -> None:
        self.before = steps
        self.rows: dict[str, Step] = {}  # those that have moved
        self.counted: dict[str, Step | None] = {}  # of rows that have moved since the last count: as they were then
        self.created = task is None
        self.header_before = self.header = task
        self.now = now
        self.seq = 0 if task is None else task.seq
        self.facts: list[tuple[int, e.Fact]] = []
        self.added: set[str] = set()
        self.edges: list[Edge] = []
        self.specs: list[tuple[int, StepSpec]] = []
        self.leases: list[Lease] = []
        self.artifacts: list[ArtifactRow] = []
        self.doom: str | None = None
        self.held = task is not None and family.held(task)
        self.urged = False  # to pause at once

    def add(self, facts: Iterable[e.Fact], told: Mapping[str, Step] | None = None) -> None:
        """Facts, and rows with new bookkeeping, on top of what is there; then what the counters bring about."""
        for row in (told or {}).values():
            self._put(row)
        for fact in facts:
            self.apply(fact)
        self._recount()

    def mark(self, **marks: Any) -> None:
        """Bookkeeping of the header between tasks, which is no fact."""
        self.header = self.task._replace(**marks)

    def apply(self, fact: e.Fact) -> None:
        self._log(fact)
        if isinstance(fact, e.TaskSubmitted):
            self._submitted(fact)
        elif isinstance(fact, e.StepsAdded):
            self._add(fact.steps, fact.edges)
            self.specs += [(fact.first_spec + i, spec) for i, spec in enumerate(fact.specs)]
            if self.task.loading and not fact.more:
                self.header = self.task._replace(loading=False)
        elif type(fact) in _TASK_FACTS:
            self._move_task(fact)
        elif isinstance(fact, e.StepEdited):
            self._edit(fact)
        else:
            self._move_step(fact)

    @property
    def task(self) -> Task:
        assert self.header is not None
        return self.header

    def step(self, key: str) -> Step:
        return self.rows[key] if key in self.rows else self.before[key]

    def _put(self, row: Step) -> None:
        if row.key not in self.counted:
            self.counted[row.key] = self.rows.get(row.key) or self.before.get(row.key)
        self.rows[row.key] = row

    def _log(self, fact: e.Fact) -> None:
        self.seq += 1
        self.facts.append((self.seq, fact))

    # growth

    def _submitted(self, f: e.TaskSubmitted) -> None:
        assert self.header is None, f"task {f.id!r} is there already"
        self.header = Task(
            id=f.id,
            name=f.name,
            options=f.options,
            workspace_id=f.workspace_id,
            created_by=f.created_by,
            created_at=self.now,
            idempotency_key=f.idempotency_key,
            loading=f.more,
            head=f.head or f.base,
            base=f.base,
            priority=f.priority,
            parallel=f.parallel,
            budget_micros=f.options.budget_micros,
            budget_tokens=f.options.budget_tokens,
            parent=f.parent,
            parent_step=f.parent_step,
            ancestors=f.ancestors,
            number=f.number,
        )
        self.specs += list(enumerate(f.specs))
        self._add(f.steps, f.edges)

    def _add(self, steps: Iterable[e.NewStep], edges: Iterable[Edge]) -> None:
        fresh: set[str] = set()
        for new in steps:
            assert new.key not in self.rows and new.key not in self.before, f"step {new.key!r} is there already"
            row = Step(
                key=new.key,
                kind=new.kind,
                stage=new.stage,
                spec=new.spec,
                role=new.role,
                owner=new.owner,
                depth=new.depth,
                item=new.item,
                expansion=new.expansion,
                weight=new.weight,
                run_when=new.run_when,
                when_failed=new.when_failed,
                conditional=new.conditional,
                pool=new.pool,
                state=S.READY if new.ready else S.BLOCKED,
                due_at=self.now if new.ready else 0,
                blockers=new.blockers,
                vetoes=new.vetoes,
                omits=new.omits,
            )
            if new.brought is not None:
                row = _brought(row, new.brought)
                self.artifacts += [ArtifactRow(new.key, row.attempt, a) for a in new.brought.artifacts]
            self._put(row)
            fresh.add(new.key)
            if new.role is Role.ITEM and new.brought is None:
                self._begin_item(new)
        self.added |= fresh
        for edge in edges:
            self.edges.append(edge)
            if edge.step not in fresh and (edge.step in self.rows or edge.step in self.before):
                row, need = self.step(edge.step), self.rows.get(edge.need)
                told = Verdict.NONE if need is None else need.told
                omits = told is Verdict.OMIT and need is not None and need.owner != row.key
                self._put(row._replace(blockers=row.blockers + (told is Verdict.NONE), omits=row.omits + omits))

    def _begin_item(self, new: e.NewStep) -> None:
        assert new.owner is not None and new.item is not None
        owner = self.step(new.owner)
        self._put(owner._replace(items_next=new.item + 1, weight=owner.weight - new.weight))

    # steps

    def _move_step(self, fact: e.Fact) -> None:
        step = self.step(fact.step)  # type: ignore[union-attr]
        attempt = getattr(fact, "attempt", 0)
        if isinstance(fact, e.StepClaimed):
            assert attempt == step.attempt + 1, f"step {step.key!r}: claim {attempt} after attempt {step.attempt}"
        else:
            assert attempt in (0, step.attempt), (
                f"step {step.key!r}: attempt {attempt} is not the newest ({step.attempt})"
            )
        state = _take(STEP[step.state], step.state, fact, f"step {step.key!r}")
        changes = self._effect(step, fact)
        if state not in OPEN and step.state in OPEN:
            changes.setdefault("ended_at", self.now)
        if step.mutex is not None and (step.state is S.RUNNING or state not in OPEN):
            changes["mutex"] = None  # it belongs to the attempt; and who has ended queues no more
        if step.state is S.WAITING:
            changes |= {"waiting_for": WaitingFor.NOTHING, "question": None, "due_at": changes.get("due_at", 0)}
        moved = step._replace(**{"state": state, **changes})
        owner_ends = state not in OPEN and step.state in OPEN and (step.owned or step.expansion)
        if owner_ends and moved.telling is None and step.told is verdict(moved):
            # Taken up and ended again before the first was told: nothing differs, but what it owns has to be ended,
            # and that is the work of settling.  A pass is begun that tells what is known.
            moved = moved._replace(telling=step.told)
        self._put(moved)
        self.artifacts += [ArtifactRow(step.key, step.attempt, a) for a in getattr(fact, "artifacts", ())]
        ended_badly = state in (S.FAILED, S.CANCELLED) and state is not step.state
        if ended_badly and not moved.tolerated and moved.role is Role.OWN:
            self.doom = self.doom or moved.key

    def _edit(self, fact: e.StepEdited) -> None:
        """It stays what it is, and waits for what it waits for."""
        step = self.step(fact.step)
        _take(STEP[step.state], step.state, fact, f"step {step.key!r}")
        self.specs += [(fact.first_spec + i, spec) for i, spec in enumerate(fact.specs)]
        self._put(step._replace(spec=fact.spec))

    def _effect(self, step: Step, fact: e.Fact) -> dict[str, Any]:
        """Changed columns, beside the state.  One line a fact, in the order of the table of facts."""
        match fact:
            case e.StepUnblocked():
                return {"due_at": fact.due_at, "owned_verdict": Verdict.NONE}
            case e.StepHeld() | e.GateOpened():
                return {}
            case e.StepClaimed():
                return self._claimed(step, fact)
            case e.StepRetried():
                return {"failures": step.failures + 1, "losses": 0, "run": step.run + 1, "reason": fact.reason,
                        "due_at": fact.due_at, "cause": None}  # fmt: skip
            case e.StepLost():
                return {"losses": step.losses + 1, "due_at": fact.due_at}
            case e.StepReleased():
                return {"losses": 0, "due_at": fact.due_at}
            case e.StepParked():
                ask = step.ask + (fact.waiting_for is WaitingFor.USER)
                return {"waiting_for": fact.waiting_for, "question": fact.question, "due_at": fact.due_at,
                        "losses": 0, "cause": None, "ask": ask,
                        "child": fact.question.get("child", step.child)}  # fmt: skip
            case e.HelpAsked():
                return {"waiting_for": WaitingFor.USER, "question": fact.question, "due_at": fact.due_at,
                        "losses": 0, "cause": None, "ask": step.ask + 1, "owned_verdict": Verdict.NONE,
                        "reason": fact.question.get("reason", step.reason)}  # fmt: skip
            case e.StepWoken() if "mutex" in fact.cause:
                return {"due_at": fact.due_at}  # a call is told to nobody: what woke the step before that still counts
            case e.StepWoken():
                again = fact.cause.get("answer") == "again"
                fresh: dict[str, Any] = {}
                if again:  # of a for_each: its list is gone through again, and what has completed is passed over
                    fresh = {"failures": 0, "losses": 0, "rounds": 0, "digest": None, "run": step.run + 1,
                             "items": 0, "items_next": 0, "items_ended": 0, "items_failed": 0}  # fmt: skip
                elif fact.cause.get("answer") == "raise":
                    fresh = {"raises": step.raises + 1}
                return {"cause": fact.cause, "seen": max(step.seen, fact.seen), "due_at": fact.due_at, **fresh}
            case e.MutexAwaited():
                question = {"mutex": fact.mutex, "due_at": step.due_at}  # its place among the ready steps of its task
                return {"waiting_for": WaitingFor.MUTEX, "question": question, "mutex": fact.mutex, "due_at": 0}
            case e.FixRequested():
                return {"rounds": fact.round, "digest": fact.digest, "failures": 0, "losses": 0, "run": step.run + 1,
                        "reason": fact.reason, "cause": None, "owned": step.owned + 1}  # fmt: skip
            case e.StepExpanded():
                return {"items": fact.items, "expansion": fact.expansion, "items_next": 0, "items_ended": 0,
                        "items_failed": 0, "listing": step.listing if fact.listing is None else fact.listing,
                        "whole": step.weight if fact.expansion == 1 else step.whole,
                        "losses": 0, "cause": None}  # fmt: skip
            case e.StepDelivered():
                return {"commit": fact.commit, "result": fact.result, "due_at": fact.due_at, "losses": 0, "cause": None}
            case e.StepMerged():
                self.header = self.task._replace(head=fact.head)
                return {"due_at": 0}
            case e.MergeConflicted():
                return {"conflicts": fact.round, "owned": step.owned + 1, "due_at": 0,
                        "reason": "its commit conflicts with the head in " + ", ".join(fact.paths)}  # fmt: skip
            case e.MergeResumed():
                return {"due_at": fact.due_at, "owned_verdict": Verdict.NONE, "commit": fact.commit or step.commit,
                        "conflicts": 0 if fact.by else step.conflicts}  # fmt: skip
            case e.StepCompleted():
                return {"result": fact.result, "losses": 0, "cause": None}
            case e.StepFailed():
                return {"reason": fact.reason, "cause": None, "owned_verdict": Verdict.NONE, "due_at": 0}
            case e.StepCancelled():
                back = {"due_at": 0, "owned_verdict": Verdict.NONE}
                if not fact.told:
                    return back
                return back | {"told": Verdict.OK if step.tolerated else Verdict.VETO, "telling": None, "cursor": ""}
            case e.StepSkipped():
                return {"because": fact.because, "benign": fact.benign}
            case e.StepRetired():
                return {"benign": True, "because": None, "due_at": 0}
            case e.StepWaived():
                return {"waived": True}
            case e.StepRestored():
                return self._restored(step, fact)
        raise AssertionError(f"{type(fact).__name__} has no effect on a step")

    def _claimed(self, step: Step, fact: e.StepClaimed) -> dict[str, Any]:
        due_at = self.now + fact.lease_ms
        if fact.timeout_at is not None:
            due_at = min(due_at, fact.timeout_at)
        self.leases.append(Lease(self.task.id, step.key, fact.attempt, fact.worker, due_at, fact.timeout_at))
        if step.pool != POOL_SYSTEM and fact.by is None:
            self.header = self.task._replace(served_at=self.now)
        return {"attempt": fact.attempt, "worker": fact.worker, "taken_by": fact.by, "base": fact.base,
                "began_at": self.now, "due_at": 0, "timeout_at": fact.timeout_at, "mutex": fact.mutex}  # fmt: skip

    def _restored(self, step: Step, fact: e.StepRestored) -> dict[str, Any]:
        back: dict[str, Any] = {"because": None, "benign": False, "ended_at": 0}
        if fact.by is not None:  # a person's retry: new budgets; attempt numbers go on
            back |= {"failures": 0, "losses": 0, "rounds": 0, "conflicts": 0, "digest": None, "run": step.run + 1,
                     "commit": None, "result": None, "items": 0, "items_next": 0, "items_ended": 0,
                     "items_failed": 0, "owned_verdict": Verdict.NONE,
                     "cause": None if fact.taken is None else {"taken": fact.taken}}  # fmt: skip
        return back

    # the task

    def _move_task(self, fact: e.Fact) -> None:
        task = self.task
        changes: dict[str, Any] = {}
        if type(fact) in _KEEPS_STATE:
            told = isinstance(fact, e.UsageRecorded) and fact.child is not None  # a child may outlive its parent
            assert told or not task.ended, f"task is {task.state}: {type(fact).__name__} cannot move it"
        else:
            changes["state"] = _take(TASK[task.state], task.state, fact, "task")
        match fact:
            case e.TaskPaused():
                changes |= {"pauses": task.pauses | fact.why, "at_once": task.at_once or fact.now}
                self.urged = self.urged or fact.now
            case e.TaskResumed():
                left = task.pauses & ~fact.why
                changes |= {"pauses": left, "state": T.PAUSED if left else T.ACTIVE}
                changes["at_once"] = task.at_once and bool(left)
            case e.TaskDoomed():
                changes["doomed"] = True
            case e.TaskReopened():
                changes |= {"ended_at": 0, "pauses": 0, "at_once": False}  # whoever takes it up again wants it to go on
            case e.UsageRecorded():
                changes |= {
                    "spent_micros": task.spent_micros + (fact.micros or 0),
                    "spent_tokens": task.spent_tokens + fact.tokens_in + fact.tokens_out,
                    "unpriced": task.unpriced or fact.micros is None,
                }
                if task.options.stage_limits:
                    changes["stage_spent"] = _stage_spent(task, self.step(fact.step).stage, fact)
            case e.BudgetRaised(stage=int(stage)):
                raises = list(task.stage_raises or (0,) * len(task.options.stage_limits))
                raises[stage - 1] += 1
                changes["stage_raises"] = tuple(raises)
            case e.BudgetRaised():
                changes |= {
                    "budget_micros": task.budget_micros if fact.micros is None else fact.micros,
                    "budget_tokens": task.budget_tokens if fact.tokens is None else fact.tokens,
                    "exceeded": None,
                }
            case e.BudgetExceeded():
                changes["exceeded"] = fact.which
            case e.TaskCompleted() | e.TaskFailed() | e.TaskCancelled():
                changes |= {"ended_at": self.now, "loading": False}
            case _:
                pass
        self.header = task._replace(**changes)

    def _recount(self) -> None:
        """Counters, then what they bring about: the task's doom, the task's end."""
        sums = list(self.task.counts)
        for key, old in self.counted.items():
            if old is not None:
                _count(sums, old, -1)
            _count(sums, self.rows[key], 1)
        self.counted.clear()
        counts = Tally._make(sums)
        self.header = self.task._replace(counts=counts, seq=self.seq)
        if self.doom and self.task.options.fail_fast and self.task.state in (T.ACTIVE, T.PAUSED):
            self._end(e.TaskDoomed(self.doom))
        closing = self.task.state is T.CLOSING  # what was not submitted yet is not awaited any more
        if counts.open == 0 and counts.untold == 0 and not self.task.ended and (closing or not self.task.loading):
            if closing:
                self._end(e.TaskFailed() if self.task.doomed else e.TaskCancelled())
            else:
                self._end(e.TaskFailed() if counts.bad else e.TaskCompleted())
        self._wish()

    def _wish(self) -> None:
        """Children are told whenever their task is held from now on, or no longer, or is to pause at once."""
        task = self.task
        hold = family.held(task)
        if (hold is not self.held or self.urged) and task.state in (T.ACTIVE, T.PAUSED):
            self.held, self.urged = hold, False
            many = task.at_once and task.counts.running + task.counts.running_system > STOPS_MAX
            relay = "" if task.counts.wait_task or many else None
            self.header = task._replace(wish=task.wish + 1, relay=relay)

    def _end(self, fact: e.Fact) -> None:
        self._log(fact)
        self._move_task(fact)
        self.header = self.task._replace(seq=self.seq)

    def change(self, stops: tuple[tuple[str, str], ...] = ()) -> Change:
        """`stops`: running steps that are to be asked to stop, which is no fact."""
        moved = {key: row for key, row in self.rows.items() if row is not self.before.get(key)}
        closed, waits_closed, waits_opened = [], [], []
        mutexes = MutexMoves()
        for key, row in moved.items():
            old = self.before.get(key)
            if (
                old is not None
                and old.state is S.RUNNING
                and (row.state is not S.RUNNING or row.attempt != old.attempt)
            ):
                closed.append(key)
            was = old is not None and old.state is S.WAITING and old.question is not None and "name" in old.question
            if was and row is not old:
                waits_closed.append(key)
            if row.state is S.WAITING and row.question is not None and "name" in row.question:
                waits_opened.append(WaitRow(key, row.ask, row.question["name"]))
            if row.mutex is not None or (old is not None and old.mutex is not None):
                mutexes.look(old, row)
        return Change(
            task=self.task,
            steps=moved,
            facts=tuple(self.facts),
            created=self.created,
            added=frozenset(self.added),
            edges=tuple(self.edges),
            specs=tuple(self.specs),
            leases_opened=tuple(x for x in self.leases if self.rows[x.step].state is S.RUNNING),
            leases_closed=tuple(closed),
            stops=stops,
            waits_opened=tuple(waits_opened),
            waits_closed=tuple(waits_closed),
            mutex_taken=mutexes.taken,
            mutexes_freed=tuple(mutexes.freed),
            tickets_opened=tuple(mutexes.opened),
            tickets_called=tuple(mutexes.called),
            tickets_closed=tuple(mutexes.closed),
            artifacts=tuple(self.artifacts),
            errands=tuple(
                family.errands(
                    self.header_before,
                    self.task,
                    ((self.before.get(key), row) for key, row in moved.items()),
                    self.facts,
                )
            ),
        )


def _stage_spent(task: Task, stage: int, usage: e.UsageRecorded) -> tuple[tuple[int, int], ...]:
    spent = list(task.stage_spent or ((0, 0),) * len(task.options.stage_limits))
    tokens, micros = spent[stage - 1]
    spent[stage - 1] = tokens + usage.tokens_in + usage.tokens_out, micros + (usage.micros or 0)
    return tuple(spent)


_KEEPS_STATE = frozenset({e.UsageRecorded, e.BudgetRaised, e.BudgetNear, e.LimitNear, e.BudgetExceeded})
_TASK_FACTS = _KEEPS_STATE | {fact for table in TASK.values() for fact in table}
