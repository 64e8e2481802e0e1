"""The answer on the connection: in one piece or as a stream, at the script's pace, with the script's faults.

A connection that a fault ends is closed without the end that HTTP asks for, as by a server that dies.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import Message, Receive, Scope, Send

from longtask.core.model import JsonMap
from longtask.modelserver.asked import Asked
from longtask.modelserver.playback import Cue, Request
from longtask.modelserver.said import Said, fresh
from longtask.modelserver.script import STALL_AFTER, Fault
from longtask.modelserver.wires import Event, Wire
from longtask.plan.duration import duration_ms

CLOSE = "longtask.close"  # in the state of a connection: ends it


@dataclass(frozen=True, slots=True)
class Performance:
    """An ASGI application that answers one request."""

    wire: Wire
    asked: Asked
    cue: Cue
    said: Said
    request: Request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        playing = asyncio.ensure_future(self._play(send, scope["state"][CLOSE]))
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait({playing, gone}, return_when=asyncio.FIRST_COMPLETED)
            if playing.done():
                playing.result()
                if self._closes:
                    await gone  # the server is to know that nothing more comes
            else:
                self.request.ended = "gone"
        finally:
            for task in (playing, gone):
                task.cancel()
            await asyncio.gather(playing, gone, return_exceptions=True)

    @property
    def _closes(self) -> bool:
        return self.request.ended in ("hang", "stall", "cut")

    async def _play(self, send: Send, close: Callable[[], None]) -> None:
        fault = self.cue.fault

        async def told(message: Message) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body"):
                self._end(fault)  # first: who has the last byte may ask at once how it ended
            await send(message)

        await self._perform(told, fault)
        self._end(fault)
        if self._closes:
            close()

    def _end(self, fault: Fault | None) -> None:
        failed = self.request.status not in (200, None)
        self.request.ended = "error" if failed else fault.kind if fault else "whole"

    async def _perform(self, send: Send, fault: Fault | None) -> None:
        await _wait(self.cue.turn.delay)
        if fault is not None and fault.kind == "hang":
            await _last(fault)
        elif fault is not None and fault.status is not None and not (self.asked.stream and fault.after is not None):
            await self._fail(send, fault, fault.status)
        elif self.asked.stream:
            await self._stream(send, fault)
        else:
            await self._whole(send, fault)

    async def _fail(self, send: Send, fault: Fault, status: int) -> None:
        resets_at = None if fault.resets_in is None else math.ceil(time.time() + duration_ms(fault.resets_in) / 1000)
        failure = self.wire.failure(status, _message(fault), resets_at)
        headers = dict(failure.headers)
        if fault.retry_after is not None:
            wait_ms = duration_ms(fault.retry_after)
            headers |= {"retry-after": str(math.ceil(wait_ms / 1000)), "retry-after-ms": str(wait_ms)}
        await self._answer(send, status, failure.body, headers)

    async def _answer(self, send: Send, status: int, body: JsonMap, headers: dict[str, str]) -> None:
        content = json.dumps(body).encode()
        await self._begin(send, status, {"content-type": "application/json", **_length(content), **headers})
        await send({"type": "http.response.body", "body": content})

    async def _whole(self, send: Send, fault: Fault | None) -> None:
        document = self.wire.document(self.said, self.asked)
        content = json.dumps(document).encode()
        half = content[: len(content) // 2]
        if fault is not None and fault.kind == "malformed":
            content = half
        await self._begin(send, 200, {"content-type": "application/json", **_length(content)})
        if fault is None or fault.kind == "malformed":
            await send({"type": "http.response.body", "body": content})
        else:
            await send({"type": "http.response.body", "body": half, "more_body": True})
            await _last(fault)

    async def _stream(self, send: Send, fault: Fault | None) -> None:
        await self._begin(send, 200, {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"})
        document = self.wire.document(self.said, self.asked)
        stop = _stops_after(fault)
        for number, event in enumerate(self.wire.events(document, self.asked), 1):
            if stop is not None and number > stop:
                break
            broken = fault is not None and fault.malformed == number
            await send({"type": "http.response.body", "body": _line(event, broken), "more_body": True})
            await _wait(self.cue.turn.pace)
        if fault is None or fault.kind == "malformed":
            await send({"type": "http.response.body", "body": b""})
        elif fault.status is not None:
            told = self.wire.broken(document, fault.status, _message(fault))
            await send({"type": "http.response.body", "body": _line(told)})
        else:
            await _last(fault)

    async def _begin(self, send: Send, status: int, headers: dict[str, str]) -> None:
        self.request.status = status
        named = {"request-id": fresh("req"), "x-request-id": fresh("req"), **headers}
        pairs = [(name.encode(), value.encode()) for name, value in named.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})


def _stops_after(fault: Fault | None) -> int | None:
    """So many events of a stream come; None: all."""
    if fault is None or fault.kind == "malformed":
        return None
    if fault.kind == "stall":
        return STALL_AFTER if fault.after is None else fault.after
    return fault.cut if fault.cut is not None else fault.after


def _message(fault: Fault) -> str:
    return fault.message or f"status {fault.status}, as the script says"


def _length(content: bytes) -> dict[str, str]:
    return {"content-length": str(len(content))}


def _line(event: Event, broken: bool = False) -> bytes:
    content = event.data if isinstance(event.data, str) else json.dumps(event.data)
    if broken:
        content = content[: len(content) // 2]
    return (f"event: {event.name}\n" if event.name else "").encode() + f"data: {content}\n\n".encode()


async def _wait(duration: str | None) -> None:
    if duration is not None:
        await asyncio.sleep(duration_ms(duration) / 1000)


async def _last(fault: Fault) -> None:
    """As long as the fault lasts; a cut does not last."""
    if fault.kind in ("hang", "stall"):
        if fault.lasts_s is None:
            await asyncio.Event().wait()
        else:
            await asyncio.sleep(fault.lasts_s)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
