"""What must hold, seen from outside: the oracle over all that the store keeps, and what no row says.

The onlooker hears of each act as it happens (an attempt begun, a call carried out, an answer taken) and reads each
event once; at an audit it compares the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from longtask.core import events as e
from longtask.core.change import WaitRow
from longtask.core.model import Edge, Kind, Signal, Step, StepSpec, StepState, WaitingFor
from longtask.core.oracle import audit
from longtask.engine.scope import ARTIFACT
from longtask.steps.contract import Assignment
from longtask.store.contract import Ref, Store
from tests.raw import rows

from .families import Families
from .faults import Found
from .repo import Repo
from .turns import Turns

PAGE = 1_000
Run = tuple[str, str, int]  # task, step, run
Try = tuple[str, str, int]  # task, step, attempt
REPORTS = (e.StepCompleted, e.StepFailed, e.StepRetried, e.StepParked, e.FixRequested, e.StepDelivered, e.StepExpanded,
           e.HelpAsked, e.StepReleased)  # fmt: skip


@dataclass(slots=True)
class Seen:
    """What the onlooker keeps of one task between audits."""

    events: list[e.Event] = field(default_factory=list)
    specs: dict[int, StepSpec] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    workers: dict[tuple[str, int], str] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)  # step -> attempt
    asks: Counter[str] = field(default_factory=Counter)
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    decided: dict[tuple[str, int], str] = field(default_factory=dict)
    completed: dict[str, int] = field(default_factory=dict)  # step -> the attempt that did
    consumed: dict[tuple[str, int], int] = field(default_factory=dict)  # (step, ask) -> the attempt that reported
    kinds: dict[str, Kind] = field(default_factory=dict)
    ops: set[str] = field(default_factory=set)
    print: Any = None  # of the rows at the last audit


class Onlooker:
    def __init__(
        self,
        repo: Repo,
        store: Callable[[], Any],  # a store of ours, with what it is in the middle of
        alive: Callable[[Try], bool],
        artifacts: Mapping[str, Any],
    ) -> None:
        self._repo = repo
        self._artifacts = artifacts
        self._store = store  # one that sees only what is durable
        self._alive = alive  # the process tree of an attempt lives
        self.suspects: set[str] = set()  # workers that were ever frozen or killed, or whose beat did not go through
        self.starts: dict[Try, Assignment] = {}
        self.calls: dict[Run, dict[int, Any]] = {}  # finished calls of a run: what the journal was told
        self.checkpoints: dict[Run, int] = {}
        self.signals: dict[tuple[str, str], tuple[str, Any]] = {}  # (task, delivery) that was acknowledged
        self.tried: dict[tuple[str, str], list[tuple[str, Any]]] = {}  # what was sent, acknowledged or not
        self.cancelled: dict[Try, int] = {}  # attempts that are to stop, and the number of the event before that
        self.answered: Counter[tuple[str, str, int]] = Counter()  # (task, step, ask) that was acknowledged
        self.seen: dict[str, Seen] = {}
        self.turns = Turns()
        self.families = Families()

    # --- as it happens --------------------------------------------------------------------------------------------

    def begun(self, a: Assignment) -> None:
        here = self._store().here
        if here.begun or here.block or here.group:
            raise Found("durable", f"step {a.step!r}: attempt {a.attempt} begins inside a transaction")
        row = self._store().get_step(Ref(a.task_id, a.step))
        if row.attempt < a.attempt:
            raise Found("durable", f"step {a.step!r}: attempt {a.attempt} begins, stored is attempt {row.attempt}")
        this = a.task_id, a.step, a.attempt
        if this in self.starts:
            raise Found("once", f"step {a.step!r}: attempt {a.attempt} is begun twice")
        self.starts[this] = a
        if "spawned" in a.scope and row.attempt == a.attempt and row.open:
            self._given(a, row)
        done = self.seen.get(a.task_id, Seen()).completed.get(a.step)
        if done is not None and a.attempt > done:
            raise Found("once", f"step {a.step!r} has completed with attempt {done}, and {a.attempt} begins")
        if row.attempt > a.attempt:
            return  # its worker was away for long, and what it knows is old: whatever it tries will be refused
        known = {r["n"]: r["body"] for r in a.journal if r["done"]}
        for n, body in self.calls.get((a.task_id, a.step, a.run), {}).items():
            if known.get(n) != body:
                raise Found("run journal", f"step {a.step!r} run {a.run}: call {n} was {body}, now {known.get(n)}")
        saved = self.checkpoints.get((a.task_id, a.step, a.run), 0)
        if saved and (a.checkpoint is None or a.checkpoint[0] < saved or a.checkpoint[1] != f"tree {a.checkpoint[0]}"):
            raise Found("checkpoint", f"step {a.step!r} run {a.run}: saved at {saved}, goes on from {a.checkpoint}")

    def _given(self, a: Assignment, row: Step) -> None:
        """What was spawned does what was given out to it, by the call that made it."""
        assert row.owner is not None
        (call,) = [c for c, made in self._spawned(a.task_id, row.owner).items() if any(a.step in keys for keys in made)]
        wanted = f"{row.owner} call {call[1]} task {row.item}"
        if a.scope["spawned"]["prompt"] != wanted:
            raise Found("spawn", f"step {a.step!r} is to do {a.scope['spawned']['prompt']!r}, given out was {wanted!r}")

    def carried_out(self, a: Assignment, n: int) -> None:
        self.holds(Ref(a.task_id, a.step), a.attempt)
        if n in self.calls.get((a.task_id, a.step, a.run), {}):
            raise Found("run journal", f"step {a.step!r} run {a.run}: finished call {n} is carried out again")

    def over_budget(self, task_id: str) -> list[str]:
        return self.families.over_budget(self._store(), task_id)

    def admitted(self, task_id: str, before: list[str]) -> None:
        if before:
            self.families.admitted(self._store(), task_id, before)

    def recorded(self, a: Assignment, n: int, body: Any) -> None:
        self.holds(Ref(a.task_id, a.step), a.attempt)
        self.calls.setdefault((a.task_id, a.step, a.run), {})[n] = body

    def saved(self, a: Assignment, n: int) -> None:
        self.holds(Ref(a.task_id, a.step), a.attempt)
        run = a.task_id, a.step, a.run
        self.checkpoints[run] = max(n, self.checkpoints.get(run, 0))

    def told(self, a: Assignment, n: int, result: Any) -> None:
        """A run hears how that has ended which it gave out with call `n`: of just these steps, as they have ended."""
        ref = Ref(a.task_id, a.step)
        rows = {row["n"]: row["body"] for row in map(dict, a.journal) if row["done"]}
        known = rows.get(n)
        if known is not None and known != result:
            raise Found("run journal", f"step {a.step!r} run {a.run}: call {n} was {known}, now {result}")
        if self._store().get_step(ref).attempt > a.attempt:
            return
        made = self._spawned(a.task_id, a.step).get((a.run, n), [])
        if len(made) != 1:
            raise Found("spawn", f"step {a.step!r} run {a.run}: call {n} is answered, given out {len(made)} times")
        ends = [{"step": key, "state": str(self._store().get_step(Ref(a.task_id, key)).state)} for key in made[0]]
        if result["ends"] != ends:
            raise Found("spawn", f"step {a.step!r} run {a.run}: call {n} is told {result['ends']}, there is {ends}")

    def _spawned(self, task_id: str, step: str) -> dict[tuple[int, int], list[list[str]]]:
        """By run and call: the steps of each expansion of it."""
        out: dict[tuple[int, int], list[list[str]]] = {}
        for event in _pages(lambda after: self._store().events(task_id, after, PAGE), lambda x: x.seq, 0):
            fact = event.fact
            if isinstance(fact, e.StepExpanded) and fact.step == step:
                call = int(fact.listing["bound"].partition(".")[0])
                again = f"~{fact.expansion}" if fact.expansion > 1 else ""
                made = [f"{step}[{index}]{again}" for index in range(fact.items)]
                out.setdefault((fact.listing["run"], call), []).append(made)
        return out

    def holds(self, ref: Ref, attempt: int) -> None:
        """An attempt has just been told that it may go on: it must hold the lease."""
        held = {lease.step: lease.attempt for lease in self._store().leases(ref.task_id, PAGE)}
        if held.get(ref.step) != attempt:
            raise Found(
                "lease", f"step {ref.step!r}: attempt {attempt} may go on, the lease is of {held.get(ref.step)}"
            )

    def followed(self, task_id: str, head: str | None) -> None:
        """The branch is about to follow to `head`, which must be in the journal by now."""
        kept = self._store().get_task(task_id).head
        if head is not None and (kept is None or not self._repo.contains(head, kept)):
            raise Found("branch", f"a branch moves to {head}, the journal's head is {kept}")

    def cancelling(self, task_id: str, step: Step) -> None:
        """A running step is asked to stop, and the caller knows: nothing else may come of that attempt."""
        seq = self._store().get_task(task_id).seq
        self.cancelled.setdefault((task_id, step.key, step.attempt), seq)

    def signalled(self, task_id: str, signal: Signal) -> None:
        kept = (signal.name, dict(signal.payload))
        first = self.signals.setdefault((task_id, signal.delivery), kept)
        if kept != first or kept not in self.tried[task_id, signal.delivery]:
            raise Found("signal", f"delivery {signal.delivery!r} was {first}, answered is {signal}")

    # --- now and then ---------------------------------------------------------------------------------------------

    def audit_families(self) -> None:
        self.families.audit(self._store())

    def audit_active(self, told_by: int) -> None:
        self.families.active(self._store(), told_by)

    def audit(self, task_id: str, now: int) -> None:
        """Raises Found."""
        store = self._store()
        seen = self.seen.setdefault(task_id, Seen())
        task = store.get_task(task_id)
        fresh = self._events(store, task_id, seen)
        steps = {row.key: row for row in _pages(lambda after: store.steps(task_id, after, PAGE), lambda r: r.key, "")}
        leases = store.leases(task_id, PAGE)
        signals = store.inbox(task_id, 0, PAGE)
        mutexes, tickets = store.mutexes(task_id, PAGE), store.tickets(task_id, PAGE)
        offers = store.offers(task_id, PAGE)
        self.turns.follow(store)
        state = (task, steps, leases, signals, mutexes, tickets, offers)
        if state == seen.print:
            return
        seen.print = state
        for event in fresh:
            self._event(task_id, seen, event)
        spent = sum(isinstance(event.fact, e.UsageRecorded) and event.fact.child is None for event in seen.events)
        finished = "select count(*) from run_journal where task_n = ? and done_at > 0 and micros > 0"
        calls = rows(store, finished, task.number)[0][0]
        if calls != spent:
            raise Found("usage", f"task {task.name!r}: {calls} calls are finished, usage of {spent} is recorded")
        found = audit(
            task,
            steps,
            seen.edges,
            seen.events,
            leases,
            signals,
            seen.specs,
            waits=self._waits(store, task.number),
            mutexes=mutexes,
            tickets=tickets,
            offers=offers,
            now=now,
            contains=self._repo.contains,
            unheard=self._unheard(store, task.number),
        )
        if found:
            raise Found(found[0].rule, "\n    ".join([f"task {task.name!r}: {found[0].text}", *map(str, found[1:6])]))
        for its, step, attempt in self.starts:
            if its == task_id and attempt > seen.completed.get(step, attempt):
                raise Found("once", f"step {step!r} has completed, and attempt {attempt} was begun after that")
        ref = self._repo.refs.get(task_id)
        if ref is not None and (task.head is None or not self._repo.contains(ref, task.head)):
            raise Found("branch", f"task {task.name!r}: its branch is at {ref}, ahead of its head {task.head}")
        self._inbox(task_id, signals)
        self._answers(task_id, seen)

    def _events(self, store: Store, task_id: str, seen: Seen) -> list[e.Event]:
        fresh = list(_pages(lambda after: store.events(task_id, after, PAGE), lambda x: x.seq, len(seen.events)))
        seen.events += fresh
        for event in fresh:
            first = getattr(event.fact, "first_spec", 0)
            seen.specs |= {first + i: spec for i, spec in enumerate(getattr(event.fact, "specs", ()))}
            if isinstance(event.fact, e.TaskSubmitted | e.StepsAdded):
                seen.edges += event.fact.edges
                seen.kinds |= {new.key: new.kind for new in event.fact.steps}
                brought = {new.key: new.brought for new in event.fact.steps if new.brought is not None}
                seen.completed |= {key: b.attempt for key, b in brought.items() if b.state is StepState.COMPLETED}
        return fresh

    def _waits(self, store: Store, number: int) -> list[WaitRow]:
        found = rows(store, "select step, ask, name from wait where task_n = ?", number)
        return [WaitRow(*row) for row in found]

    def _unheard(self, store: Store, number: int) -> list[int]:
        return [n for (n,) in rows(store, "select number from inbox where task_n = ? and heard is not null", number)]

    def _event(self, task_id: str, seen: Seen, event: e.Event) -> None:
        fact = event.fact
        if event.op is not None:
            if event.op in seen.ops:
                raise Found("once", f"operation {event.op!r} is carried out twice")
            seen.ops.add(event.op)
        match fact:
            case e.StepClaimed():
                seen.workers[fact.step, fact.attempt] = fact.worker
                seen.newest[fact.step] = fact.attempt
            case e.StepCompleted() | e.StepMerged():
                seen.completed[fact.step] = seen.newest[fact.step]
            case e.StepParked() if fact.waiting_for is WaitingFor.USER:
                seen.asks[fact.step] += 1
            case e.HelpAsked():
                seen.asks[fact.step] += 1
            case e.StepLost():
                worker = seen.workers[fact.step, fact.attempt]
                if worker not in self.suspects:
                    raise Found(
                        "lost", f"step {fact.step!r}: attempt {fact.attempt} is lost, its worker {worker} lives"
                    )
            case e.StepCancelled() if fact.by == "stop":
                attempt = seen.newest[fact.step]
                if self._alive((task_id, fact.step, attempt)):
                    raise Found("stop", f"step {fact.step!r} is cancelled, the tree of attempt {attempt} lives")
        self._answer_of(task_id, seen, fact)
        attempt = getattr(fact, "attempt", 0)
        if isinstance(fact, REPORTS) and attempt:
            self._report(task_id, seen, fact, fact.step, attempt, event.seq)

    def _answer_of(self, task_id: str, seen: Seen, fact: e.Fact) -> None:
        by_person = getattr(fact, "by", None) is not None and isinstance(
            fact, e.StepFailed | e.StepCompleted | e.MergeResumed
        )
        cause = fact.cause if isinstance(fact, e.StepWoken) else {}
        if not by_person and not cause.keys() & {"decision", "answer", "superseded"}:
            return
        assert not isinstance(fact, e.TaskPaused)
        step = fact.step  # type: ignore[union-attr]
        ask = seen.asks[step]
        seen.answers[step, ask] += 1
        if seen.answers[step, ask] > 1:
            raise Found("answer", f"step {step!r}: question {ask} is answered twice")
        if "decision" in cause:
            seen.decided[step, ask] = cause["decision"]

    def _report(self, task_id: str, seen: Seen, fact: e.Fact, step: str, attempt: int, seq: int) -> None:
        if getattr(fact, "by", None) is not None:
            return  # a person's answer is no report
        this = task_id, step, attempt
        if seq > self.cancelled.get(this, seq):
            raise Found("cancel", f"step {step!r}: {type(fact).__name__} of attempt {attempt}, which is to stop")
        if isinstance(fact, e.StepCompleted | e.StepDelivered) and self._alive(this):
            raise Found("report", f"step {step!r}: attempt {attempt} has completed, its tree lives")
        start = self.starts.get(this)
        cause = (start.cause if start is not None else None) or {}
        ask = cause["ask"] if "decision" in cause and not isinstance(fact, e.StepReleased) else None
        if ask is not None:
            before = seen.consumed.setdefault((step, ask), attempt)
            if before != attempt:
                raise Found("answer", f"step {step!r}: the answer to {ask} is used by attempts {before} and {attempt}")
        if isinstance(fact, e.StepCompleted) and seen.kinds[step] is Kind.APPROVAL:
            said = (fact.result or {}).get("decision")
            if ask is None or said != seen.decided[step, ask]:
                raise Found("answer", f"step {step!r} says {said!r} for question {ask}, {seen.decided} was answered")

    def _inbox(self, task_id: str, signals: list[Signal]) -> None:
        kept = {signal.delivery: signal for signal in signals}
        if [s.number for s in signals] != list(range(1, len(signals) + 1)) or len(kept) != len(signals):
            raise Found("signal", f"the inbox has {[(s.number, s.delivery) for s in signals]}")
        for (task, delivery), (name, payload) in self.signals.items():
            if task != task_id:
                continue
            there = kept.get(delivery)
            if there is None or (there.name, dict(there.payload)) != (name, payload):
                raise Found("signal", f"delivery {delivery!r} was taken as {name} {payload}, the inbox has {there}")

    def _answers(self, task_id: str, seen: Seen) -> None:
        for (task, step, ask), times in self.answered.items():
            if task == task_id and (times > 1 or seen.answers[step, ask] != 1):
                text = f"answer to {step!r} {ask} was taken {times} times, recorded {seen.answers[step, ask]} times"
                raise Found("answer", text)

    def ended(self, task_id: str) -> None:
        """After the end: the branch is the head, and lists are collected in order."""
        task = self._store().get_task(task_id)
        if task.head is not None and self._repo.refs.get(task_id, task.base) != task.head:
            raise Found("branch", f"task {task.name!r}: branch {self._repo.refs.get(task_id)}, head {task.head}")
        rows = self.seen[task_id].print[1]
        for row in rows.values():
            if row.kind is Kind.FOR_EACH and row.state is StepState.COMPLETED and row.items:
                self._collected(row, [item for item in rows.values() if item.owner == row.key])

    def _collected(self, row: Step, items: list[Step]) -> None:
        """The outputs of a for_each: those of its items in the list's order, null where one has failed."""
        done = {item.item: item.result for item in items if item.state is StepState.COMPLETED}
        wanted = [self._value(done.get(index)) for index in range(row.items)]
        if row.result is not None and self._value(row.result) != wanted:
            raise Found("items", f"step {row.key!r} has collected {row.result}, its items say {wanted}")

    def _value(self, stored: Any) -> Any:
        large = isinstance(stored, dict) and ARTIFACT in stored
        return self._artifacts[stored[ARTIFACT]] if large else stored


def _pages(look: Callable[[Any], list[Any]], mark: Callable[[Any], Any], after: Any) -> Any:
    while True:
        page = look(after)
        yield from page
        if len(page) < PAGE:
            return
        after = mark(page[-1])
