"""What requests write that come together is written together: one thread, one transaction.

Whoever comes while a batch is being written waits for the next one.  So a request that is alone waits for nobody, and
a hundred at once cost hardly more than one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

BATCH = 200
T = TypeVar("T")
R = TypeVar("R")


class Batched(Generic[T, R]):
    """For one event loop.  `write` answers row by row, in its order, and runs in one of `threads`: their own, since
    routes may keep all others busy."""

    def __init__(self, write: Callable[[list[T]], Sequence[R]], threads: Executor) -> None:
        self._write, self._threads = write, threads
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def put(self, row: T) -> R:
        """The answer to this row.  Raises what `write` raises, whosever row it was for."""
        answered: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((row, answered))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all())
        return await answered

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            try:
                answers = await loop.run_in_executor(self._threads, self._write, [row for row, _ in batch])
            except BaseException as error:  # noqa: BLE001  told to everybody who waits
                for _, answered in batch:
                    if not answered.done():  # its request may be gone
                        answered.set_exception(error)
                continue
            for answer, (_, answered) in zip(answers, batch, strict=True):
                if not answered.done():
                    answered.set_result(answer)
