"""Who works, and what waits for somebody to work on it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from longtask.core.model import POOL_DEFAULT, POOL_SYSTEM
from longtask.store.contract import PoolLoad, Store, WorkerRow

ALIVE_MS = 30_000  # a worker tells every five seconds that it is there
SHOWN_MAX = 1_000


def fleet_map(store: Store) -> dict[str, Any]:
    """The shape of `fleet --json`."""
    workers, running = store.workers(SHOWN_MAX), store.worker_loads(SHOWN_MAX)
    loads, now = store.pool_loads(SHOWN_MAX), store.now()
    return {
        "workers": [worker_map(row, running.get(row.id, 0), now) for row in workers],
        "pools": pool_maps(workers, loads, now),
    }


def alive(worker: WorkerRow, now: int) -> bool:
    return now - worker.seen_at <= ALIVE_MS


def worker_map(worker: WorkerRow, running: int, now: int) -> dict[str, Any]:
    return {
        "id": worker.id,
        "host": worker.host,
        "pid": worker.pid,
        "version": worker.version or None,
        "pools": list(worker.pools),
        "slots": worker.slots,
        "running": running,
        "started_at": worker.started_at,
        "seen_at": worker.seen_at,
        "lag_ms": max(now - worker.seen_at, 0),
        "alive": alive(worker, now),
    }


def pool_maps(workers: list[WorkerRow], loads: list[PoolLoad], now: int) -> list[dict[str, Any]]:
    """Pools that somebody serves or that something waits for.  Every worker serves the steps of the system."""
    ready = {load.pool: load for load in loads}
    living = [worker for worker in workers if alive(worker, now)]
    names = sorted({pool for worker in living for pool in worker.pools} | ready.keys())
    found = []
    for name in names:
        load = ready.get(name)
        serving = [worker for worker in living if name in worker.pools or name == POOL_SYSTEM]
        found.append(
            {
                "pool": name,
                "workers": len(serving),
                "slots": None if name == POOL_SYSTEM else sum(worker.slots for worker in serving),
                "ready": load.ready if load else 0,
                "oldest_ready_ms": max(now - load.due_at, 0) if load else None,
            }
        )
    return found


def live_workers(store: Store) -> list[WorkerRow]:
    """Workers of the usual pool that were seen lately; on this machine also with a living process."""
    since = store.now() - ALIVE_MS
    rows = [row for row in store.workers(1_000) if row.seen_at >= since and POOL_DEFAULT in row.pools]
    return [row for row in rows if row.host != os.uname().nodename or _lives(row.pid)]


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX"
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return False
    except OSError:
        return True
    try:  # a system without /proc
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
