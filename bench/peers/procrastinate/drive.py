"""procrastinate on PostgreSQL: a job queue.  It has no graphs: in a chain each job puts the next, a fan-out is jobs put
in bulk and not joined.  Stalled jobs are found by a periodic task that its user writes; by default nobody takes over.
"""

from __future__ import annotations

import asyncio
from typing import Any

import procrastinate

from bench.peers.driving import STEP_S, Asked, drive, in_async, mark
from bench.peers.queue import Queue, working, workloads

SLOTS = 50


class ProcrastinateQueue(Queue):
    finished = "select count(*) from procrastinate_jobs where status = 'succeeded'"

    def __init__(self, ask: Asked) -> None:
        super().__init__(ask, [])
        self._app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=ask.target, max_size=20))
        self._working: Any = None

        @self._app.task(name="nothing", queue="steps")
        async def nothing(name: str, n: int, steps: int) -> None:
            if n + 1 < steps:
                await nothing.defer_async(name=name, n=n + 1, steps=steps)
            else:
                self.done.append(name)

        @self._app.task(name="short", queue="steps")
        async def short(name: str, n: int, steps: int) -> None:
            mark(ask.folder, n)
            await asyncio.sleep(STEP_S)
            if n + 1 < steps:
                await short.defer_async(name=name, n=n + 1, steps=steps)

        self._tasks: dict[bool, Any] = {False: nothing, True: short}

    async def start(self, *, schema: bool, work: bool) -> None:
        await self._app.open_async()
        if schema:
            await self._app.schema_manager.apply_schema_async()
        if work:
            run = self._app.run_worker_async(queues=["steps"], concurrency=SLOTS, install_signal_handlers=False)
            self._working = asyncio.create_task(run)

    async def put(self, names: list[str], steps: int, *, short: bool = False) -> None:
        await self._tasks[short].batch_defer_async(*[{"name": name, "n": 0, "steps": steps} for name in names])

    async def show(self, name: str) -> str:
        row = await self._app.connector.execute_query_one_async(f"select current_setting('{name}') as now")
        return str(row["now"])


if __name__ == "__main__":
    drive({name: in_async(act) for name, act in workloads(ProcrastinateQueue).items()}, working(ProcrastinateQueue))
