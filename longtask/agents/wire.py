"""The thread in which everything on a network lives: model requests and MCP servers, on one event loop.

The run itself is one plain thread that makes one call after another and waits for each: that is what the journal needs.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")
CLOSING_S = 10.0  # at most, for what still lives on it; the attempt's end kills the rest


class Silent(TimeoutError):
    """A model has said nothing for too long."""


@asynccontextmanager
async def awake(silence_s: float) -> AsyncIterator[Callable[[], None]]:
    """What it hands out is to be called with each sign of progress.  Raises Silent when none came for so long: the
    client's own limit is put off for ever by a provider that sends pings."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(silence_s) as limit:
            yield lambda: limit.reschedule(loop.time() + silence_s)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise Silent(f"the model was silent for more than {silence_s:g} s") from error


class Wire:
    """A context manager.  Its thread starts with the first call."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wire", daemon=True)

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        """Waits for the end of `call`, and raises what it raises."""
        if not self._thread.is_alive():
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._end(), self._loop)
            self._thread.join(CLOSING_S)
        if not self._thread.is_alive():
            self._loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.wait(others, timeout=CLOSING_S / 2) if others else None
        await self._loop.shutdown_asyncgens()
        self._loop.call_soon(self._loop.stop)
