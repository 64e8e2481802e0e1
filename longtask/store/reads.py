"""Peeks, the writes of a running attempt, and reads: one statement each, outside any lock."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from longtask.core.change import MutexRow, OfferRow, TicketRow
from longtask.core.codec import dump_json, load_options
from longtask.core.errors import NotFound, Refused
from longtask.core.events import Event
from longtask.core.model import POOL_DEFAULT, Lease, Signal, Step, StepSpec, Task
from longtask.core.policy import CALL_MS
from longtask.store.access import SqlAccess
from longtask.store.archiving import SqlArchives
from longtask.store.base import SqlBlocks, below, load_object
from longtask.store.contract import (
    ArtifactEntry,
    Beat,
    Checkpoint,
    Chunk,
    ErrandRow,
    Found,
    JournalRow,
    Over,
    PoolLoad,
    Progress,
    Ref,
    WorkerRow,
)
from longtask.store.gauging import SqlGauges
from longtask.store.outbound import SqlOutbound
from longtask.store.rows import TASK_WIDTH, Row, pool_column, to_event, to_lease, to_signal, to_step, to_task

PREFIX_LENGTH_MIN = 8
NEWEST = 2**62


def _whole_task(row: Row) -> Task:
    return to_task(row, load_options(row[TASK_WIDTH]))


def _journal_row(row: Row) -> JournalRow:
    n, kind, name, fingerprint, attempt, body, *numbers = row
    return JournalRow(n, kind, name, fingerprint, attempt, load_object(body), *numbers)


class SqlPeeks(SqlBlocks):
    """What may be stale."""

    def look(self, limit: int) -> Found:
        return Found(*(getattr(self, name)(limit) for name in Found._fields))

    def claimable(self, pool: str, limit: int, workspaces: Sequence[str] | None = None) -> list[Ref]:
        name, params = self._claimable(pool, limit, workspaces)
        return self._refs(name, **params)

    def _claimable(self, pool: str, limit: int, workspaces: Sequence[str] | None) -> tuple[str, dict[str, Any]]:
        params: dict[str, Any] = {"pool": pool_column(pool), "now": self.now(), "limit": below(limit)}
        if workspaces is None:
            return "claimable", params
        return "claimable_within", {**params, "workspaces": dump_json(list(workspaces))}

    def callable(self, limit: int) -> list[Ref]:
        return self._refs("callable", called_after=self.now() - CALL_MS, limit=below(limit))

    def unsettled(self, limit: int) -> list[Ref]:
        return self._refs("unsettled", limit=below(limit))

    def overdue(self, limit: int) -> list[Ref]:
        return self._refs("overdue", now=self.now(), limit=below(limit))

    def unheard(self, limit: int) -> list[str]:
        return [row[0] for row in self.select("unheard", {"limit": below(limit)}) if row[0] is not None]

    def mergeable(self, limit: int) -> list[Ref]:
        return self._refs("mergeable", now=self.now(), limit=below(limit))

    def _refs(self, name: str, **params: Any) -> list[Ref]:
        return [Ref(task_id, key) for task_id, key in self.select(name, params)]

    def expired(self, limit: int) -> list[Lease]:
        return [to_lease(row) for row in self.select("expired", {"now": self.now(), "limit": below(limit)})]

    def closing(self, limit: int) -> list[str]:
        return [row[0] for row in self.select("closing", {"limit": below(limit)})]

    def errands(self, limit: int) -> list[ErrandRow]:
        rows = self.select("errands", {"now": self.now(), "limit": below(limit)})
        return [ErrandRow(*row) for row in rows]

    def next_due_at(self) -> int | None:
        at: int | None = self.select("next_due_at", {"now": self.now(), "call_ms": CALL_MS})[0][0]
        return at


class SqlAttempts(SqlBlocks):
    """What a running attempt writes: each statement looks its lease up by itself."""

    def beat(self, ref: Ref, attempt: int, due_at: int) -> Beat | None:
        rows = self.single("beat", _of(ref, attempt) | {"due_at": due_at})
        return Beat(rows[0][0]) if rows else None

    def tell_progress(self, ref: Ref, attempt: int, done: int, total: int, text: str) -> bool:
        told = {"done": done, "total": total, "text": text, "at": self.now()}
        return bool(self.single("tell_progress", _of(ref, attempt) | told))

    def journal_started(self, ref: Ref, attempt: int, run: int, row: JournalRow) -> bool:
        return self._journal("journal_started", ref, attempt, run, row, {"at": row.started_at or self.now()})

    def journal_done(self, ref: Ref, attempt: int, run: int, row: JournalRow) -> bool:
        now = self.now()
        done = {
            "tokens_in": row.tokens_in,
            "tokens_out": row.tokens_out,
            "micros": row.micros,
            "started_at": row.started_at or now,
            "done_at": row.done_at or now,
            "body": dump_json(row.body),
        }
        return self._journal("journal_done", ref, attempt, run, row, done)

    def _journal(self, name: str, ref: Ref, attempt: int, run: int, row: JournalRow, more: dict[str, Any]) -> bool:
        key = _of(ref, attempt) | {"run": run, "n": row.n}
        if self.single(name, key | {"kind": row.kind, "name": row.name, "fingerprint": row.fingerprint} | more):
            return True
        if not self.select("holds", _of(ref, attempt)):
            return False
        there = self.select("journal_row", {"task_id": ref.task_id, "step": ref.step, "run": run, "n": row.n})
        if there and there[0][3] != row.fingerprint:
            raise Refused(
                f"step {ref.step!r}: call {row.n} of run {run} is on record as another request ({there[0][3]!r}, "
                f"now {row.fingerprint!r}); begin a new run"
            )
        return bool(there)  # it has ended before: the record stands

    def put_checkpoint(self, ref: Ref, checkpoint: Checkpoint) -> bool:
        saved = {
            "run": checkpoint.run,
            "position": checkpoint.position,
            "tree": checkpoint.tree,
            "at": checkpoint.at or self.now(),
        }
        return bool(self.single("put_checkpoint", _of(ref, checkpoint.attempt) | saved))


def _of(ref: Ref, attempt: int) -> dict[str, Any]:
    return {"task_id": ref.task_id, "step": ref.step, "attempt": attempt}


class SqlReads(SqlBlocks):
    """For those who look on."""

    def get_task(self, handle: str) -> Task:
        name, dash, number = handle.rpartition("-")
        if handle == "@last":
            rows = self.select("last_task", {})
        elif not (rows := self.select("task_by_id", {"id": handle})) and len(handle) >= PREFIX_LENGTH_MIN:
            rows = self.select("tasks_by_prefix", {"low": handle, "high": handle + "\U0010ffff"})
        if not rows and dash and number.isascii() and number.isdigit() and len(number) < 19:
            rows = [r for r in self.select("task_by_number", {"n": int(number)}) if r[2] == name]
        if len(rows) > 1:
            raise Refused(f"task {handle!r} fits {rows[0][1]!r} and {rows[1][1]!r}; give more characters")
        if not rows:
            raise NotFound("there is no task yet" if handle == "@last" else f"no task {handle!r}")
        return _whole_task(rows[0])

    def tasks(
        self, *, open_only: bool, workspace_id: str | None, before: int, limit: int, children: bool = True
    ) -> list[Task]:
        name = "tasks" + ("_of_workspace" if workspace_id is not None else "") + ("_open" if open_only else "")
        params: dict[str, Any] = {"before": before or NEWEST, "limit": below(limit), "children": int(children)}
        if workspace_id is not None:
            params["workspace_id"] = workspace_id
        return [_whole_task(row) for row in self.select(name, params)]

    def timed(self, before: int, limit: int) -> list[Task]:
        params = {"before": before or NEWEST, "limit": below(limit), "pattern": '%"active_max_ms":%'}
        return [_whole_task(row) for row in self.select("timed", params)]

    def task_by_key(self, idempotency_key: str) -> Task | None:
        rows = self.select("task_by_key", {"idempotency_key": idempotency_key})
        return _whole_task(rows[0]) if rows else None

    def _number(self, task_id: str) -> int:
        rows = self.select("number_of", {"task_id": task_id})
        if not rows:
            raise NotFound(f"no task {task_id!r}")
        n: int = rows[0][0]
        return n

    def get_step(self, ref: Ref) -> Step:
        rows = self.select("step", {"task_n": self._number(ref.task_id), "key": ref.step})
        if not rows:
            raise NotFound(f"task {ref.task_id!r} has no step {ref.step!r}")
        return to_step(rows[0])

    def spec(self, task_id: str, number: int) -> StepSpec:
        return self.spec_of(task_id, self._number(task_id), number)

    def steps(self, task_id: str, after: str, limit: int) -> list[Step]:
        params = {"task_id": task_id, "after": after, "limit": below(limit)}
        return [to_step(row) for row in self.select("steps_by_key", params)]

    def edges(self, task_id: str, after: tuple[str, str], limit: int) -> list[tuple[str, str]]:
        params = {"task_id": task_id, "need": after[0], "step": after[1], "limit": below(limit)}
        return [(need, step) for need, step in self.select("edges", params)]

    def needs(self, ref: Ref, limit: int) -> list[str]:
        params = {"task_id": ref.task_id, "step": ref.step, "limit": below(limit)}
        return [row[0] for row in self.select("needs", params)]

    def items(self, ref: Ref, after: int, limit: int) -> list[Step]:
        params = {"task_id": ref.task_id, "step": ref.step, "after": after, "limit": below(limit)}
        return [to_step(row) for row in self.select("items", params)]

    def items_passed(self, ref: Ref) -> int:
        return int(self.select("items_passed", {"task_id": ref.task_id, "step": ref.step})[0][0])

    def results(self, task_id: str, keys: Sequence[str]) -> dict[str, Step]:
        params = {"task_n": self._number(task_id), "keys": dump_json(list(keys))}
        return {step.key: step for step in map(to_step, self.select("steps", params))}

    def over(self, task_id: str) -> list[Over]:
        rows = self.select("over", {"task_id": task_id})
        return [Over(_whole_task(row), *map(int, row[TASK_WIDTH + 1 :])) for row in rows]

    def has_heard(self, task_id: str, delivery: str) -> bool:
        return bool(self.select("has_heard", {"task_id": task_id, "delivery": delivery}))

    def newest_children(self, task_id: str, limit: int) -> list[Task]:
        return [_whole_task(row) for row in self.select("newest_children", {"parent": task_id, "limit": below(limit)})]

    def errands_of(self, task_id: str, limit: int) -> list[ErrandRow]:
        rows = self.select("errands_of", {"task_id": task_id, "limit": below(limit)})
        return [ErrandRow(*row) for row in rows]

    def awaited(self, task_id: str, after: str, limit: int) -> list[tuple[str, str]]:
        params = {"task_id": task_id, "after": after, "limit": below(limit)}
        return [(step, child) for step, child in self.select("awaited", params)]

    def asking(self, *, task_id: str | None, limit: int) -> list[tuple[str, Step]]:
        if task_id is None:
            rows = self.select("asking", {"limit": below(limit)})
        else:
            rows = self.select("asking_of_task", {"task_id": task_id, "limit": below(limit)})
        return [(row[0], to_step(row[1:])) for row in rows]

    def mutex(self, name: str) -> MutexRow | None:
        rows = self.select("mutex", {"name": name})
        return MutexRow(*rows[0]) if rows else None

    def queue(self, name: str, limit: int) -> list[TicketRow]:
        return [TicketRow(*row) for row in self.select("queue", {"name": name, "limit": below(limit)})]

    def mutexes(self, task_id: str, limit: int) -> list[MutexRow]:
        return [MutexRow(*row) for row in self.select("mutexes", {"task_id": task_id, "limit": below(limit)})]

    def tickets(self, task_id: str, limit: int) -> list[TicketRow]:
        return [TicketRow(*row) for row in self.select("tickets", {"task_id": task_id, "limit": below(limit)})]

    def offers(self, task_id: str, limit: int) -> list[OfferRow]:
        rows = self.select("offers", {"task_id": task_id, "limit": below(limit)})
        return [OfferRow(pool or POOL_DEFAULT, *more) for pool, *more in rows]

    def leases(self, task_id: str, limit: int) -> list[Lease]:
        return [to_lease(row) for row in self.select("leases", {"task_id": task_id, "limit": below(limit)})]

    def leases_of_worker(self, worker: str, limit: int) -> list[Lease]:
        return [to_lease(row) for row in self.select("leases_of_worker", {"worker": worker, "limit": below(limit)})]

    def events(self, task_id: str, after: int, limit: int) -> list[Event]:
        rows = self.select("events", {"task_id": task_id, "after": after, "limit": below(limit)})
        if not rows:
            self._number(task_id)
        return [to_event(row) for row in rows]

    def feed(self, cursor: str, limit: int) -> tuple[list[Event], str]:
        told = self.tail(cursor, limit)
        return [event for event, _ in told], told[-1][1] if told else cursor

    def tail(self, cursor: str, limit: int) -> list[tuple[Event, str]]:
        rows = self.select("feed", {"cursor": int(cursor or 0), "limit": below(limit)})
        return [(event, str(event.pos)) for event in map(to_event, rows)]

    def feed_end(self) -> str:
        return str(self.select("feed_end", {})[0][0])

    def heads(self, task_ids: Sequence[str]) -> dict[str, int]:
        return {row[0]: row[1] for row in self.select("heads", {"ids": dump_json(list(task_ids))})}

    def progress_of(self, task_ids: Sequence[str], limit: int) -> list[tuple[str, Progress]]:
        rows = self.select("progress_of", {"ids": dump_json(list(task_ids)), "limit": below(limit)})
        return [(row[0], Progress(*row[1:])) for row in rows]

    def journal(self, ref: Ref, run: int) -> list[JournalRow]:
        return [_journal_row(row) for row in self.select("journal", {**_step(ref), "run": run})]

    def spent(self, ref: Ref, run: int) -> dict[str, int]:
        return self.spent_of(self._number(ref.task_id), ref.step, run, 0)

    def checkpoint(self, ref: Ref, run: int) -> Checkpoint | None:
        rows = self.select("checkpoint", {**_step(ref), "run": run})
        return Checkpoint(*rows[0]) if rows else None

    def progress(self, task_id: str, limit: int) -> list[Progress]:
        return [Progress(*row) for row in self.select("progress", {"task_id": task_id, "limit": below(limit)})]

    def inbox(self, task_id: str, after: int, limit: int) -> list[Signal]:
        params = {"task_id": task_id, "after": after, "limit": below(limit)}
        return [to_signal(row) for row in self.select("inbox", params)]

    def artifacts(self, task_id: str, limit: int, *, named: bool = False) -> list[ArtifactEntry]:
        name = "artifacts_named" if named else "artifacts"
        return [ArtifactEntry(*row) for row in self.select(name, {"task_id": task_id, "limit": below(limit)})]

    def get_plan(self, task_id: str) -> str | None:
        rows = self.select("get_plan", {"task_id": task_id})
        return rows[0][0] if rows else None

    def put_plan(self, task_id: str, text: str) -> None:
        if not self.single("put_plan", {"task_id": task_id, "body": text}):
            raise NotFound(f"no task {task_id!r}")

    # workers

    def worker_seen(self, worker: WorkerRow) -> None:
        self.single("worker_seen", {
            "id": worker.id, "host": worker.host, "pid": worker.pid, "pools": dump_json(worker.pools),
            "slots": worker.slots, "started_at": worker.started_at, "seen_at": worker.seen_at or self.now(),
            "body": dump_json({"version": worker.version}) if worker.version else None,
        })  # fmt: skip

    def worker_gone(self, worker_id: str) -> None:
        self.single("worker_gone", {"id": worker_id})

    def workers(self, limit: int) -> list[WorkerRow]:
        return [
            WorkerRow(id_, host, pid, tuple(json.loads(pools)), slots, started_at, seen_at, _version(body))
            for id_, host, pid, pools, slots, started_at, seen_at, body in self.select(
                "workers", {"limit": below(limit)}
            )
        ]

    def forget_workers(self, before: int, limit: int) -> int:
        return len(self.single("forget_workers", {"before": before, "limit": below(limit)}))

    def worker_loads(self, limit: int) -> dict[str, int]:
        return {row[0]: row[1] for row in self.select("worker_loads", {"limit": below(limit)})}

    def pool_loads(self, limit: int) -> list[PoolLoad]:
        rows = self.select("pool_loads", {"now": self.now(), "limit": below(limit)})
        return [PoolLoad(pool or POOL_DEFAULT, ready, due_at) for pool, ready, due_at in rows]

    def pool_named(self, pool: str) -> bool:
        return bool(self.select("pool_named", {"pool": pool_column(pool)}))


def _version(body: str | None) -> str:
    return str((load_object(body) or {}).get("version", ""))


def _step(ref: Ref) -> dict[str, Any]:
    return {"task_id": ref.task_id, "step": ref.step}


class SqlStore(SqlPeeks, SqlAttempts, SqlReads, SqlArchives, SqlAccess, SqlOutbound, SqlGauges):
    """`contract.Store`.  Output may lie elsewhere, so it is the dialect's."""

    @abstractmethod
    def put_output(self, ref: Ref, attempt: int, chunks: Sequence[Chunk]) -> bool: ...
    @abstractmethod
    def drop_output(self, ref: Ref, attempt: int, numbers: range) -> bool: ...
    @abstractmethod
    def output(self, ref: Ref, attempt: int, after: int, limit: int) -> list[Chunk]: ...
    @abstractmethod
    def verify(self) -> list[str]: ...
    @abstractmethod
    def close(self) -> None: ...
