"""A task played in memory: rows in a dict, decisions and folds of `core`, an oracle that looks after every transaction.

`Play` is what the engine and a store do together, without either: each method is one transaction.  Code is a set of
commits, each with its ancestors.  `chance.Player` makes random moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from longtask.core import decide, events, hands, settle
from longtask.core.change import Change, WaitRow
from longtask.core.events import Event, Fact
from longtask.core.graph import Graph, Planned, build
from longtask.core.grow import Around, Growth, entered, grow, known_to, named
from longtask.core.machine import fold, status, untold
from longtask.core.model import (
    Done,
    Edge,
    Expanded,
    Failed,
    Kind,
    Lease,
    Outcome,
    Role,
    Signal,
    Step,
    StepSpec,
    StepState,
    Stopped,
    Task,
    TaskOptions,
    TaskState,
    Verdict,
    WhenFailed,
)
from longtask.core.oracle import Violation, audit
from longtask.core.settle import Condition, ConditionNeeded, Item

S = StepState
START = 1_000_000


class Wrong(AssertionError):
    """The oracle has found something; the journal is shown up to there."""


def planned(key: str, stage: int = 1, needs: Sequence[str] | None = None, **more: Any) -> Planned:
    kind, spec = more.pop("kind", Kind.RUN), more.pop("spec", 0)
    return Planned(key, kind, stage, spec, None if needs is None else tuple(needs), **more)


def _short(value: Any) -> str:
    """A fact, a row or a spec without its defaults."""
    if is_dataclass(value) and not isinstance(value, type):
        given = [(f.name, getattr(value, f.name)) for f in fields(value)]
        defaults = {f.name: f.default for f in fields(value)}
        shown = [f"{name}={_short(v)}" for name, v in given if v != defaults[name] and v != {}]
        return f"{type(value).__name__}({', '.join(shown)})"
    if isinstance(value, Edge):
        return f"{value.need}→{value.step}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_short, value))}]"
    return str(value)


class Play:
    """One task.  `ifs`: the value of each condition, an exception's text as a str."""

    def __init__(
        self,
        plan: Sequence[Planned],
        *,
        stages: int = 1,
        specs: Sequence[StepSpec] = (StepSpec(Kind.RUN),),
        ifs: Mapping[str, bool | str] | None = None,
        parallel: int = 100,
        batch: int = 500,
        submit_batch: int = 500,
        submit_only: int | None = None,
        base: str | None = "c0",
        **options: Any,
    ) -> None:
        self.now = START
        self.checked = True
        self.rows: dict[str, Step] = {}
        self.edges: list[Edge] = []
        self.specs: dict[int, StepSpec] = {}
        self.events: list[Event] = []
        self.leases: dict[str, Lease] = {}
        self.waits: dict[str, WaitRow] = {}
        self.signals: list[Signal] = []
        self.ifs = dict(ifs or {})
        self.batch = batch
        self.ancestors: dict[str, frozenset[str]] = {} if base is None else {base: frozenset({base})}
        self.header: Task | None = None
        graph = Graph("played", TaskOptions(stages=tuple(f"s{k}" for k in range(1, stages + 1)), **options),
                      tuple(specs), tuple(plan), parallel)  # fmt: skip
        self._submit(graph, base, submit_batch, submit_only)

    # --- the store ------------------------------------------------------------------------------------------------

    @property
    def task(self) -> Task:
        assert self.header is not None
        return self.header

    def _save(self, facts: Iterable[Fact], told: Mapping[str, Step] | None = None) -> Change:
        change = fold(self.header, self.rows, tuple(facts), self.now, told)
        self.header = change.task
        self.rows.update(change.steps)
        self.edges += change.edges
        self.specs |= dict(change.specs)
        for key in change.leases_closed:
            del self.leases[key]
        self.leases |= {lease.step: lease for lease in change.leases_opened}
        for key in change.waits_closed:
            del self.waits[key]
        self.waits |= {wait.step: wait for wait in change.waits_opened}
        self.events += [Event(change.task.id, seq, self.now, fact) for seq, fact in change.facts]
        return change

    def _move(self, move: decide.Move) -> None:
        self._save(move.facts, move.told)
        for key, why in move.stops:
            self.leases[key] = replace(self.leases[key], stop=why)

    def contains(self, ancestor: str, commit: str) -> bool:
        return ancestor in self.ancestors[commit]

    def violations(self) -> list[Violation]:
        return audit(
            self.task,
            self.rows,
            self.edges,
            self.events,
            list(self.leases.values()),
            self.signals,
            self.specs,
            waits=list(self.waits.values()),
            now=self.now,
            contains=self.contains,
        )

    def check(self) -> None:
        """Unless `checked` is off, for long plays: the oracle reads the whole task each time."""
        if not self.checked:
            return
        found = self.violations()
        if found:
            raise Wrong("\n".join([*map(str, found), "", *self.story()]))

    def story(self) -> list[str]:
        return [f"{event.seq:3} {event.at - START:6} {_short(event.fact)}" for event in self.events]

    # --- submitting -----------------------------------------------------------------------------------------------

    def _submit(self, graph: Graph, base: str | None, size: int, only: int | None) -> None:
        """`only`: the submitter dies after so many batches, and the task goes on loading."""
        rows, edges = build(graph)
        batches = [rows[i : i + size] for i in range(0, len(rows), size)]
        for n, batch in enumerate(batches[:only]):
            keys = {row.key for row in batch}
            mine = tuple(edge for edge in edges if edge.step in keys)
            if n == 0:
                submitted = events.TaskSubmitted(
                    "t1",
                    graph.name,
                    graph.options,
                    base=base,
                    parallel=graph.parallel,
                    specs=graph.specs,
                    steps=tuple(batch),
                    edges=mine,
                    more=True,
                )
                self._save([submitted])
            else:
                self._save([events.StepsAdded(tuple(batch), mine, more=True)])
            self.check()
        if only is not None:
            return
        free = [row for row in self.rows.values() if row.state is S.BLOCKED and not row.blockers]
        conditions = {key: self._condition(key) for key in self.ifs}
        facts = [fact for row in free for fact in settle.react(self.task, row, None, self.now, conditions)]
        self._save([*facts, events.StepsAdded((), more=False)])
        self.check()

    # --- work -----------------------------------------------------------------------------------------------------

    def state(self, key: str) -> str:
        return str(self.rows[key].state)

    def claim(self, key: str, worker: str = "w1") -> Step:
        row = self.rows[key]
        self.now = max(self.now, row.due_at)
        self._save([decide.claim(self.task, row, self.specs[row.spec], worker, self.now)])
        self.check()
        return self.rows[key]

    def finish(self, key: str, outcome: Outcome = Done(), attempt: int | None = None) -> None:  # noqa: B008
        row = self.rows[key]
        spec = self.specs[row.spec]
        signal, owned, left = None, None, list[int]()
        question = getattr(outcome, "question", None)
        if question is not None:
            fit = [s for s in self.signals if s.number > row.seen and decide.fits(question, s)]
            signal = min(fit, key=lambda s: s.number, default=None)
        if isinstance(outcome, Failed):
            number = spec.revise if outcome.revise else spec.fix
            owned = None if number is None else self.specs[number]
        if isinstance(outcome, Expanded):
            assert spec.item is not None
            owned = self.specs[spec.item]
            left = self._left(row, 0, outcome.items)
        stop = self.leases[key].stop if key in self.leases else None
        self._save(decide.finish(self.task, row, spec, row.attempt if attempt is None else attempt, outcome, self.now,
                                 stop=stop, signal=signal, owned=owned, left=left))  # fmt: skip
        self.check()

    def run(self, key: str, outcome: Outcome = Done()) -> None:  # noqa: B008
        self.claim(key)
        self.finish(key, outcome)

    def commit(self, key: str) -> Done:
        """Done with a new commit on the attempt's base; of a conflict step, one that contains both sides."""
        row = self.rows[key]
        assert row.base is not None
        new = f"c{len(self.ancestors)}"
        owner = self.rows[row.owner] if row.owner is not None else None
        other = owner.commit if owner is not None and row.role is Role.CONFLICT else None
        both = self.ancestors[row.base] | (self.ancestors[other] if other else frozenset())
        self.ancestors[new] = both | {new}
        return Done(commit=new)

    def expire(self, key: str, after_ms: int = 0) -> None:
        lease = self.leases[key]
        self.now = max(self.now, lease.due_at + after_ms)
        row = self.rows[key]
        spec = self.specs[row.spec]
        fix = self.specs[spec.fix] if spec.fix is not None else None
        self._save(decide.expire(self.task, row, spec, lease, self.now, fix))
        self.check()

    def beat(self, key: str) -> None:
        lease = self.leases[key]
        due_at = self.now + 15_000
        due_at = due_at if lease.timeout_at is None else min(due_at, lease.timeout_at)
        self.leases[key] = replace(lease, due_at=due_at)

    def merge(self, key: str, conflict: bool = False, head: str | None = None) -> None:
        """`head`: the one that the merge was made against, if not the newest."""
        row = self.rows[key]
        head = head or self.task.head
        assert head is not None and row.commit is not None
        spec = self.specs[row.spec]
        if conflict and not self.contains(row.commit, head):
            owned = self.specs[spec.conflict] if spec.conflict is not None else None
            facts = decide.conflicted(self.task, row, spec, owned, row.commit, head, ["a.py"])
        elif self.contains(row.commit, head):
            facts = decide.merged(self.task, row, row.commit, head, head)
        else:
            new = f"c{len(self.ancestors)}"
            self.ancestors[new] = self.ancestors[head] | self.ancestors[row.commit] | {new}
            facts = decide.merged(self.task, row, row.commit, head, new)
        self._save(facts)
        self.check()

    # --- telling --------------------------------------------------------------------------------------------------

    def _condition(self, key: str) -> Condition:
        value = self.ifs[key]
        return Condition(False, value) if isinstance(value, str) else Condition(value)

    def settle(self, key: str) -> None:
        """One pass of one step."""
        row = self.rows[key]
        assert untold(row)
        dependents = sorted(edge.step for edge in self.edges if edge.need == key and edge.step > row.cursor)
        more = len(dependents) > self.batch
        owned = [s for s in self.rows.values() if s.owner == key and s.open and not row.open]
        conditions: dict[str, Condition] = {}
        for _ in range(3):
            try:
                move = settle.settle(self.task, row, [self.rows[k] for k in dependents[: self.batch]], more, self.now,
                                     conditions=conditions, owned_open=owned, item=self._next_item)  # fmt: skip
                break
            except ConditionNeeded as needed:
                conditions = {k: self._condition(k) for k in needed.keys}
        self._move(move)
        self.check()

    def settle_all(self, limit: int = 10_000) -> None:
        """Until nobody has anything to tell; the order is that of the keys."""
        for _ in range(limit):
            if self.task.state is TaskState.CLOSING or self.task.ended:
                return
            key = next((key for key, row in sorted(self.rows.items()) if untold(row)), None)
            if key is None:
                return
            self.settle(key)
        raise AssertionError("telling does not end")

    def _left(self, owner: Step, start: int, items: int) -> list[int]:
        done = {s.item for s in self.rows.values()
                if s.owner == owner.key and s.role is Role.ITEM and s.state is S.COMPLETED}  # fmt: skip
        return [i for i in range(start, items) if i not in done]

    def _next_item(self, owner: Step) -> Item:
        spec = self.specs[owner.spec]
        assert spec.item is not None
        index = owner.items_next
        if owner.expansion > 1:
            index = next(iter(self._left(owner, index, owner.items)), owner.items)
        return Item(spec, self.specs[spec.item], index)

    # --- people ---------------------------------------------------------------------------------------------------

    def add(
        self, *plan: Planned, before: str | None = None, stage: str | None = None, specs: Sequence[StepSpec] = (),
        by: str | None = "ann", also: Sequence[Fact] = (),
    ) -> None:  # fmt: skip
        """Steps are added; without `specs` they do what the first of all does.  `also`: facts before them, of the same
        transaction."""
        growth = Growth(plan, tuple(specs) or (self.specs[0],), before, stage)
        change = fold(self.header, self.rows, tuple(also), self.now) if also else None
        task, rows = (change.task, {**self.rows, **change.steps}) if change else (self.task, self.rows)
        number = entered(task, growth, rows.get(before) if before else None)
        needed = [edge.need for edge in self.edges if edge.step == before]
        known = {key: rows[key] for key in [*named(growth, number), *needed] if key in rows}
        direct = [key for key in needed if rows[key].owner != before]
        facts = grow(task, growth, Around(known, direct, len(self.specs)), by)
        grown = fold(self.header, self.rows, (*also, *facts), self.now)
        added = facts[-1]
        assert isinstance(added, events.StepsAdded)
        told = {key: known_to(rows[need], key) for need, key in added.edges if need in rows}
        reacts: list[Fact] = []
        for new in added.steps:
            because = next((need for need, key in added.edges if key == new.key and told.get(key) not in
                            (None, Verdict.NONE, Verdict.OK)), None)  # fmt: skip
            conditions = {new.key: self._condition(new.key)} if new.key in self.ifs else {}
            reacts += settle.react(grown.task, grown.steps[new.key], because, self.now, conditions)
        self._save((*also, *facts, *reacts))
        self.check()

    def edit(self, key: str, spec: StepSpec) -> None:
        number = len(self.specs)
        self._save(hands.edit(self.task, self.rows[key], number, "ann", [spec], number))
        self.check()

    def take(self, key: str, lease_ms: int = 3_600_000) -> None:
        row = self.rows[key]
        spec = self.specs[row.spec]
        facts = hands.take(self.task, row, spec, "ann", self.now, lease_ms, owned_open=self._owned_open(key))
        self._save(facts)
        if row.state in (S.FAILED, S.CANCELLED):
            conditions = {key: self._condition(key)} if key in self.ifs else {}
            self._save(settle.react(self.task, self.rows[key], None, self.now, conditions))
            if self.rows[key].state is S.READY:
                self._save(hands.take(self.task, self.rows[key], spec, "ann", self.now, lease_ms))
        self.check()

    def give_back(self, key: str) -> None:
        self._save(hands.give_back(self.task, self.rows[key], "ann", self.now))
        self.check()

    def cancel_step(self, key: str) -> None:
        self._move(decide.cancel_step(self.task, self.rows[key], "ann"))
        self.check()

    def _owned_open(self, key: str) -> int:
        return sum(s.owner == key and s.open for s in self.rows.values())

    def retry(self, key: str) -> None:
        self._save(decide.retry(self.task, self.rows[key], "ann", self._owned_open(key)))
        conditions = {key: self._condition(key)} if key in self.ifs else {}
        self._save(settle.react(self.task, self.rows[key], None, self.now, conditions))
        self.check()

    def waive(self, key: str) -> None:
        self._save(decide.waive(self.task, self.rows[key], "ann", self._owned_open(key)))
        self.check()

    def retire(self, key: str) -> None:
        self._save(decide.retire(self.task, self.rows[key], "ann"))
        self.check()

    def answer(self, key: str, word: str, **more: Any) -> None:
        self._save(decide.answer(self.task, self.rows[key], word=word, by="ann", now=self.now, **more))
        self.check()

    def signal(self, name: str, payload: Mapping[str, Any] | None = None, delivery: str | None = None) -> Signal:
        delivery = delivery or f"d{len(self.signals)}"
        known = next((s for s in self.signals if s.delivery == delivery), None)
        signal = known or Signal(len(self.signals) + 1, delivery, name, payload or {}, at=self.now)
        if known is None:
            self.signals.append(signal)
        self._save([fact for row in sorted(self.rows.values()) for fact in decide.woken_by(row, signal, self.now)])
        self.check()
        return signal

    def overdue(self, key: str) -> None:
        self.now = max(self.now, self.rows[key].due_at)
        self._save(decide.overdue(self.task, self.rows[key], self.now))
        self.check()

    def pause(self) -> None:
        self._save(decide.pause(self.task, "ann"))
        self.check()

    def resume(self) -> None:
        self._save(decide.resume(self.task, "ann"))
        self.check()

    def cancel(self) -> None:
        self._save(decide.cancel_task(self.task, "ann"))
        self.check()

    def sweep(self, limit: int | None = None) -> None:
        asked = {key for key, lease in self.leases.items() if lease.stop == decide.STOP_CANCEL}
        rows = [row for key, row in sorted(self.rows.items()) if key not in asked and (row.open or untold(row))]
        self._move(decide.sweep(self.task, rows[: limit or self.batch]))
        self.check()

    # --- to the end -----------------------------------------------------------------------------------------------

    def ready(self) -> list[str]:
        return sorted(key for key, row in self.rows.items() if row.state is S.READY)

    def drain(self, outcomes: Mapping[str, Outcome] | None = None, rounds: int = 500) -> str:
        """Everything succeeds (or ends as `outcomes` says) until nothing moves any more; the task's status."""
        for _ in range(rounds):
            before = len(self.events), self.now
            self.settle_all()
            for key in sorted(self.rows):
                row = self.rows[key]
                if row.state is S.READY and self.task.admits == 2:
                    self.claim(key)
                elif row.state is S.RUNNING and self.leases[key].stop is not None:
                    self.finish(key, Stopped())
                elif row.state is S.RUNNING:
                    self._succeed(key, outcomes or {})
                elif row.state is S.MERGING:
                    self.merge(key)
            if (len(self.events), self.now) == before:
                break
        return status(self.task)

    def _succeed(self, key: str, outcomes: Mapping[str, Outcome]) -> None:
        row = self.rows[key]
        if key in outcomes:
            self.finish(key, outcomes[key])
        elif row.kind is Kind.FOR_EACH and not row.items:
            self.finish(key, Expanded(2, [1, 2]))
        else:
            self.finish(key, self.done(key))

    def done(self, key: str) -> Outcome:
        """What an attempt answers that goes well; collecting what did not go well does not go well."""
        row = self.rows[key]
        if row.kind is Kind.FOR_EACH and row.items_failed and row.when_failed is not WhenFailed.CONTINUE:
            return Failed(f"{row.items_failed} items failed", retryable=False)
        return self.commit(key) if self.specs[row.spec].commits else Done()
