"""Following a stream across broken connections, without sockets (docs/streams.md tells the protocol).

A message counts when all of it has come; what was cut is heard again.  The mark of the last message that counted is
sent with the next connection, so that nothing is told twice and nothing is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from longtask.client.request import path
from longtask.core.errors import LongTaskError, NotFound

MEDIA_TYPE = "text/event-stream"
AT_ONCE = frozenset({"renew", "slow"})  # why a connection was closed, though the server is well


@dataclass(frozen=True, slots=True)
class Message:
    """`kind`: snapshot, event, progress, output, attempt or ended.  `mark`: to go on behind it, as `after`; that of a
    progress is the one before it."""

    kind: str
    data: Any
    mark: str | None


class Lines:
    """Bytes, cut anywhere -> (kind, data, mark), as the standard of server-sent events reads them.  `heard`: the server
    has told something, be it that it is there; that a connection was opened is not enough."""

    def __init__(self) -> None:
        self.heard = False
        self._rest = bytearray()
        self._kind = ""
        self._data: list[str] = []
        self._mark: str | None = None

    def hear(self, content: bytes) -> Iterator[tuple[str, str | None, str | None]]:
        """`data` None: only the mark moves.  `mark` None: it stays."""
        self._rest += content
        if b"\n" not in content:
            return
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        for line in lines:
            told = line.removesuffix(b"\r").decode("utf-8", "replace")
            if told:
                self._field(told)
            elif found := self._block():
                yield found

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not name:
            self.heard = True  # a beat
        elif name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._mark = value

    def _block(self) -> tuple[str, str | None, str | None] | None:
        kind, data, mark = self._kind, self._data, self._mark
        self._kind, self._data, self._mark = "", [], None
        if not data and mark is None:
            return None
        self.heard = True
        return kind, "\n".join(data) if data else None, mark


class Following:
    """One stream.  For each connection: send `path` with `headers`, call `connected`, `hear` what comes, and ask
    `is_over`; when the connection ends and it is not over, connect again, at once if `at_once`."""

    def __init__(self, path: str, after: str | None) -> None:
        self.path = path
        self.mark = after
        self.over = False
        self.at_once = False
        self._lines = Lines()

    def is_over(self) -> bool:
        """Nothing comes any more."""
        return self.over

    @property
    def heard(self) -> bool:
        """This connection has told something."""
        return self._lines.heard

    @property
    def headers(self) -> dict[str, str]:
        mark = {"Last-Event-ID": self.mark} if self.mark is not None else {}
        return {"Accept": MEDIA_TYPE, **mark}

    def connected(self, status: int, media_type: str) -> None:
        """A good answer has begun.  Raises LongTaskError if it is no stream."""
        self._lines = Lines()  # half a message of the connection before counts for nothing
        self.at_once = False
        if status == 204:
            self.over = True
        elif media_type.partition(";")[0].strip() != MEDIA_TYPE:
            raise LongTaskError(f"{self.path}: the answer is {media_type!r}, no stream; is the address right?")

    def hear(self, content: bytes) -> Iterator[Message]:
        """The mark moves as the messages are taken.  Raises NotFound when the task was pruned."""
        for kind, data, mark in self._lines.hear(content):
            if data is None:
                self.mark = mark
                continue
            told = _value(self.path, data)
            if kind == "closed":
                self._close(told)
                return
            self.mark = self.mark if mark is None else mark
            self.over = kind == "ended"
            yield Message(kind, told, self.mark)
            if self.over:
                return

    def _close(self, told: Any) -> None:
        reason = told.get("reason")
        if reason == "gone":
            raise NotFound(f"{self.path}: the task is gone: it was pruned")
        self.at_once = reason in AT_ONCE


def _value(path: str, data: str) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise LongTaskError(f"{path}: a message is no JSON: {error}") from None


def of_task(task: str, after: str | None = None) -> Following:
    """Follows a task until it ends: `snapshot` (as `task`), then `event`, `progress`, at last `ended`.

    `after`: the mark of the last message that was heard; "0": all that has happened, and no snapshot.
    """
    return Following(path("tasks", task, "stream"), after)


def of_all(after: str | None = None) -> Following:
    """Follows every task that the caller may see: `snapshot` (the open tasks), then `event`, for ever."""
    return Following(path("stream"), after)


def of_output(task: str, step: str, *, attempt: int | None = None, after: str | None = None) -> Following:
    """Follows what a step writes until it has ended: `output`, and `attempt` when the next one begins, at last `ended`.

    `attempt`: that one alone; else the newest, and those that follow.
    """
    return Following(path("tasks", task, "steps", step, "stream", query={"attempt": attempt}), after)
