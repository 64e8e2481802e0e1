"""`longtask worker`: claims and runs steps until it is told to stop."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Annotated, TypeVar

import typer

from longtask import boot
from longtask.cli.health import HealthFile
from longtask.cli.help import commands
from longtask.cli.session import Session
from longtask.config import HUB
from longtask.core.errors import BadPlan, Refused, StoreBusy, StoreUnavailable
from longtask.core.model import POOL_DEFAULT, POOL_SYSTEM
from longtask.core.patience import AGAIN_MS, Patience
from longtask.engine.attempt import monotonic_ms
from longtask.engine.dispatcher import Presence
from longtask.plan.duration import duration_ms
from longtask.telemetry.logs import log_lines

log = logging.getLogger("longtask.worker")

LEASE_MIN_MS = 1_000
T = TypeVar("T")


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
        database: a plan's steps name a pool (default: "default"), and a worker claims from those that it was told. With
        --server it asks that server for work, by HTTP, and needs no database: a token of the role `worker`, and access
        to the git remotes of the hub ($LONGTASK_HUB, else what the server names).

        SIGTERM or Ctrl-C drains: agents save a checkpoint, what does not end within the grace is killed, and each step
        is given back, so that another worker goes on with it at once. A second one ends at once: the steps go on when
        their lease ends. A database that cannot be reached, or a full disk, is waited for, for a minute.

        Examples:
            longtask worker --slots 8
            longtask worker --pool default --pool gpu --slots 2
            longtask worker --idle-exit 1h --health /run/longtask.json
            longtask worker --server https://longtask.example.com
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
    patiently(lambda: session.parts.store.now())  # it is opened there


def patiently(reach: Callable[[], T]) -> T:
    """What `reach` answers, as soon as the store or the server does.  Raises what it raises, after a minute."""
    patience = Patience()
    while True:
        try:
            return reach()
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
            raise BadPlan(f"--pool {pool!r}: not a pool of steps; those of the system are served without being named")
        if session.server is None and pool != POOL_DEFAULT and not session.parts.store.pool_named(pool):
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
    if session.server is None:
        open_patiently(session)
    check_pools(session, chosen.pools)
    presence, running = open_elsewhere(session, chosen) if session.server else open_here(session, chosen)
    idle_ms = chosen.idle_ms
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
        return presence.next_due_at() is None

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    faulthandler.register(signal.SIGUSR1)  # where every thread is, into the log: for a worker that seems to hang
    health = None
    try:
        try:
            health = open_health(chosen, running)
        except BadPlan:
            presence.worker_gone(running.worker.id)
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


def open_here(session: Session, chosen: Chosen) -> tuple[Presence, boot.Running]:
    """Beside the store."""
    running = boot.make_loop(session.parts, slots=chosen.slots, pools=chosen.pools, lease_ms=chosen.lease_ms)
    return session.parts.store, running


def open_elsewhere(session: Session, chosen: Chosen) -> tuple[Presence, boot.Running]:
    """With a server in place of the store.  Of this machine's settings home and hub count."""
    with boot.LOADING:
        from longtask.client.dispatcher import ServerDispatcher

    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each request says nothing
    config = session.config
    copies = config.artifact_cache
    server = patiently(lambda: ServerDispatcher(session.server, copies=copies, lease_ms=chosen.lease_ms))
    try:
        config = replace(config, hub=reachable_hub(config.hub or server.hub))
        running = boot.make_loop_elsewhere(config, server, id=server.id, slots=chosen.slots, pools=chosen.pools)
    except BaseException:
        server.close()
        raise
    return server, replace(running, close=lambda: close_both(running.close, server.close))


def close_both(first: Callable[[], None], then: Callable[[], None]) -> None:
    first()
    then()


def reachable_hub(hub: str | None) -> str:
    """Raises Refused: what steps work on could not be fetched here."""
    if hub is None:
        raise Refused(
            "the server keeps code on its own disk alone, where no worker elsewhere can fetch it; start server and "
            f"workers with {HUB}, the address of git remotes that both reach"
        )
    if "://" not in hub and not Path(hub).is_dir():
        raise Refused(f"the hub of the code, folder {hub!r}, is not there on this machine; mount it, or set {HUB}")
    return hub
