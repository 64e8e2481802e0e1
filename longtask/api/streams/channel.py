"""A channel: something that is watched, and those who watch it.

The seam.  A channel counts what it was told (`turn`).  A watcher catches up by pages, each read after the channel was
joined.  A page that reached the end of what is stored, read at the turn at which the channel still is, leaves nothing
out that the channel will not tell: between looking at the turn and being live nothing else runs on the loop.  What
comes twice is known by its place and told once.

Pages are shared: a thousand who come again at the same place cost one read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol

from longtask.api.streams.sse import BEAT, ENDED, OPENING, Mark, Place, Write, body, mark_of, message, moved
from longtask.core.errors import LongTaskError, NotFound, StoreBusy, StoreUnavailable

log = logging.getLogger("longtask.streams")

PAGES_MAX = 64
QUEUE_BYTES_MAX = 1 << 20  # of a client that is live; together with what its connection holds
QUEUE_MAX = 200  # batches: twenty seconds
RETRY_MIN_S, RETRY_MAX_S = 0.25, 5.0


@dataclass(frozen=True, slots=True)
class Frame:
    """All messages of one place."""

    place: Place
    parts: tuple[bytes, ...]

    @property
    def content(self) -> bytes:
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)


@dataclass(frozen=True, slots=True)
class Page:
    """`place`: how far it was read.  `more`: there is more to be read at once.  `over`: how it ended, if nothing ever
    comes any more."""

    frames: Sequence[Frame]
    place: Place
    more: bool = False
    over: dict[str, Any] | None = None


class Batch:
    """What is told to all watchers at once, made once.  Without frames it has no place: who is not live misses it."""

    __slots__ = ("content", "ends", "first", "frames", "last")

    def __init__(self, frames: Sequence[Frame], content: bytes | None = None, ends: bool = False) -> None:
        self.frames = frames
        self.content = b"".join(frame.content for frame in frames) if content is None else content
        self.first: Place = frames[0].place if frames else ()
        self.last: Place = frames[-1].place if frames else ()
        self.ends = ends  # it may be the last: watchers look whether it is


class Source(Protocol):
    @property
    def key(self) -> Hashable: ...
    @property
    def gapless(self) -> bool:
        """Places count by one, so that a watcher sees when one is missing."""

    def read(self, after: Place) -> Page:
        """In a thread.  Raises NotFound when what is watched is gone."""


Aside = Callable[[Callable[[Place], Page], Place], Awaitable[Page]]


@dataclass(eq=False, slots=True)
class Channel:
    source: Source
    watchers: set[Watcher] = field(default_factory=set)
    turn: int = 0
    pages: dict[Place, tuple[asyncio.Future[Page], int]] = field(default_factory=dict)
    place: Place | None = None  # how far the channel was read for all: its reader's
    lasting: dict[str, bytes] = field(default_factory=dict)  # what has no place and holds until it is told anew

    def tell(self, batch: Batch) -> None:
        self.turn += 1
        self.pages.clear()
        for watcher in self.watchers:
            watcher.offer(batch)

    def mention(self, name: str, content: bytes) -> None:
        """What has no place, to those who are live; whoever becomes live later is told the newest of each name."""
        self.lasting[name] = content
        batch = Batch((), content)
        for watcher in self.watchers:
            watcher.offer(batch)

    def doubt(self) -> None:
        """Everybody looks for himself."""
        self.turn += 1
        self.pages.clear()
        for watcher in self.watchers:
            watcher.doubt()

    def close(self, reason: str) -> None:
        for watcher in list(self.watchers):
            watcher.close(reason)

    async def page(self, after: Place, aside: Aside) -> tuple[Page, int]:
        """And the turn at which it was read."""
        if after not in self.pages:
            if len(self.pages) >= PAGES_MAX:
                self.pages.clear()
            self.pages[after] = asyncio.ensure_future(aside(self.source.read, after)), self.turn
        reading, turn = self.pages[after]
        try:
            return await asyncio.shield(reading), turn
        except BaseException:
            if reading.done() and self.pages.get(after) == (reading, turn):
                del self.pages[after]
            raise


class Watcher:
    """One client's stream: `sse.Carried`."""

    __slots__ = (
        "_hub", "_queue", "_queued_bytes", "_skip", "_wake", "born_at", "channel", "closing", "first", "live", "place",
        "told_at",
    )  # fmt: skip

    def __init__(self, hub: Joined, source: Source, mark: Mark, first: bytes = b"") -> None:
        """`first`: is told before all else."""
        self._hub = hub
        self.channel = Channel(source)  # until the hub knows a better one
        self.place = mark.place
        self._skip = mark.told
        self.first = first
        self.live = False
        self.closing: str | None = None  # why: slow, shutdown, renew, error (come again), gone, left
        self.born_at = self.told_at = monotonic()
        self._queue: deque[Batch] = deque()
        self._queued_bytes = 0
        self._wake = asyncio.Event()

    # --- told by others, on the loop ------------------------------------------------------------------------------

    def offer(self, batch: Batch) -> None:
        if not self.live:
            return
        self._queue.append(batch)
        self._queued_bytes += len(batch.content)
        if self._queued_bytes > QUEUE_BYTES_MAX or len(self._queue) > QUEUE_MAX:
            self.close("slow")
        self._wake.set()

    def doubt(self) -> None:
        self.live = False
        self._wake.set()

    @property
    def reach(self) -> Place:
        """How far it has been told, or is about to be."""
        return max((batch.last for batch in self._queue if batch.frames), default=self.place)

    def beat(self) -> None:
        """Something goes over the wire, so that both ends know that it is there."""
        if self.live and not self._queue:
            reached = self.channel.place
            if reached is not None and not self.channel.source.gapless and reached > self.place:
                self.place = reached  # of what others may see nothing was told; nothing of ours lies before it
                self.offer(Batch((), moved(reached)))
            else:
                self.offer(Batch((), BEAT))

    def close(self, reason: str) -> None:
        if self.closing is None:
            self.closing = reason
        self._drop()
        self._wake.set()

    def gone(self) -> None:
        self.close("left")

    def _drop(self) -> None:
        self.live = False
        self._queue.clear()
        self._queued_bytes = 0

    # --- its own course -------------------------------------------------------------------------------------------

    async def carry(self, write: Write) -> None:
        await self._write(write, OPENING + self.first)
        self.first = b""
        try:
            await self._begin(write)
            await self._follow(write)
        finally:
            self._hub.leave(self)
        if self.closing not in (None, "left"):
            told = {"reason": self.closing, "after": mark_of(self.place)}
            await write(message("closed", body(told)))

    async def _begin(self, write: Write) -> None:
        """Until nothing that happens from now on is missed by the channel."""
        ready = self._hub.join(self)
        while self.closing is None and not ready.is_set():
            try:
                async with asyncio.timeout(RETRY_MAX_S):
                    await ready.wait()
            except TimeoutError:
                await self._write(write, BEAT)

    async def _follow(self, write: Write) -> None:
        pause = RETRY_MIN_S
        while self.closing is None:
            try:
                page, turn = await self.channel.page(self.place, self._hub.aside)
            except (StoreBusy, StoreUnavailable):
                await self._write(write, BEAT)
                await self._pause(pause)
                pause = min(pause * 2, RETRY_MAX_S)
                continue
            except NotFound:
                return self.close("gone")
            except LongTaskError as error:
                log.error("stream.error source=%s: %s", self.channel.source.key, error)
                return self.close("error")
            pause = RETRY_MIN_S
            if content := self._new(page.frames):
                await self._write(write, content)
            self.place = page.place
            if page.more or turn != self.channel.turn:
                continue
            if page.over is not None:
                mark = f"{mark_of(self.place)}:{ENDED}"
                return await self._write(write, message("ended", body(page.over), mark))
            if self.channel.place is None:
                self.channel.place = self.place
            if self.closing is None:
                await self._live(write)

    def _new(self, frames: Iterable[Frame]) -> bytes:
        parts: list[bytes] = []
        for frame in frames:
            begun = self._skip and frame.place[-1] == self.place[-1] + 1  # it was told in part
            parts += frame.parts[self._skip :] if begun else frame.parts
            self._skip = 0
        return b"".join(parts)

    async def _live(self, write: Write) -> None:
        self.live = True  # nothing has run since the turn was looked at
        lasting = b"".join(self.channel.lasting.values())
        try:
            if lasting:
                await self._write(write, lasting)
            while self.closing is None and (self.live or self._queue):
                await self._wake.wait()
                self._wake.clear()
                if content := self._take():
                    await self._write(write, content)
        finally:
            self._drop()

    def _take(self) -> bytes:
        """All that waits, in its order.  What leaves doubt ends being live."""
        parts: list[bytes] = []
        while self._queue and self.closing is None:
            batch = self._queue.popleft()
            self._queued_bytes -= len(batch.content)
            if not batch.frames:
                parts.append(batch.content)
            elif self.channel.source.gapless and batch.first[-1] > self.place[-1] + 1:
                self._drop()
                break
            elif batch.first > self.place:
                parts.append(batch.content)
                self.place = batch.last
            elif batch.last > self.place:
                parts += [frame.content for frame in batch.frames if frame.place > self.place]
                self.place = batch.last
            if batch.ends:
                self._drop()
        return b"".join(parts)

    async def _write(self, write: Write, content: bytes) -> None:
        self.told_at = monotonic()
        await write(content)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
            self._wake.clear()
        except TimeoutError:
            pass


class Joined(Protocol):
    """What a watcher asks of the hub."""

    def join(self, watcher: Watcher) -> asyncio.Event:
        """Set as soon as nothing that happens from then on is missed by the watcher's channel."""

    def leave(self, watcher: Watcher) -> None: ...
    async def aside(self, read: Callable[[Place], Page], after: Place) -> Page:
        """In a thread."""
