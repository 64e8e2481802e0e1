"""The part on gauges of the contract (`gauges.Gauges`), in SQL."""

from __future__ import annotations

from longtask.core.model import POOL_DEFAULT
from longtask.store.base import SqlBlocks, below, load_object
from longtask.store.gauges import OpenCounts, Queue
from longtask.store.rows import Row
from longtask.telemetry.source import Call


class SqlGauges(SqlBlocks):
    """`gauges.Gauges`."""

    def open_counts(self, limit: int) -> OpenCounts:
        return OpenCounts(*(int(count or 0) for count in self.select("open_counts", {"limit": below(limit)})[0]))

    def queues(self, limit: int) -> list[Queue]:
        rows = self.select("queues", {"now": self.now(), "limit": below(limit)})
        return [Queue(pool or POOL_DEFAULT, tasks, due_at) for pool, tasks, due_at in rows]

    def calls(self, task_id: str, step: str, attempt: int, limit: int, *, bodies: bool = False) -> list[Call]:
        params = {"task_id": task_id, "step": step, "attempt": attempt, "bodies": int(bodies), "limit": below(limit)}
        return [_call(row) for row in self.select("calls", params)]


def _call(row: Row) -> Call:
    run, n, kind, name, tokens_in, tokens_out, micros, started_at, done_at, body = row
    return Call(run, n, kind, name, tokens_in, tokens_out, micros, started_at, done_at, load_object(body))
