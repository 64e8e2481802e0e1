"""The page: what `ui/` was built into, and `index.html` for every address of a view, since the page tells them apart.

Its files hold nothing of anybody's tasks, so they need no token; what the page shows it asks of the API, with one.  The
browser runs what stands in these files and nothing else, and talks to this server alone.  That holds for the page's
worker by the headers of its own file, so every file bears them.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from functools import lru_cache
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from longtask.api import etags
from longtask.api.access.guard import VIEWS
from longtask.api.server import Server
from longtask.core.errors import NotFound

FOLDER = Path(__file__).parent / "static"
HINT = """\
LongTask serves its API here, and no page: it was installed without one.

    make page             builds it, in a checkout (it takes npm)
    longtask ls           what there is to see, on a terminal
    GET /v1/tasks         the same for programs
    GET /openapi.json     what else can be asked
"""
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")
HASHED = re.compile(r".+-[A-Za-z0-9_-]{8}\.[a-z0-9]+")  # named by what it holds
FOR_EVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
READ = ["GET", "HEAD"]


def router(server: Server) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.api_route("/assets/{name}", methods=READ)
    def asset(request: Request, name: str) -> Response:
        path = FOLDER / "assets" / name
        if not NAME.fullmatch(name) or path.suffix not in TYPES or not path.is_file():
            raise NotFound(f"the page has no file {name!r}; load it anew")
        return _answer(request, path, FOR_EVER if HASHED.fullmatch(name) else ASK_AGAIN)

    def view(request: Request) -> Response:
        path = FOLDER / "index.html"
        return _answer(request, path, ASK_AGAIN) if path.is_file() else PlainTextResponse(HINT, 501)

    for address in VIEWS:
        routes.add_api_route(address + "{rest:path}" if address.endswith("/") else address, view, methods=READ)
    routes.add_api_route("/", view, methods=READ)
    return routes


def _answer(request: Request, path: Path, keep: str) -> Response:
    content, packed, version = _read(path, path.stat().st_mtime_ns)
    headers = {
        "Cache-Control": keep,
        "Content-Security-Policy": POLICY,
        "ETag": etags.etag(version),
        "Vary": "Accept-Encoding",
    }
    if etags.matches(request, version):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        content, headers = packed, {**headers, "Content-Encoding": "gzip"}
    return Response(content, media_type=TYPES[path.suffix], headers=headers)


@lru_cache(maxsize=256)
def _read(path: Path, changed_at: int) -> tuple[bytes, bytes, str]:
    """The bytes, the same packed, and what names them.  `changed_at`: a page that is built anew is read anew."""
    content = path.read_bytes()
    return content, gzip.compress(content, mtime=0), hashlib.sha256(content).hexdigest()[:16]
