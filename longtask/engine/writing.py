"""One task's transaction: decisions see the rows as the facts before them left them; all is saved once, at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from longtask.core import decide
from longtask.core.decide import Move
from longtask.core.events import Fact, StepsAdded
from longtask.core.machine import Draft
from longtask.core.model import Kind, MutexView, Step, StepSpec, StepState, Task
from longtask.core.policy import BATCH_MAX, STOPS_MAX
from longtask.store.contract import Store, Tx


class Writing:
    """Rows and header as they are becoming.  Reads go to the store only for rows that were not read before."""

    def __init__(self, tx: Tx) -> None:
        self.tx = tx
        self.now = tx.now
        self._read: dict[str, Step] = {}
        self._draft = Draft(tx.task, self._read, tx.now)
        self._stops: tuple[tuple[str, str], ...] = ()
        self._marked = False

    @property
    def task(self) -> Task:
        return self._draft.task

    @property
    def changed(self) -> list[Step]:
        """The rows that this transaction has moved so far."""
        return list(self._draft.rows.values())

    def step(self, key: str) -> Step:
        """Raises NotFound."""
        row = self._draft.rows.get(key) or self._read.get(key)
        if row is None:
            row = self._read[key] = self.tx.step(key)
        return row

    def see(self, rows: Iterable[Step]) -> list[Step]:
        """Rows that came from a list; those that have moved in this transaction as they are now."""
        return [self._draft.rows.get(row.key) or self._read.setdefault(row.key, row) for row in rows]

    def joined(self, key: str) -> bool:
        """This transaction has added a step that needs this one."""
        return any(edge.need == key for edge in self._draft.edges)

    def spec(self, step: Step) -> StepSpec:
        new = dict(self._draft.specs)  # what this transaction itself adds: a few, if any
        return new[step.spec] if step.spec in new else self.tx.spec(step.spec)

    def mutex(self, step: Step, name: str) -> MutexView:
        """As the step finds it: one that this transaction frees is held by nobody."""
        view = self.tx.mutex(name, step.key)
        return replace(view, holder=None) if self.frees(name) else view

    def frees(self, name: str) -> bool:
        """An attempt that held the mutex is over by what was added so far."""
        held = [old for old in self._read.values() if old.mutex == name and old.state is StepState.RUNNING]
        return any(self.step(old.key).state is not StepState.RUNNING for old in held)

    def add(self, facts: Iterable[Fact], told: Mapping[str, Step] | None = None) -> None:
        """Folds facts on top of what is there, and reads the steps that they name."""
        facts = tuple(facts)
        if not facts and not told:
            return
        for fact in facts:
            if isinstance(fact, StepsAdded):
                new = {row.key for row in fact.steps}
                for edge in fact.edges:
                    if edge.step not in new:
                        self.step(edge.step)
            elif hasattr(fact, "step"):
                self.step(fact.step)
        self._draft.add(facts, told)

    def mark(self, **marks: Any) -> None:
        """Bookkeeping of the header between tasks, which is no fact."""
        self._draft.mark(**marks)
        self._marked = True

    def move(self, move: Move) -> None:
        self.add(move.facts, move.told)
        self._stops += move.stops

    def ask_to_stop(self, keys: Iterable[str], why: str) -> None:
        """Of the running steps, those that nobody has asked to cancel: a weaker request never takes its place."""
        leases = ((key, self.tx.lease(key)) for key in keys)
        wanted = [key for key, lease in leases if lease is not None and lease.stop != decide.STOP_CANCEL]
        self.move(Move(stops=tuple((key, why) for key in wanted)))

    def stop_running(self) -> bool:
        """The task is paused at once: a batch of what nobody has asked yet.  False: that was the last."""
        unasked = self.tx.unasked(STOPS_MAX)
        self.move(Move(stops=tuple((key, decide.STOP_PAUSE) for key in unasked)))
        return len(unasked) == STOPS_MAX

    def stop_agents(self) -> None:
        """The task's budget is spent.  Of those that are too many for one lock, each hears it at its next turn."""
        running = self.tx.running(BATCH_MAX)
        self.ask_to_stop([step.key for step in running if step.kind is Kind.AGENT], decide.STOP_BUDGET)

    @property
    def moved(self) -> int:
        """How much this transaction is going to write: facts, and rows with new bookkeeping."""
        return len(self._draft.facts) + len(self._draft.rows) + len(self._stops) + self._marked

    def save(self, actor: str, op: str | None) -> None:
        if self.moved:
            self.tx.save(self._draft.change(self._stops), actor=actor, op=op)


@contextmanager
def write(
    store: Store, task_id: str, key: str | None = None, *, telling: int = 0, actor: str = "", op: str | None = None
) -> Iterator[Writing]:
    """Locks the task; saves what was added when the block ends, nothing if it is left by an exception."""
    with store.task(task_id, key, telling) as tx:
        writing = Writing(tx)
        yield writing
        writing.save(actor, op)
