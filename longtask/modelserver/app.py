"""The addresses of the server, its limits, and what may be asked about a script.

    POST  …/messages  …/messages/count_tokens  …/responses  …/chat/completions       GET  …/models      HEAD /
    GET   /_requests[/NAME]      what was asked, and what came of it
    GET   /_state[/NAME]         where the script is: counts by turn, faults, and requests that it had no answer for
    PUT   /_script[/NAME]        another script (YAML or JSON), begun anew

Behind `/s/NAME` the script NAME is played, so that one server serves many sessions side by side.

Only programs of this machine are answered: a browser that was sent here from elsewhere tells it by `Host` or `Origin`.
Keys that agents send are not looked at and not kept.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from longtask.core.errors import BadPlan
from longtask.core.model import JsonMap
from longtask.modelserver.asked import Unreadable
from longtask.modelserver.calls import NoTool
from longtask.modelserver.performing import Performance
from longtask.modelserver.playback import OutOfScript, Playback, Request
from longtask.modelserver.said import answer
from longtask.modelserver.script import Script, load
from longtask.modelserver.wires import WIRES, Wire
from longtask.redaction import without_shapes

DEFAULT = "default"
MODEL = "scripted"
BODY_BYTES_MAX = 32_000_000  # a long session with pictures in it
SCRIPTS_MAX = 1_000
LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))
SECRET = frozenset(("authorization", "proxy-authorization", "x-api-key", "api-key", "cookie"))
NEVER = "2026-01-01T00:00:00Z"  # when the model was made: there is none

Watch = Callable[[Request], None]


class Scripts:
    """The scripts by their names.  `watch` hears of each request when it was answered."""

    def __init__(self, watch: Watch = lambda request: None) -> None:
        self.watch = watch
        self._playing: dict[str, Playback] = {}
        self._lock = threading.Lock()

    def load(self, name: str, script: Script) -> Playback:
        """Begins it anew.  Raises BadPlan."""
        with self._lock:
            if name not in self._playing and len(self._playing) >= SCRIPTS_MAX:
                raise BadPlan(f"script {name!r}: there are {SCRIPTS_MAX} already, as many as one server plays")
            self._playing[name] = Playback(name, script)
            return self._playing[name]

    def find(self, name: str) -> Playback | None:
        with self._lock:
            return self._playing.get(name)

    def names(self) -> list[str]:
        with self._lock:
            return sorted(self._playing)


class Refusal(Exception):
    """A request that is answered with an error of its own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def make_app(scripts: Scripts) -> ASGIApp:
    async def ask(http: HttpRequest) -> ASGIApp:
        return await _asked(scripts, http)

    async def requests(http: HttpRequest) -> Response:
        return JSONResponse([request.document() for request in _playing(scripts, http).requests()])

    async def state(http: HttpRequest) -> Response:
        return JSONResponse(_playing(scripts, http).state())

    async def script(http: HttpRequest) -> Response:
        name = http.path_params.get("name", DEFAULT)
        try:
            scripts.load(name, load(await _content(http)))
        except BadPlan as error:
            problems = [str(problem) for problem in error.problems]
            return JSONResponse({"error": {"message": str(error)}, "problems": problems}, 422)
        return JSONResponse({"name": name})

    async def refused(http: HttpRequest, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return JSONResponse({"error": {"message": str(error)}}, error.status, {"connection": "close"})

    control: list[tuple[str, Any, list[str]]] = [
        ("_requests", requests, ["GET"]),
        ("_state", state, ["GET"]),
        ("_script", script, ["PUT"]),
    ]
    routes = [
        Route(path, endpoint, methods=methods)
        for word, endpoint, methods in control
        for path in (f"/{word}", f"/{word}/{{name}}")
    ]
    anything = ["GET", "HEAD", "POST"]
    routes += [
        Route("/s/{name}", ask, methods=anything),
        Route("/s/{name}/{rest:path}", ask, methods=anything),
        Route("/{rest:path}", ask, methods=anything),
    ]
    return _guarded(Starlette(routes=routes, exception_handlers={Refusal: refused}))


def _guarded(app: ASGIApp) -> ASGIApp:
    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            named = [f"//{headers.get('host', '')}"] + ([headers["origin"]] if "origin" in headers else [])
            if not all(_local(one) for one in named):
                told = {"error": {"message": "only programs of this machine are answered, by its loopback address"}}
                await JSONResponse(told, 403, {"connection": "close"})(scope, receive, send)
                return
        await app(scope, receive, send)

    return guarded


def _local(address: str) -> bool:
    try:
        return urlsplit(address).hostname in LOOPBACK
    except ValueError:
        return False


def _playing(scripts: Scripts, http: HttpRequest) -> Playback:
    """Raises Refusal."""
    name = http.path_params.get("name", DEFAULT)
    found = scripts.find(name)
    if found is None:
        there = ", ".join(repr(known) for known in scripts.names()[:10]) or "none"
        raise Refusal(404, f"no script {name!r}; there is {there}; load one: PUT /_script/{name}")
    return found


async def _content(http: HttpRequest) -> bytes:
    """The body, unpacked.  Raises Refusal."""
    content = bytearray()
    try:
        async for part in http.stream():
            content += part
            if len(content) > BODY_BYTES_MAX:
                raise Refusal(413, f"the body has more than {BODY_BYTES_MAX:,} bytes")
    except ClientDisconnect:
        raise Refusal(400, "the body did not come whole") from None
    packed = http.headers.get("content-encoding", "identity")
    if packed == "identity":
        return bytes(content)
    if packed != "gzip":
        raise Refusal(415, f"content-encoding {packed[:40]!r} is not known here; send gzip, or none")
    unpacking = zlib.decompressobj(wbits=31)
    try:
        whole = unpacking.decompress(bytes(content), BODY_BYTES_MAX)
    except zlib.error as error:
        raise Refusal(400, f"the body is no gzip: {error}") from None
    if unpacking.unconsumed_tail:
        raise Refusal(413, f"the body has more than {BODY_BYTES_MAX:,} bytes")
    return whole


async def _asked(scripts: Scripts, http: HttpRequest) -> ASGIApp:
    """Raises Refusal."""
    path = "/" + http.path_params.get("rest", "")
    if path == "/":
        return Response()
    playing = _playing(scripts, http)
    request = playing.begin(Request(0, time.time_ns() // 1_000_000, http.method, http.url.path, _headers(http.headers)))
    if http.method != "POST":
        found = _model(path)
        if found is None:
            raise _nothing(request, path)
        request.status, request.ended = 200, "whole"
        return JSONResponse(found)
    content = await _content(http)
    if path.endswith("/count_tokens"):
        request.status, request.ended = 200, "whole"
        return JSONResponse({"input_tokens": len(content) // 4})
    wire = next((wire for end, wire in WIRES.items() if path.endswith(end)), None)
    if wire is None:
        raise _nothing(request, path)
    return _watched(scripts.watch, request, _answer(playing, request, wire, content))


def _nothing(request: Request, path: str) -> Refusal:
    request.status, request.ended = 404, "error"
    return Refusal(404, f"nothing at {request.method} {path}; there is {', '.join(f'…{end}' for end in WIRES)}")


def _answer(playing: Playback, request: Request, wire: Wire, content: bytes) -> ASGIApp:
    request.wire = wire.name
    try:
        body = json.loads(content)
        if not isinstance(body, Mapping):
            raise Unreadable("the body is to be an object")
        playing.keep_body(request, body, len(content))
        request.asked = wire.read(body)
        request.cue = playing.cue(request.asked)
        said = answer(request.cue.turn, request.asked)
    except (ValueError, Unreadable, OutOfScript, NoTool) as error:
        where = f"turn {request.cue.number}: " if request.cue and request.cue.number else ""
        problem = f"{where}not JSON: {error}" if isinstance(error, ValueError) else f"{where}{error}"
        playing.misfit(request, problem)
        request.status, request.ended = 400, "error"
        return JSONResponse(wire.failure(400, f"the model server's script: {problem}").body, 400)
    request.calls = tuple(call.name for call in said.calls)
    return Performance(wire, request.asked, request.cue, said, request)


def _watched(watch: Watch, request: Request, answering: ASGIApp) -> ASGIApp:
    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        await answering(scope, receive, send)
        watch(request)

    return watched


def _headers(headers: Headers) -> dict[str, str]:
    """Without what may hold a key."""
    return {name: without_shapes(value) for name, value in headers.items() if name not in SECRET}


def _model(path: str) -> JsonMap | None:
    """The list of models, or one, in a form that both providers' clients read."""
    last = path.rstrip("/").rpartition("/models")
    if not last[1]:
        return None
    id = last[2].strip("/") or MODEL
    one = {"id": id, "object": "model", "created": 0, "owned_by": "longtask"}
    model: JsonMap = {**one, "type": "model", "display_name": id, "created_at": NEVER}
    if last[2]:
        return model
    return {"object": "list", "data": [model], "models": [], "has_more": False, "first_id": id, "last_id": id}
