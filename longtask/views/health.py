"""Whether a worker is in order, and whether work moves."""

from __future__ import annotations

from dataclasses import dataclass

from longtask.engine.loop import Pulse
from longtask.store.contract import Store
from longtask.views.fleet import SHOWN_MAX, alive
from longtask.views.words import duration

STALLED_MS = 45_000  # a round may wait 30 seconds for the lock of an SQLite file, and is in order
UNBEATEN_LEASES = 2  # so many leases without a beat: what runs here has been lost
TASKS_MAX = 10_000


def judged(pulse: Pulse, lease_ms: int, stalled_ms: int = STALLED_MS) -> str | None:
    """Why the worker is not in order; None: it is."""
    why = "" if pulse.reason is None else f": {pulse.reason}"
    if pulse.progress_age_ms > stalled_ms:
        return f"no round has ended without an error for {duration(pulse.progress_age_ms)}{why}"
    if pulse.running and pulse.beat_age_ms > UNBEATEN_LEASES * lease_ms:
        return f"no lease was prolonged for {duration(pulse.beat_age_ms)}{why}"
    return None


@dataclass(frozen=True, slots=True)
class Work:
    """Of the whole installation.  `oldest_ms`: how long the step has been ready that waits longest for a worker;
    `unserved`: pools that something waits for and no living worker serves."""

    workers: int
    slots: int
    oldest_ms: int
    unserved: int


def work_of(store: Store) -> Work:
    now = store.now()
    living = [worker for worker in store.workers(SHOWN_MAX) if alive(worker, now)]
    queues = store.queues(TASKS_MAX)
    served = {pool for worker in living for pool in worker.pools}
    unserved = [queue for queue in queues if queue.pool not in served and not (queue.pool == "system" and living)]
    oldest_ms = max((now - queue.due_at for queue in queues), default=0)
    return Work(len(living), sum(worker.slots for worker in living), max(oldest_ms, 0), len(unserved))
