"""The probe: the statements that a run sent to its database, replayed bare on the database as it was before.

No Python of ours is left in it, so that it is what the database itself needs for this very work, on this disk, in this
minute.  It commits as if nothing were grouped: one commit for each block, that is for each report of a step.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apsw

from longtask.store.line import CACHE_KIBIBYTES
from longtask.store.queries import load

Statement = tuple[str, Any]  # SQL and its parameters

BEGIN, COMMIT = "begin immediate", "commit"


class Recorder:
    """A trace that keeps what the thread that made it sends; the beat thread's statements are its own affair."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []
        self._thread = threading.get_ident()

    def __call__(self, sql: str, params: Any) -> None:
        if threading.get_ident() == self._thread:
            self.statements.append((sql, params))


def ungrouped(statements: Iterable[Statement]) -> Iterator[Statement]:
    """Each block in a transaction of its own.  A block begins with the header of its task."""
    header = load("sqlite")["header"]
    blocks = 0
    for sql, params in statements:
        if sql == BEGIN:
            blocks = 0
        elif sql == header:
            if blocks:
                yield COMMIT, ()
                yield BEGIN, ()
            blocks += 1
        yield sql, params


def commits(statements: Iterable[Statement]) -> int:
    return sum(sql == COMMIT for sql, _ in statements)


def replayed(path: Path, statements: Iterable[Statement]) -> float:
    """The seconds that it took.  The connection is set up as the store's."""
    db = apsw.Connection(str(path))
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    db.set_busy_timeout(1_000)
    for pragma in (
        "journal_mode = wal",
        "synchronous = full",
        "temp_store = memory",
        f"cache_size = -{CACHE_KIBIBYTES}",
        "wal_autocheckpoint = 1000",
    ):
        db.pragma(*pragma.split(" = "))
    execute = db.cursor().execute
    begun = time.perf_counter()
    for sql, params in statements:
        list(execute(sql, params))
    took_s = time.perf_counter() - begun
    db.close()
    return took_s
