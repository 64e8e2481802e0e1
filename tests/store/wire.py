"""A wire between a store and its PostgreSQL server that can be cut at one chosen message.

It listens on a socket in a folder of its own, where libpq looks for a server, and understands just enough of the
protocol to tell messages apart.  Cut, both ends see the connection close:

- SWALLOWED: the request never reaches the server;
- UNANSWERED: the server has done all of it, and the answer is lost;
- TORN: the first half of the answer comes through.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

SWALLOWED, UNANSWERED, TORN = "swallowed", "unanswered", "torn"
Match = Callable[[bytes], bool]


def commits(request: bytes) -> bool:
    return request.rstrip(b"\0").endswith(b"commit")


def executes(name: str) -> Match:
    return lambda request: b"execute " + name.encode() in request


class Wire:
    """`url` leads through it to the server of `server_url`."""

    def __init__(self, folder: Path, server_url: str) -> None:
        query = parse_qs(urlsplit(server_url).query)
        self._server = str(Path(query["host"][0]) / ".s.PGSQL.5432")
        self.url = server_url.replace(quote(query["host"][0], safe=""), quote(str(folder), safe=""))
        self.requests: list[bytes] = []
        self.cuts = 0
        self.deaf = False  # whoever comes new is turned away
        self._match: Match = commits
        self._left, self._how = 0, ""
        self._sockets: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_at(self, match: Match, nth: int, how: str) -> None:
        """At the `nth` request from now on that matches.  Once."""
        self._match, self._left, self._how, self.cuts = match, nth, how, 0

    def close(self) -> None:
        for end in (self._listener, *self._sockets):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            if self.deaf:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self._server)
            except OSError:
                client.close()
                continue
            self._sockets += client, server
            link = _Link(self, client, server)
            threading.Thread(target=link.forth, daemon=True).start()
            threading.Thread(target=link.back, daemon=True).start()

    def due(self, request: bytes) -> str:
        """How this request is to be cut; mostly not at all."""
        self.requests.append(request)
        if self._left and self._match(request):
            self._left -= 1
            if not self._left:
                self.cuts += 1
                return self._how
        return ""


class _Link:
    def __init__(self, wire: Wire, client: socket.socket, server: socket.socket) -> None:
        self.wire, self.client, self.server = wire, client, server
        self.how = ""

    def _cut(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def forth(self) -> None:
        with suppress(OSError):
            head = self._read(self.client, 4)  # the first message has no letter
            self.server.sendall(head + self._read(self.client, _length(head) - 4))
            while True:
                head = self._read(self.client, 5)
                body = self._read(self.client, _length(head[1:]) - 4)
                self.how = self.wire.due(body) if head[:1] == b"Q" else ""
                if self.how == SWALLOWED:
                    break
                self.server.sendall(head + body)
        self._cut()

    def back(self) -> None:
        kept = b""
        with suppress(OSError):
            while True:
                head = self._read(self.server, 5)
                message = head + self._read(self.server, _length(head[1:]) - 4)
                if not self.how:
                    self.client.sendall(message)
                    continue
                kept += message
                if head[:1] == b"Z":  # the server waits for the next request: all is done
                    self.client.sendall(kept[: len(kept) // 2] if self.how == TORN else b"")
                    break
        self._cut()

    @staticmethod
    def _read(end: socket.socket, size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = end.recv(size - len(found))
            if not piece:
                raise OSError("closed")
            found += piece
        return found


def _length(four: bytes) -> int:
    length: int = struct.unpack("!I", four)[0]
    return length
