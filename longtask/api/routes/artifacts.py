"""Artifacts: bytes that steps have made."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import FileResponse

from longtask.api import etags
from longtask.api.bytes import BYTES, RANGE_HEADERS, RANGED, check_range, guarded
from longtask.api.documents.code import ArtifactPage
from longtask.api.documents.shape import answers
from longtask.api.problems import Document
from longtask.api.server import Server
from longtask.api.sight import NAME_MAX, TaskName, Viewer, page, seen_task
from longtask.core.errors import NotFound
from longtask.engine.records import ARTIFACTS_MAX

# Types that say something to a program and nothing to a browser's engine; all others are sent as bytes.
SAFE_TYPES = frozenset(
    "application/json application/pdf application/zip application/gzip text/plain text/csv text/markdown text/x-diff "
    "image/png image/jpeg image/gif image/webp".split()
)


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
        responses=RANGED,
        openapi_extra=RANGE_HEADERS,
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
        headers = guarded(name, entry.digest)
        if etags.matches(request, entry.digest):
            return Response(status_code=304, headers=headers)
        check_range(request, entry.size_bytes)
        path = parts.artifacts.path(found.workspace_id, entry.digest)
        kind = entry.media_type.partition(";")[0].strip().lower()
        return FileResponse(path, headers=headers, media_type=entry.media_type if kind in SAFE_TYPES else BYTES)

    return routes
