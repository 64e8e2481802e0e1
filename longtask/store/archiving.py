"""The part on archives of the contract (`archives.Archives`), in SQL."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from longtask.core.codec import dump_fact, dump_json
from longtask.core.events import Event, TaskSubmitted
from longtask.store.archives import Brought, RunCall, Written
from longtask.store.base import Params, SqlTx, artifact_row, below, load_object
from longtask.store.rows import Row
from longtask.store.upkeep import SqlUpkeep

SLICE_ROWS = 500
T = TypeVar("T")


class SqlArchives(SqlUpkeep):
    """`archives.Archives`.  What is brought belongs to a task that nobody sees yet, so no task is locked."""

    def calls_of_task(self, task_id: str, after: tuple[str, int, int], limit: int) -> list[RunCall]:
        key = dict(zip(("step", "run", "n"), after, strict=True))
        rows = self.select("calls_of_task", {"task_id": task_id, **key, "limit": below(limit)})
        return [RunCall._make([*row[:7], load_object(row[7]), *row[8:]]) for row in rows]

    def output_of_task(self, task_id: str, after: tuple[str, int, int], limit: int) -> list[Written]:
        key = dict(zip(("step", "attempt", "n"), after, strict=True))
        return [Written(*row) for row in self.output_rows({"task_id": task_id, **key, "limit": below(limit)})]

    def bring(self, brought: Brought) -> int:
        with self._batch():
            tx = SqlTx(self, brought.change.task.id, None, created=True)
            tx.save(brought.change)
            tx.write()
            n = tx.task_n
            for events in _slices(brought.events):
                self.bring_events(n, [_event_row(event, n) for event in events])
            for artifacts in _slices(brought.artifacts):
                rows = [[*artifact_row(a.step, a.attempt, a.content), at] for a, at in artifacts]
                self.run("bring_artifacts", {"task_n": n, "rows": dump_json(rows)})
            for signal in brought.signals:
                self.run("insert_signal", {
                    "task_n": n, "number": signal.number, "delivery": signal.delivery, "name": signal.name,
                    "sender": signal.sender, "at": signal.at, "heard": None, "payload": dump_json(signal.payload),
                })  # fmt: skip
            for calls in _slices(brought.calls):
                self.run("bring_calls", {"task_n": n, "rows": dump_json([_call_row(call) for call in calls])})
            if brought.plan is not None:
                self.run("put_plan", {"task_id": brought.change.task.id, "body": brought.plan})
        return n

    def bring_events(self, task_n: int, rows: Sequence[Sequence[Any]]) -> None:
        """Within the transaction of `bring`."""
        self.run("bring_events", {"task_n": task_n, "rows": dump_json(rows)})

    @abstractmethod
    def output_rows(self, params: Params) -> list[Row]:
        """Of statement `output_of_task`, from where output lies."""

    @abstractmethod
    def bring_output(self, task_id: str, written: Sequence[Written]) -> None: ...


def _event_row(event: Event, task_n: int) -> list[Any]:
    fact = event.fact
    if isinstance(fact, TaskSubmitted):
        fact = replace(fact, number=task_n)
    kind, v, body = dump_fact(fact)
    return [event.seq, event.at, kind, v, event.actor, event.op, body]


def _call_row(call: RunCall) -> list[Any]:
    return [*call[:7], None if call.body is None else dump_json(call.body), *call[8:]]


def _slices(rows: Iterable[T]) -> Iterator[list[T]]:
    left = iter(rows)
    while some := list(islice(left, SLICE_ROWS)):
        yield some
