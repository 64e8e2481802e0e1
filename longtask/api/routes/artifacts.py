"""Artifacts: bytes that steps have made.

They come from whoever wrote the plan, and a browser must never run them under the server's own name: they are sent as
a file to be kept, of a type that is not guessed, and without the right to load or run anything.
"""

import re
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import FileResponse

from longtask.api import etags
from longtask.api.documents.code import ArtifactPage
from longtask.api.documents.shape import answers
from longtask.api.problems import Document, Problem
from longtask.api.server import Server
from longtask.api.sight import NAME_MAX, TaskName, Viewer, page, seen_task
from longtask.core.errors import NotFound
from longtask.engine.records import ARTIFACTS_MAX

# Types that say something to a program and nothing to a browser's engine; all others are sent as bytes.
SAFE_TYPES = frozenset(
    "application/json application/pdf application/zip application/gzip text/plain text/csv text/markdown text/x-diff "
    "image/png image/jpeg image/gif image/webp".split()
)
BYTES = "application/octet-stream"
CONTENT = {"*/*": {"schema": {"type": "string", "format": "binary"}}}
RANGE_HEADER = {
    "name": "Range",
    "in": "header",
    "description": "A range of bytes; several at once are answered with all of them.",
    "schema": {"type": "string"},
    "example": "bytes=0-1023",
}
RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


def router(server: Server) -> APIRouter:
    routes = APIRouter(tags=["artifacts"])
    parts = server.parts

    @routes.get("/tasks/{task}/artifacts", responses=answers(ArtifactPage))
    def list_artifacts(
        caller: Viewer,
        task: TaskName,
        all_of_them: Annotated[
            bool, Query(alias="all", description="Also what attempts leave by the way: output, leftovers, transcripts.")
        ] = False,
    ) -> Document:
        """List what a task has made: of each name the newest."""
        found = seen_task(server, task, caller)
        return Document(page(parts.records.artifacts(found.id, named=not all_of_them), None))

    @routes.get(
        "/tasks/{task}/artifacts/{name:path}",
        response_class=Response,
        responses={
            200: {"description": "All bytes.", "content": CONTENT},
            206: {"description": "The range that was asked for.", "content": CONTENT},
            304: etags.UNCHANGED,
        },
        openapi_extra={"parameters": [etags.IF_NONE_MATCH, RANGE_HEADER]},
    )
    def fetch_artifact(
        caller: Viewer,
        request: Request,
        task: TaskName,
        name: Annotated[str, Path(max_length=NAME_MAX, description="Its name; it may hold slashes.")],
        digest: Annotated[
            str | None, Query(max_length=NAME_MAX, description="These bytes of that name, not the newest.")
        ] = None,
    ) -> Response:
        """The bytes of an artifact, or a range of them."""
        found = seen_task(server, task, caller)
        entries = [entry for entry in parts.store.artifacts(found.id, ARTIFACTS_MAX) if entry.name == name]
        fitting = [entry for entry in entries if digest is None or entry.digest == digest]
        if not fitting:
            which = f"{name!r}" + (f" with digest {digest!r}" if digest is not None and entries else "")
            raise NotFound(f"task {task!r} has no artifact {which}; list them: GET /v1/tasks/{found.id}/artifacts")
        entry = fitting[-1]
        headers = guarded(name) | {"ETag": etags.etag(entry.digest), "Cache-Control": "private, no-cache"}
        if etags.matches(request, entry.digest):
            return Response(status_code=304, headers=headers)
        check_range(request, entry.size_bytes)
        path = parts.artifacts.path(found.workspace_id, entry.digest)
        kind = entry.media_type.partition(";")[0].strip().lower()
        return FileResponse(path, headers=headers, media_type=entry.media_type if kind in SAFE_TYPES else BYTES)

    return routes


def guarded(name: str) -> dict[str, str]:
    file = name.rpartition("/")[2] or "artifact"
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\%;' else "_" for c in file)
    return {
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(file, safe='')}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }


def check_range(request: Request, size_bytes: int) -> None:
    """One range of bytes is served; what is written otherwise, or as several, is passed over (RFC 9110, 14.2).

    Raises Problem 416."""
    text = request.headers.get("range")
    if text is None:
        return
    found = RANGE.fullmatch(text.strip())
    if found is None or not (found[1] or found[2]) or (found[1] and found[2] and int(found[2]) < int(found[1])):
        request.scope["headers"] = [pair for pair in request.scope["headers"] if pair[0] != b"range"]
        return
    satisfiable = int(found[1]) < size_bytes if found[1] else int(found[2]) > 0 and size_bytes > 0
    if not satisfiable:
        raise Problem(
            416,
            "range",
            "the range lies outside",
            f"{text!r} of {size_bytes:,} bytes",
            headers={"Content-Range": f"bytes */{size_bytes}"},
        )
