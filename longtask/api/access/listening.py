"""How the web server listens: what it must not believe, how long it waits for whoever does not speak, and how it tells
that it does not understand.

`uvicorn` by itself waits for ever for the end of a request's headers and sets them no bound, believes
`X-Forwarded-For` of whoever calls from this machine, lets connections that ask for nothing pile up, sends chunks to
HTTP/1.0, and answers what it cannot read, or has no room for, in plain text, which the end of the connection may
swallow; all of it is put right here.

Requests are parsed by `httptools` (llhttp, which Node.js uses): with a parser in Python, reading and framing were a
quarter of what a server does that takes one submit after another.
"""

from __future__ import annotations

import asyncio
import resource
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from longtask.api.access.policy import Policy
from longtask.api.problems import Problem

HEADERS_S = 10.0  # so long may the headers of a request take to come, counted from the connection or the first byte
IDLE_S = 30.0  # a connection is kept for the next request
LINGER_S = 1.0  # so long is what still comes read and thrown away, so that its sender gets to the answer
SPARE = 1_000  # connections beside streams
FILES_BESIDE = 1_000  # open files that are no connections: databases, artifacts, child processes


def answer_of(problem: Problem) -> bytes:
    """All of it, as it goes over the wire; the connection ends with it."""
    response = problem.response()
    first = f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}".encode()
    headers = [b"%b: %b" % pair for pair in response.raw_headers]
    return b"\r\n".join([first, *headers, b"connection: close", b"", bytes(response.body)])


LATE = answer_of(Problem(408, "slow", "the request did not come in time", f"send it at once, within {HEADERS_S:g} s"))
FULL = answer_of(
    Problem(503, "busy", "the server is busy", "too many connections are open; try again", headers={"Retry-After": "1"})
)
UNREAD = answer_of(Problem(400, "bad-request", "the request cannot be read", "it is no HTTP/1.1; see RFC 9112"))
LONG = answer_of(Problem(431, "headers", "too many headers", "what comes before the body is too long, or has no end"))
UNKNOWN = answer_of(
    Problem(501, "http", "the request was not carried out", "of all transfer encodings only chunked is known")
)


class Undelimited(RequestResponseCycle):
    """An answer to HTTP/1.0, which knows no chunks: a body without a length ends with its connection."""

    bare = False

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            named = {name.lower() for name, _ in message.get("headers", ())}
            self.bare = b"content-length" not in named and self.scope["method"] != "HEAD"
            self.chunked_encoding = False if self.bare else None
        if message["type"] == "http.response.start" or not self.bare:
            await super().send(message)
        elif not self.disconnected and not self.response_complete:
            await self._pass_on(message.get("body", b""), message.get("more_body", False))

    async def _pass_on(self, body: bytes, more: bool) -> None:
        if self.flow.write_paused:
            await self.flow.drain()
        self.transport.write(body)
        if not more:
            self.response_complete = True
            self.message_event.set()
            self.transport.close()
            self.on_response()


class Hurried(HttpToolsProtocol):
    """Closes a connection whose next request does not come in time, or cannot be read, or is one too many.

    What comes before a body is bounded; what comes behind one (trailers) is thrown away."""

    headers_s = HEADERS_S
    _hurry: asyncio.TimerHandle | None = None
    _over = False
    _in_head = True  # or before one
    _head_bytes = 0
    _refusal = UNREAD

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            self._part(FULL)
        else:
            self._hurry = self.loop.call_later(self.headers_s, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._calm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > (self.config.h11_max_incomplete_event_size or 0):
            self._part(LONG)
        cycle: RequestResponseCycle | None = self.cycle  # None until the first request
        if cycle is not None and not cycle.response_complete:
            self._calm()
        elif self._hurry is None and not self._over:
            self._hurry = self.loop.call_later(self.headers_s, self._late)

    # Called by the parser: what is raised is told by `send_400_response`.

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        old = self.parser.get_http_version() == "1.0"
        if not old and sum(name == b"host" for name, _ in self.headers) != 1:
            raise ValueError("one Host is wanted")
        if not self.url.startswith(b"/"):  # it would name a host of its own
            raise ValueError("the path alone is wanted")
        if any(name == b"transfer-encoding" and value.lower() != b"chunked" for name, value in self.headers):
            self._refusal = UNKNOWN
            raise ValueError("a transfer encoding that nobody knows")
        super().on_headers_complete()
        if old:
            self.cycle.__class__ = Undelimited

    def on_message_complete(self) -> None:
        self._in_head = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """A request whose body turns out to be none may be under way: then this is its answer."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            if cycle.response_started:
                self.transport.close()
                return
            cycle.disconnected = True
            cycle.message_event.set()
        self._part(self._refusal)

    def _calm(self) -> None:
        if self._hurry is not None:
            self._hurry.cancel()
            self._hurry = None

    def _late(self) -> None:
        self._hurry = None
        self._part(LATE)

    def _part(self, answer: bytes) -> None:
        """Says why, and closes when the other side has had time to hear it: closed at once, with bytes that nobody has
        read, a connection is reset, and the answer may be lost."""
        if self._over or self.transport.is_closing():
            return
        self._over = True
        self._calm()
        self._unset_keepalive_if_required()
        self.transport.write(answer)
        self.transport.resume_reading()
        with suppress(OSError):  # the other side may be gone
            self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.abort)


def uvicorn_options(policy: Policy) -> dict[str, Any]:
    """For `uvicorn.Config`."""
    return {
        "http": Hurried,
        "ws": "none",
        "proxy_headers": False,  # the guard knows whom to believe
        "server_header": False,
        "h11_max_incomplete_event_size": policy.headers_bytes_max,  # `Hurried` heeds it, too
        "timeout_keep_alive": IDLE_S,
        "limit_concurrency": policy.streams_max + SPARE,
    }


def allow_files(policy: Policy) -> None:
    """As many as there may be connections, as far as the system lets this process: else it would stop to accept."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = policy.streams_max + SPARE + FILES_BESIDE
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
