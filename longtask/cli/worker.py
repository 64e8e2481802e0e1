"""`longtask worker`: claims and runs steps until it is told to stop."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from longtask import boot
from longtask.cli.health import HealthFile
from longtask.cli.help import commands
from longtask.cli.session import Session
from longtask.core.errors import BadPlan, StoreBusy, StoreUnavailable
from longtask.core.model import POOL_DEFAULT, POOL_SYSTEM
from longtask.core.patience import AGAIN_MS, Patience
from longtask.engine.attempt import monotonic_ms
from longtask.plan.duration import duration_ms
from longtask.telemetry.logs import log_lines

log = logging.getLogger("longtask.worker")

LEASE_MIN_MS = 1_000


def register(app: typer.Typer) -> None:
    command = commands(app, "Operate")

    @command()
    def worker(
        ctx: typer.Context,
        slots: Annotated[int, typer.Option(metavar="N", help="steps at once; default: 4", min=1, max=256)] = 4,
        pool: Annotated[
            list[str] | None,
            typer.Option(metavar="NAME", help="a pool to claim from, again and again for several; default: default"),
        ] = None,
        idle_exit: Annotated[
            str | None, typer.Option(metavar="TIME", help="end after so long without work, such as 10m; default: never")
        ] = None,
        lease: Annotated[
            str,
            typer.Option(
                metavar="TIME",
                envvar="LONGTASK_LEASE",
                help="how long the step of a dead worker waits for another; default: $LONGTASK_LEASE, else 15s",
            ),
        ] = "15s",
        grace: Annotated[
            str,
            typer.Option(metavar="TIME", help="after SIGTERM, so long running steps may clean up; default: 1s"),
        ] = "1s",
        health: Annotated[
            Path | None, typer.Option(metavar="FILE", help="tell there every other second how it does, as JSON")
        ] = None,
        ready_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
    ) -> int:
        """Work on tasks, in the foreground.

        `longtask run` starts one in the background by itself. Start any number of them, on any machine that reaches the
        database: a plan's steps name a pool (default: "default"), and a worker claims from those that it was told.

        SIGTERM or Ctrl-C drains: agents save a checkpoint, what does not end within the grace is killed, and each step
        is given back, so that another worker goes on with it at once. A second one ends at once: the steps go on when
        their lease ends. A database that cannot be reached, or a full disk, is waited for, for a minute.

        Examples:
            longtask worker --slots 8
            longtask worker --pool default --pool gpu --slots 2
            longtask worker --idle-exit 1h --health /run/longtask.json
        """
        session: Session = ctx.obj
        log_lines(sys.stderr)
        lease_ms = duration_ms(lease)
        if lease_ms < LEASE_MIN_MS:
            raise BadPlan(f"--lease {lease}: at least 1s, else a busy machine loses its own steps")
        chosen = Chosen(
            slots=slots,
            pools=tuple(dict.fromkeys(pool or (POOL_DEFAULT,))),
            idle_ms=duration_ms(idle_exit) if idle_exit else None,
            lease_ms=lease_ms,
            grace_ms=duration_ms(grace),
            health=health,
        )
        return work(session, chosen, ready_fd)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a worker was told on its command line."""

    slots: int
    pools: tuple[str, ...]
    idle_ms: int | None
    lease_ms: int
    grace_ms: int
    health: Path | None


def open_patiently(session: Session) -> None:
    """A worker may start before its database does, as everything does after a power cut."""
    patience = Patience()
    while True:
        try:
            session.parts.store.now()
            return
        except (StoreBusy, StoreUnavailable) as error:
            if patience.since is None:
                log.error("store.unavailable patience_s=%g: %s", patience.limit_ms / 1000, error)
            if not patience.left(monotonic_ms()):
                raise
            time.sleep(AGAIN_MS / 1000)


def check_pools(session: Session, pools: tuple[str, ...]) -> None:
    """Raises BadPlan for what no step can name.  One that no step names yet is only noted: its tasks may come."""
    for pool in pools:
        if pool == POOL_SYSTEM or not pool:
            raise BadPlan(f"--pool {pool!r}: not a pool of steps; every worker serves those of the system by itself")
        if pool != POOL_DEFAULT and not session.parts.store.pool_named(pool):
            log.warning("pool.unused pool=%s: no open step names it now; is it spelled as in the plans?", pool)


def open_health(chosen: Chosen, running: boot.Running) -> HealthFile | None:
    """Raises BadPlan: the file cannot be written."""
    if chosen.health is None:
        return None
    about = {"worker": running.worker.id, "pools": list(chosen.pools), "slots": chosen.slots}
    try:
        return HealthFile(chosen.health, running.loop, about, lease_ms=chosen.lease_ms)
    except OSError as error:
        where = str(chosen.health)
        raise BadPlan(f"--health {where!r} cannot be written: {error.strerror}; name another file") from None


def work(session: Session, chosen: Chosen, ready_fd: int | None) -> int:
    """Until a signal, or for `idle_ms` nothing has moved and nothing will fall due by itself (a timer, a deadline)."""
    open_patiently(session)
    check_pools(session, chosen.pools)
    idle_ms = chosen.idle_ms
    running = boot.make_loop(session.parts, slots=chosen.slots, pools=chosen.pools, lease_ms=chosen.lease_ms)
    running.loop.grace_ms = chosen.grace_ms
    stops = 0

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stops
        stops += 1
        if stops > 1:
            os._exit(128 + number)  # the wardens kill what runs
        running.loop.stop()

    def idle() -> bool:
        if idle_ms is None or (time.monotonic() - running.loop.busy_at) * 1000 < idle_ms:
            return False
        return session.parts.store.next_due_at() is None

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    faulthandler.register(signal.SIGUSR1)  # where every thread is, into the log: for a worker that seems to hang
    health = None
    try:
        try:
            health = open_health(chosen, running)
        except BadPlan:
            session.parts.store.worker_gone(running.worker.id)
            raise
        pools = ",".join(chosen.pools)
        logging.info("worker.started worker=%s slots=%d pools=%s", running.worker.id, chosen.slots, pools)
        if ready_fd is not None:
            os.write(ready_fd, b"1")
            os.close(ready_fd)
        running.loop.run(idle)
    finally:
        if health is not None:
            health.close()
        logging.info("worker.ended worker=%s", running.worker.id)
        running.close()
    return 0
