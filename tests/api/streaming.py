"""Clients of streams: what comes is read as the standard has it, cut off at any byte, and taken up again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

from longtask.api.app import create_app
from longtask.api.server import Server
from longtask.api.streams.hub import Hub, Pace
from longtask.store.contract import Store
from longtask.views.events import Agents, cloud_events

QUICK = Pace(
    batch_s=0.004, look_s=0.05, progress_s=0.01, poll_min_s=0.004, poll_max_s=0.02, tick_s=0.01, beat_s=60, idle_s=60
)
PATIENCE_S = 20.0


class Message(NamedTuple):
    kind: str
    data: Any
    mark: str


class Ear:
    """Bytes -> messages, and the mark to come again with; half a message counts for nothing."""

    def __init__(self, mark: str = "") -> None:
        self.mark = mark
        self.messages: list[Message] = []
        self.beats = 0
        self._rest = b""

    def hear(self, content: bytes) -> None:
        *blocks, self._rest = (self._rest + content).split(b"\n\n")
        for block in blocks:
            self._hear(block.decode())

    def _hear(self, block: str) -> None:
        fields: dict[str, str] = {}
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        self.mark = fields.get("id", self.mark)
        if "data" in fields:
            self.messages.append(Message(fields["event"], json.loads(fields["data"]), self.mark))
        elif "" in fields:
            self.beats += 1

    def forget_half(self) -> None:
        self._rest = b""

    def of(self, kind: str) -> list[Any]:
        return [message.data for message in self.messages if message.kind == kind]

    @property
    def events(self) -> list[tuple[str, str]]:
        return [(event["id"], event["type"]) for event in self.of("event")]


def served(server: Server, pace: Pace = QUICK) -> Any:
    """Its application, with a hub that hurries."""
    hurry(server, pace)
    return create_app(server)


def hurry(server: Server, pace: Pace = QUICK) -> None:
    before, server.hub = server.hub, Hub(server.parts.store, pace)
    server.services = [service for service in server.services if service != before.serve] + [server.hub.serve]


class Session:
    """One connection to an application in this process, without a socket."""

    def __init__(self, app: Any, path: str, mark: str = "", *, cut: int | None = None, token: str = "") -> None:
        """`mark`: sent as Last-Event-ID.  `cut`: the client leaves after so many bytes."""
        self.status = 0
        self.body = b""
        self.ear = Ear(mark)
        self.ended = False  # by the server
        self.taking = asyncio.Event()
        self.taking.set()
        self._left = asyncio.Event()
        self._news = asyncio.Event()
        self._asked = False
        self._cut = cut
        self._heard = 0
        path, _, query = path.partition("?")
        headers = [(b"host", b"127.0.0.1:8700")]
        if mark:
            headers.append((b"last-event-id", mark.encode()))
        if token:
            headers.append((b"authorization", f"Bearer {token}".encode()))
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "method": "GET",
            "scheme": "http", "path": path, "raw_path": quote(path).encode(), "query_string": query.encode(),
            "root_path": "", "headers": headers, "client": ("127.0.0.1", 50_000), "server": ("127.0.0.1", 8700),
            "state": {},
        }  # fmt: skip
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if self._left.is_set():
            return
        await self.taking.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self._take(message.get("body", b""))
            self.ended = not message.get("more_body", False)
        self._news.set()

    def _take(self, content: bytes) -> None:
        if self._cut is not None:
            content = content[: self._cut - self._heard]
        self._heard += len(content)
        if self.status == 200:
            self.ear.hear(content)
        else:
            self.body += content
        if self._heard == self._cut:
            self.leave()

    def leave(self) -> None:
        self._left.set()
        self._news.set()

    @property
    def left(self) -> bool:
        return self._left.is_set()

    async def until(self, holds: Any) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds(self.ear):
                assert not self.task.done(), (self.status, self.body, self.ear.messages)
                self._news.clear()
                await self._news.wait()

    async def end(self) -> None:
        """Until the server has ended it."""
        async with asyncio.timeout(PATIENCE_S):
            await self.task

    async def quit(self) -> None:
        self.leave()
        await self.end()


def told(store: Store, task_id: str, after: int = 0) -> list[tuple[str, str]]:
    """What a stream of the task is to tell."""
    task, agents = store.get_task(task_id), Agents(store, task_id)
    return [
        (shown["id"], shown["type"])
        for event in every_event(store, task_id, after)
        for shown in cloud_events(task, event, agents)
    ]


def every_event(store: Store, task_id: str, after: int = 0) -> Iterator[Any]:
    while page := store.events(task_id, after, 100):
        yield from page
        after = page[-1].seq


def told_of_all(store: Store, cursor: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    while True:
        events, cursor = store.feed(cursor, 100)
        if not events:
            return found
        for event in events:
            task = store.get_task(event.task_id)
            shown = cloud_events(task, event, Agents(store, task.id))
            found += [(each["id"], each["type"]) for each in shown]
