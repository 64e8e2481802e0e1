"""One task's transaction: decisions see the rows as the facts before them left them; all is saved once, at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from longtask.core import decide, machine
from longtask.core.change import Change, join
from longtask.core.decide import Move
from longtask.core.events import Fact, StepsAdded
from longtask.core.model import Step, StepSpec, Task
from longtask.store.contract import Store, Tx


class Writing:
    """Rows and header as they are becoming.  Reads go to the store only for rows that were not read before."""

    def __init__(self, tx: Tx) -> None:
        self.tx = tx
        self.now = tx.now
        self.change: Change | None = None
        self._rows: dict[str, Step] = {}

    @property
    def task(self) -> Task:
        return self.tx.task if self.change is None else self.change.task

    def step(self, key: str) -> Step:
        """Raises NotFound."""
        if key not in self._rows:
            self._rows[key] = self.tx.step(key)
        return self._rows[key]

    def see(self, rows: Iterable[Step]) -> list[Step]:
        """Rows that came from a list; those that have moved in this transaction as they are now."""
        return [self._rows.setdefault(row.key, row) for row in rows]

    def spec(self, step: Step) -> StepSpec:
        return self.tx.spec(step.spec)

    def add(self, facts: Iterable[Fact], told: Mapping[str, Step] | None = None) -> None:
        """Folds facts on top of what is there.  Every step that they name must have been read."""
        facts = tuple(facts)
        if not facts and not told:
            return
        for fact in facts:
            if isinstance(fact, StepsAdded):
                for edge in fact.edges:
                    if edge.step not in {new.key for new in fact.steps}:
                        self.step(edge.step)
            elif hasattr(fact, "step"):
                self.step(fact.step)
        change = machine.fold(self.task, self._rows, facts, self.now, told)
        self._rows.update(change.steps)
        self.change = change if self.change is None else join(self.change, change)

    def move(self, move: Move) -> None:
        self.add(move.facts, move.told)
        if move.stops:
            change = self.change or Change(self.task, {})
            self.change = replace(change, stops=change.stops + move.stops)

    def ask_to_stop(self, keys: Iterable[str], why: str) -> None:
        """Of the running steps, those that nobody has asked to cancel: a weaker request never takes its place."""
        leases = ((key, self.tx.lease(key)) for key in keys)
        wanted = [key for key, lease in leases if lease is not None and lease.stop != decide.STOP_CANCEL]
        self.move(Move(stops=tuple((key, why) for key in wanted)))

    @property
    def moved(self) -> int:
        """How much this transaction is going to write: facts, and rows with new bookkeeping."""
        return 0 if self.change is None else len(self.change.facts) + len(self.change.steps) + len(self.change.stops)


@contextmanager
def write(
    store: Store, task_id: str, key: str | None = None, *, actor: str = "", op: str | None = None
) -> Iterator[Writing]:
    """Locks the task; saves what was added when the block ends, nothing if it is left by an exception."""
    with store.task(task_id, key) as tx:
        writing = Writing(tx)
        yield writing
        if writing.change is not None:
            tx.save(writing.change, actor=actor, op=op)
