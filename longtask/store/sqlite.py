"""SQLite: one connection a thread on a file in WAL mode, or one for all threads in memory.

One writer at a time; `begin immediate`, so that a block never reads what it can no longer write on.
Output lies in a file of its own (`x.output.db` beside `x.db`), so that it never waits for the main file's lock.
SQLite before 3.51.3 can corrupt a database in WAL mode (two connections resetting the log at once): refused.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import apsw

from longtask.core.codec import dump_json
from longtask.core.errors import LongTaskError, Refused, StoreBusy, StoreError
from longtask.store import place, schema
from longtask.store.archives import Written
from longtask.store.base import Here, Params, below
from longtask.store.contract import Chunk, Ref
from longtask.store.line import BUSY_MAX_MS, MEMORY, Line, Trace, turn_for
from longtask.store.queries import load
from longtask.store.reads import SqlStore
from longtask.store.rows import Row
from longtask.store.together import Member, Together

VERSION_MIN = (3, 51, 3)

T = TypeVar("T")


class _Own(threading.local):
    """What belongs to one thread."""

    line: Line | None = None
    output: Line | None = None
    here: Here | None = None
    queued: bool = False  # it is this thread's turn


class SqliteStore(SqlStore):
    """`contract.Store` on SQLite.

    `clock` answers ms since 1970 (above 0); `fault`: see base.py; `trace` is called with every statement and its
    parameters before it runs.
    """

    def __init__(
        self,
        path: str | Path,
        clock: Callable[[], int] | None = None,
        *,
        fault: Callable[[str], None] | None = None,
        trace: Trace | None = None,
        busy_max_ms: int = BUSY_MAX_MS,
    ) -> None:
        super().__init__(load("sqlite"), clock, fault)
        refuse_old(apsw.sqlite_lib_version())
        self.path = MEMORY if str(path) == MEMORY else os.path.abspath(path)
        self.output_path = os.path.splitext(self.path)[0] + ".output.db"
        self._busy_max_ms = busy_max_ms
        self._trace = trace
        self._own = _Own()
        self._lines: weakref.WeakSet[Line] = weakref.WeakSet()
        self._memory: Line | None = None
        self._alone: AbstractContextManager[Any] = nullcontext()
        self._memory_lock = threading.RLock()
        if self.path == MEMORY:
            self._alone = self._memory_lock
            self._memory = self._open(MEMORY, "sqlite")
            for migration in schema.migrations("sqlite_output"):
                self._memory.run(migration.sql)
        else:
            place.prepare(Path(self.path))
            self._turn = turn_for(self.path)
            self._together = Together(super().together, self._all_together)
            self._own.line = self._open(self.path, "sqlite")

    def _open(self, path: str, migrations: str | None = None, lax: bool = False) -> Line:
        line = Line(path, self._busy_max_ms, lax)
        if migrations is not None:
            line.migrate(migrations, self.now())
        if self._trace is not None:
            line.trace(self._trace)
        self._lines.add(line)
        return line

    @property
    def here(self) -> Here:
        own = self._own
        if own.here is None:
            own.here = Here()
        return own.here

    @property
    def _line(self) -> Line:
        if self._memory is not None:
            return self._memory
        own = self._own
        if own.line is None:
            own.line = self._open(self.path)
        return own.line

    @property
    def _output(self) -> Line:
        """Writes into its own file and looks leases up in the main one."""
        if self._memory is not None:
            return self._memory
        own = self._own
        if own.output is None:
            place.prepare(Path(self.output_path))
            line = self._open(self.output_path, "sqlite_output", lax=True)
            line.run("attach ? as tasks", (self.path,))
            own.output = line
        return own.output

    # statements

    def select(self, name: str, params: Params) -> list[Row]:
        with self._alone:
            return self._line.run(self.queries[name], params)

    def run(self, name: str, params: Params) -> list[Row]:
        return self._line.run(self.queries[name], params)

    def single(self, name: str, params: Params) -> list[Row]:
        here = self.here
        if here.begun:
            return self._single_in_group(here, name, params)
        self.fault("single")
        self._queue()
        try:
            rows = self._line.run(self.queries[name], params)
        finally:
            self._leave()
        self._line.copy_back()
        self.fault("single.committed")
        return rows

    def _single_in_group(self, here: Here, name: str, params: Params) -> list[Row]:
        try:
            return self._line.run(self.queries[name], params)
        except LongTaskError as error:
            here.lost = error
            self._undo(here)
            raise

    def _queue(self) -> None:
        if self._memory is not None:
            self._memory_lock.acquire()
        elif not self._turn.acquire(self._busy_max_ms / 1000):
            raise StoreBusy(f"database {self.path!r} is busy: another thread of this process holds it; try again")
        self._own.queued = True

    def _leave(self) -> None:
        if self._own.queued:
            self._own.queued = False
            if self._memory is not None:
                self._memory_lock.release()
            else:
                self._turn.release()

    def header(self, task_id: str, key: str, telling: int) -> tuple[int, list[Row], list[Row] | None]:
        """The file is locked, and so every task."""
        return self.now(), self.select("header", {"id": task_id, "key": key}), None

    def begin(self) -> None:
        self._queue()
        try:
            self._line.run("begin immediate")
        except BaseException:
            self._leave()
            raise

    def together(self, act: Callable[[], T]) -> T:
        return super().together(act) if self._memory is not None else self._together.run(act)

    def _all_together(self, members: Sequence[Member]) -> None:
        with self.group():
            self._lock(self.here)
            for member in members:
                try:
                    member.result = member.act()
                except Refused as error:  # it has written nothing
                    member.error = error

    def commit(self) -> None:
        line = self._line
        line.run("commit")
        self._leave()
        line.copy_back()

    def rollback(self) -> None:
        self._line.undo()
        self._leave()

    # output

    def put_output(self, ref: Ref, attempt: int, chunks: Sequence[Chunk]) -> bool:
        key = {"task_id": ref.task_id, "step": ref.step, "attempt": attempt}
        rows = [key | {"n": c.n, "stream": c.stream, "at": c.at or self.now(), "body": c.body} for c in chunks]
        with self._alone:
            line = self._output
            if len(rows) == 1 or line.db.in_transaction:
                held = self._put_chunks(line, rows)
            else:
                held = self._put_together(line, rows)
        line.copy_back()
        return held

    def _put_chunks(self, line: Line, rows: Sequence[Params]) -> bool:
        return all(line.run(self.queries["put_chunk"], row) for row in rows)

    def _put_together(self, line: Line, rows: Sequence[Params]) -> bool:
        line.run("begin")  # not `immediate`, which would lock the main file too
        try:
            held = self._put_chunks(line, rows)
            line.run("commit")
        except BaseException:
            line.undo()
            raise
        return held

    def drop_output(self, ref: Ref, attempt: int, numbers: range) -> bool:
        assert numbers.step == 1, "chunks are dropped in one piece"
        key = {"task_id": ref.task_id, "step": ref.step, "attempt": attempt}
        with self._alone:
            line = self._output
            line.run(self.queries["drop_chunks"], key | {"first": numbers.start, "end": numbers.stop})
            return bool(line.run(self.queries["holds"], key))

    def output(self, ref: Ref, attempt: int, after: int, limit: int) -> list[Chunk]:
        params = {"task_id": ref.task_id, "step": ref.step, "attempt": attempt, "after": after, "limit": below(limit)}
        with self._alone:
            return [Chunk(*row) for row in self._output.run(self.queries["output"], params)]

    # archives

    def output_rows(self, params: Params) -> list[Row]:
        with self._alone:
            return self._output.run(self.queries["output_of_task"], params)

    def bring_output(self, task_id: str, written: Sequence[Written]) -> None:
        with self._alone:
            line = self._output
            line.run("begin")
            try:
                for one in written:
                    line.run(self.queries["bring_chunk"], {"task_id": task_id, **one._asdict()})
                line.run("commit")
            except BaseException:
                line.undo()
                raise
        line.copy_back()

    def bring_events(self, task_n: int, rows: Sequence[Sequence[Any]]) -> None:
        first = self.select("first_event", {})
        below = min(first[0][0], 1) - 1 if first else 0
        self.run("bring_events", {"task_n": task_n, "below": below, "rows": dump_json(rows)})

    # upkeep

    def holds_newest_event(self, task_n: int) -> bool:
        newest = self.select("newest_event", {})
        return bool(newest) and newest[0][0] == task_n

    def prune_output(self, task_id: str, chunks_max: int) -> int:
        with self._alone:
            line = self._output
            gone = len(line.run(self.queries["prune_output"], {"task_id": task_id, "limit": below(chunks_max)}))
        line.copy_back()
        return gone

    def verify(self) -> list[str]:
        wrong: list[str] = []
        for line in dict.fromkeys((self._line, self._output)):
            with self._alone:
                try:
                    found = [row[0] for row in line.run("pragma main.integrity_check")]
                except StoreError as error:
                    found = [str(error)]
            wrong += [f"{line.path}: {text}" for text in found if text != "ok"]
        return wrong

    def close(self) -> None:
        """The connections of all threads; a store that was closed is of no use."""
        for line in list(self._lines):
            line.db.close()


def refuse_old(version: str) -> None:
    if tuple(int(part) for part in version.split(".")[:3]) < VERSION_MIN:
        oldest = ".".join(map(str, VERSION_MIN))
        raise StoreError(f"SQLite {version} can corrupt databases in WAL mode; {oldest} is needed: upgrade 'apsw'")
