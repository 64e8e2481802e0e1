"""DBOS Transact: a task is a workflow, a step its step; everything in one process is a coroutine, its fast path.

SQLite: its file is put into WAL mode beforehand, which is faster than its default and as durable (`synchronous` stays
at FULL).  Four processes share a queue of workflows.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from typing import Any

import sqlalchemy
from dbos import DBOS, DBOSClient, DBOSConfig, SendMessage, SetWorkflowID

from bench.peers.driving import (
    CHAIN_MANY,
    CHAIN_WARM,
    CONCURRENCY,
    IDLE_S,
    STEP_S,
    Asked,
    Parking,
    drive,
    in_async,
    mark,
    must,
    rate,
    ready,
    sqlite_bytes,
    takeover,
    until,
    wait_until,
    woken,
    workers,
)

QUEUE, VERSION = "many", "1"
SEND_BATCH = 1_000
FOLDER: list[Any] = []  # of the marks; a step finds it here, since its arguments are stored
ended = 0


def url(ask: Asked) -> str:
    return f"sqlite:///{ask.target}" if ask.database == "sqlite" else ask.target


def launch(ask: Asked, executor: str = "main") -> None:
    logging.getLogger("dbos").setLevel(logging.ERROR)
    FOLDER[:] = [ask.folder]
    if ask.database == "sqlite":
        line = sqlite3.connect(ask.target)
        line.execute("pragma journal_mode = wal")
        line.close()
    config = DBOSConfig(
        name="bench",
        system_database_url=url(ask),
        log_level="ERROR",
        executor_id=executor,
        application_version=VERSION,
        run_admin_server=False,
    )
    DBOS(config=config)
    DBOS.launch()


def schema(ask: Asked) -> None:
    """A process that is up takes from every queue: only the workers may be."""
    launch(ask)
    DBOS.destroy()


@DBOS.step()
async def nothing(n: int) -> None:
    return


@DBOS.step()
async def short(n: int) -> None:
    mark(FOLDER[0], n)
    await asyncio.sleep(STEP_S)


@DBOS.workflow()
async def chain(steps: int) -> None:
    for n in range(steps):
        await nothing(n)


@DBOS.workflow()
async def fan_out(steps: int) -> None:
    await asyncio.gather(*[nothing(n) for n in range(steps)])


@DBOS.workflow()
async def short_chain(steps: int) -> None:
    for n in range(steps):
        await short(n)


@DBOS.workflow()
async def waiting(n: int) -> None:
    global ended
    await DBOS.recv_async("go", timeout_seconds=86_400)
    ended += 1


async def one(workflow: Any, steps: int) -> float:
    begun = time.perf_counter()
    handle = await DBOS.start_workflow_async(workflow, steps)
    await handle.get_result()
    return time.perf_counter() - begun


async def chained(ask: Asked) -> dict[str, Any]:
    launch(ask)
    await one(chain, CHAIN_WARM)
    return rate(ask.n, await one(chain, ask.n))


async def fanned_out(ask: Asked) -> dict[str, Any]:
    launch(ask)
    await one(chain, CHAIN_WARM)
    took_s = await one(fan_out, ask.n)
    return {"value": took_s / ask.n * 1e6, "took_s": took_s}


async def many(ask: Asked) -> dict[str, Any]:
    if ask.processes > 1:
        return await asyncio.to_thread(many_processes, ask)
    launch(ask)
    await one(chain, CHAIN_WARM)
    begun = time.perf_counter()
    handles = [await DBOS.start_workflow_async(chain, CHAIN_MANY) for _ in range(ask.n)]
    for handle in handles:
        await handle.get_result()
    return rate(ask.n * CHAIN_MANY, time.perf_counter() - begun)


def many_processes(ask: Asked) -> dict[str, Any]:
    schema(ask)
    with workers(ask, ask.processes):
        client = DBOSClient(system_database_url=url(ask))
        begun = time.perf_counter()
        for _ in range(ask.n):
            client.enqueue(
                {"queue_name": QUEUE, "workflow_name": chain.__qualname__, "app_version": VERSION}, CHAIN_MANY
            )
        done = wait_until(lambda: succeeded(ask) >= ask.n, ask.limit_s, 0.05)
        took_s = time.perf_counter() - begun
    must(done, "the workflows", ask.limit_s)
    return rate(ask.n * CHAIN_MANY, took_s)


def succeeded(ask: Asked) -> int:
    engine = sqlalchemy.create_engine(url(ask).replace("postgresql://", "postgresql+psycopg://"))
    text = "select count(*) from dbos.workflow_status where status = 'SUCCESS' and queue_name = :queue"
    with engine.connect() as line:
        count = line.execute(sqlalchemy.text(text), {"queue": QUEUE}).scalar_one()
    engine.dispose()
    return int(count)


def taken_over(ask: Asked) -> dict[str, Any]:
    def submit() -> None:
        client = DBOSClient(system_database_url=url(ask))
        client.enqueue({"queue_name": QUEUE, "workflow_name": short_chain.__qualname__, "app_version": VERSION}, ask.n)

    schema(ask)
    return takeover(ask, submit)


def worker(ask: Asked) -> None:
    import os
    import signal

    launch(ask, f"worker-{os.getpid()}")
    DBOS.register_queue(QUEUE, worker_concurrency=CONCURRENCY)
    ready()
    signal.pause()  # until it is killed


async def parked(ask: Asked) -> dict[str, Any]:
    launch(ask)
    await one(chain, CHAIN_WARM)
    parking = Parking(ask.n)
    ids: list[str] = []
    begun = time.monotonic()
    while len(ids) < ask.n and time.monotonic() - begun < ask.limit_s:
        handle = await DBOS.start_workflow_async(waiting, len(ids))
        ids.append(handle.workflow_id)
        parking.parking(len(ids))
    await asyncio.sleep(IDLE_S)  # the last ones are on their way to their wait
    figures = await parking.idle_async(len(ids))
    begun = time.perf_counter()
    for start in range(0, len(ids), SEND_BATCH):
        await DBOS.send_bulk_async([SendMessage(id, "now", "go") for id in ids[start : start + SEND_BATCH]])
    done = await until(lambda: ended >= len(ids), ask.limit_s)
    took_s = time.perf_counter() - begun
    return figures | woken(ended, took_s) | {"all_woken": done}


async def bytes_per_step(ask: Asked) -> dict[str, Any]:
    launch(ask)
    await one(chain, CHAIN_WARM)
    before = size(ask)
    await one(fan_out, ask.n)
    return {"value": (size(ask) - before) / ask.n}


def size(ask: Asked) -> int:
    if ask.database == "sqlite":
        return sqlite_bytes(ask.target)
    engine = sqlalchemy.create_engine(url(ask).replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as line:
        return int(line.execute(sqlalchemy.text("select pg_database_size(current_database())")).scalar_one())


async def hello(ask: Asked) -> dict[str, Any]:
    launch(ask)
    with SetWorkflowID("hello"):
        await one(chain, 1)
    return {}


def durability(ask: Asked) -> dict[str, Any]:
    """As its own connection has it."""
    found: dict[str, Any] = {}

    @sqlalchemy.event.listens_for(sqlalchemy.Engine, "connect")
    def look(line: Any, record: Any) -> None:
        found["driver"] = type(line).__module__
        if ask.database == "sqlite":
            for name in ("journal_mode", "synchronous"):
                found[name] = line.execute(f"pragma {name}").fetchone()[0]
        else:
            for name in ("synchronous_commit", "fsync"):
                found[name] = line.execute(f"show {name}").fetchone()[0]

    launch(ask)
    return {"value": None, "settings": found}


if __name__ == "__main__":
    drive(
        {
            "chain": in_async(chained),
            "fanout": in_async(fanned_out),
            "many": in_async(many),
            "takeover": taken_over,
            "parked": in_async(parked),
            "bytes": in_async(bytes_per_step),
            "hello": in_async(hello),
            "durability": durability,
        },
        worker,
    )
