"""The code of a task: what has changed in it, and files as one of its commits holds them, byte for byte."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from longtask.api import etags
from longtask.api.access.caller import Caller
from longtask.api.bytes import WHOLE, guarded
from longtask.api.documents.code import Changes, FilePage
from longtask.api.documents.shape import answers
from longtask.api.problems import Document
from longtask.api.server import Server
from longtask.api.sight import NAME_MAX, Limit, TaskName, Viewer, page, seen_step, seen_task
from longtask.core.model import Task
from longtask.views.changes import changes_map, end_of, range_of
from longtask.views.files import HEAD, commit_at, file_map, media_type, readable

PATH_MAX = 4_096
OfStep = Annotated[str | None, Query(max_length=NAME_MAX, description="Only of this step.")]
Since = Annotated[
    str | None, Query(max_length=NAME_MAX, description="Only what has changed since this commit of the task.")
]
At = Annotated[str, Query(max_length=NAME_MAX, description="`head`, `base`, or the full id of a commit of the task.")]


def router(server: Server) -> APIRouter:
    routes = APIRouter(tags=["code"])
    _changes(routes, server)
    _files(routes, server)
    return routes


def _changes(routes: APIRouter, server: Server) -> None:
    workspace = server.parts.merger.workspace

    def range_(task: Task, step: str | None, since: str | None) -> tuple[str, str]:
        row = None if step is None else seen_step(server, task, step)
        return range_of(task, row) if since is None else (commit_at(workspace, task, since), end_of(task, row))

    @routes.get("/tasks/{task}/diff", responses=answers(Changes))
    def show_changes(caller: Viewer, task: TaskName, step: OfStep = None, since: Since = None) -> Document:
        """Tell which files the task, or one step, has changed; of a step that asks, exactly what it asks about."""
        found = seen_task(server, task, caller)
        base, head = range_(found, step, since)
        changed = workspace(found.workspace_id).stat(base, head).files
        return Document(changes_map(found, base, head, changed))

    @routes.get("/tasks/{task}/patch", response_class=Response, responses=answers(str, "text/x-diff"))
    def show_patch(caller: Viewer, task: TaskName, step: OfStep = None, since: Since = None) -> Response:
        """The same changes as a patch, byte for byte: `git apply` takes it."""
        found = seen_task(server, task, caller)
        base, head = range_(found, step, since)
        patch = workspace(found.workspace_id).diff(base, head)
        return Response(patch, media_type="text/x-diff", headers={"X-Content-Type-Options": "nosniff"})


def _files(routes: APIRouter, server: Server) -> None:
    workspace = server.parts.merger.workspace

    def seen(caller: Caller, name: str, at: str) -> tuple[Task, str]:
        task = seen_task(server, name, caller)
        return task, commit_at(workspace, task, at)

    @routes.get("/tasks/{task}/files", responses=answers(FilePage))
    def list_files(
        caller: Viewer,
        task: TaskName,
        at: At = HEAD,
        match: Annotated[
            str, Query(max_length=PATH_MAX, description="Only these: `docs/*.md`, `**/test_*.py`; `**` is any path.")
        ] = "**",
        limit: Limit = 100,
        cursor: Annotated[str, Query(max_length=PATH_MAX, description="`next` of the page before.")] = "",
    ) -> Document:
        """List the files that a commit of the task holds, by path."""
        found, commit = seen(caller, task, at)
        fitting = [one for one in workspace(found.workspace_id).files(commit, match) if one.path > cursor]
        shown = [file_map(one) for one in fitting[:limit]]
        return Document(page(shown, shown[-1]["path"] if len(fitting) > limit else None))

    @routes.get(
        "/tasks/{task}/files/{path:path}",
        response_class=Response,
        responses=WHOLE,
        openapi_extra={"parameters": [etags.IF_NONE_MATCH]},
    )
    def fetch_file(
        caller: Viewer,
        request: Request,
        task: TaskName,
        path: Annotated[str, Path(max_length=PATH_MAX, description="From the top of the repository.")],
        at: At = HEAD,
    ) -> Response:
        """The bytes of one file, as a commit of the task holds it; links are not followed.

        Its ETag is git's name of the bytes.  The type is told by them: a text has a charset, what is neither a text
        nor a picture is `application/octet-stream`.
        """
        found, commit = seen(caller, task, at)
        entry = readable(workspace(found.workspace_id).file(commit, path))
        headers = guarded(path, entry.blob)
        if etags.matches(request, entry.blob):
            return Response(status_code=304, headers=headers)
        content = workspace(found.workspace_id).content(entry.blob)
        return Response(content, headers=headers, media_type=media_type(path, content))
