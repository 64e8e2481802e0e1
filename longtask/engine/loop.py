"""Ticks in real time: the only place that sleeps, and the only one that catches everything.

One thread ticks worker and scheduler, if there is one; a second one beats, so that a long tick never costs a lease.

A store that cannot be used for a while (`StoreUnavailable`: its disk is full, its server restarts) is waited for, for a
minute: rounds go on being tried, what runs goes on as long as its lease lasts, one line tells the beginning and one
the end.  Then, and at once for what waiting does not mend, the loop ends with the store's own message.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from longtask.core.errors import StoreBusy, StoreError, StoreUnavailable
from longtask.core.patience import PATIENCE_MS, Patience
from longtask.core.policy import LEASE_MS
from longtask.store.contract import WorkerRow

from .attempt import monotonic_ms
from .dispatcher import Presence
from .scheduler import Scheduler
from .worker import DRAIN_GRACE_MS, Worker

log = logging.getLogger("longtask.loop")

SCHEDULE_EVERY_S = 0.02  # while the worker is busy; an idle round always schedules
PAUSE_MIN_S, PAUSE_RUNNING_MAX_S, PAUSE_MAX_S = 0.002, 0.03, 0.2
PAUSE_HINTED_MAX_S = 1.0  # where others say when there may be work: a hint may be lost, so everybody looks all the same
SEEN_EVERY_S = 5.0
FORGET_EVERY_S = 60.0
FORGET_AFTER_MS = 3_600_000  # an hour: so long `longtask fleet` shows a worker that has died
FORGOTTEN_MAX = 100  # rows at once
BEAT_ENDS_S = 5.0
ERRORS_MAX = 20  # in a row: then something is wrong that waiting does not mend
WORK, SCHEDULE, ASK, WRITE = "work", "schedule", "ask", "write"  # what is tried; the last: whether the store is back


@dataclass(frozen=True, slots=True)
class Pulse:
    """How the loop does.  Ages are ms since; `reason`: what is wrong, None: nothing that it knows of."""

    running: int
    progress_age_ms: int  # since the older of: the last round of work and of scheduling that ended without error
    beat_age_ms: int  # since each lease was prolonged and the worker's row was written
    reason: str | None = None


class Loop:
    def __init__(
        self,
        store: Presence,
        worker: Worker,
        scheduler: Scheduler | None,
        row: WorkerRow,
        *,
        lease_ms: int = LEASE_MS,
        patience_ms: int = PATIENCE_MS,
    ) -> None:
        self._store = store
        self._worker = worker
        self._scheduler = scheduler
        self._row = row
        self._beat_every_s = lease_ms / 3 / 1000
        self._stopping = False  # a plain flag: a signal handler must not wait for a lock that its own thread may hold
        self._ended = threading.Event()
        self._errors: Counter[str] = Counter()  # in a row, of each kind of round
        self._troubled: dict[str, Exception] = {}  # kinds of rounds that the store has failed, and what it said last
        self._patience = Patience(patience_ms)
        self._waiting_since_ms: int | None = None  # for the store, busy or not to be used
        began_ms = monotonic_ms()
        self._progress_ms = {WORK: began_ms} | ({} if scheduler is None else {SCHEDULE: began_ms})
        self._beat_ms = began_ms
        self._beat_error: Exception | None = None
        self._round_error: Exception | None = None
        self.grace_ms = DRAIN_GRACE_MS  # for what runs when it is told to stop
        self.busy_at = time.monotonic()  # when something last moved or ran

    def stop(self) -> None:
        """Drain: no more claims; running attempts give back.  Safe to call from a signal handler."""
        self._stopping = True

    def pulse(self) -> Pulse:
        """From any thread."""
        now = monotonic_ms()
        error = self._round_error or self._beat_error
        said = None if error is None else str(error) or repr(error)
        oldest = min(self._progress_ms.values())
        return Pulse(len(self._worker.running), now - oldest, now - self._beat_ms, said)

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Until `stop`, or until `until` says so while nothing runs.  Raises StoreError."""
        beating = threading.Thread(target=self._beat, name="beat", daemon=True)
        beating.start()
        pause, scheduled_at = PAUSE_MIN_S, 0.0
        try:
            while True:
                if self._stopping and not self._worker.draining:
                    self._worker.drain(grace_ms=self.grace_ms)
                moved = self._guarded(WORK, self._worker.tick)
                now = time.monotonic()
                if self._scheduler is not None and (not moved or now - scheduled_at >= SCHEDULE_EVERY_S):
                    moved += self._guarded(SCHEDULE, self._scheduler.tick)
                    scheduled_at = now
                if self._waiting_since_ms is not None:
                    self._look_whether_it_is_over(self._waiting_since_ms)
                running = self._worker.running
                if moved or running:
                    self.busy_at = now
                if not running and (self._stopping or self._is_over(until)):
                    return
                pause = PAUSE_MIN_S if moved else self._longer(pause * 1.5, bool(running))
                if self._waiting_since_ms is not None:
                    pause = PAUSE_MAX_S
                if not moved:
                    self._store.wait(pause)
        finally:
            self._worker.kill()
            self._ended.set()
            beating.join(BEAT_ENDS_S)  # before the caller closes the store under its hands
            self._leave()

    def _longer(self, pause_s: float, running: bool) -> float:
        """The pause within its limits.  A long one, where hints are heard, ends when something falls due."""
        if running:
            return min(pause_s, PAUSE_RUNNING_MAX_S)
        if pause_s <= PAUSE_MAX_S or not self._store.hinted:
            return min(pause_s, PAUSE_MAX_S)
        with suppress(StoreBusy, StoreError):  # the next round tells
            if (due_at := self._store.next_due_at()) is not None:
                pause_s = min(pause_s, max((due_at - self._store.now()) / 1000, PAUSE_MIN_S))
        return min(pause_s, PAUSE_HINTED_MAX_S)

    def _is_over(self, until: Callable[[], bool]) -> bool:
        """Not while the question cannot be answered: `until` may ask the store."""
        over = False

        def ask() -> None:
            nonlocal over
            over = until()

        self._guarded(ASK, ask)
        return over

    def _leave(self) -> None:
        try:
            self._store.worker_gone(self._row.id)
        except Exception as error:  # its row is forgotten an hour later
            log.warning("leave.error worker=%s: %s", self._row.id, error)

    # --- beats ----------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        """Each lease; its own row, so that all see that it is there; and rows of others who have not been for long."""
        acts: tuple[tuple[float, Callable[[], object]], ...] = (
            (0.0, self._worker.beat),
            (SEEN_EVERY_S, lambda: self._store.worker_seen(self._row)),
            (FORGET_EVERY_S, lambda: self._store.forget_workers(self._store.now() - FORGET_AFTER_MS, FORGOTTEN_MAX)),
        )
        done_at = [0.0] * len(acts)
        while not self._ended.wait(self._beat_every_s):
            failed: Exception | None = None
            for n, (every_s, act) in enumerate(acts):
                now = time.monotonic()
                if now - done_at[n] < every_s:
                    continue
                try:
                    act()
                    done_at[n] = now
                except Exception as error:
                    failed = failed or error
            self._beat_ended(failed)

    def _beat_ended(self, error: Exception | None) -> None:
        """The same error is told once; of what is nobody's mistake, no story of the program."""
        before, self._beat_error = self._beat_error, error
        if error is None:
            self._beat_ms = monotonic_ms()
            if before is not None:
                log.warning("beat.again worker=%s", self._row.id)
            return
        if type(before) is type(error) and str(before) == str(error):
            return
        known = isinstance(error, StoreBusy | StoreError)
        log.error("beat.error worker=%s: %s", self._row.id, error, exc_info=None if known else error)

    # --- rounds ---------------------------------------------------------------------------------------------------

    def _guarded(self, what: str, act: Callable[[], object]) -> int:
        """A failed round is tried again; a store that stays broken ends the loop with its own message."""
        try:
            moved = act()
        except (StoreBusy, StoreUnavailable) as error:
            self._wait_for_the_store(what, error)
        except StoreError:
            raise
        except Exception as error:
            self._round_error = error
            self._errors[what] += 1
            log.exception("tick.error worker=%s what=%s", self._row.id, what)
            if self._errors[what] >= ERRORS_MAX:
                raise
        else:
            self._errors[what] = 0
            self._troubled.pop(what, None)
            if not self._troubled and not any(self._errors.values()):
                self._round_error = None
            if what in self._progress_ms:
                self._progress_ms[what] = monotonic_ms()
            return moved if isinstance(moved, int) else 0
        return 0

    def _wait_for_the_store(self, what: str, error: Exception) -> None:
        """A busy store is waited for without end: somebody else writes, so it is in order."""
        busy = isinstance(error, StoreBusy)
        self._round_error = self._troubled[what] = error
        if self._waiting_since_ms is None:
            self._waiting_since_ms = monotonic_ms()
            if busy:
                log.warning("store.busy worker=%s: %s", self._row.id, error)
        if not busy and self._patience.since is None:
            limit_s = self._patience.limit_ms / 1000
            log.error("store.unavailable worker=%s patience_s=%g: %s", self._row.id, limit_s, error)
        if not busy and not self._patience.left(monotonic_ms()):
            raise error

    def _look_whether_it_is_over(self, since_ms: int) -> None:
        """It is when every kind of round goes through again, and a write does: many rounds only read."""
        self._troubled.pop(ASK, None)  # asked again only when nothing runs
        if self._troubled.keys() - {WRITE}:
            return
        self._guarded(WRITE, lambda: self._store.worker_seen(self._row))
        if not self._troubled:
            self._waiting_since_ms = None
            self._patience.ease(0)
            log.warning("store.back worker=%s after_s=%.1f", self._row.id, (monotonic_ms() - since_ms) / 1000)
