"""The user's background worker: found or started, so that work goes on when the terminal closes."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence

from longtask.cli.session import Session
from longtask.store.contract import WorkerRow

ALIVE_MS = 30_000
IDLE_EXIT = "10m"


def live_workers(session: Session) -> list[WorkerRow]:
    """Workers seen lately; on this machine also with a living process."""
    store = session.parts.store
    rows = [row for row in store.workers(1_000) if row.seen_at >= store.now() - ALIVE_MS]
    return [row for row in rows if row.host != os.uname().nodename or _lives(row.pid)]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def ensure_worker(session: Session, extra: Sequence[str] = ()) -> None:
    """Starts one in a session of its own if none lives.  Safe when several commands do it at once."""
    if live_workers(session):
        return
    config = session.config
    config.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(config.logs / "worker.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if live_workers(session):
            return
        ready_r, ready_w = os.pipe()
        with open(config.logs / "worker.log", "ab") as log:
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "longtask.cli.main", "--database", config.database),
                    *("worker", "--idle-exit", IDLE_EXIT, "--ready-fd", str(ready_w), *extra),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(ready_w,),
                env={**os.environ, "LONGTASK_HOME": str(config.home)},
            )
        os.close(ready_w)
        os.read(ready_r, 1)  # until it has registered, or died
        os.close(ready_r)
