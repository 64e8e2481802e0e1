"""The user's background worker: found or started, so that work goes on when the terminal closes.

It has a session of its own, a log, and ends after ten idle minutes.  Commands that make work ready call
`ensure_worker`; whoever watches keeps one alive with a `Keeper`.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from longtask.agents.catalog import KEYS, SETTINGS
from longtask.cli.session import Session, inside_step
from longtask.config import DATABASE, HOME
from longtask.core.errors import StoreError
from longtask.core.machine import status
from longtask.core.model import POOL_SYSTEM, Task
from longtask.views.fleet import ALIVE_MS, live_workers

IDLE_EXIT = "10m"
LOG_BYTES_MAX = 20_000_000
LOG_LINES_SHOWN = 5
LOOK_EVERY_S = 3.0
STARTS_MAX = 5
MOVING = ("running", "queued", "cancelling", "waiting_timer")  # words of tasks that need a worker now


def idle(session: Session, tasks: Sequence[Task]) -> bool:
    """Tasks that should move, and nobody who moves them."""
    return any(status(task) in MOVING for task in tasks) and not live_workers(session.parts.store)


def warn_if_idle(session: Session, tasks: Sequence[Task]) -> None:
    """Open tasks that nothing works on look alive otherwise."""
    if idle(session, tasks):
        what = "it" if len(tasks) == 1 else "open tasks"
        session.warn(f"nothing works on {what} now: no worker is alive; start one: {session.command('worker')}")


def log_file(session: Session) -> Path:
    return session.config.logs / "worker.log"


def ensure_worker(session: Session, extra: Sequence[str] = ()) -> None:
    """Starts one in a session of its own if none lives.  Safe when several commands do it at once.

    Raises StoreError with the last words of one that could not start."""
    if inside_step():
        return  # whoever runs the step is alive
    if live_workers(session.parts.store):
        warn_of_keys(session)
        return
    logs = session.config.logs
    logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(logs / "worker.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not live_workers(session.parts.store):
            _start(session, extra)


def model_names() -> set[str]:
    """Names of this environment that agents are given."""
    return {name for name in (*KEYS, *SETTINGS) if os.environ.get(name)}


def warn_of_keys(session: Session) -> None:
    """A worker in the background keeps the environment that it was started with."""
    try:
        had = set(json.loads(names_file(session).read_text()))
    except (OSError, ValueError):
        return  # it was started in another way
    if missing := sorted(model_names() - had):
        session.warn(
            f"the background worker was started without {', '.join(missing)}, and its agents run without; end it "
            f"(`kill` with the number in `{session.command('fleet')}`), and the next command starts another"
        )


def names_file(session: Session) -> Path:
    return session.config.logs / "worker.names"


def _start(session: Session, extra: Sequence[str]) -> None:
    config, log_path = session.config, log_file(session)
    if log_path.exists() and log_path.stat().st_size > LOG_BYTES_MAX:
        log_path.replace(log_path.with_suffix(".log.1"))
    database = config.database
    if "://" not in database:
        database = os.path.abspath(os.path.expanduser(database))
    elif database.startswith("sqlite:///"):
        database = os.path.abspath(database.removeprefix("sqlite:///"))
    names_file(session).write_text(json.dumps(sorted(model_names())))
    command = [sys.executable, "-m", "longtask.cli.main", "worker", "--idle-exit", IDLE_EXIT]
    ready_r, ready_w = os.pipe()
    with open(ready_r, "rb") as ready, open(log_path, "ab") as log:
        try:
            subprocess.Popen(
                [*command, "--ready-fd", str(ready_w), *extra],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(ready_w,),
                cwd=config.home,  # it may outlive the folder that the command was called in
                # the database not as an argument, which every user of the machine can read: it may hold a password
                env={**os.environ, HOME: str(config.home), DATABASE: database},
            )
        finally:
            os.close(ready_w)
        if not ready.read(1):  # it has registered, or died
            said = log_path.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
            raise StoreError(
                f"the background worker did not start; {log_path} ends with: {' | '.join(said) or 'nothing'}; "
                f"try it in the foreground: {session.command('worker')}"
            )


class Keeper:
    """Asked at each look of a view: True to go on.  Starts another worker when the last one has died meanwhile."""

    def __init__(self, session: Session, extra: Sequence[str] = ()) -> None:
        self._session = session
        self._extra = extra
        self._looked_at = time.monotonic()
        self._starts = 0
        self._warned: set[str] = set()  # pools

    def __call__(self, task: Task) -> bool:
        if time.monotonic() - self._looked_at < LOOK_EVERY_S:
            return True
        self._looked_at = time.monotonic()
        if status(task) == "queued":
            self._warn_of_unserved_pools()
        if not idle(self._session, [task]):
            return True
        self._starts += 1
        if self._starts > STARTS_MAX:
            raise StoreError(
                f"the background worker has died {STARTS_MAX} times meanwhile; {log_file(self._session)} tells more"
            )
        self._session.warn("the background worker has died; another one goes on")
        ensure_worker(self._session, self._extra)
        return True

    def _warn_of_unserved_pools(self) -> None:
        """Once each: such a step waits without end, and nothing else says so while one watches."""
        store = self._session.parts.store
        served = {pool for row in store.workers(1_000) if row.seen_at >= store.now() - ALIVE_MS for pool in row.pools}
        for load in store.pool_loads(1_000):
            if load.pool not in served | {POOL_SYSTEM} | self._warned:
                self._warned.add(load.pool)
                start = self._session.command("worker", "--pool", load.pool)
                self._session.warn(f"nobody serves pool {load.pool!r}, for which a step waits; start one: {start}")
