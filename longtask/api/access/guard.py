"""In front of every request: who calls, from where, how much, and what comes of it.

In this order, each refusal a problem that says what to do:

1. The form: a path that begins with `/`, few and short headers, no token in the address (it would stand in logs).
2. Without tokens: `local.check`.  With tokens: one `Authorization: Bearer lt_…`.  What needs neither stands in `OPEN`.
3. How often this caller, or this address, may call.
4. The body: counted as it comes, whatever its length was said to be; JSON is read whole, so that it comes in time, is
   UTF-8 and is not nested without end before anybody parses it.
5. A row of the audit for everything but looking and carrying out steps.

Then the application answers.  On the way out come the headers that tell browsers what not to do, and of streams the
guard looks now and then whether their token is still good.  An error that nobody foresaw is told without its message.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote_to_bytes

from anyio.to_thread import run_sync
from starlette.exceptions import HTTPException

from longtask.api.access import local
from longtask.api.access.audit import LOOKING, Trail
from longtask.api.access.caller import STATE, unknown
from longtask.api.access.limits import network_of, too_deep
from longtask.api.access.policy import ARCHIVE_TYPES, ARCHIVES, Policy, came_from, trusted
from longtask.api.access.roles import Caller
from longtask.api.access.shared import Access, too_many
from longtask.api.problems import MEDIA_TYPE, URN, Problem, problem_of
from longtask.core.errors import LongTaskError

log = logging.getLogger("longtask.access")

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# Paths that need no token: whole, or as a beginning where they end in "/".  What they change they allow by other means
# (a signature), and what they show tells nothing about tasks.
VIEWS = ("/inbox", "/tasks", "/tasks/", "/events", "/fleet")  # of the page, which asks for a token itself
OPEN = {"/", "/assets/", *VIEWS, "/healthz", "/readyz", "/openapi.json", "/v1/callbacks/"}
WORKING = "/v1/workers/"  # what a worker does for its own attempts stands in the journals of their tasks, by its name
MADE = re.compile(rb".*/v1/tasks/([0-9a-f-]{36})")  # where an answer says that a task was made
SHOWN_TOKEN = re.compile(rb"lt_[0-9A-Za-z]{43}")
STREAM_LOOK_S = 15.0  # so often a stream's token is looked at; a heartbeat comes about as often
SLOWEST_BYTES_PER_S = 10_000.0  # a body that is not JSON may take longer, as long as it comes
THREAD_BYTES_MIN = 64_000  # a body above it is looked through in a thread
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"same-origin",  # with none a form of our own pages would have a foreign origin
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"cache-control": b"no-store",
}


def is_open(path: str) -> bool:
    return path in OPEN or any(path.startswith(beginning) for beginning in OPEN if beginning[1:].endswith("/"))


class Guard:
    """ASGI middleware."""

    def __init__(self, app: App, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await Call(self._access, scope, receive, send).run(self._app)
        else:  # there are no web sockets
            await receive()
            await send({"type": "websocket.close", "code": 1008})


class Call:
    """One request."""

    def __init__(self, access: Access, scope: Scope, receive: Receive, send: Send) -> None:
        self._access, self._policy = access, access.policy
        self._scope, self._receive, self._send = scope, receive, send
        self._headers: local.Headers = scope["headers"]
        self._method: str = scope["method"]
        self._path: str = scope["path"]
        self._caller: Caller | None = None
        self._started = self._ended = False
        self._held: Message | None = None  # the start of an answer whose body says what came of it
        self._body: list[Message] = []  # read already
        self._counted = 0
        self._filed = self._method == "POST" and self._path == ARCHIVES and _goes_to_a_file(self._headers)
        self._whole = False
        self._until = time.monotonic() + access.policy.body_s
        self._cut = asyncio.Event()  # the answer is ended from here
        self._stream_of: str | None = None
        self._streaming = False
        self._looked_at = 0.0
        self._trail = Trail(access.audit, scope)

    async def run(self, app: App) -> None:
        try:
            await self._let_in()
            await app(self._scope, self._next, self._answer)
        except Problem as problem:
            await self._refuse(problem)
        except HTTPException as error:  # what `_next` says to whoever reads outside of the framework
            cause = error.__cause__
            await self._refuse(
                cause if isinstance(cause, Problem) else Problem(error.status_code, "http", error.detail)
            )
        except LongTaskError as error:
            await self._refuse(problem_of(error))
        except Exception as error:  # whatever it is, its message may hold anything
            if self._ended:  # the application was cut off
                return
            log.error("request.failed method=%s path=%s", self._method, self._trail.address, exc_info=error)
            await self._refuse(Problem(500, "unexpected", "an unexpected error; the server's log tells more"))
        finally:
            self._access.reading_bytes -= 0 if self._filed else self._counted
            if self._streaming:
                self._access.streams.leave(self._stream_of)
            if self._trail.begun:  # the client is gone, or the server ends
                await asyncio.shield(self._trail.end(499, "gone"))

    # --- on the way in --------------------------------------------------------------------------------------------

    async def _let_in(self) -> None:
        self._check_form()
        address = self._address()
        if not self._access.asks:
            local.check(self._method, self._headers, self._policy.hosts, forms=is_open(self._path))
            if not _is_loopback(self._scope):
                raise Problem(403, "foreign", "not from this machine", "start the server with --tokens")
        caller = await self._access.caller(self._headers, address)
        now = time.monotonic()
        if caller is None:
            if wait := self._access.strangers.take(network_of(address), now):
                raise too_many(wait)
            if not is_open(self._path):
                raise unknown()
        elif wait := self._access.callers.take(caller.token or caller.name, now):
            raise too_many(wait)
        self._caller = caller
        state = self._scope.setdefault("state", {})
        state[STATE] = caller
        state["address"] = address
        await self._check_body()
        if self._method not in LOOKING and caller is not None and not self._path.startswith(WORKING):
            await self._trail.begin(caller.name, caller.token, address)

    def _check_form(self) -> None:
        target = self._scope.get("raw_path", b"") + b"?" + self._scope.get("query_string", b"")
        if len(target) > self._policy.target_bytes_max:
            raise Problem(414, "target", "the address is too long", f"at most {self._policy.target_bytes_max:,} bytes")
        size = sum(len(name) + len(value) for name, value in self._headers)
        if len(self._headers) > self._policy.headers_max or size > self._policy.headers_bytes_max:
            told = f"at most {self._policy.headers_max} with {self._policy.headers_bytes_max:,} bytes in all"
            raise Problem(431, "headers", "too many headers", told)
        if not self._path.startswith("/"):
            raise Problem(400, "target", "the address is not taken", "send the path alone, as in 'GET /v1/tasks'")
        if SHOWN_TOKEN.search(target) or SHOWN_TOKEN.search(unquote_to_bytes(target)):
            raise Problem(
                400,
                "token-in-address",
                "a token stands in the address",
                "addresses are written into logs: revoke that token (longtask token revoke ID), and send a new one in "
                "the header 'Authorization: Bearer …'",
            )
        if any(name == b"upgrade" and value.lower() == b"websocket" for name, value in self._headers):
            raise Problem(400, "no-websocket", "there are no web sockets", "read GET /v1/tasks/{task}/stream instead")

    def _address(self) -> str:
        peer = (self._scope.get("client") or ("", 0))[0]
        return came_from(peer, local.values(self._headers, b"x-forwarded-for"), self._access.networks)

    async def _check_body(self) -> None:
        lengths = local.values(self._headers, b"content-length")
        if lengths and lengths[0].isascii() and lengths[0].isdigit() and int(lengths[0][:20]) > self._body_max:
            raise self._too_large()
        kinds = local.values(self._headers, b"content-type")
        if not kinds or "json" not in kinds[0].lower():
            return
        try:
            async with asyncio.timeout(self._policy.body_s):
                body = await self._read()
        except TimeoutError:
            raise self._too_slow() from None
        if len(body) > THREAD_BYTES_MIN:
            await run_sync(check_json, body, self._policy.json_depth_max)
        else:
            check_json(body, self._policy.json_depth_max)
        self._body = [{"type": "http.request", "body": body, "more_body": False}]

    @property
    def _body_max(self) -> int:
        return self._policy.archive_bytes_max if self._filed else self._policy.body_bytes_max

    async def _read(self) -> bytes:
        parts: list[bytes] = []
        while True:
            message = self._count(await self._receive())
            if message["type"] == "http.disconnect":
                self._ended = True
                raise ConnectionError("the client is gone")
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                return b"".join(parts)

    def _count(self, message: Message) -> Message:
        size = len(message.get("body", b""))
        self._counted += size
        self._access.reading_bytes += 0 if self._filed else size
        self._whole = not message.get("more_body", False)
        if self._counted > self._body_max:
            raise self._too_large()
        if self._access.reading_bytes > self._policy.bodies_bytes_max:
            raise Problem(
                503, "busy", "the server is busy", "many large requests are being read; try again",
                headers={"Retry-After": "1", "Connection": "close"},
            )  # fmt: skip
        return message

    def _too_large(self) -> Problem:
        told = f"at most {self._body_max:,} bytes; put large texts into the repository or an artifact"
        return Problem(413, "too-large", "the request is too large", told, headers={"Connection": "close"})

    def _too_slow(self) -> Problem:
        told = f"it was not there after {self._policy.body_s:g} s; send it at once"
        return Problem(408, "slow", "the body did not come in time", told, headers={"Connection": "close"})

    async def _next(self) -> Message:
        """What the application reads."""
        if self._body:
            return self._body.pop()
        if self._cut.is_set():
            return {"type": "http.disconnect"}
        receiving = asyncio.ensure_future(self._receive())
        cutting = asyncio.ensure_future(self._cut.wait())
        patience = None if self._whole else self._until - time.monotonic() + self._counted / SLOWEST_BYTES_PER_S
        try:
            await asyncio.wait((receiving, cutting), timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            cutting.cancel()
            if not receiving.done():
                receiving.cancel()
        try:  # a form that the framework lets through while it reads
            if receiving.done():
                return self._count(receiving.result())
            if not self._cut.is_set():
                raise self._too_slow()
        except Problem as problem:
            raise HTTPException(problem.status, problem.detail, dict(problem.headers)) from problem
        return {"type": "http.disconnect"}

    # --- on the way out -------------------------------------------------------------------------------------------

    async def _refuse(self, problem: Problem) -> None:
        if not self._started and self._held is None:
            await problem.response()(self._scope, self._receive, self._answer)

    async def _answer(self, message: Message) -> None:
        if self._ended:
            return
        if message["type"] == "http.response.start":
            await self._start(message)
            return
        if self._held is not None:  # a problem: what came of it is told before anybody hears
            await self._trail.end(self._held["status"], _slug(message.get("body", b"")))
            held, self._held = self._held, None
            self._started = True
            await self._send(held)
        await self._send(message)
        if self._streaming and message.get("more_body", False):
            await self._look_again()

    async def _start(self, message: Message) -> None:
        raw = message["headers"] = list(message.get("headers", ()))
        there = {name.lower(): value for name, value in raw}
        kind = there.get(b"content-type", b"").partition(b";")[0].decode("latin-1")
        raw += [(name, value) for name, value in HEADERS.items() if name not in there]
        if self._access.secure:
            raw.append((b"strict-transport-security", b"max-age=31536000"))
        status = message["status"]
        if made := MADE.fullmatch(there.get(b"location", b"")):
            self._scope["state"].setdefault("task_id", made[1].decode())
        if kind == "text/event-stream" and not await self._enter_stream():
            return
        if self._trail.begun:
            if kind == MEDIA_TYPE:
                self._held = message
                return
            await self._trail.end(status, "")
        elif self._method not in LOOKING and self._caller is None and status < 400:
            await self._trail.note(status)
        self._started = True
        await self._send(message)

    async def _enter_stream(self) -> bool:
        self._stream_of = self._caller.token if self._caller is not None else None
        if why := self._access.streams.enter(self._stream_of):
            problem = too_many(5, why)
            await problem.response()(self._scope, self._receive, self._answer)
            self._ended = True
            self._cut.set()
            return False
        self._streaming, self._looked_at = True, time.monotonic()
        return True

    async def _look_again(self) -> None:
        """A stream may last for days, and its token may be revoked meanwhile: then the stream ends."""
        now = time.monotonic()
        if self._caller is None or self._caller.token is None or now - self._looked_at < STREAM_LOOK_S:
            return
        self._looked_at = now
        try:
            good = await self._access.good(self._headers)
        except LongTaskError:
            return  # the store is busy: the next look
        if not good:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
            self._ended = True
            self._cut.set()


def _goes_to_a_file(headers: local.Headers) -> bool:
    """Neither JSON, which the guard reads, nor with a key, by which the body is compared, as a whole in memory."""
    kinds = local.values(headers, b"content-type")
    typed = not kinds or kinds[0].partition(";")[0].strip().lower() in ARCHIVE_TYPES
    return typed and not local.values(headers, b"idempotency-key")


def check_json(body: bytes, depth_max: int) -> None:
    """Raises Problem 400."""
    try:
        if "\0" in body.decode():
            raise ValueError("it holds NUL")
    except ValueError as error:
        told = "the body is no text in UTF-8"
        raise Problem(400, "bad-request", "the request cannot be read", f"{told}; send JSON in UTF-8") from error
    if too_deep(body, depth_max):
        told = f"the JSON is nested more than {depth_max} deep"
        raise Problem(400, "bad-request", "the request cannot be read", told)


def _is_loopback(scope: Scope) -> bool:
    """A client without an address has come through a socket of this machine."""
    client = scope.get("client")
    return client is None or trusted(client[0], LOOPBACK)


LOOPBACK = Policy(proxies=("127.0.0.0/8", "::1")).networks


def _slug(body: bytes) -> str:
    try:
        return str(json.loads(body)["type"]).removeprefix(URN)
    except (ValueError, KeyError, TypeError):
        return "?"
