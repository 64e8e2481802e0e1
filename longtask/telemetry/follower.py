"""Reads the feed of all events and writes what comes of them into the trace file, in a thread beside the work.

- Nothing is asked of whoever does the work: no queue, no call, no lock.  The journal is the queue, so it is bounded and
  drops nothing; a follower that is late catches up, and takes SHARE of the time at most.
- Spans, counters and the place in the feed are one transaction: killed anywhere, it goes on where it was.
- Of several processes with one home, one follows; if that dies, another goes on within seconds (a file lock).
- A task whose trace is not in the file, or is behind, is read from its own journal.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from longtask.core.errors import LongTaskError, NotFound
from longtask.core.events import Event
from longtask.core.model import Kind
from longtask.telemetry.counts import Counts, Labels
from longtask.telemetry.file import Batch, TraceFile
from longtask.telemetry.fold import CALLS_MAX, Fold
from longtask.telemetry.settings import TraceSettings
from longtask.telemetry.source import Call, Source, Span

log = logging.getLogger("longtask.trace")

YOUNG_MS = 3_600_000
PAGE = 500  # events in one transaction
SHARE = 0.05  # of the time, while work is done in the same process
IDLE_S = 1.0
LOCK_EVERY_S = 3.0
AGAIN_S = 10.0  # after an error
TIDY_EVERY_S = 60.0
STOP_MAX_S = 10.0
FLUSH_S = 2.0


class Reader:
    """Brings the trace file up to the journal: all of the feed, or one task."""

    def __init__(self, source: Source, file: TraceFile, settings: TraceSettings) -> None:
        self._source = source
        self._file = file
        self._settings = settings
        self._known: dict[str, set[Labels]] | None = None  # labels of counters
        self._database: str | None = None

    @property
    def database(self) -> str:
        if self._database is None:
            self._database = self._source.identity()
        return self._database

    def round(self, limit: int = PAGE) -> int:
        """One page of the feed; how many events it had.  Of several readers of one page, one writes it."""
        place = self._file.place(self.database)
        if not place[1]:
            place = self._first_place()
        events, following = self._source.feed(place[0], limit)
        if not events:
            return 0
        known, self._known = self._known, None  # if this fails, it may hold what was never written
        if known is None:
            known = {}
            for name, labels in self._file.counters(self.database):
                known.setdefault(name, set()).add(labels)
        with self._file.batch() as batch:
            if self._file.place(self.database) != place:
                return len(events)
            batch.of(self.database, known)
            self._fold_all(batch, events)
            batch.move(self.database, following, events[-1].at)
        self._known = known
        return len(events)

    def _first_place(self) -> tuple[str, int]:
        """A new file on an old database begins with what is new: older traces are read when somebody asks for them."""
        first, _ = self._source.feed("", 1)
        now = self._source.now()
        if not first or now - first[0].at < YOUNG_MS:
            return "", 0
        place = self._source.feed_end(), now
        with self._file.batch() as batch:
            batch.move(self.database, *place)
        return place

    def catch_up(self, task_id: str, seq: int) -> None:
        """The spans of one task, up to this event.  Raises NotFound."""
        if self._file.seq(task_id) < seq:
            with self._file.batch() as batch:
                self._read_on(batch, Fold(batch, self._calls, content=self._settings.content), task_id, seq)

    def running(self, attempts: Iterable[Span]) -> list[Span]:
        """Runs and calls of agents' attempts that go on, as the run journal has them now.  They are written when their
        attempt ends."""
        seen = Seen()
        for attempt in attempts:
            if not attempt.ended_at and attempt.attributes.get("longtask.step.kind") == Kind.AGENT:
                Fold(seen, self._calls, content=self._settings.content).calls(attempt, self._source.now())
        return list(seen.spans.values())

    def _calls(self, task_id: str, step: str, attempt: int) -> list[Call]:
        return self._source.calls(task_id, step, attempt, CALLS_MAX, bodies=self._settings.content)

    def _fold_all(self, batch: Batch, events: list[Event]) -> None:
        fold, counts = Fold(batch, self._calls, content=self._settings.content), Counts(batch)
        too_old = self._source.now() - self._settings.keep_ms
        for event in events:
            if self._settings.enabled and (event.at >= too_old or batch.seq(event.task_id)):
                known = batch.seq(event.task_id)
                if event.seq == known + 1:
                    fold.add(event)
                    batch.advance(event.task_id, event.seq, event.at)
                elif event.seq > known:
                    self._fill(batch, fold, event)
            counts.add(event)

    def _fill(self, batch: Batch, fold: Fold, event: Event) -> None:
        """What lies between, and the event."""
        try:
            self._read_on(batch, fold, event.task_id, event.seq)
        except NotFound:  # the task was pruned
            batch.advance(event.task_id, event.seq, event.at)

    def _read_on(self, batch: Batch, fold: Fold, task_id: str, seq: int) -> None:
        known = batch.seq(task_id)
        while known < seq:
            page = self._source.events(task_id, known, min(PAGE, seq - known))
            if not page:
                return
            for event in page:
                fold.add(event)
            known = page[-1].seq
            batch.advance(task_id, known, page[-1].at)


class Seen:
    """`fold.Spans` that are only looked at."""

    def __init__(self) -> None:
        self.spans: dict[str, Span] = {}

    def find(self, id: str) -> Span | None:
        return self.spans.get(id)

    def add(self, span: Span) -> bool:
        self.spans[span.id] = span
        return True

    def put(self, span: Span) -> None:
        self.spans[span.id] = span


class Follower:
    """The thread.  `home`: where the trace file lies.  `share`: of the time.  `send`: begins to send spans to a
    collector, once it is this process that follows, and answers how that is ended; then what is left is read first."""

    def __init__(
        self,
        source: Source,
        home: Path,
        settings: TraceSettings,
        *,
        send: Callable[[], Callable[[], None] | None] | None = None,
        share: float = SHARE,
        first_s: float = IDLE_S,
    ) -> None:
        self._source = source
        self._home = home
        self._settings = settings
        self._send = send
        self._end_sending: Callable[[], None] | None = None
        self._share = share
        self._first_s = first_s
        self._stopped = threading.Event()
        self._lock: int | None = None
        self._file: TraceFile | None = None
        self._reader: Reader | None = None
        self._tidied = time.monotonic()
        self._failed = ""
        self._thread = threading.Thread(target=self._follow, name="trace", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Before the store is closed."""
        self._stopped.set()
        self._thread.join(STOP_MAX_S)

    def _follow(self) -> None:
        pause = self._first_s
        try:
            while not self._stopped.wait(pause):
                pause = self._guarded(self._look)
            if self._send is not None:
                self._guarded(self._flush)
        finally:
            if self._end_sending is not None:
                self._end_sending()
            self._let_go()

    def _guarded(self, act: Callable[[], float]) -> float:
        """Whatever goes wrong here, work goes on; the same trouble is told once."""
        try:
            pause = act()
        except (LongTaskError, OSError) as error:
            self._trouble(str(error), None)
        except Exception as error:  # noqa: BLE001  a bug of ours costs traces, never a worker
            self._trouble(repr(error), error)
        else:
            self._failed = ""
            return pause
        return AGAIN_S

    def _trouble(self, said: str, error: Exception | None) -> None:
        if said != self._failed:
            log.warning("trace.error: %s", said, exc_info=error)
        self._failed = said
        if self._file is not None:
            with suppress(Exception):
                self._file.close()
        self._file = self._reader = None

    def _look(self) -> float:
        """One page; how long to pause then."""
        reader = self._mine()
        if reader is None:
            return LOCK_EVERY_S
        began = time.monotonic()
        events = reader.round()
        now = time.monotonic()
        if now - self._tidied >= TIDY_EVERY_S and self._file is not None:
            before = self._source.now() - self._settings.keep_ms
            if not self._file.evict(before, self._settings.bytes_max):
                self._tidied = now
        pause = (now - began) * (1 / self._share - 1)
        return max(pause, IDLE_S) if events < PAGE else pause

    def _flush(self) -> float:
        end = time.monotonic() + FLUSH_S
        reader = self._mine()
        while reader is not None and reader.round() and time.monotonic() < end:
            pass
        return 0

    def _mine(self) -> Reader | None:
        """None: another process follows."""
        if self._reader is None:
            database = self._source.identity()
            if self._lock is None:
                self._lock = _lock(self._home / f"traces-{database[:12]}.lock")
            if self._lock is None:
                return None
            if self._send is not None and self._end_sending is None:
                self._end_sending = self._send()
            self._file = TraceFile.at(self._home)
            self._reader = Reader(self._source, self._file, self._settings)
        return self._reader

    def _let_go(self) -> None:
        if self._file is not None:
            with suppress(Exception):
                self._file.close()
        if self._lock is not None:
            os.close(self._lock)


def _lock(path: Path) -> int | None:
    """Held as long as the descriptor is open, and by no child."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd
