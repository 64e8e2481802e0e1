"""Archives: a task as one file, out of this installation and into it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import BoundedSemaphore
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import FileResponse
from starlette.types import Receive, Scope, Send

from longtask.api import etags
from longtask.api.access.caller import Caller
from longtask.api.access.policy import ARCHIVE_TYPES
from longtask.api.bytes import BYTES, CONTENT, RANGE_HEADERS, RANGED, check_range, guarded
from longtask.api.documents import acts
from longtask.api.documents.shape import answers
from longtask.api.problems import Document, Problem
from longtask.api.server import Server
from longtask.api.sight import Operator, TaskName, Viewer, seen_task
from longtask.archive.importing import Imported
from longtask.boot.archives import make_exporter, make_importer
from longtask.core.errors import StoreUnavailable
from longtask.views.documents import acted_map
from longtask.views.words import handle

AT_ONCE = 2  # written or read by this process: each takes a core for as long as it lasts
WRITTEN_BYTES = 1 << 20  # at a time, of what comes


class _Passing(FileResponse):
    """A file that is gone when it was sent, or whoever asked for it has gone away."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with _taken(Path(self.path)):
            await super().__call__(scope, receive, send)


async def _received(request: Request) -> Path:
    """The body as a file, which whoever is given it takes away."""
    kind = request.headers.get("content-type", ARCHIVE_TYPES[0]).partition(";")[0].strip().lower()
    if kind not in ARCHIVE_TYPES:
        told = f"an archive as {kind!r}: send {ARCHIVE_TYPES[0]}"
        raise Problem(415, "media-type", "the media type is not taken", told)
    descriptor, name = tempfile.mkstemp(prefix="longtask-archive-", suffix=".tar.gz")
    waiting = bytearray()
    try:
        with os.fdopen(descriptor, "wb") as file:
            async for part in request.stream():
                waiting += part
                if len(waiting) >= WRITTEN_BYTES:
                    await run_sync(file.write, bytes(waiting))
                    waiting.clear()
            await run_sync(file.write, bytes(waiting))
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def router(server: Server) -> APIRouter:
    routes = APIRouter(tags=["archives"])
    turns = BoundedSemaphore(AT_ONCE)

    @routes.get(
        "/tasks/{task}/archive",
        response_class=Response,
        responses=RANGED,
        openapi_extra=RANGE_HEADERS,
    )
    def export_task(caller: Viewer, request: Request, task: TaskName) -> Response:
        """The archive of a task that has ended: plan, journal, output, artifacts and commits, as one file.

        Its ETag is its SHA-256. The same task has the same bytes every time, so a download that was cut may go on.
        """
        found = seen_task(server, task, caller)
        with _turn(turns):
            descriptor, name = tempfile.mkstemp(prefix="longtask-archive-", suffix=".tar.gz")
            os.close(descriptor)
            file = Path(name)
            try:
                made = make_exporter(server.parts).write(found.id, file)
                headers = guarded(f"{handle(found)}.longtask.tar.gz", made.sha256)
                unchanged = etags.matches(request, made.sha256)
                if not unchanged:
                    check_range(request, made.size_bytes)
            except BaseException:
                file.unlink(missing_ok=True)
                raise
        if unchanged:
            file.unlink(missing_ok=True)
            return Response(status_code=304, headers=headers)
        return _Passing(file, headers=headers, media_type=ARCHIVE_TYPES[0])

    @routes.post(
        "/archives",
        status_code=201,
        responses=answers(acts.Imported, status=201),
        openapi_extra={"requestBody": {"required": True, "content": {BYTES: CONTENT["*/*"]}}},
    )
    def import_task(caller: Operator, request: Request, file: Annotated[Path, Depends(_received)]) -> Document:
        """Bring a task from another installation; the body is an archive, as `application/gzip` or as plain bytes.

        Every byte is checked before anything is stored, and the journal must give what the archive tells of the task.
        The same archive may be sent again. With an `Idempotency-Key` it may be as large as other bodies, since it is
        kept in memory; without one it goes to a file and may be larger.
        """
        with _taken(file), _turn(turns):
            try:
                done = make_importer(server.parts).read(file, caller.name, lambda id: _check(caller, id))
            except OSError as error:
                raise StoreUnavailable(f"the archive cannot be unpacked here ({error.strerror}); try again") from error
        request.state.task_id = done.task.id  # for the audit
        return Document(_map(done), 201, {"Location": f"/v1/tasks/{done.task.id}"})

    return routes


def _map(done: Imported) -> dict[str, object]:
    return acted_map(done.task, again=done.again, told=list(done.told))


def _check(caller: Caller, workspace_id: str) -> None:
    if not caller.sees(workspace_id):
        told = "this token is for some workspaces only, and the archive is of another one"
        raise Problem(403, "forbidden", "not allowed", told)


@contextmanager
def _taken(file: Path) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(OSError):
            file.unlink(missing_ok=True)


@contextmanager
def _turn(turns: BoundedSemaphore) -> Iterator[None]:
    """Raises Problem 503: then nothing was done."""
    if not turns.acquire(blocking=False):
        told = "other archives are being written or read; try again"
        raise Problem(503, "busy", "the server is busy", told, headers={"Retry-After": "2"})
    try:
        yield
    finally:
        turns.release()
