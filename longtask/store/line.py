"""One connection to an SQLite database, and whose turn it is to write.

- `synchronous=FULL`: what was committed survives the machine (`lax`: it survives the process).
- Between processes a busy handler sleeps 0.3-2 ms at random and tries again, since SQLite's own back-off starves some
  (p99 of seconds at 16 processes); within a process threads queue in order (`Turn`).
- The write-ahead log is copied back outside any lock, passively.  Only if it grows all the same (readers or writers
  without a pause), one writer waits for the others.
"""

from __future__ import annotations

import errno
import os
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from longtask.core.errors import LongTaskError, StoreBusy, StoreError, StoreUnavailable
from longtask.store import place, schema
from longtask.store.rows import Row

BUSY_MAX_MS = 30_000
BUSY_SLEEP_MS = (0.3, 2.0)
CACHE_KIBIBYTES = 16_000
LOG_BYTES_MAX = 64 << 20  # the log file is cut to this when it starts anew
CHECKPOINT_PAGES = 1_000  # 4 MB: copied back after the commit that went past it
CHECKPOINT_PAGES_MAX = 16_000  # 64 MB: the log grows though it is copied back; wait until all have left it
CHECKPOINT_WAIT_MS = 100
MEMORY = ":memory:"

Trace = Callable[[str, Any], None]


class Turn:
    """A lock whose waiters get it in the order in which they came."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, timeout: float) -> bool:
        with self._guard:
            if not self._held:
                self._held = True
                return True
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        if mine.acquire(timeout=timeout):
            return True
        with self._guard:
            if mine in self._waiting:
                self._waiting.remove(mine)
                return False
        return True  # handed over in the last moment

    def release(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._held = False


_turns: weakref.WeakValueDictionary[str, Turn] = weakref.WeakValueDictionary()  # one a file, whoever opens it
_turns_guard = threading.Lock()


def turn_for(path: str) -> Turn:
    with _turns_guard:
        return _turns.setdefault(os.path.realpath(path), Turn())


class Line:
    """A connection.  Raises errors of our tree only."""

    def __init__(self, path: str, busy_max_ms: int = BUSY_MAX_MS, lax: bool = False) -> None:
        self.path = path
        self.wait_max_ms = busy_max_ms
        self.log_pages = 0  # length of the log after the last commit here
        self._copy_at = CHECKPOINT_PAGES
        self._busy_since = 0.0
        try:
            self.db = apsw.Connection(path)
            self.cursor = self.db.cursor()
            self._set_up(lax)
        except apsw.Error as error:
            raise told(error, path, None) from error

    def _set_up(self, lax: bool) -> None:
        self.db.set_busy_handler(self._busy)
        # else a statement that could use a partial index is planned anew for every other value: 140 µs instead of 10
        self.db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        if self.path != MEMORY:
            self._wal()
            self.db.set_wal_hook(self._committed)
        for pragma in (
            f"synchronous = {'normal' if lax else 'full'}",
            "temp_store = memory",
            f"cache_size = -{CACHE_KIBIBYTES}",
            f"journal_size_limit = {LOG_BYTES_MAX}",
            "foreign_keys = off",
        ):
            list(self.db.execute(f"pragma {pragma}"))

    def _wal(self) -> None:
        """The busy handler is not asked when the mode of a new file is changed."""
        until = time.monotonic() + self.wait_max_ms / 1000
        while True:
            try:
                [(mode,)] = self.db.execute("pragma journal_mode = wal")
            except apsw.BusyError:
                if time.monotonic() > until:
                    raise
                time.sleep(random.uniform(*BUSY_SLEEP_MS) / 1000)
                continue
            if mode != "wal":
                raise StoreError(
                    f"database {self.path!r}: its disk cannot keep a write-ahead log (journal mode {mode!r}); "
                    "use a local disk"
                )
            return

    def trace(self, trace: Trace) -> None:
        """From now on, called with every statement and its parameters before it runs."""

        def before(_cursor: apsw.Cursor, sql: str, params: Any) -> bool:
            trace(sql, params)
            return True

        self.db.exec_trace = before

    def _busy(self, tries: int) -> bool:
        now = time.monotonic()
        if tries == 0:
            self._busy_since = now
        if (now - self._busy_since) * 1000 > self.wait_max_ms:
            return False
        time.sleep(random.uniform(*BUSY_SLEEP_MS) / 1000)
        return True

    def _committed(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self.log_pages = pages
        return apsw.SQLITE_OK

    def run(self, sql: str, params: Any = ()) -> list[Row]:
        try:
            return list(self.cursor.execute(sql, params))
        except apsw.Error as error:
            raise told(error, self.path, self.db) from error

    def undo(self) -> None:
        """Rolls back.  Never raises: an error that ended the transaction by itself (disk full, I/O) is fine."""
        with suppress(apsw.Error):
            if self.db.in_transaction:
                self.cursor.execute("rollback")

    def copy_back(self) -> None:
        """Checkpoints, if the log is long.  What cannot be copied now stays in the log, which is as safe."""
        pages = self.log_pages
        if pages < self._copy_at:
            if pages < CHECKPOINT_PAGES:
                self._copy_at = CHECKPOINT_PAGES
            return
        self._copy_at = pages + CHECKPOINT_PAGES  # not at every commit, if somebody reads for long
        grown = pages >= CHECKPOINT_PAGES_MAX
        wait_max_ms, self.wait_max_ms = self.wait_max_ms, CHECKPOINT_WAIT_MS
        with suppress(apsw.BusyError, apsw.LockedError, apsw.FullError, apsw.IOError):
            mode = apsw.SQLITE_CHECKPOINT_RESTART if grown else apsw.SQLITE_CHECKPOINT_PASSIVE
            self.db.wal_checkpoint("main", mode)
        self.wait_max_ms = wait_max_ms

    def migrate(self, name: str, now: int, upto: int = schema.NEWEST) -> None:
        schema.migrate(self.run, self._applied, ["begin immediate"], name, self.path, now, upto)

    def _applied(self) -> list[schema.Applied] | None:
        tables = {row[0] for row in self.run("select name from sqlite_schema where type = 'table'")}
        if "migration" in tables:
            return [schema.Applied(number, bool(contracts)) for number, contracts in self.run(schema.APPLIED)]
        if tables:
            raise StoreError(
                f"database {self.path!r} belongs to another program (it has tables {sorted(tables)[:3]}); "
                "name another file"
            )
        return None


def told(error: apsw.Error, path: str, db: apsw.Connection | None) -> LongTaskError:
    """What an error of the database means to people."""
    number = db.system_errno if db is not None else 0
    system = os.strerror(number) if number else ""
    because = "; ".join(text for text in (str(error), system) if text)
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        pid = None if path == MEMORY else place.writer(Path(path))
        by = f"process {pid}" if pid else "another process"
        return StoreBusy(f"database {path!r} is busy: {by} holds its lock; try again, or end that process if it hangs")
    if isinstance(error, apsw.IOError) and number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        error = apsw.FullError(str(error))  # a quota or a limit of the user
    kind = StoreUnavailable if isinstance(error, apsw.FullError | apsw.IOError) else StoreError
    match error:
        case apsw.FullError():
            means = (
                f"the disk is full, nothing of this was written; free space in {os.path.dirname(path)!r} and try again"
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            means = f"read-only ({because}), nothing was written; change the permissions of the file and its folder"
        case apsw.NotADBError():
            means = f"not a database ({because}); name another file, or restore it from a backup"
        case apsw.CorruptError():
            means = f"damaged ({because}); stop all workers, keep a copy, then run 'longtask doctor'"
        case apsw.CantOpenError():
            means = f"cannot be opened ({because}); look at its folder and permissions"
        case apsw.IOError():
            means = f"the disk failed ({because}), nothing of this was written; look at the disk, then try again"
        case _:
            means = f"{because} ({type(error).__name__}); this is a fault of longtask, please report it"
    return kind(f"database {path!r}: {means}")
