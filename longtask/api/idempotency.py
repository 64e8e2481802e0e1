"""`Idempotency-Key`: a POST that is sent again is answered as it was the first time, and not carried out again.

Whoever has heard no answer does not know whether the request was carried out.  With a key it may send the same again:
to the same caller and address the first answer is given once more (and says so in `Idempotency-Replayed`); 409 while
the first is being carried out, by this server or by another one; 422 for a request with another body.  An answer is
kept before it is sent.  A request that failed on the server's side, or was not let in, is forgotten: it may be tried
again.  Should the server die under it, the next one carries it out after a minute; what it does is safe to repeat.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from anyio.to_thread import run_sync
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from longtask.api.access.caller import STATE
from longtask.api.access.roles import Caller
from longtask.api.batching import Batched
from longtask.api.problems import MEDIA_TYPE, Problem, problem_of
from longtask.core.errors import LongTaskError
from longtask.store.callers import Request, RequestBegin, RequestEnd, RequestKey
from longtask.store.contract import Store

log = logging.getLogger("longtask.api")

HEADER = "Idempotency-Key"
REPLAYED = (b"idempotency-replayed", b"true")
KEY = re.compile(rb"[\x21-\x7e]{1,255}")
ROUTE_LENGTH_MAX = 200
ANSWER_BYTES_MAX = 256_000  # a larger one is not kept: the request may then be carried out again
NOT_CARRIED_OUT = frozenset({401, 403, 408, 413, 415, 425, 428, 429})
KEPT_HEADERS = (b"content-type", b"location", b"etag")
# What these answer is told once and kept nowhere: a token, a signed link, the secret of a webhook.
TOLD_ONCE = re.compile(r"/v1/(tokens|tokens/[^/]+/rotate|webhooks|tasks/[^/]+/steps/[^/]+/links)")
COMPARED_HEADERS = (b"content-type", b"if-match")


class Idempotency:
    """ASGI middleware; within the guard, which says who calls and bounds the body."""

    def __init__(self, app: ASGIApp, store: Store) -> None:
        self._app, self._store = app, store
        threads = ThreadPoolExecutor(2, "requests")  # one for each
        self._begun = Batched(store.begin_requests, threads)
        self._ended = Batched(store.end_requests, threads)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self._app(scope, receive, send)
        headers = dict(scope["headers"])
        given, caller = headers.get(HEADER.lower().encode()), scope.get("state", {}).get(STATE)
        if given is None or not isinstance(caller, Caller):
            return await self._app(scope, receive, send)
        try:
            if not KEY.fullmatch(given):
                raise Problem(
                    400, "bad-key", "the key is not taken", f"{HEADER}: send 1 to 255 visible characters of ASCII"
                )
            body = await _whole(receive)
            if body is None:
                return None
            key = RequestKey(caller.token or caller.name, given.decode(), _route(scope["path"]))
            digest, holder = digest_of(headers, scope.get("query_string", b""), body), secrets.token_hex(16)
            earlier = await self._begun.put(RequestBegin(key, digest, holder))
            answer = None if earlier is None else _again(earlier, digest)
        except Problem as problem:
            return await problem.response()(scope, receive, send)
        except LongTaskError as error:
            return await problem_of(error).response()(scope, receive, send)
        if answer is None:
            answer = await self._carry_out(scope, _Replay(body, receive), key, holder)
        for message in answer:
            await send(message)
        return None

    async def _carry_out(self, scope: Scope, receive: Receive, key: RequestKey, holder: str) -> list[Message]:
        answer: list[Message] = []

        async def keep(message: Message) -> None:
            answer.append(message)

        try:
            await self._app(scope, receive, keep)
        except Exception:
            await run_sync(self._store.drop_request, key, holder)
            raise
        try:
            kept = _kept(answer, TOLD_ONCE.fullmatch(scope["path"]) is not None)
            if kept is None:
                await run_sync(self._store.drop_request, key, holder)
            else:
                await self._ended.put(RequestEnd(key, holder, *kept))
        except LongTaskError as error:  # it was carried out, and its caller must hear of it
            log.warning("request.not_kept route=%s: %s", key.route, error)
        return answer


class _Replay:
    """The body once more, and then what the connection says."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


async def _whole(receive: Receive) -> bytes | None:
    """None: the client is gone."""
    parts = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(parts)


def _route(path: str) -> str:
    if len(path) <= ROUTE_LENGTH_MAX and path.isprintable():
        return path
    return hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()


def digest_of(headers: Mapping[bytes, bytes], query: bytes, body: bytes) -> str:
    """What makes two requests with one key the same."""
    parts = [query, *(headers.get(name, b"") for name in COMPARED_HEADERS), body]
    return hashlib.sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts)).hexdigest()


def _kept(answer: list[Message], told_once: bool) -> tuple[int, str] | None:
    """Status, and the rest as JSON; None: it is not kept."""
    if not answer or answer[0]["type"] != "http.response.start":
        return None
    status: int = answer[0]["status"]
    body = b"".join(message.get("body", b"") for message in answer[1:])
    if status >= 500 or status in NOT_CARRIED_OUT or len(body) > ANSWER_BYTES_MAX:
        return None
    headers = [[k.decode("latin-1"), v.decode("latin-1")] for k, v in answer[0]["headers"] if k in KEPT_HEADERS]
    secret = any(name == b"cache-control" and b"no-store" in value for name, value in answer[0]["headers"])
    if (told_once or secret) and status < 400:
        problem = Problem(
            409,
            "told-once",
            "it was carried out, and its answer is not told again",
            "what it made is a secret, of which nothing is kept; list what there is, revoke it, and make another one",
        )
        status, body = problem.status, json.dumps(problem.document()).encode()
        headers = [["content-type", MEDIA_TYPE]]
    return status, json.dumps({"headers": headers, "body": base64.b64encode(body).decode()})


def _again(earlier: Request, digest: str) -> list[Message]:
    """The answer that was kept.  Raises Problem."""
    if earlier.digest != digest:
        raise Problem(
            422,
            "key-reused",
            "the key belongs to another request",
            f"{HEADER} {earlier.key.key!r} came with another body; a new request takes a new key",
        )
    if not earlier.done_at:
        raise Problem(
            409,
            "in-flight",
            "the same request is being carried out",
            f"{HEADER} {earlier.key.key!r}: its first request has no answer yet; ask again in a second",
            headers={"Retry-After": "1"},
        )
    kept: dict[str, Any] = json.loads(earlier.answer or "{}")
    body = base64.b64decode(kept.get("body", ""))
    headers = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in kept.get("headers", ())]
    length = (b"content-length", str(len(body)).encode())
    return [
        {"type": "http.response.start", "status": earlier.status, "headers": [*headers, length, REPLAYED]},
        {"type": "http.response.body", "body": body, "more_body": False},
    ]
