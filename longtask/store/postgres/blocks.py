"""Blocks and single statements on PostgreSQL: a pool of connections, one transaction a block or group.

- A block locks its task's row.  The first block of a group may wait for it; a later one waits for nobody (TaskLocked),
  since two groups that wait for each other's tasks would be a circle.
- What a block writes waits for company: it travels with the commit, or with the next block's lock, so that a block
  costs two round trips, and one for each of its further reads.
- A commit whose answer is lost is looked up: the transaction's number was learned with the lock, and the server keeps
  the fate of every number.  So a block either happened or did not, and the caller knows which.
- The time is the server's.  Between two looks at it, the monotonic clock of this machine carries it on.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, TypeVar

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from longtask.core.errors import LongTaskError, StoreError, StoreUnavailable
from longtask.store.base import Here, Params
from longtask.store.contract import Ref
from longtask.store.postgres import fusing, migrating
from longtask.store.postgres.address import Address
from longtask.store.postgres.fusing import Parts
from longtask.store.postgres.pool import LINES_MAX, Pool
from longtask.store.postgres.session import Session, Trace
from longtask.store.postgres.trouble import broken, told
from longtask.store.queries import load, numbered
from longtask.store.reads import SqlStore
from longtask.store.rows import TASK_COLUMNS, Row

FATE_PATIENCE_S = 15.0  # how long the fate of a commit is asked for: longer than a server keeps a silent transaction
FATE_EVERY_S = 0.05
LEARN_EVERY_MS = 60_000  # after so long without a look at the server's clock it is asked for
STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # goes on while the machine sleeps, where one does
CLAIMABLE, HERE = ("claimable", "claimable_within"), "_here"
TRACED = ("insert_events", "insert_signal")  # who repeats any other write does no harm
ID = TASK_COLUMNS.index("id")


def _trace(name: str, params: Params) -> tuple[str, Params]:
    """By what statement such a write is found again."""
    if name == "insert_signal":
        return "delivered", params
    seq, *_, body = json.loads(params["rows"])[-1]
    return "event_there", {**params, "seq": seq, "body": body}


def _steady_ms() -> int:
    return time.clock_gettime_ns(STEADY) // 1_000_000


A = TypeVar("A")  # an answer


class Ahead(NamedTuple):
    """What the next block about this step would read first."""

    step: str
    telling: int  # so many dependents were asked for
    row: Row  # of the header
    told: list[Row]
    locked: bool  # False: somebody else holds the task


class _Own(threading.local):
    """What belongs to one thread: the transaction under way."""

    here: Here | None = None
    session: Session | None = None
    xid: str | None = None  # once the server has told it
    written: bool = False  # the transaction holds writes, sent or waiting in the queue
    begin: list[bytes]  # to be sent first of all, until it is
    parts: Parts  # then what most of the blocks' writes become
    queue: list[bytes]  # then the others
    traces: list[tuple[str, Params]]  # writes by which the transaction can be told from another one
    ahead: dict[str, Ahead]  # by task, which is locked unless another transaction has it

    def __init__(self) -> None:
        self.reset(None, [])

    def reset(self, session: Session | None, begin: list[bytes]) -> None:
        self.session, self.begin, self.parts, self.queue = session, begin, Parts(), []
        self.traces, self.ahead, self.xid, self.written = [], {}, None, False


class Blocks(SqlStore):
    """What a store does with one connection; `url` and the rest as `PostgresStore` says."""

    def __init__(
        self,
        url: str,
        clock: Callable[[], int] | None = None,
        *,
        fault: Callable[[str], None] | None = None,
        trace: Trace | None = None,
        lines_max: int = LINES_MAX,
        create: bool = True,
    ) -> None:
        super().__init__(load("postgres"), clock or self._server_now, fault)
        self.address = Address.parse(url)
        self._clock = clock
        self._own = _Own()
        self._ahead_ms = 0  # of the server's clock, against our steady one
        self._learned_at = 0
        here = {name + HERE: f"{self.queries[name]} for no key update of t skip locked" for name in CLAIMABLE}
        texts = {**self.queries, fusing.NAME: fusing.fused(self.queries), **here}
        statements = {name: numbered(sql) for name, sql in texts.items()}
        self._answering = {name for name, sql in self.queries.items() if re.search(r"\breturning\b", sql)}
        self._pool = Pool(self.address, statements, trace, lines_max)
        try:
            with self._pool.session() as session, self._telling():
                migrating.prepare(session.line, self.address, create)
                self._learn(session.last(session.call("clock", {}))[0][0])
        except BaseException:
            self._pool.close()
            raise

    # time

    def _server_now(self) -> int:
        at = _steady_ms()
        if at - self._learned_at > LEARN_EVERY_MS and self._own.session is None:
            self._learned_at = at
            with suppress(LongTaskError):  # who asks for the time has other calls to be told by
                self._learn(self._apart("clock", {})[0][0])
        return _steady_ms() + self._ahead_ms

    def _learn(self, server_ms: int) -> None:
        self._learned_at = _steady_ms()
        self._ahead_ms = server_ms - self._learned_at

    # statements

    @property
    def here(self) -> Here:
        own = self._own
        if own.here is None:
            own.here = Here()
        return own.here

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise told(error, self.address.shown) from error

    @contextmanager
    def _within(self) -> Iterator[None]:
        """Around a statement of the transaction: the server keeps nothing of one in which any has failed, so whoever
        swallows the error must not find the rest of the group committed."""
        try:
            with self._telling():
                yield
        except LongTaskError as error:
            if self.here.group:
                self.here.lost = error
            raise

    def select(self, name: str, params: Params) -> list[Row]:
        session = self._own.session
        if session is None:
            return self._apart(name, params)
        with self._within():
            return self._reading(lambda session: self._now(session.call(name, params)))

    def run(self, name: str, params: Params) -> list[Row]:
        own = self._own
        assert own.session is not None, "a block has its session"
        if name == "insert_task":
            return self._first_write(name, params)
        own.written = True
        if name in TRACED:
            own.traces.append((name, params))
        if name in fusing.PARTS:
            own.parts.add(name, params)
            return []
        call = own.session.call(name, params)
        if name not in self._answering:
            own.queue.append(call)
            return []
        with self._within():
            return self._now(call)

    def _first_write(self, name: str, params: Params) -> list[Row]:
        """Of a block that has read no header: the transaction's number comes along."""

        def send(session: Session) -> list[Row]:
            calls = session.call("transaction", {}), session.call(name, params)
            *_, (number,), rows = session.send(*self._flush(), *calls)
            self._own.xid = number[0]
            return rows

        with self._within():
            rows = self._reading(send)
        self._own.written = True
        return rows

    def _flush(self) -> list[bytes]:
        """What waits, in its order; nothing waits any more."""
        own = self._own
        begin, parts, queue = own.begin, own.parts, own.queue
        own.begin, own.queue = [], []
        if not parts:
            return [*begin, *queue]
        assert own.session is not None, "a block has its session"
        own.parts = Parts()
        return [*begin, *(own.session.call(name, params) for name, params in parts.statements()), *queue]

    def _now(self, call: bytes) -> list[Row]:
        """Sends what waits and this; the rows of this."""
        own = self._own
        assert own.session is not None
        return own.session.last(*self._flush(), call)

    def single(self, name: str, params: Params) -> list[Row]:
        here = self.here
        if here.begun:
            self._own.written = True
            try:
                return self.select(name, params)
            except LongTaskError as error:
                here.lost = error
                self._undo(here)
                raise
        self.fault("single")
        rows = self._apart(name, params)
        self.fault("single.committed")
        return rows

    def _apart(self, name: str, params: Params) -> list[Row]:
        return self._by_itself(lambda session: session.last(session.call(name, params)))

    def _by_itself(self, send: Callable[[Session], A]) -> A:
        """Outside of any transaction.  Whatever is sent may be sent again when its answer was lost: repeated, it
        changes nothing more and answers the same (or no, as `condemn_blob` and `forget_blob` may: their collector then
        lets go)."""
        with self._telling():
            try:
                with self._pool.session() as session:
                    return self._once(session, send)
            except psycopg.Error as error:
                if not broken(error):
                    raise
            with self._pool.session(fresh=True) as session:
                return self._once(session, send)

    @staticmethod
    def _once(session: Session, send: Callable[[Session], A]) -> A:
        try:
            return send(session)
        except BaseException as error:
            if not (isinstance(error, psycopg.Error) and broken(error)):
                with suppress(psycopg.Error):
                    session.undo()
            raise

    # blocks

    def begin(self) -> None:
        self._enter(self._pool.take())

    def _enter(self, session: Session) -> None:
        self._own.reset(session, [session.command("begin")])

    def _reading(self, send: Callable[[Session], A]) -> A:
        """Sends it once more if nothing was locked or written yet: the connection may have died while it lay idle."""
        own = self._own
        assert own.session is not None
        try:
            return send(own.session)
        except psycopg.Error as error:
            if own.xid is not None or own.written or not broken(error):
                raise
        self._leave()
        self._enter(self._pool.take(fresh=True))
        return send(own.session)

    def header(self, task_id: str, key: str, telling: int) -> tuple[int, list[Row], list[Row] | None]:
        known = self._own.ahead.pop(task_id, None)  # what this block writes, the next one must read anew
        if known is not None and known.step == key and telling in (0, known.telling):
            if not known.locked:
                raise self.address.locked(task_id)
            return self.now(), [known.row], known.told if telling else None
        with self._within():
            locked, rows = self._reading(lambda session: self._lock_and_read(session, task_id, key, telling))
        if not rows:
            return self.now(), [], None
        row, told, now = self._learned(rows[0])
        if not locked:
            raise self.address.locked(task_id)
        return now, [row], told if telling else None

    def _learned(self, row: Row) -> tuple[Row, list[Row], int]:
        """The header, the dependents and the time that came with it."""
        *header, told, server_ms, self._own.xid = row
        self._learn(server_ms)
        return header, [list(each.values()) for each in told], server_ms if self._clock is None else self.now()

    def _lock_and_read(self, session: Session, task_id: str, key: str, telling: int) -> tuple[bool, list[Row]]:
        """Two statements, so that the second one reads what was committed while the first one waited."""
        own = self._own
        header = session.call("header", {"id": task_id, "key": key, "telling": telling})
        if own.xid is None and not own.written:
            return True, session.last(*self._flush(), session.call("lock_task", {"id": task_id}), header)
        *_, locked, rows = session.send(*self._flush(), session.call("lock_task_now", {"id": task_id}), header)
        return bool(locked), rows

    def ahead(self, refs: Sequence[Ref], telling: int = 0) -> None:
        steps: dict[str, str] = {}
        for ref in refs:
            steps.setdefault(ref.task_id, ref.step)
        if len(steps) < 2:
            return
        assert self.here.group, "alone, a block reads for itself"
        self._lock(self.here)
        with self._within():
            self._own.ahead |= self._reading(lambda session: self._read_ahead(session, steps, telling))

    def _read_ahead(self, session: Session, steps: Mapping[str, str], telling: int) -> dict[str, Ahead]:
        """As `_lock_and_read` for many: waits for the first one's task if it may wait at all, for no other."""
        own = self._own
        waits = own.xid is None and not own.written
        first = [session.call("lock_task", {"id": next(iter(steps))})] if waits else []
        given = {"ids": list(steps), "steps": list(steps.values()), "telling": telling}
        fresh = self.unknown(steps)
        new = {"ids": fresh, "steps": [steps[id_] for id_ in fresh]}
        calls = [session.call("lock_ahead", given), session.call("header_ahead", given)]
        calls += [session.call("known_ahead", new)] if fresh else []
        locks, rows, *known = session.send(*self._flush(), *first, *calls)[-len(calls) :]
        for row in known[0] if known else []:
            self.know(*row)
        locked = {row[0] for row in locks}
        found: dict[str, Ahead] = {}
        for row in rows:
            header, told, _ = self._learned(row)
            found[header[ID]] = Ahead(steps[header[ID]], telling, header, told, header[ID] in locked)
        return found

    def commit(self) -> None:
        own = self._own
        session = own.session
        assert session is not None, "a commit ends a transaction"
        with self._telling():
            if session.line.info.transaction_status is TransactionStatus.INERROR:
                raise StoreError("this block was rolled back by an error that was not heeded; leave it and try again")
            if own.xid is None:  # no header was found
                own.xid = self._now(session.call("transaction", {}))[0][0]
            xid = own.xid
            assert xid is not None
            try:
                self._now(session.command("commit"))
            except psycopg.Error as error:
                if not broken(error) and not session.line.closed:
                    raise
                writes = own.traces
                self._leave()
                if not self._committed(xid, writes):
                    raise
                return
        self._leave()

    def _committed(self, xid: str, writes: Sequence[tuple[str, Params]]) -> bool:
        """Raises StoreUnavailable if nobody can be asked.

        A server that crashes forgets numbers that no durable record names, and gives them out again: another
        transaction's fate may be told.  So what was written is looked for too, if anything was that matters."""
        until = time.monotonic() + FATE_PATIENCE_S
        while True:
            fate = "unknown"
            with suppress(psycopg.Error, LongTaskError), self._pool.session(fresh=True) as session:
                try:
                    fate = session.last(session.call("fate", {"xid": xid}))[0][0]
                    if fate == "committed" and not all(session.last(session.call(*_trace(*write))) for write in writes):
                        fate = "aborted"
                except errors.InvalidParameterValue:  # "in the future": a crash has lost it, and nobody has it anew yet
                    fate = "aborted"
                    session.undo()
            if fate in ("committed", "aborted"):
                return fate == "committed"
            if time.monotonic() > until:
                raise StoreUnavailable(
                    f"database {self.address.shown}: the connection broke during a commit, and for "
                    f"{FATE_PATIENCE_S:.0f} s nobody could be asked whether it happened; look at the state before you "
                    "repeat the call"
                )
            time.sleep(FATE_EVERY_S)  # the server has not yet noticed that its client is gone, or it is restarting

    def rollback(self) -> None:
        session = self._own.session
        if session is None:
            return
        with suppress(psycopg.Error):
            session.undo()
        self._leave()

    def _leave(self) -> None:
        session = self._own.session
        self._own.reset(None, [])
        if session is not None:
            self._pool.give(session)
