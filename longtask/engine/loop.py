"""Ticks in real time: the only place that sleeps, and the only one that catches everything.

One thread ticks worker and scheduler; a second one beats, so that a long tick never costs a lease.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

from longtask.core.errors import StoreBusy, StoreError
from longtask.core.policy import LEASE_MS
from longtask.store.contract import Store, WorkerRow

from .scheduler import Scheduler
from .worker import Worker

log = logging.getLogger("longtask.loop")

SCHEDULE_EVERY_S = 0.02  # while the worker is busy; an idle round always schedules
PAUSE_MIN_S, PAUSE_RUNNING_MAX_S, PAUSE_MAX_S = 0.002, 0.03, 0.2
SEEN_EVERY_S = 5.0
BEAT_ENDS_S = 5.0
ERRORS_MAX = 20  # in a row: then something is wrong that waiting does not mend


class Loop:
    def __init__(
        self, store: Store, worker: Worker, scheduler: Scheduler, row: WorkerRow, *, lease_ms: int = LEASE_MS
    ) -> None:
        self._store = store
        self._worker = worker
        self._scheduler = scheduler
        self._row = row
        self._beat_every_s = lease_ms / 3 / 1000
        self._stopping = False  # a plain flag: a signal handler must not wait for a lock that its own thread may hold
        self._ended = threading.Event()
        self._errors: Counter[str] = Counter()  # in a row, of each kind of round
        self.busy_at = time.monotonic()  # when something last moved or ran

    def stop(self) -> None:
        """Drain: no more claims; running attempts give back.  Safe to call from a signal handler."""
        self._stopping = True

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Until `stop`, or until `until` says so while nothing runs."""
        beating = threading.Thread(target=self._beat, name="beat", daemon=True)
        beating.start()
        pause, scheduled_at = PAUSE_MIN_S, 0.0
        try:
            while True:
                if self._stopping and not self._worker.draining:
                    self._worker.drain()
                moved = self._guarded("work", self._worker.tick)
                now = time.monotonic()
                if not moved or now - scheduled_at >= SCHEDULE_EVERY_S:
                    moved += self._guarded("schedule", self._scheduler.tick)
                    scheduled_at = now
                running = self._worker.running
                if moved or running:
                    self.busy_at = now
                if not running and (self._stopping or until()):
                    return
                pause = PAUSE_MIN_S if moved else min(pause * 1.5, PAUSE_RUNNING_MAX_S if running else PAUSE_MAX_S)
                if not moved:
                    time.sleep(pause)
        finally:
            self._worker.kill()
            self._ended.set()
            beating.join(BEAT_ENDS_S)  # before the caller closes the store under its hands
            self._guarded("leave", lambda: self._store.worker_gone(self._row.id))

    def _beat(self) -> None:
        seen_at = 0.0
        while not self._ended.wait(self._beat_every_s):
            try:
                self._worker.beat()
                if time.monotonic() - seen_at >= SEEN_EVERY_S:
                    self._store.worker_seen(self._row)
                    seen_at = time.monotonic()
            except Exception:
                log.exception("beat.error worker=%s", self._row.id)

    def _guarded(self, what: str, act: Callable[[], object]) -> int:
        """A failed round is logged and tried again; a store that stays broken ends the loop with its own message."""
        try:
            moved = act()
            self._errors[what] = 0
            return moved if isinstance(moved, int) else 0
        except StoreBusy as busy:
            log.warning("store.busy worker=%s: %s", self._row.id, busy)
        except StoreError:
            raise
        except Exception:
            self._errors[what] += 1
            log.exception("tick.error worker=%s what=%s", self._row.id, what)
            if self._errors[what] >= ERRORS_MAX:
                raise
        return 0
