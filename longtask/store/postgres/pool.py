"""Connections to one PostgreSQL server: made when needed, kept for the next, thrown away when broken.

No thread of its own and no wait while one is free: a block takes its connection in microseconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from longtask.core.errors import StoreBusy, StoreError
from longtask.store.postgres.address import Address
from longtask.store.postgres.session import Session, Statements, Trace
from longtask.store.postgres.trouble import told

LINES_MAX = 8
WAIT_MAX_S = 30.0
CONNECT_MAX_S = 5
ASK_AFTER_S = 5.0  # a connection that lay idle for so long may be dead: it is asked first
VERSION_MIN = 140_000

# A transaction of a process that was frozen is ended for it: nobody waits for a lock longer than this.
SETTINGS = {
    "default_transaction_isolation": "read committed",  # who waited for a lock then reads what came before
    "lock_timeout": "10s",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "10s",
    "standard_conforming_strings": "on",
    "client_encoding": "UTF8",
    "timezone": "UTC",
    "jit": "off",  # statements of a millisecond
    "plan_cache_mode": "force_generic_plan",  # a plan depends on the schema, not on the first values that came
    # Every statement is made for loops over indexes, in whose order its rows come.  Left to itself the planner reads a
    # table that is small when it looks, or was never analysed, as a whole, and goes on when it has grown.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
KEEPALIVE = {
    "connect_timeout": CONNECT_MAX_S,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


class Pool:
    def __init__(
        self, address: Address, statements: Statements, trace: Trace | None = None, lines_max: int = LINES_MAX
    ) -> None:
        self.address = address
        self._statements = statements
        self._trace = trace
        self._free: list[Session] = []
        self._room = threading.BoundedSemaphore(lines_max)
        self._guard = threading.Lock()
        self._closed = False

    @contextmanager
    def session(self, fresh: bool = False) -> Iterator[Session]:
        session = self.take(fresh)
        try:
            yield session
        finally:
            self.give(session)

    def take(self, fresh: bool = False) -> Session:
        """`fresh`: a connection has just turned out to be dead; the others that lay idle are then not to be trusted.

        Raises StoreBusy if none becomes free, StoreUnavailable or StoreError if none can be made."""
        if not self._room.acquire(timeout=WAIT_MAX_S):
            raise StoreBusy(f"database {self.address.shown}: all connections of this process are in use; try again")
        try:
            if fresh:
                self._drop_idle()
            while (session := self._idle()) is not None:
                if time.monotonic() - session.idle_since < ASK_AFTER_S or _answers(session):
                    return session
                session.line.close()
            return Session(connect(self.address), self._statements, self._trace)
        except BaseException:
            self._room.release()
            raise

    def _idle(self) -> Session | None:
        with self._guard:
            return self._free.pop() if self._free else None

    def give(self, session: Session) -> None:
        """Back to the pool, unless it is broken or in the middle of something."""
        with self._guard:
            if session.usable and not self._closed:
                session.idle_since = time.monotonic()
                self._free.append(session)
            else:
                session.line.close()
        self._room.release()

    def _drop_idle(self) -> None:
        with self._guard:
            free, self._free = self._free, []
        for session in free:
            session.line.close()

    def close(self) -> None:
        """Connections in use are closed when they come back."""
        self._closed = True
        self._drop_idle()


def _answers(session: Session) -> bool:
    with suppress(psycopg.Error):
        session.last(b"select 1")
        return True
    return False


def connect(address: Address, name: str = "longtask") -> psycopg.Connection[Any]:
    """Commits each statement by itself, unless one says `begin`.  Raises StoreUnavailable, StoreError."""
    settings = SETTINGS | {"search_path": address.schema}
    pairs = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())
    try:
        given = conninfo_to_dict(address.conninfo)
        wanted: dict[str, Any] = KEEPALIVE | {"application_name": name}  # what the server's lists show
        kept = {key: value for key, value in wanted.items() if key not in given}
        line = psycopg.connect(make_conninfo(address.conninfo, **kept), autocommit=True)
    except psycopg.Error as error:
        raise told(error, address.shown) from error
    try:
        line.execute(f"select {pairs}".encode())
        _refuse_unfit(line, address)
    except BaseException as error:
        line.close()
        if isinstance(error, psycopg.Error):
            raise told(error, address.shown) from error
        raise
    return line


def _refuse_unfit(line: psycopg.Connection[Any], address: Address) -> None:
    if line.info.server_version < VERSION_MIN:
        version = line.info.server_version // 10_000
        raise StoreError(f"database {address.shown}: PostgreSQL {version} is too old; use 14 or newer")
    if (encoding := line.info.parameter_status("server_encoding")) != "UTF8":
        raise StoreError(
            f"database {address.shown}: its encoding is {encoding}, which cannot hold every text; create it with "
            "encoding UTF8 (createdb --encoding=UTF8 --template=template0)"
        )
