"""`longtask worker`: claims and runs steps until it is told to stop."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from types import FrameType
from typing import Annotated

import typer

from longtask import boot
from longtask.cli.session import Session
from longtask.plan.duration import duration_ms

LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


def register(app: typer.Typer) -> None:
    @app.command(rich_help_panel="Operate")
    def worker(
        ctx: typer.Context,
        slots: Annotated[int, typer.Option(help="steps at once", min=1, max=256)] = 4,
        pool: Annotated[list[str] | None, typer.Option(help="pools to claim from")] = None,
        idle_exit: Annotated[str | None, typer.Option(help="end after so long without work, such as 10m")] = None,
        lease: Annotated[str, typer.Option(help="how long a dead worker's step waits")] = "15s",
        ready_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
    ) -> int:
        """Work on tasks.  SIGTERM drains: running steps are given back; a second one ends at once.

        Example: longtask worker --slots 8
        """
        session: Session = ctx.obj
        logging.getLogger().handlers.clear()
        logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=LOG_FORMAT)
        pools = tuple(pool or ("default",))
        running = boot.make_loop(session.parts, slots=slots, pools=pools, lease_ms=duration_ms(lease))
        stops = 0

        def stop(number: int, frame: FrameType | None) -> None:
            nonlocal stops
            stops += 1
            if stops > 1:
                os._exit(128 + number)  # the wardens kill what runs
            running.loop.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        logging.info("worker.started worker=%s slots=%d pools=%s", running.worker.id, slots, ",".join(pools))
        if ready_fd is not None:
            os.write(ready_fd, b"1")
            os.close(ready_fd)
        idle_s = duration_ms(idle_exit) / 1000 if idle_exit else None
        running.loop.run(lambda: idle_s is not None and time.monotonic() - running.loop.busy_at > idle_s)
        logging.info("worker.ended worker=%s", running.worker.id)
        running.close()
        return 0
