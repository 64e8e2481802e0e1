"""Absurd on PostgreSQL: a task of its own, steps by `ctx.step`; worker settings as they come (polls every 0.25 s, a
claim lasts 120 s).  Its schema is made by `absurdctl`, the documented way."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
from absurd_sdk import AsyncAbsurd

from bench.peers.driving import (
    CHAIN_MANY,
    CHAIN_WARM,
    CONCURRENCY,
    STEP_S,
    Asked,
    Parking,
    drive,
    in_async,
    mark,
    must,
    rate,
    ready,
    takeover,
    until,
    wait_until,
    woken,
    workers,
)

ended = 0
begun_at = 0.0  # of the first step of the newest chain: waiting for the poll is not the cost of a step
ended_at = 0.0


def schema(ask: Asked) -> None:
    tool = Path(sys.executable).with_name("absurdctl")
    for arguments in (["init"], ["create-queue", "default"]):
        environment = os.environ | {"PGDATABASE": ask.target}
        subprocess.run([str(tool), *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)


def app(ask: Asked) -> AsyncAbsurd:
    absurd = AsyncAbsurd(ask.target)

    async def nothing() -> None:
        return

    @absurd.register_task("chain")
    async def chain(params: dict[str, int], ctx: Any) -> None:
        global ended, begun_at, ended_at
        begun_at = time.perf_counter()
        for n in range(params["steps"]):
            await ctx.step(f"step_{n}", nothing)
        ended_at = time.perf_counter()
        ended += 1

    @absurd.register_task("fan_out")
    async def fan_out(params: dict[str, int], ctx: Any) -> None:
        global ended, begun_at, ended_at
        begun_at = time.perf_counter()
        await asyncio.gather(*[ctx.step(f"step_{n}", nothing) for n in range(params["steps"])])
        ended_at = time.perf_counter()
        ended += 1

    @absurd.register_task("short_chain")
    async def short_chain(params: dict[str, int], ctx: Any) -> None:
        for n in range(params["steps"]):

            async def short(n: int = n) -> None:
                mark(ask.folder, n)
                await asyncio.sleep(STEP_S)

            await ctx.step(f"step_{n}", short)

    @absurd.register_task("waiting")
    async def waiting(params: dict[str, int], ctx: Any) -> None:
        global ended
        await ctx.await_event(f"go:{params['n']}")
        ended += 1

    return absurd


class Started:
    """A worker in this process, and a client with a connection of its own."""

    def __init__(self, ask: Asked, concurrency: int) -> None:
        schema(ask)
        self.client = app(ask)
        self._working = asyncio.create_task(app(ask).start_worker(concurrency=concurrency))

    async def one(self, task: str, steps: int, limit_s: float) -> float:
        """From the beginning of its first step to the end of its last."""
        wanted = ended + 1
        await self.client.spawn(task, {"steps": steps})
        must(await until(lambda: ended >= wanted, limit_s), task, limit_s)
        return ended_at - begun_at


def asked_of(ask: Asked, statement: str) -> int:
    with psycopg.connect(ask.target, autocommit=True) as line:
        row = line.execute(statement).fetchone()  # type: ignore[arg-type,unused-ignore]
        assert row is not None
        return int(row[0])


async def chained(ask: Asked) -> dict[str, Any]:
    started = Started(ask, concurrency=10)
    await started.one("chain", CHAIN_WARM, ask.limit_s)
    return rate(ask.n, await started.one("chain", ask.n, ask.limit_s))


async def fanned_out(ask: Asked) -> dict[str, Any]:
    started = Started(ask, CONCURRENCY)
    await started.one("chain", CHAIN_WARM, ask.limit_s)
    took_s = await started.one("fan_out", ask.n, ask.limit_s)
    return {"value": took_s / ask.n * 1e6, "took_s": took_s}


async def many(ask: Asked) -> dict[str, Any]:
    if ask.processes > 1:
        return await many_processes(ask)
    started = Started(ask, CONCURRENCY)
    await started.one("chain", CHAIN_WARM, ask.limit_s)
    wanted, begun = ended + ask.n, time.perf_counter()
    for _ in range(ask.n):
        await started.client.spawn("chain", {"steps": CHAIN_MANY})
    must(await until(lambda: ended >= wanted, ask.limit_s), "the tasks", ask.limit_s)
    return rate(ask.n * CHAIN_MANY, time.perf_counter() - begun)


async def many_processes(ask: Asked) -> dict[str, Any]:
    schema(ask)
    client = app(ask)
    with workers(ask, ask.processes):
        begun = time.perf_counter()
        for _ in range(ask.n):
            await client.spawn("chain", {"steps": CHAIN_MANY})
        statement = "select count(*) from absurd.t_default where state = 'completed'"
        done = wait_until(lambda: asked_of(ask, statement) >= ask.n, ask.limit_s, 0.05)
        took_s = time.perf_counter() - begun
    must(done, "the tasks", ask.limit_s)
    return rate(ask.n * CHAIN_MANY, took_s)


def worker(ask: Asked) -> None:
    async def work() -> None:
        absurd = app(ask)
        ready()
        await absurd.start_worker(concurrency=CONCURRENCY if ask.workload == "many" else 10)

    asyncio.run(work())


def taken_over(ask: Asked) -> dict[str, Any]:
    schema(ask)

    async def spawned() -> None:
        await app(ask).spawn("short_chain", {"steps": ask.n})

    return takeover(ask, lambda: asyncio.run(spawned()))


async def parked(ask: Asked) -> dict[str, Any]:
    started = Started(ask, CONCURRENCY)
    await started.one("chain", CHAIN_WARM, ask.limit_s)
    wanted = ended
    parking = Parking(ask.n)
    count, begun = 0, time.monotonic()
    while count < ask.n and time.monotonic() - begun < ask.limit_s:
        await started.client.spawn("waiting", {"n": count})
        count += 1
        parking.parking(count)
    statement = "select count(*) from absurd.r_default where state = 'sleeping'"
    slept = await until(lambda: asked_of(ask, statement) >= count, ask.limit_s, 0.2)
    must(slept, "parking", ask.limit_s)
    figures = await parking.idle_async(count)
    begun = time.perf_counter()
    for n in range(count):
        await started.client.emit_event(f"go:{n}", 1)
    done = await until(lambda: ended - wanted >= count, ask.limit_s)
    return figures | woken(ended - wanted, time.perf_counter() - begun) | {"all_woken": done}


async def bytes_per_step(ask: Asked) -> dict[str, Any]:
    started = Started(ask, CONCURRENCY)
    await started.one("chain", CHAIN_WARM, ask.limit_s)
    statement = "select pg_database_size(current_database())"
    before = asked_of(ask, statement)
    await started.one("fan_out", ask.n, ask.limit_s)
    return {"value": (asked_of(ask, statement) - before) / ask.n}


async def hello(ask: Asked) -> dict[str, Any]:
    schema(ask)
    absurd = app(ask)
    await absurd.spawn("chain", {"steps": 1})
    await absurd.work_batch()
    must(ended == 1, "hello", 0)
    return {}


async def durability(ask: Asked) -> dict[str, Any]:
    found: dict[str, Any] = {}
    schema(ask)
    absurd = app(ask)

    @absurd.register_task("settings")
    async def settings(params: Any, ctx: Any) -> None:
        for name in ("synchronous_commit", "fsync"):
            row = await (await absurd._conn.execute(f"show {name}")).fetchone()
            found[name] = row[name] if isinstance(row, dict) else row[0]

    await absurd.spawn("settings", {})
    await absurd.work_batch()
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
            "durability": in_async(durability),
        },
        worker,
    )
