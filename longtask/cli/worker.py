"""`longtask worker`: claims and runs steps until it is told to stop."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import time
from types import FrameType
from typing import Annotated

import typer

from longtask import boot
from longtask.cli.help import commands
from longtask.cli.session import Session
from longtask.core.errors import BadPlan
from longtask.plan.duration import duration_ms

LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"
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
        ready_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
    ) -> int:
        """Work on tasks, in the foreground.

        `longtask run` starts one in the background by itself. SIGTERM or Ctrl-C drains: running steps are given back,
        and go on elsewhere from their last checkpoint; a second one ends at once.

        Examples:
            longtask worker --slots 8
            longtask worker --pool gpu --idle-exit 1h
        """
        session: Session = ctx.obj
        logging.getLogger().handlers.clear()
        logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=LOG_FORMAT)
        lease_ms = duration_ms(lease)
        if lease_ms < LEASE_MIN_MS:
            raise BadPlan(f"--lease {lease}: at least 1s, else a busy machine loses its own steps")
        idle_ms = duration_ms(idle_exit) if idle_exit else None
        return work(session, slots, tuple(pool or ("default",)), idle_ms, lease_ms, ready_fd)


def work(
    session: Session, slots: int, pools: tuple[str, ...], idle_ms: int | None, lease_ms: int, ready_fd: int | None
) -> int:
    """Until a signal, or for `idle_ms` nothing has moved and nothing will fall due by itself (a timer, a deadline)."""
    running = boot.make_loop(session.parts, slots=slots, pools=pools, lease_ms=lease_ms)
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
    logging.info("worker.started worker=%s slots=%d pools=%s", running.worker.id, slots, ",".join(pools))
    if ready_fd is not None:
        os.write(ready_fd, b"1")
        os.close(ready_fd)
    try:
        running.loop.run(idle)
    finally:
        logging.info("worker.ended worker=%s", running.worker.id)
        running.close()
    return 0
