"""Tasks: submit, list, look, act."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import Field

from longtask.api import submitting
from longtask.api.access.caller import Caller, Role, allowed
from longtask.api.documents.acts import Acted
from longtask.api.documents.shape import answers
from longtask.api.documents.tasks import Graph, Reasons, TaskPage, TaskTree
from longtask.api.problems import Document
from longtask.api.server import Server
from longtask.api.shortway import Ways
from longtask.api.sight import (
    NAME_MAX,
    Body,
    Limit,
    Number,
    Operator,
    TaskName,
    Text,
    Viewer,
    page,
    seen_step,
    seen_task,
)
from longtask.core.errors import NotFound
from longtask.core.machine import status
from longtask.core.model import Task, TaskState
from longtask.store.contract import Store
from longtask.views import reasons
from longtask.views.documents import acted_map, graph_map, picture_map
from longtask.views.listing import listed_maps
from longtask.views.picture import look
from longtask.views.words import command

STEPS_MAX = 200_000
STEPS_SHOWN = 5_000
PAGE = 100
THREADS = 8  # that submit at once: what comes together is one commit
SCANNED_MAX = 2_000  # tasks that one request looks at, though fewer fit what it asks for
COST_MAX_USD = 9_000_000_000
KEY = "Idempotency-Key"


class Pause(Body):
    now: bool = Field(
        default=False, description="Running steps give back too, here and in all tasks below; that costs no retry."
    )


class Resume(Body):
    cost_usd: float | None = Field(
        default=None, ge=0, le=COST_MAX_USD, allow_inf_nan=False, description="Raise the limit of cost to this."
    )
    tokens: Number | None = Field(default=None, description="Raise the limit of tokens to this.")
    active_ms: Number | None = Field(default=None, description="Raise the limit of active time to this.")


class Cancel(Body):
    reason: Text = Field(default="", description="For the record.")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a list is to hold; an empty or absent word stands for all."""

    words: frozenset[str]
    name: str | None
    by: str | None
    workspace_id: str | None
    open_only: bool
    children: bool

    def fits(self, task: Task, caller: Caller) -> bool:
        return (
            caller.sees(task.workspace_id)
            and (not self.words or status(task) in self.words)
            and (self.name is None or task.name == self.name)
            and (self.by is None or task.created_by == self.by)
        )

    def page(self, store: Store, caller: Caller, before: int, limit: int) -> tuple[list[Task], int | None]:
        """Those that fit, and the number of the last one that was looked at; None: there are no more."""
        found: list[Task] = []
        scanned = 0
        while scanned < SCANNED_MAX:
            size = min(max(limit, PAGE), SCANNED_MAX - scanned)
            rows = store.tasks(
                open_only=self.open_only,
                workspace_id=self._one(caller),
                before=before,
                limit=size,
                children=self.children,
            )
            for task in rows:
                before = task.number
                if self.fits(task, caller):
                    found.append(task)
                    if len(found) == limit:
                        return found, before
            if len(rows) < size:
                return found, None
            scanned += size
        return found, before

    def _one(self, caller: Caller) -> str | None:
        """The only workspace whose tasks can fit, if there is but one."""
        if self.workspace_id is None and caller.workspaces is not None and len(caller.workspaces) == 1:
            return next(iter(caller.workspaces))
        return self.workspace_id


def router(server: Server) -> APIRouter:
    routes = APIRouter(tags=["tasks"])
    _looking(routes, server)
    _acting(routes, server)
    return routes


def short_ways(server: Server) -> Ways:
    """What of all this is asked more often than the rest together."""

    threads = ThreadPoolExecutor(THREADS, "submits")

    async def submit_task(request: Request) -> Document:
        caller, key = allowed(request, Role.OPERATOR), request.headers.get(KEY)
        content = await submitting.raw(request)
        act = partial(submitting.answered, server, caller, request, content, submitting.Choices(), key)
        return await asyncio.get_running_loop().run_in_executor(threads, act)

    return {("POST", "/v1/tasks"): submit_task}


def _looking(routes: APIRouter, server: Server) -> None:
    store = server.parts.store
    face = reasons.Face(store, command, server.parts.records.value)

    @routes.get("/tasks", responses=answers(TaskPage))
    def list_tasks(
        caller: Viewer,
        limit: Limit = 50,
        cursor: Annotated[
            int, Query(ge=0, le=2**63 - 1, description="`next` of the page before; absent: from the newest.")
        ] = 0,
        open_only: Annotated[bool, Query(alias="open", description="Only tasks that have not ended.")] = False,
        status: Annotated[list[str], Query(description="Only tasks with one of these status words.")] = [],  # noqa: B006
        name: Annotated[str | None, Query(description="Only tasks of this name.")] = None,
        workspace_id: Annotated[str | None, Query(alias="workspace", description="Only tasks of this one.")] = None,
        by: Annotated[str | None, Query(description="Only tasks that this person has submitted.")] = None,
        children: Annotated[bool, Query(description="With those that were made for steps of other tasks.")] = False,
    ) -> Document:
        """List tasks, newest first.

        With filters a page may be shorter than `limit`, or empty, though there are more: `next` says so.
        """
        wanted = Wanted(frozenset(status), name, by, workspace_id, open_only, children)
        found, next_ = wanted.page(store, caller, cursor, limit)
        return Document(page(listed_maps(store, found), next_))

    @routes.get("/tasks/{task}", responses=answers(TaskTree))
    def show_task(
        caller: Viewer,
        task: TaskName,
        steps: Annotated[int, Query(ge=0, le=STEPS_MAX, description="At most so many steps.")] = STEPS_SHOWN,
    ) -> Document:
        """Show where a task stands: stages, steps, progress, what it waits for."""
        found = seen_task(server, task, caller)
        return Document(picture_map(look(store, found.id, steps)))

    @routes.get("/tasks/{task}/graph", responses=answers(Graph))
    def show_graph(
        caller: Viewer,
        task: TaskName,
        steps: Annotated[int, Query(ge=0, le=STEPS_MAX, description="At most so many steps.")] = STEPS_SHOWN,
    ) -> Document:
        """Show what waits for what, with the steps that were added on the way."""
        found = seen_task(server, task, caller)
        return Document(graph_map(store, look(store, found.id, steps)))

    @routes.get("/tasks/{task}/plan", response_class=Response, responses=answers(str, "text/plain"))
    def show_plan(caller: Viewer, task: TaskName) -> Response:
        """The plan, as it was submitted."""
        found = seen_task(server, task, caller)
        text = store.get_plan(found.id)
        if text is None:
            raise NotFound(f"task {task!r} was not submitted as a text; its steps: GET /v1/tasks/{found.id}/graph")
        return Response(text.encode("utf-8", "replace"), media_type="text/plain; charset=utf-8")

    @routes.get("/tasks/{task}/why", responses=answers(Reasons))
    def why_task(
        caller: Viewer,
        task: TaskName,
        step: Annotated[str | None, Query(max_length=NAME_MAX, description="Why this step is not done.")] = None,
    ) -> Document:
        """Tell what a task or a step waits for, since when, and the command that helps."""
        found = seen_task(server, task, caller)
        row = None if step is None else seen_step(server, found, step)
        return Document({"items": [reasons.reason_map(reason) for reason in reasons.why(face, found, row)]})


def _acting(routes: APIRouter, server: Server) -> None:
    desk = server.parts.desk

    @routes.post("/tasks", status_code=201, responses=answers(Acted, status=201))
    def submit_task(
        caller: Operator,
        request: Request,
        content: submitting.Content,
        chosen: submitting.Chosen,
        key: Annotated[str | None, Header(alias=KEY)] = None,
    ) -> Document:
        """Submit a plan, which is the body: JSON, or YAML.

        It is checked as `longtask run` does; everything that is wrong with it is told at once.
        """
        return submitting.answered(server, caller, request, content, chosen, key)

    @routes.post("/tasks/{task}/pause", responses=answers(Acted))
    def pause_task(caller: Operator, task: TaskName, body: Pause | None = None) -> Document:
        """Claim nothing new; what runs goes on to its end."""
        found = seen_task(server, task, caller)
        return Document(acted_map(desk.pause(found.id, caller.name, now=body is not None and body.now)))

    @routes.post("/tasks/{task}/resume", responses=answers(Acted))
    def resume_task(caller: Operator, task: TaskName, body: Resume | None = None) -> Document:
        """Go on with a paused task, or with one that has reached a limit."""
        found, given = seen_task(server, task, caller), body or Resume()
        raised = (given.cost_usd, given.tokens, given.active_ms) != (None, None, None)
        if raised:
            micros = None if given.cost_usd is None else round(given.cost_usd * 1_000_000)
            more = {"tokens": given.tokens, "active_ms": given.active_ms}
            found = desk.raise_budget(found.id, caller.name, micros=micros, **more)
        if found.state is TaskState.PAUSED or not raised:
            found = desk.resume(found.id, caller.name)
        return Document(acted_map(found))

    @routes.post("/tasks/{task}/cancel", responses=answers(Acted))
    def cancel_task(caller: Operator, task: TaskName, body: Cancel | None = None) -> Document:
        """Cancel a task: running processes are stopped, steps with `run_when: always` do not run."""
        found = seen_task(server, task, caller)
        return Document(acted_map(desk.cancel(found.id, caller.name, (body or Cancel()).reason)))
