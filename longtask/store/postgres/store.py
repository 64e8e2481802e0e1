"""PostgreSQL 14 or newer: hints, searches, output and upkeep, beside the blocks (`blocks.py`)."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import suppress

import psycopg

from longtask.core.errors import LongTaskError, Refused
from longtask.core.events import Event
from longtask.core.policy import CALL_MS
from longtask.store.archives import Written
from longtask.store.base import Params, below
from longtask.store.contract import Alarm, Chunk, ErrandRow, Found, Ref
from longtask.store.postgres import alarms
from longtask.store.postgres.blocks import HERE, Blocks
from longtask.store.postgres.hints import TELL_EVERY_S, Hints
from longtask.store.rows import Row, to_event, to_lease

CURSOR = re.compile(r"([0-9]{1,19})\.([0-9]{1,18})")
POS_MAX = 10**18 - 1  # no event has it


class PostgresStore(Blocks):
    """`contract.Store` on PostgreSQL.

    `url` may name the schema (`?schema=longtask`).  `clock` answers ms since 1970 in place of the server; `fault`: see
    base.py; `trace` is called with every statement and its parameters before it is sent.  A schema that is not there
    is made (`create`); one of an older version is refused: a fleet is migrated when its operators say so.
    """

    _hints: Hints | None = None
    _told_at = 0.0

    # hints

    @property
    def hinted(self) -> bool:
        return self._hints is not None and self._hints.heard

    def wait(self, seconds: float) -> None:
        """The first wait makes this process one that listens."""
        if self._hints is None:
            self._hints = Hints(self.address)
        self._hints.wait(seconds)

    def tell(self) -> None:
        if self._hints is not None:
            self._hints.tell()
        elif (now := time.monotonic()) - self._told_at >= TELL_EVERY_S:  # a caller that comes and goes
            self._told_at = now
            with suppress(psycopg.Error, LongTaskError), self._pool.session() as session:
                session.last(session.command(f"notify {self.address.channel}"))

    # peeks

    def claimable(self, pool: str, limit: int, workspaces: Sequence[str] | None = None) -> list[Ref]:
        """Within a group it is no peek: it holds what it answers and passes over what others hold, so that workers who
        look at once find different tasks."""
        if not self.here.group:
            return super().claimable(pool, limit, workspaces)
        self._lock(self.here)
        name, params = self._claimable(pool, limit, workspaces)
        return [Ref(*row) for row in self.select(name + HERE, params)]

    def look(self, limit: int) -> Found:
        """In one journey: each by itself takes as long to come and go as to be answered."""
        now = self.now()
        params = {"now": now, "called_after": now - CALL_MS, "limit": below(limit)}
        found = self._by_itself(lambda session: session.send(*(session.call(name, params) for name in Found._fields)))
        expired, overdue, unheard, closing, *rest, errands = found
        unsettled, callable, mergeable = ([Ref(*row) for row in rows] for rows in rest)
        return Found(
            [to_lease(row) for row in expired],
            [Ref(*row) for row in overdue],
            [row[0] for row in unheard if row[0] is not None],
            [row[0] for row in closing],
            unsettled,
            callable,
            mergeable,
            [ErrandRow(*row) for row in errands],
        )

    # output

    def put_output(self, ref: Ref, attempt: int, chunks: Sequence[Chunk]) -> bool:
        if not chunks:
            return bool(self.select("holds", {"task_id": ref.task_id, "step": ref.step, "attempt": attempt}))
        now = self.now()
        return bool(self.single("put_chunks", {
            "task_id": ref.task_id, "step": ref.step, "attempt": attempt,
            "numbers": [c.n for c in chunks], "streams": [c.stream for c in chunks],
            "ats": [c.at or now for c in chunks], "bodies": [c.body for c in chunks],
        }))  # fmt: skip

    def drop_output(self, ref: Ref, attempt: int, numbers: range) -> bool:
        assert numbers.step == 1, "chunks are dropped in one piece"
        key = {"task_id": ref.task_id, "step": ref.step, "attempt": attempt}
        return bool(self.single("drop_chunks", key | {"first": numbers.start, "end": numbers.stop}))

    def output(self, ref: Ref, attempt: int, after: int, limit: int) -> list[Chunk]:
        params = {"task_id": ref.task_id, "step": ref.step, "attempt": attempt, "after": after, "limit": below(limit)}
        return [Chunk(*row) for row in self.select("output", params)]

    # archives

    def output_rows(self, params: Params) -> list[Row]:
        return self.select("output_of_task", params)

    def bring_output(self, task_id: str, written: Sequence[Written]) -> None:
        names = ("steps", "attempts", "numbers", "streams", "bodies", "ats")
        columns = zip(names, zip(*written, strict=True), strict=True)
        self.single("bring_chunks", {"task_id": task_id, **{name: list(column) for name, column in columns}})

    # reads

    def tail(self, cursor: str, limit: int) -> list[tuple[Event, str]]:
        place = CURSOR.fullmatch(cursor or "0.0")
        if place is None:
            raise Refused(f"cursor {cursor!r} is none of this database; begin without one")
        rows = self.select("feed", {"xid": place[1], "pos": int(place[2]), "limit": below(limit)})
        return [(to_event(row[:-1]), f"{row[-1]}.{row[-2]}") for row in rows]

    def feed_end(self) -> str:
        """Behind every event of a transaction older than the oldest that runs: any other one will be told."""
        return f"{int(self.select('feed_end', {})[0][0]) - 1}.{POS_MAX}"

    # upkeep

    def verify(self) -> list[str]:
        return [f"database {self.address.shown}: {row[0]}" for row in self.select("damage", {})]

    def alarms(self, open_max_s: int = alarms.OPEN_MAX_S) -> list[Alarm]:
        return alarms.look(self.select, self.address.schema, open_max_s)

    def close(self) -> None:
        if self._hints is not None:
            self._hints.close()
        self._pool.close()
