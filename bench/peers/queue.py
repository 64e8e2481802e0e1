"""What the drivers of both job queues share.  A queue parks nothing and joins nothing: there is no `parked`, and the
cost of a fan-out is that of jobs that need nothing and are needed by nothing.

What a queue calls finished is what its table says, not what has run: acknowledgements may come later.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import psycopg

from bench.peers.driving import CHAIN_MANY, CHAIN_WARM, Asked, in_async, must, rate, ready, takeover, until, workers

Act = Callable[[Asked], Awaitable[dict[str, Any]]]


class Queue(ABC):
    finished: ClassVar[str]  # counts finished jobs

    def __init__(self, ask: Asked, done: list[str]) -> None:
        self.ask = ask
        self.done = done

    @abstractmethod
    async def start(self, *, schema: bool, work: bool) -> None: ...

    @abstractmethod
    async def put(self, names: list[str], steps: int, *, short: bool = False) -> None:
        """One task for each name: its first job, in bulk."""

    @abstractmethod
    async def show(self, name: str) -> str:
        """A setting, as a connection of the queue's own sees it."""

    async def warmed(self) -> Queue:
        await self.start(schema=True, work=True)
        await self.one("warm", CHAIN_WARM)
        return self

    async def one(self, name: str, steps: int) -> float:
        begun = time.perf_counter()
        await self.put([name], steps)
        must(await until(lambda: name in self.done, self.ask.limit_s), name, self.ask.limit_s)
        return time.perf_counter() - begun

    async def all_finished(self, jobs: int) -> None:
        end = time.monotonic() + self.ask.limit_s
        while self.count(self.finished) < jobs:
            must(time.monotonic() < end, "the jobs", self.ask.limit_s)
            await asyncio.sleep(0.02)

    def count(self, statement: str) -> int:
        with psycopg.connect(self.ask.target, autocommit=True) as line:
            row = line.execute(statement).fetchone()  # type: ignore[arg-type,unused-ignore]
            assert row is not None
            return int(row[0])


def workloads(make: Callable[[Asked], Queue]) -> dict[str, Act]:
    async def chain(ask: Asked) -> dict[str, Any]:
        queue = await make(ask).warmed()
        return rate(ask.n, await queue.one("chain", ask.n))

    async def fanout(ask: Asked) -> dict[str, Any]:
        queue = await make(ask).warmed()
        took_s = await put_apart(queue, ask.n)
        return {"value": took_s / ask.n * 1e6, "took_s": took_s, "note": "not joined"}

    async def put_apart(queue: Queue, jobs: int) -> float:
        await queue.all_finished(CHAIN_WARM)
        begun = time.perf_counter()
        await queue.put([f"apart_{n}" for n in range(jobs)], 1)
        await queue.all_finished(CHAIN_WARM + jobs)
        return time.perf_counter() - begun

    async def many(ask: Asked) -> dict[str, Any]:
        names = [f"task_{n}" for n in range(ask.n)]
        if ask.processes == 1:
            queue = await make(ask).warmed()
            begun = time.perf_counter()
            await queue.put(names, CHAIN_MANY)
            await queue.all_finished(CHAIN_WARM + ask.n * CHAIN_MANY)
            return rate(ask.n * CHAIN_MANY, time.perf_counter() - begun)
        queue = make(ask)
        await queue.start(schema=True, work=False)
        with workers(ask, ask.processes):
            begun = time.perf_counter()
            await queue.put(names, CHAIN_MANY)
            await queue.all_finished(ask.n * CHAIN_MANY)
            return rate(ask.n * CHAIN_MANY, time.perf_counter() - begun)

    async def taken_over(ask: Asked) -> dict[str, Any]:
        queue = make(ask)
        await queue.start(schema=True, work=False)
        here = asyncio.get_running_loop()

        def submit() -> None:
            asyncio.run_coroutine_threadsafe(queue.put(["short"], ask.n, short=True), here).result()

        return await asyncio.to_thread(takeover, ask, submit)

    async def bytes_per_step(ask: Asked) -> dict[str, Any]:
        queue = await make(ask).warmed()
        size = "select pg_database_size(current_database())"
        before = queue.count(size)
        await put_apart(queue, ask.n)
        return {"value": (queue.count(size) - before) / ask.n}

    async def hello(ask: Asked) -> dict[str, Any]:
        queue = make(ask)
        await queue.start(schema=True, work=True)
        await queue.one("hello", 1)
        return {}

    async def durability(ask: Asked) -> dict[str, Any]:
        queue = make(ask)
        await queue.start(schema=True, work=False)
        return {"value": None, "settings": {name: await queue.show(name) for name in ("synchronous_commit", "fsync")}}

    return {
        "chain": chain,
        "fanout": fanout,
        "many": many,
        "takeover": taken_over,
        "bytes": bytes_per_step,
        "hello": hello,
        "durability": durability,
    }


def working(make: Callable[[Asked], Queue]) -> Callable[[Asked], None]:
    """A worker of its own, until it is killed."""

    async def work(ask: Asked) -> dict[str, Any]:
        await make(ask).start(schema=False, work=True)
        ready()
        await asyncio.Event().wait()
        return {}

    run = in_async(work)

    def worker(ask: Asked) -> None:
        run(ask)

    return worker
