"""Workers elsewhere that wait for work: one look at the store for all of them, ten times a second.

Whoever waits holds a connection to this process and nothing else, no thread and none of the store's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from longtask.api.problems import Problem
from longtask.core.errors import LongTaskError
from longtask.store.contract import Store

log = logging.getLogger("longtask.api")

LOOK_EVERY_S, LOOK_S = 0.1, 0.3
WAITING_MAX = 1_000
TROUBLE_S = 1.0

Scope = tuple[str, tuple[str, ...] | None]  # a pool, and the workspaces that a worker may serve; None: all


class Waiting:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[asyncio.Future[bool], tuple[Scope, ...]] = {}  # those who have waited longest first
        self._somebody = asyncio.Event()
        self._thread = CapacityLimiter(1)
        self._ended = False

    async def for_work(self, pools: Sequence[str], workspaces: frozenset[str] | None, seconds: float) -> bool:
        """There may be some in one of the pools; False: not within that time, or within the time of a look.  Raises
        Problem when too many wait."""
        if len(self._waiting) >= WAITING_MAX:
            raise Problem(503, "busy", "too many wait", "ask again in a while", headers={"Retry-After": "1"})
        seen = None if workspaces is None else tuple(sorted(workspaces))
        told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[told] = tuple((pool, seen) for pool in dict.fromkeys(pools))
        self._somebody.set()
        try:
            async with asyncio.timeout(0 if self._ended else max(seconds, LOOK_S)):
                return await told
        except TimeoutError:
            return False
        finally:
            self._waiting.pop(told, None)

    def end(self) -> None:
        """Whoever waits is sent away; the server ends."""
        self._ended = True
        self._tell(dict.fromkeys(self._waiting, False))

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        self._somebody = asyncio.Event()  # of the loop that serves now
        looking = asyncio.create_task(self._look_for_ever())
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking

    async def _look_for_ever(self) -> None:
        while True:
            await self._somebody.wait()
            if not self._waiting:
                self._somebody.clear()
                continue
            pause_s = LOOK_EVERY_S
            try:
                await self._look()
            except LongTaskError as error:
                log.warning("work.unknown: %s", error)
                pause_s = TROUBLE_S
            except Exception:  # whoever waits would wait for ever
                log.exception("work.unknown")
                pause_s = TROUBLE_S
            await asyncio.sleep(pause_s)

    async def _look(self) -> None:
        """As many are told as there are tasks with something to do, those first who have waited longest: the others
        would come in vain."""
        wanted: dict[Scope, int] = {}
        for scopes in self._waiting.values():
            for scope in scopes:
                wanted[scope] = wanted.get(scope, 0) + 1
        found = await run_sync(self._found, wanted, limiter=self._thread)
        told: dict[asyncio.Future[bool], bool] = {}
        for future, scopes in self._waiting.items():
            fitting = next((scope for scope in scopes if found.get(scope)), None)
            if fitting is not None:
                found[fitting] -= 1
                told[future] = True
        self._tell(told)

    def _found(self, wanted: dict[Scope, int]) -> dict[Scope, int]:
        return {
            (pool, workspaces): len(self._store.claimable(pool, most, workspaces))
            for (pool, workspaces), most in wanted.items()
        }

    def _tell(self, told: dict[asyncio.Future[bool], bool]) -> None:
        for future, work in told.items():
            self._waiting.pop(future, None)
            if not future.done():
                future.set_result(work)
