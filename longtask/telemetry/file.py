"""The trace file: spans, counters, and how far the feed was read, in one SQLite file under LONGTASK_HOME.

- All of it is derived from the journal.  A file that is damaged, of another version or was deleted is begun anew.
- It is bounded in age and size; what goes first is the trace that has not changed for longest.  A trace of which an
  event comes later is read from its journal again.
- One connection belongs to one thread; any number of processes may use the file.  A power cut may cost the last second
  (`synchronous=NORMAL`), spans and place together, and they are read again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import apsw

from longtask.core.errors import StoreError
from longtask.telemetry.counts import LABELS_MAX, OTHER, Labels
from longtask.telemetry.source import Span, SpanKind, by_beginning

VERSION = 1
MEMORY = ":memory:"
BUSY_MS = 5_000
SPANS_MAX = 50_000  # of one task
EVICTED_AT_ONCE = 20  # traces
BYTES_MIN = 2_000_000  # below it the file is not made smaller
LOG_BYTES_MAX = 4_000_000
EXPORTER, EXPORTER_AWAY_MS = "exporter", 86_400_000  # a row of `place`

SCHEMA = """
create table trace (
    n          integer primary key,
    task_id    text    not null unique,
    seq        integer not null,  -- of the last event that its spans know of
    touched_at integer not null,
    spans      integer not null,
    dropped    integer not null,  -- spans beyond SPANS_MAX
    ended      integer not null   -- 1: its task has ended
) strict;
create index trace_touched on trace (ended desc, touched_at);
create table span (
    id         integer primary key,
    trace      integer not null,
    parent     integer not null,  -- 0: none
    kind       text    not null,
    name       text    not null,
    step       text    not null,
    attempt    integer not null,
    started_at integer not null,
    ended_at   integer not null,
    status     text    not null,
    attributes text    not null,
    state      text    not null,
    unsent     integer not null   -- 1: it has ended and is to be exported
) strict;
create index span_of_trace on span (trace, started_at);
create index span_unsent on span (ended_at) where unsent = 1;
create index span_waiting on span (name, started_at) where kind = 'wait' and ended_at = 0;
create table place (
    database text    primary key,
    cursor   text    not null,
    at       integer not null     -- of the last event that was read
) strict, without rowid;
create table counter (
    database text not null,
    name     text not null,
    labels   text not null,       -- JSON
    value    real not null,
    primary key (database, name, labels)
) strict, without rowid;
"""
SPAN = "s.id, t.task_id, s.parent, s.kind, s.name, s.step, s.attempt, s.started_at, s.ended_at, s.status, s.attributes"
FIND = f"select {SPAN}, s.state from span s join trace t on t.n = s.trace where s.id = ?"
PUT_TRACE = """
insert into trace (task_id, seq, touched_at, spans, dropped, ended) values (?, ?, ?, ?, ?, ?)
on conflict (task_id) do update set seq = excluded.seq, touched_at = excluded.touched_at, spans = excluded.spans,
    dropped = excluded.dropped, ended = excluded.ended
returning n
"""
PUT = """
insert into span values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (id) do update set parent = excluded.parent, name = excluded.name, started_at = excluded.started_at,
    ended_at = excluded.ended_at, status = excluded.status, attributes = excluded.attributes, state = excluded.state,
    unsent = excluded.unsent
where span.ended_at <> excluded.ended_at or span.started_at <> excluded.started_at or span.state <> excluded.state
    or span.attributes <> excluded.attributes or span.status <> excluded.status
"""


class TraceFile:
    """Raises StoreError: it cannot be used."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._db = self._open()

    @classmethod
    def at(cls, home: Path) -> Self:
        return cls(home / "traces.db")

    # --- opening --------------------------------------------------------------------------------------------------

    def _open(self) -> apsw.Connection:
        with self._told():
            try:
                return self._connect()
            except (apsw.CorruptError, apsw.NotADBError):
                self._put_aside()
                return self._connect()

    def _connect(self) -> apsw.Connection:
        if self.path != MEMORY and not os.path.exists(self.path):
            os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))  # names of steps are private
        db = apsw.Connection(self.path)
        try:
            db.set_busy_timeout(BUSY_MS)
            if db.pragma("user_version") != VERSION:
                self._begin_anew(db)
            db.pragma("synchronous", 1)
            db.pragma("journal_size_limit", LOG_BYTES_MAX)
        except BaseException:
            db.close()
            raise
        return db

    def _begin_anew(self, db: apsw.Connection) -> None:
        if self.path != MEMORY:
            db.execute("pragma auto_vacuum = incremental")
            db.pragma("journal_mode", "wal")
        db.execute("begin immediate")
        try:
            if db.pragma("user_version") != VERSION:  # another process may have been faster
                for (name,) in db.execute("select name from sqlite_schema where type = 'table'").fetchall():
                    db.execute(f'drop table "{name}"')
                db.execute(SCHEMA)
                db.execute(f"pragma user_version = {VERSION}")
            db.execute("commit")
        except BaseException:
            with suppress(apsw.Error):
                db.execute("rollback")
            raise

    def _put_aside(self) -> None:
        if self.path == MEMORY:
            return
        with suppress(OSError):
            os.replace(self.path, f"{self.path}.damaged")
        for end in ("-wal", "-shm"):
            with suppress(OSError):
                os.unlink(self.path + end)

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (apsw.Error, OSError) as error:
            if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
                self._put_aside()  # whoever opens it next begins anew
            raise StoreError(f"trace file {self.path!r}: {error}; it may be deleted, and is made again") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- writing --------------------------------------------------------------------------------------------------

    @contextmanager
    def batch(self) -> Iterator[Batch]:
        """One transaction; nothing of it is written if the block is left by an exception."""
        with self._told():
            self._db.execute("begin immediate")
        try:
            made = Batch(self._db, self._exporting())
            yield made
            with self._told():
                made.write()
                self._db.execute("commit")
        except BaseException:
            with suppress(apsw.Error):
                self._db.execute("rollback")
            raise

    def export(self) -> None:
        """From now on, and until a day after the last call, spans that end are kept for an exporter.  Told by the file
        itself, since it is not always the exporter's process that writes them."""
        with self._told():
            text = "insert into place values (?, '', ?) on conflict do update set at = excluded.at"
            self._db.execute(text, (EXPORTER, _now()))

    def _exporting(self) -> bool:
        rows = self._rows("select at from place where database = ?", EXPORTER)
        return bool(rows) and _now() - int(rows[0][0]) < EXPORTER_AWAY_MS

    def sent(self, spans: Sequence[Span]) -> None:
        """A span that has ended again meanwhile is sent again."""
        with self._told():
            self._db.executemany(
                "update span set unsent = 0 where id = ? and ended_at = ?", [(_int(s.id), s.ended_at) for s in spans]
            )

    def forget_unsent(self, before: int) -> int:
        """What could not be exported for so long; how many."""
        with self._told():
            self._db.execute("update span set unsent = 0 where unsent = 1 and ended_at < ?", (before,))
            return self._db.changes()

    def evict(self, before: int, bytes_max: int) -> int:
        """Some traces of tasks that have ended and not changed since then, and of what does not fit; how many.  0: no
        more to do.  A trace that goes on leaves only for want of room."""
        with self._told():
            text = "select n from trace where ended = 1 and touched_at < ? order by touched_at limit ?"
            found = self._db.execute(text, (before, EVICTED_AT_ONCE)).fetchall()
            fits = max(bytes_max, BYTES_MIN)
            if not found and self.bytes_used() > fits:
                text = "select n from trace order by ended desc, touched_at limit ?"
                found = self._db.execute(text, (EVICTED_AT_ONCE,)).fetchall()
            else:
                fits = 0  # all of them are too old
            gone = 0
            for row in found:
                if self.bytes_used() <= fits:
                    break
                self._drop(row[0])
                gone += 1
            self._db.execute("pragma incremental_vacuum(2000)").fetchall()
        return gone

    def _drop(self, n: Any) -> None:
        self._db.execute("begin immediate")
        try:
            self._db.execute("delete from span where trace = ?", (n,))
            self._db.execute("delete from trace where n = ?", (n,))
            self._db.execute("commit")
        except BaseException:
            self._db.execute("rollback")
            raise

    # --- reading --------------------------------------------------------------------------------------------------

    def bytes_used(self) -> int:
        pages = int(self._db.pragma("page_count")) - int(self._db.pragma("freelist_count"))
        return pages * int(self._db.pragma("page_size"))

    def seq(self, task_id: str) -> int:
        """Of the last event that is in the task's spans; 0: it has none."""
        rows = self._rows("select seq from trace where task_id = ?", task_id)
        return int(rows[0][0]) if rows else 0

    def dropped(self, task_id: str) -> int:
        rows = self._rows("select dropped from trace where task_id = ?", task_id)
        return int(rows[0][0]) if rows else 0

    def spans(self, task_id: str, limit: int) -> list[Span]:
        """Those that have begun, by their beginning."""
        text = f"select {SPAN} from trace t join span s on s.trace = t.n where t.task_id = ? and s.started_at > 0"
        found = self._rows(f"{text} order by s.started_at limit ?", task_id, limit)
        return sorted(map(_span, found), key=by_beginning)

    def unsent(self, limit: int) -> list[Span]:
        text = f"select {SPAN} from span s join trace t on t.n = s.trace where s.unsent = 1"
        return [_span(row) for row in self._rows(f"{text} order by s.ended_at limit ?", limit)]

    def place(self, database: str) -> tuple[str, int]:
        """The cursor of the feed, and when its last event was written; ("", 0): nothing was read yet."""
        rows = self._rows("select cursor, at from place where database = ?", database)
        return (str(rows[0][0]), int(rows[0][1])) if rows else ("", 0)

    def waits(self) -> list[tuple[str, int, int]]:
        """What steps wait for, how many do, and since when the first: (name of the span, count, instant)."""
        text = "select name, count(*), min(started_at) from span where kind = 'wait' and ended_at = 0 group by name"
        return [(name, count, at) for name, count, at in self._rows(text)]

    def counters(self, database: str) -> dict[tuple[str, Labels], float]:
        rows = self._rows("select name, labels, value from counter where database = ?", database)
        return {(name, tuple(json.loads(labels))): value for name, labels, value in rows}

    def _rows(self, text: str, *params: Any) -> list[Any]:
        with self._told():
            return self._db.execute(text, params).fetchall()


class Batch:
    """`fold.Spans` and `counts.Tallies`, written at the end."""

    def __init__(self, db: apsw.Connection, sending: bool) -> None:
        self._db = db
        self._sending = sending
        self._traces: dict[str, list[Any]] = {}  # task id -> n, seq, touched_at, spans, dropped, ended
        self._spans: dict[str, Span] = {}
        self._changed: set[str] = set()
        self._places: dict[str, tuple[str, int]] = {}
        self._counted: dict[tuple[str, Labels], float] = {}
        self._database = ""
        self._known: dict[str, set[Labels]] = {}

    # traces

    def seq(self, task_id: str) -> int:
        """`TraceFile.seq`, as this batch has it."""
        seq: int = self._trace(task_id)[1]
        return seq

    def advance(self, task_id: str, seq: int, at: int) -> None:
        trace = self._trace(task_id)
        trace[1], trace[2] = seq, max(trace[2], at)

    def _trace(self, task_id: str) -> list[Any]:
        trace = self._traces.get(task_id)
        if trace is None:
            rows = self._db.execute(
                "select n, seq, touched_at, spans, dropped, ended from trace where task_id = ?", (task_id,)
            ).fetchall()
            trace = self._traces[task_id] = list(rows[0]) if rows else [0, 0, 0, 0, 0, 0]
        return trace

    # spans

    def find(self, id: str) -> Span | None:
        if not id:
            return None
        span = self._spans.get(id)
        if span is None:
            rows = self._db.execute(FIND, (_int(id),)).fetchall()
            if not rows:
                return None
            span = self._spans[id] = _span(rows[0])
        return span

    def add(self, span: Span) -> bool:
        trace = self._trace(span.task_id)
        if trace[3] >= SPANS_MAX:
            trace[4] += 1
            return False
        trace[3] += 1
        self.put(span)
        return True

    def put(self, span: Span) -> None:
        if span.kind is SpanKind.TASK:
            self._trace(span.task_id)[5] = int(span.ended_at > 0)
        self._spans[span.id] = span
        self._changed.add(span.id)

    # counters

    def of(self, database: str, known: dict[str, set[Labels]]) -> None:
        """Whose events are counted; `known`: the labels that were counted before, by counter.  New ones join them."""
        self._database = database
        self._known = known

    def tally(self, name: str, labels: Labels, by: float) -> None:
        known = self._known.setdefault(name, set())
        if labels not in known:
            if len(known) >= LABELS_MAX:
                labels = tuple(OTHER if not label.isdigit() and label != "sum" else label for label in labels)
            known.add(labels)
        self._counted[name, labels] = self._counted.get((name, labels), 0) + by

    def move(self, database: str, cursor: str, at: int) -> None:
        self._places[database] = cursor, at

    # the end

    def write(self) -> None:
        db = self._db
        for task_id, trace in self._traces.items():
            if trace[0] or trace[1]:
                trace[0] = db.execute(PUT_TRACE, (task_id, *trace[1:])).fetchall()[0][0]
        db.executemany(PUT, [self._row(self._spans[id_]) for id_ in self._changed])
        text = "insert into counter values (?, ?, ?, ?) on conflict do update set value = value + excluded.value"
        rows = [(self._database, name, json.dumps(labels), by) for (name, labels), by in self._counted.items()]
        db.executemany(text, rows)
        text = "insert into place values (?, ?, ?) on conflict do update set cursor = excluded.cursor, at = excluded.at"
        db.executemany(text, [(database, *place) for database, place in self._places.items()])

    def _row(self, span: Span) -> tuple[Any, ...]:
        return (
            _int(span.id),
            self._traces[span.task_id][0],
            _int(span.parent) if span.parent else 0,
            str(span.kind),
            _text(span.name),
            _text(span.step),
            span.attempt,
            span.started_at,
            span.ended_at,
            span.status,
            _compact(span.attributes),
            _compact(span.state) if span.state else "",
            int(self._sending and span.ended_at > 0 and span.started_at > 0),
        )


def _span(row: Sequence[Any]) -> Span:
    id_, task_id, parent, kind, name, step, attempt, started_at, ended_at, status, attributes, *state = row
    return Span(
        _hex(id_),
        task_id,
        _hex(parent) if parent else "",
        SpanKind(kind),
        name,
        step,
        attempt,
        started_at,
        ended_at,
        status,
        json.loads(attributes),
        json.loads(state[0]) if state and state[0] else {},
    )


_compact = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def _now() -> int:
    return time.time_ns() // 1_000_000


def _int(id: str) -> int:
    """SQLite's integers have a sign."""
    return int.from_bytes(bytes.fromhex(id), "big", signed=True)


def _hex(id: int) -> str:
    return id.to_bytes(8, "big", signed=True).hex()


def _text(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
