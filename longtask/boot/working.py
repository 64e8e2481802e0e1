"""Workers: with a scheduler beside the store, or elsewhere with a server in its place."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from longtask import __version__
from longtask.boot.executors import Executors, LaterPlaces, carriers, executors, runtime_of
from longtask.boot.late import LOADING, Language
from longtask.boot.parts import POSTGRES, Parts, put_json
from longtask.config import Config
from longtask.core.model import JsonMap, Kind, Step, Task
from longtask.core.policy import LEASE_MS
from longtask.store.contract import Ref, Store, WorkerRow

if TYPE_CHECKING:
    from longtask.engine.claiming import Runtime
    from longtask.engine.dispatch import Dispatch
    from longtask.engine.dispatcher import Dispatcher, Elsewhere, Presence
    from longtask.engine.loop import Loop
    from longtask.engine.scheduler import Scheduler
    from longtask.engine.upkeep import Upkeep
    from longtask.engine.worker import Worker
    from longtask.steps.contract import Executor

RUNS_LOOKED_AT = 20
TRACING_SHARE_SERVING = 0.1  # of the time of a process that mostly waits for others


@dataclass(frozen=True, slots=True)
class Running:
    loop: Loop
    worker: Worker
    close: Callable[[], None]


def make_loop(
    parts: Parts,
    *,
    slots: int = 4,
    pools: tuple[str, ...] = ("default",),
    lease_ms: int = LEASE_MS,
    id: str | None = None,
) -> Running:
    """A worker with its scheduler.  The caller runs `loop.run()` and closes afterwards."""
    from concurrent.futures import ThreadPoolExecutor

    from longtask.engine.merging import follow
    from longtask.engine.scheduler import Scheduler
    from longtask.engine.upkeep import Keeper

    store = parts.store
    places = LaterPlaces(parts.config)
    follower = ThreadPoolExecutor(1, thread_name_prefix="follow")  # one: references are moved in their order
    keeper = Keeper(lambda: make_upkeep(parts, parts.config.retention_ms))
    end_tracing = keep_traces(parts, serving=False)

    def follow_later(task: Task) -> None:
        follower.submit(follow, parts.merger, task)

    def close() -> None:
        keeper.stop()
        follower.shutdown(wait=True)
        end_tracing()
        parts.merger.close()
        store.close()

    return _working(
        make_dispatch(parts, runtime=partial(runtime_of, parts.config.home), lease_ms=lease_ms),
        store,
        executors(parts, places),
        places,
        Scheduler(store, parts.scopes, parts.expressions, parts.merger, lease_ms=lease_ms),
        id=id or new_worker_id(),
        slots=slots,
        pools=pools,
        follow=follow_later,
        close=close,
    )


def make_loop_elsewhere(
    config: Config, server: Elsewhere, *, id: str, slots: int = 4, pools: tuple[str, ...] = ("default",)
) -> Running:
    """A worker that has no store, and leaves to others what is done beside one: system steps, and what a scheduler
    does.  Of `config` it uses `home` and `hub`.  The caller runs `loop.run()` and closes afterwards."""
    places = LaterPlaces(config)
    makers = carriers(Language(), places, server.path)
    return _working(server, server, Executors(makers), places, None, id=id, slots=slots, pools=pools)


def _working(
    dispatcher: Dispatcher,
    presence: Presence,
    executors: Mapping[Kind, Executor],
    places: LaterPlaces,
    scheduler: Scheduler | None,
    *,
    id: str,
    slots: int,
    pools: tuple[str, ...],
    follow: Callable[[Task], None] | None = None,
    close: Callable[[], None] = lambda: None,
) -> Running:
    """`scheduler` None: system steps are for those who have one, too."""
    from concurrent.futures import ThreadPoolExecutor

    from longtask.engine.loop import Loop
    from longtask.engine.worker import Worker

    threads = ThreadPoolExecutor(slots + 4, thread_name_prefix="attempt")
    worker = Worker(
        dispatcher,
        executors,
        id=id,
        slots=slots,
        pools=pools,
        system=scheduler is not None,
        places=places,
        spawn=threads.submit,
        follow=follow,
    )
    row = WorkerRow(id, socket.gethostname(), os.getpid(), pools, slots, presence.now(), version=__version__)
    presence.worker_seen(row)
    loop = Loop(presence, worker, scheduler, row, lease_ms=dispatcher.lease_ms)

    def end() -> None:
        threads.shutdown(wait=True, cancel_futures=True)
        close()

    return Running(loop, worker, end)


def make_dispatch(
    parts: Parts,
    *,
    runtime: Runtime,
    workspaces: Sequence[str] | None = None,
    lease_ms: int = LEASE_MS,
) -> Dispatch:
    """What workers ask, answered at the store.  `workspaces`: work of others is not given out; None: of all."""
    from longtask.engine.dispatch import Dispatch

    def put_artifact(workspace_id: str, body: bytes, media_type: str) -> JsonMap:
        stored = parts.artifacts.put(workspace_id, body, media_type)
        return {"digest": stored.digest, "size_bytes": stored.size_bytes}

    def read_artifact(workspace_id: str, digest: str) -> bytes:
        return parts.artifacts.read(workspace_id, digest)

    return Dispatch(
        parts.store,
        parts.scopes,
        parts.expressions,
        partial(put_json, parts.artifacts),
        put_artifact=put_artifact,
        read_artifact=read_artifact,
        runtime=runtime,
        workspaces=workspaces,
        lease_ms=lease_ms,
    )


def make_upkeep(parts: Parts, retention_ms: int | None) -> Upkeep:
    """`retention_ms` None: tasks are kept for ever."""
    with LOADING:
        from longtask.engine.upkeep import Upkeep
        from longtask.room import Room

    room = Room(parts.config.home, parts.store, parts.artifacts, parts.merger.workspace)
    return Upkeep(parts.store, room, retention_ms=retention_ms)


def keep_traces(parts: Parts, *, serving: bool) -> Callable[[], None]:
    """Writes the trace file, and sends spans where a collector is named, until what it answers is called.

    A server does so for all; with a database of this machine alone, whoever works does too.  Of the workers of a fleet
    none does: each would read everything."""
    from longtask.telemetry import settings, tracing
    from longtask.telemetry.follower import SHARE

    chosen = settings.load()
    shared = parts.config.database.startswith(tuple(f"{name}://" for name in POSTGRES))
    if not serving and (shared or not chosen.enabled):
        return lambda: None
    share = TRACING_SHARE_SERVING if serving else SHARE
    return tracing.start_tracing(parts.store, parts.config.home, chosen, __version__, share=share)


def new_worker_id() -> str:
    """Short, since it stands in every claim; host and pid stand in the worker's row."""
    return f"w{secrets.token_hex(3)}"


def begins_at(store: Store, ref: Ref, row: Step) -> tuple[str, str | None]:
    """(base, tree) at which somebody begins who goes on with a step by hand; the tree holds the files of its newest
    checkpoint, if there is one."""
    from longtask.steps.places import saved_at

    assert row.base is not None
    # What failed begins another run, and so does each taking of it; its files are worth having.
    for run in range(row.run, max(row.run - RUNS_LOOKED_AT, 0), -1):
        checkpoint = store.checkpoint(ref, run)
        if checkpoint is not None and checkpoint.tree:
            tree, base = saved_at(checkpoint.tree)
            return base, tree
    return row.base, None
