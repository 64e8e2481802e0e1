"""A built graph becomes a task: the header with the first rows, further batches, and last what may begin at once.

A submission that broke off is continued by doing it again: each transaction looks at what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longtask.core import events
from longtask.core.events import NewStep, TaskSubmitted
from longtask.core.graph import Batch, Graph, batches, build
from longtask.core.machine import Draft
from longtask.core.model import Kind, TaskState
from longtask.core.policy import BATCH_MAX
from longtask.core.settle import react
from longtask.store.contract import Store

from .scope import Expressions, Scopes
from .settling import evaluate
from .writing import write

After = Callable[[Draft], None]  # what else its first transaction does


@dataclass(frozen=True, slots=True)
class Submission:
    """A graph in pieces.  `begins`: steps that begin on their `if` alone, and gates that need nothing at all: those of
    empty stages open when the one before is told, so it is the first stage's at most."""

    first: Batch
    others: tuple[Batch, ...]
    begins: tuple[NewStep, ...]

    @property
    def whole(self) -> bool:
        """It is there with its first batch."""
        return not self.others and not self.begins


def prepared(graph: Graph) -> Submission:
    """Raises BadPlan with every problem."""
    rows, edges = build(graph)
    first, *others = batches(rows, edges, graph.specs)
    begins = [row for row in rows if not row.blockers and (row.conditional or row.kind is Kind.GATE)]
    return Submission(first, tuple(others), tuple(begins))


class Submitting:
    def __init__(self, store: Store, scopes: Scopes, expressions: Expressions) -> None:
        self._store = store
        self._scopes = scopes
        self._expressions = expressions

    def create(self, submitted: TaskSubmitted, plan_text: str | None, by: str, after: After | None = None) -> None:
        """The first transaction.  Raises Refused: the task, or one with its idempotency key, is there already."""

        def act() -> None:
            with self._store.create(submitted.id) as tx:
                draft = Draft(None, {}, tx.now)
                draft.add([submitted])
                if after is not None:
                    after(draft)
                tx.save(draft.change(), actor=by)
            if plan_text is not None:
                self._store.put_plan(submitted.id, plan_text)

        self._store.together(act)

    def finish(self, task_id: str, submission: Submission, by: str) -> None:
        """All further ones; nothing if it is whole, was cancelled meanwhile, or is loaded by another call."""
        if not submission.whole and self.load(task_id, submission.others, by):
            self.begin(task_id, submission.begins, by)

    def load(self, task_id: str, others: Sequence[Batch], by: str) -> bool:
        """False: it was cancelled meanwhile, or is loaded by another call."""
        done = self._store.get_task(task_id).counts.steps
        for batch in others:
            if batch.first < done:
                continue
            with write(self._store, task_id, actor=by) as w:
                if not w.task.loading or w.task.state is TaskState.CLOSING:
                    return False
                if w.task.counts.steps == batch.first:
                    w.add([events.StepsAdded(batch.steps, batch.edges, batch.specs, batch.first_spec, by, more=True)])
        return True

    def begin(self, task_id: str, begins: Sequence[NewStep], by: str) -> None:
        """The last transaction ends the loading."""
        conditional = tuple(row.key for row in begins if row.conditional)
        conditions = evaluate(self._store, self._scopes, self._expressions, task_id, conditional) if conditional else {}
        keys = [row.key for row in begins]
        for start in range(0, max(len(keys), 1), BATCH_MAX):
            batch = keys[start : start + BATCH_MAX]
            with write(self._store, task_id, actor=by) as w:
                if not w.task.loading or w.task.state is TaskState.CLOSING:
                    return
                facts = [fact for key in batch for fact in react(w.task, w.step(key), None, w.now, conditions)]
                last = start + BATCH_MAX >= len(keys)
                w.add([*facts, events.StepsAdded((), by=by, more=not last)])
