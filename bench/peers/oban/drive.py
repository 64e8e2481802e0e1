"""Oban (Python) on PostgreSQL: a job queue.  It has no graphs of its own: in a chain each job puts the next, a fan-out
is jobs put in bulk and not joined.  Acknowledgements go out in batches: a crash runs finished jobs again.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import oban.schema
from oban import Oban, worker
from psycopg_pool import AsyncConnectionPool

from bench.peers.driving import STEP_S, Asked, drive, in_async, mark
from bench.peers.queue import Queue, working, workloads

SLOTS = 50
FOLDER: list[Path] = []
DONE: list[str] = []  # names of tasks whose last step ended here


async def enqueue(kind: Any, arguments: dict[str, Any]) -> None:
    await kind.enqueue(arguments)  # which the decorator has put there


@worker(queue="steps")
class Nothing:
    async def process(self, job: Any) -> None:
        name, n, steps = job.args["name"], job.args["n"], job.args["steps"]
        if n + 1 < steps:
            await enqueue(Nothing, {"name": name, "n": n + 1, "steps": steps})
        else:
            DONE.append(name)


@worker(queue="steps")
class Short:
    async def process(self, job: Any) -> None:
        n, steps = job.args["n"], job.args["steps"]
        mark(FOLDER[0], n)
        await asyncio.sleep(STEP_S)
        if n + 1 < steps:
            await enqueue(Short, {"name": "short", "n": n + 1, "steps": steps})


class ObanQueue(Queue):
    finished = "select count(*) from oban_jobs where state = 'completed'"

    def __init__(self, ask: Asked) -> None:
        super().__init__(ask, DONE)
        FOLDER[:] = [ask.folder]
        self._pool: Any = AsyncConnectionPool(ask.target, min_size=2, max_size=20, open=False)
        self._oban: Any = None

    async def start(self, *, schema: bool, work: bool) -> None:
        await self._pool.open(wait=True)
        if schema:
            await oban.schema.install(self._pool)
        self._oban = Oban(pool=self._pool, queues={"steps": SLOTS} if work else {})
        await self._oban.start()

    async def put(self, names: list[str], steps: int, *, short: bool = False) -> None:
        kind: Any = Short if short else Nothing
        await self._oban.enqueue_many([kind.new({"name": name, "n": 0, "steps": steps}) for name in names])

    async def show(self, name: str) -> str:
        async with self._pool.connection() as line:
            row = await (await line.execute(f"show {name}")).fetchone()
            return str(next(iter(row.values())) if isinstance(row, dict) else row[0])


if __name__ == "__main__":
    sys.modules.setdefault("bench.peers.oban.drive", sys.modules["__main__"])  # jobs name their class by its module
    drive({name: in_async(act) for name, act in workloads(ObanQueue).items()}, working(ObanQueue))
