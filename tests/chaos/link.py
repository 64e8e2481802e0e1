"""A proxy before the database: one port for each worker, on loopback, and what may go wrong on the way.

    cut           every connection is closed, at once
    commits       the next commits are cut: before they arrive, while they are on their way, or when they have happened
                  and the answer has not been told
    silence       connections stay, and nothing passes, as on a line that swallows all
    deaf          hints (NotificationResponse) are swallowed, nothing else

It knows as much of the protocol as that needs: messages of the server are a letter and a length.  Encryption would hide
them, so the URL that it gives asks for none.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

CHUNK = 1 << 16
NOTIFICATION = ord("A")
WAYS = ("before", "during", "after")
START_MAX_S = 10


class Link:
    """The line of one worker.  Calls come from any thread."""

    def __init__(self, name: str, upstream: Path, dice: random.Random, loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        self.port = 0
        self.counts: Counter[str] = Counter()
        self._upstream = upstream
        self._dice = dice
        self._loop = loop
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._lines: set[asyncio.StreamWriter] = set()
        self._commits = 0  # so many of the next are cut
        self._deaf = False
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres?sslmode=disable&gssencmode=disable"

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def end(self) -> None:
        """No further connections, and no more of those that there are."""
        if self._server is not None:
            self._server.close()
        self._flowing.set()
        self._cut()

    # --- trouble --------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        self._soon(self._cut)

    def cut_commits(self, count: int) -> None:
        self._commits = count

    def silence(self, silent: bool) -> None:
        self._soon(self._flowing.clear if silent else self._flowing.set)

    def deafen(self, deaf: bool) -> None:
        self._deaf = deaf

    def _soon(self, act: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(act)

    def _cut(self) -> None:
        self.counts["lines cut"] += len(self._lines) // 2
        for line in self._lines:
            line.transport.abort()

    # --- carrying -------------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there: asyncio.StreamWriter | None = None
        try:
            found, there = await asyncio.open_unix_connection(str(self._upstream))
            self._lines |= {writer, there}
            self.counts["lines"] += 1
            line = _Line(self, reader, writer, found, there)
            both = [asyncio.create_task(line.ask()), asyncio.create_task(line.answer())]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
        except OSError:
            pass  # the server is not there: the client is told by the end of its connection
        finally:
            for one in (writer, there):
                if one is not None:
                    self._lines.discard(one)
                    one.transport.abort()

    async def flow(self) -> None:
        await self._flowing.wait()

    def way_of(self, message: bytes) -> str:
        """How this message is cut; "" if it is not."""
        if not self._commits or not message.endswith(b"commit\0"):
            return ""
        self._commits -= 1
        way = self._dice.choice(WAYS)
        self.counts[f"commits cut {way}"] += 1
        return way

    def heard(self, messages: bytes) -> bytes:
        """Whole messages of the server, without hints if nobody shall hear them."""
        if not self._deaf or b"A" not in messages:
            return messages
        kept, at = bytearray(), 0
        while at < len(messages):
            end = at + 1 + int.from_bytes(messages[at + 1 : at + 5], "big")
            if messages[at] == NOTIFICATION:
                self.counts["hints dropped"] += 1
            else:
                kept += messages[at:end]
            at = end
        return bytes(kept)


class _Line:
    """One connection."""

    def __init__(
        self,
        link: Link,
        client: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> None:
        self._link = link
        self._client, self._to_client = client, to_client
        self._server, self._to_server = server, to_server
        self._mute = False  # the next answer of the server is the last, and is told to nobody

    async def ask(self) -> None:
        while part := await self._client.read(CHUNK):
            await self._link.flow()
            way = self._link.way_of(part)
            if way == "before":
                return
            self._mute = way == "after"
            self._to_server.write(part)
            await self._to_server.drain()
            if way == "during":
                return

    async def answer(self) -> None:
        rest = b""
        while part := await self._server.read(CHUNK):
            await self._link.flow()
            if self._mute:
                return
            rest += part
            whole = _whole(rest)
            if whole:
                self._to_client.write(self._link.heard(rest[:whole]))
                await self._to_client.drain()
                rest = rest[whole:]


def _whole(messages: bytes) -> int:
    """The length of those that have come whole."""
    at = 0
    while at + 5 <= len(messages):
        end = at + 1 + int.from_bytes(messages[at + 1 : at + 5], "big")
        if end > len(messages):
            break
        at = end
    return at


class Links:
    """The proxy's own thread."""

    def __init__(self) -> None:
        self._links: list[Link] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._thread.start()

    def link(self, name: str, upstream: Path, seed: int) -> Link:
        made = Link(name, upstream, random.Random(seed), self._loop)
        opened: Future[None] = asyncio.run_coroutine_threadsafe(made.open(), self._loop)
        opened.result(START_MAX_S)
        self._links.append(made)
        return made

    def close(self) -> None:
        ended: Future[None] = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        ended.result(START_MAX_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_MAX_S)
        self._loop.close()

    async def _end(self) -> None:
        for link in self._links:
            link.end()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=START_MAX_S / 2)
