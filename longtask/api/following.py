"""The server's part in traces and counters: it follows the journal as long as it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from longtask import boot


def follows(parts: boot.Parts) -> Callable[[], AbstractAsyncContextManager[None]]:
    """A service of `server.Server`."""

    @asynccontextmanager
    async def follow() -> AsyncIterator[None]:
        end = await asyncio.to_thread(boot.keep_traces, parts, serving=True)
        try:
            yield
        finally:
            await asyncio.to_thread(end)

    return follow
