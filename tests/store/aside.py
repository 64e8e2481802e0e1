"""Behind a store's back: something done on another thread meanwhile, a look at who waits for whom, clean tables."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import psycopg

T = TypeVar("T")
JOIN_MAX_S = 30.0
LOOKS_MAX = 20_000
WAITING = """select count(*) from pg_stat_activity
where application_name = 'longtask' and wait_event_type = 'Lock' and cardinality(pg_blocking_pids(pid)) > 0"""


class Aside(Generic[T]):
    """Begun at once; `result` waits for its end and raises what it raised."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._result: T | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:  # noqa: BLE001  told by `result`
            self._error = error

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> T:
        self._thread.join(JOIN_MAX_S)
        assert self.over, "it does not end"
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]


def until_waiting(line: psycopg.Connection[Any], count: int = 1, beside: Aside[Any] | None = None) -> bool:
    """So many connections of stores wait for a lock.  False: `beside` has ended without waiting."""
    for _ in range(LOOKS_MAX):
        if line.execute(WAITING.encode()).fetchall()[0][0] >= count:
            return True
        if beside is not None and beside.over:
            return False
    raise AssertionError("nobody waits")


def clear(line: psycopg.Connection[Any]) -> None:
    """Takes all rows out of the schema, and numbers begin anew."""
    tables = line.execute(b"select tablename from pg_tables where schemaname = current_schema()").fetchall()
    if names := [name for (name,) in tables if name != "migration"]:
        line.execute(f"truncate {', '.join(names)} restart identity".encode())
