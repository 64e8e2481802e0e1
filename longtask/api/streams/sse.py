"""Server-sent events as bytes, marks in them, and a response that carries a stream.

A mark is what a client sends back (`Last-Event-ID`, `?after=`) to go on behind a message: the numbers of a place,
joined by dots; `:k` where k messages of that place are told and more follow, `:ended` behind the last of all.
`id:` without `data:` moves a client's mark and is told to nobody, as the standard has it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

log = logging.getLogger("longtask.streams")

MEDIA_TYPE = "text/event-stream"
RETRY_MS = 1_000  # after so long a browser comes again
OPENING = f"retry: {RETRY_MS}\n\n".encode()
BEAT = b":\n\n"
SEND_MAX_S = 30.0  # who takes nothing for so long is gone, or as good as
ENDED = "ended"

Place = tuple[int, ...]
Write = Callable[[bytes], Awaitable[None]]
_MARK = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,18})?)(?::([0-9]{1,4}|ended))?")


class Mark(NamedTuple):
    """Behind `told` messages of what comes after `place`.  `ended`: behind the last message of the stream."""

    place: Place
    told: int = 0
    ended: bool = False


def mark_of(place: Place) -> str:
    return ".".join(map(str, place))


def read_mark(text: str) -> Mark | None:
    """None: it is no mark."""
    found = _MARK.fullmatch(text)
    if found is None:
        return None
    place, more = place_of(found[1]), found[2]
    if more is None or more == ENDED:
        return Mark(place, ended=more == ENDED)
    return Mark((*place[:-1], max(place[-1] - 1, 0)), int(more))


def place_of(cursor: str) -> Place:
    return tuple(map(int, cursor.split(".")))


def body(document: Any) -> bytes:
    """JSON in one line.  A name that is no UTF-8 (a lone surrogate) is escaped."""
    try:
        return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()


def message(kind: str, told: bytes, mark: str = "") -> bytes:
    """`told`: a `body`."""
    head = f"id: {mark}\nevent: {kind}\ndata: " if mark else f"event: {kind}\ndata: "
    return head.encode() + told + b"\n\n"


def messages(kind: str, told: list[bytes], place: Place) -> tuple[bytes, ...]:
    """All of one place; the last one carries its mark.  Where nothing is to be told, the mark alone."""
    mark = mark_of(place)
    if not told:
        return (moved(place),)
    inner = [message(kind, each, f"{mark}:{n}") for n, each in enumerate(told[:-1], 1)]
    return (*inner, message(kind, told[-1], mark))


def moved(place: Place) -> bytes:
    """Tells nothing, and moves the client's mark."""
    return f"id: {mark_of(place)}\n\n".encode()


class Stuck(Exception):
    """The client takes nothing any more."""


class Carried(Protocol):
    """What a response carries."""

    async def carry(self, write: Write) -> None: ...
    def gone(self) -> None:
        """The client has left."""


class EventStream(Response):
    """Our own in place of a library's: beats come from the hub's one clock and not from a task of each client, and the
    end of the server is told by the hub and not guessed from signal handlers."""

    media_type = MEDIA_TYPE

    def __init__(self, carried: Carried) -> None:
        self.status_code = 200
        self.background = None
        self.carried = carried
        self.init_headers({"cache-control": "no-store", "x-accel-buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def write(content: bytes) -> None:
            try:
                async with asyncio.timeout(SEND_MAX_S):
                    await send({"type": "http.response.body", "body": content, "more_body": True})
            except TimeoutError:
                raise Stuck from None

        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        watching = asyncio.create_task(self._watch(receive))
        try:
            await self.carried.carry(write)
            async with asyncio.timeout(SEND_MAX_S):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (Stuck, TimeoutError):
            log.info("stream.stuck client=%s", scope.get("client"))  # the server ends the connection
        finally:
            watching.cancel()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.carried.gone()
