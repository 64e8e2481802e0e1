"""The hub of a process's streams: one reader of the journal for everybody, one clock, one end.

- The journal is read in a thread of its own, ten times a second while somebody watches, and not at all while nobody
  does.  It does not wait for the store's hints: they tell of work, not of every event, and whoever waits for one takes
  it away from the worker that may run in this process.
- What it finds is handed to the loop, which has told it to all queues before the next round begins: on a machine that
  is too slow, batches grow, and nothing piles up.
- On PostgreSQL the feed tells nothing younger than the oldest transaction that writes, of whichever program.  So every
  two seconds the newest numbers of the tasks watched are looked at too: whoever lags by more than a look catches up
  from the task's own journal, which waits for nobody.
- Streams end after five minutes and are asked to come again: who may see what is asked anew then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from longtask.api.problems import Problem
from longtask.api.streams.channel import Batch, Channel, Frame, Page, Source, Watcher
from longtask.api.streams.journal import GONE, Everything, Reader, Round, TaskJournal
from longtask.api.streams.sse import Place, place_of
from longtask.core.errors import NotFound, StoreBusy, StoreUnavailable
from longtask.store.contract import Store

log = logging.getLogger("longtask.streams")

RETRY_S = 1.0  # after the store was not to be used
THREADS = 4

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pace:
    batch_s: float = 0.1
    look_s: float = 2.0
    progress_s: float = 1.0  # as often as it is told at most
    poll_min_s: float = 0.25  # as often as output is written at most
    poll_max_s: float = 1.0
    tick_s: float = 1.0
    beat_s: float = 15.0  # proxies end connections that are silent for half a minute
    life_s: float = 300.0
    idle_s: float = 10.0  # so long after the last watcher has left the journal is read no more


class Hub:
    def __init__(self, store: Store, pace: Pace | None = None) -> None:
        self._store = store
        self._pace = pace or Pace()
        self._channels: dict[Hashable, Channel] = {}
        self._watchers: set[Watcher] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._always = asyncio.Event()
        self._always.set()
        self._polls: dict[Hashable, asyncio.Task[None]] = {}
        self._ticking: asyncio.Task[None] | None = None
        self._shared: dict[Hashable, asyncio.Future[Any]] = {}
        self._reader = Reader(store)
        self._heads: dict[str, int] = {}  # of the look before
        self._idle_since = 0.0
        self.ended = False
        self.events_told = 0  # in the journal, while somebody watched
        self.dropped = 0  # clients that were too slow

    @property
    def clients(self) -> int:
        return len(self._watchers)

    @property
    def awake(self) -> bool:
        """The journal is being read."""
        return self._reading is not None

    # --- beginning and end ----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """As long as the server runs."""
        try:
            yield
        finally:
            await self.close()

    def end(self) -> None:
        """Says so to every client and takes no new ones: before the server waits for its connections.  On the loop."""
        self.ended = True
        self._ready.set()
        for watcher in list(self._watchers):
            watcher.close("shutdown")

    async def close(self) -> None:
        self.end()
        tasks = [task for task in (self._reading, self._ticking, *self._polls.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._reading = self._ticking = None
        threads = [pool for pool in (self._threads, self._reader.thread) if pool is not None]
        self._threads = self._reader.thread = None
        for pool in threads:  # the store is closed afterwards
            await asyncio.get_running_loop().run_in_executor(None, partial(pool.shutdown, cancel_futures=True))

    # --- threads --------------------------------------------------------------------------------------------------

    async def aside(self, read: Callable[[Place], Page], after: Place) -> Page:
        return await self.apart(read, after)

    async def apart(self, act: Callable[..., T], *arguments: Any) -> T:
        """In one of few threads, so that a storm of clients does not take those of the other routes."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="streams")
        return await asyncio.get_running_loop().run_in_executor(self._threads, act, *arguments)

    async def together(self, key: Hashable, act: Callable[[], T]) -> T:
        """Whoever asks for the same while it is being made is given the same."""
        if key not in self._shared:
            making = self._shared[key] = asyncio.ensure_future(self.apart(act))
            making.add_done_callback(lambda _: self._shared.pop(key, None))
        made: T = await asyncio.shield(self._shared[key])
        return made

    # --- watchers -------------------------------------------------------------------------------------------------

    def refuse_at_the_end(self) -> None:
        """Raises Problem."""
        if self.ended:
            told = "the server is about to end; try again"
            raise Problem(503, "busy", "no further stream", told, headers={"Retry-After": "1"})

    def join(self, watcher: Watcher) -> asyncio.Event:
        """Set as soon as nothing that happens from then on is missed by the watcher's channel."""
        if self.ended:
            watcher.close("shutdown")
            return self._ready
        self._watchers.add(watcher)
        key = watcher.channel.source.key
        watcher.channel = self._channels.setdefault(key, watcher.channel)
        watcher.channel.watchers.add(watcher)
        if self._ticking is None:
            self._ticking = asyncio.create_task(self._tick())
        if isinstance(watcher.channel.source, TaskJournal | Everything):
            if self._reading is None:
                self._ready = asyncio.Event()
                self._reading = asyncio.create_task(self._read())
                self._reading.add_done_callback(self._over)
            return self._ready
        if key not in self._polls:
            poll = self._polls[key] = asyncio.create_task(self._poll(watcher.channel))
            poll.add_done_callback(partial(self._poll_over, watcher.channel))
        return self._always

    def leave(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)
        if watcher.closing == "slow":
            self.dropped += 1
        channel = watcher.channel
        channel.watchers.discard(watcher)
        key = channel.source.key
        if not channel.watchers and self._channels.get(key) is channel:
            del self._channels[key]
            if poll := self._polls.pop(key, None):
                poll.cancel()
            if isinstance(channel.source, TaskJournal):
                self._reader.forgotten.add(channel.source.task_id)
        self._idle_since = monotonic()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._pace.tick_s)
            now = monotonic()
            for n, watcher in enumerate(list(self._watchers)):
                if now - watcher.born_at > self._pace.life_s * (1 + n % 16 / 64):  # not all of them at once
                    watcher.close("renew")
                elif now - watcher.told_at >= self._pace.beat_s:
                    watcher.beat()
            if self._reading is not None and not self._journals and now - self._idle_since > self._pace.idle_s:
                self._reading.cancel()
                self._reading = None
            if self._reading is None and not self._watchers:
                self._ticking = None
                return

    @property
    def _journals(self) -> list[Channel]:
        return [c for c in self._channels.values() if isinstance(c.source, TaskJournal | Everything)]

    # --- the journal ----------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        cursor: str | None = None
        looked_at = progress_at = 0.0
        troubled = False
        while True:
            began = monotonic()
            watched = self._watched()
            look = began - looked_at >= self._pace.look_s
            progress = began - progress_at >= self._pace.progress_s
            everything = any(isinstance(channel.source, Everything) for channel in self._channels.values())
            try:
                if cursor is None:
                    cursor = await self._reader.begin()
                    self._ready.set()
                found = await self._reader.round(cursor, watched, everything, look=look, progress=progress)
            except (StoreBusy, StoreUnavailable) as error:
                if not troubled:
                    log.warning("streams.waiting: %s", error)
                troubled = True
                await asyncio.sleep(RETRY_S)
                continue
            troubled = False
            looked_at, progress_at = began if look else looked_at, began if progress else progress_at
            cursor = found.cursor
            self._tell(found, watched, everything)
            if not found.more:
                await asyncio.sleep(max(self._pace.batch_s - (monotonic() - began), 0.0))

    def _watched(self) -> set[str]:
        return {c.source.task_id for c in self._channels.values() if isinstance(c.source, TaskJournal)}

    def _over(self, reading: asyncio.Task[None]) -> None:
        """Nobody must wait for a reader that has failed: all come again, and a new one begins."""
        if reading.cancelled() or (error := reading.exception()) is None:
            return
        log.error("streams.failed", exc_info=error)
        if self._reading is reading:
            self._reading = None
        self._ready.set()
        for channel in self._journals:
            channel.close("error")

    def _tell(self, found: Round, watched: set[str], everything: bool) -> None:
        """`watched`, `everything`: what was asked for.  Whoever came while the round was under way catches up again."""
        self.events_told += found.events
        for channel in self._journals:
            if isinstance(channel.source, TaskJournal):
                task_id = channel.source.task_id
                if task_id in found.moved and task_id not in watched:
                    channel.doubt()
            elif found.moved and not everything:
                channel.doubt()
        for task_id, (frames, ends) in found.tasks.items():
            if watched_one := self._channels.get(TaskJournal.key_of(task_id)):
                watched_one.tell(Batch(frames, ends=ends))
        place = place_of(found.cursor)
        for channel in list(self._channels.values()):
            if isinstance(channel.source, Everything):
                sees = channel.source.sees
                seen: list[Frame] = [frame for workspace_id, frame in found.all if sees(workspace_id)]
                if seen:
                    channel.tell(Batch(seen))
                channel.place = place
        for task_id, step, content in found.progress:
            if watched_one := self._channels.get(TaskJournal.key_of(task_id)):
                watched_one.mention(step, content) if content else watched_one.lasting.pop(step, None)
        if found.heads is not None:
            self._compare(found.heads)

    def _compare(self, heads: dict[str, int]) -> None:
        """A task that had gone further at the last look already than anybody was told, or that is gone."""
        for channel in self._journals:
            if not isinstance(channel.source, TaskJournal):
                continue
            task_id = channel.source.task_id
            before = self._heads.get(task_id, 0)
            behind = any(w.live and w.place[-1] < before and w.reach[-1] < before for w in channel.watchers)
            if behind or heads.get(task_id) == GONE:
                channel.doubt()
        self._heads = heads

    def _poll_over(self, channel: Channel, poll: asyncio.Task[None]) -> None:
        if not poll.cancelled() and (error := poll.exception()) is not None:
            log.error("streams.failed source=%s", channel.source.key, exc_info=error)
            channel.close("error")

    # --- what is written beside the journal -----------------------------------------------------------------------

    async def _poll(self, channel: Channel) -> None:
        pause = self._pace.poll_min_s
        while True:
            await asyncio.sleep(pause)
            if channel.place is None:
                continue
            page = await self._polled(channel.source, channel.place)
            if page is None:
                channel.doubt()
            elif page.frames or page.over is not None:
                channel.place = page.place
                frames: list[Frame] = list(page.frames)
                if page.over is not None:
                    channel.doubt()
                elif frames:
                    channel.tell(Batch(frames))
            busy = page is not None and bool(page.frames)
            pause = self._pace.poll_min_s if busy else min(pause * 1.5, self._pace.poll_max_s)

    async def _polled(self, source: Source, after: Place) -> Page | None:
        """None: whoever watches asks himself."""
        with suppress(StoreBusy, StoreUnavailable):
            try:
                return await self.apart(source.read, after)
            except NotFound:
                return None
        return Page((), after)
