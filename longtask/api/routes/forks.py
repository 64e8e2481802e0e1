"""Forks, and what an act would make stale."""

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request
from pydantic import Field

from longtask.api import submitting
from longtask.api.documents.acts import Foreseen, Forked
from longtask.api.documents.shape import answers
from longtask.api.problems import Document
from longtask.api.server import Server
from longtask.api.sight import NAME_MAX, Body, Name, Operator, StepKey, TaskName, Viewer, seen_step, seen_task
from longtask.core.model import JsonMap, Task
from longtask.engine.merging import follow
from longtask.store.contract import Ref
from longtask.views.documents import acted_map
from longtask.views.foreseen import foreseen_map

KEY = "Idempotency-Key"


class Fork(Body):
    from_: Name = Field(alias="from", description="The step to do again, with all that came of it.")
    key: Name | None = Field(
        default=None, min_length=1, description="The same key returns the same fork, for as long as it is kept."
    )
    paused: bool = Field(default=False, description="Nothing of it begins before it is resumed: edit its steps first.")


def router(server: Server) -> APIRouter:
    routes = APIRouter(tags=["tasks"])
    desk = server.parts.desk

    def foreseen(found: Task, step: str, act: str) -> JsonMap:
        row = seen_step(server, found, step)
        return foreseen_map(act, desk.foresee(Ref(found.id, row.key), act))

    @routes.get("/tasks/{task}/fork", responses=answers(Foreseen))
    def foresee_fork(
        caller: Viewer,
        task: TaskName,
        step: Annotated[str, Query(alias="from", max_length=NAME_MAX, description="The step to do again.")],
    ) -> Document:
        """Name what a fork from a step would do again, and what it would take over; nothing is done."""
        return Document(foreseen(seen_task(server, task, caller), step, "fork"))

    @routes.post("/tasks/{task}/fork", status_code=201, responses=answers(Forked, status=201))
    def fork_task(
        caller: Operator,
        request: Request,
        task: TaskName,
        body: Fork,
        key: Annotated[str | None, Header(alias=KEY)] = None,
    ) -> Document:
        """Make a new task that does a step again; what had completed before that step was claimed last is taken over.

        The task itself is not touched.
        """
        found = seen_task(server, task, caller)
        row = seen_step(server, found, body.from_)
        wanted = body.key or submitting.of_request(caller, key)
        made = desk.fork(Ref(found.id, row.key), caller.name, idempotency_key=wanted, paused=body.paused)
        request.state.task_id = made.id  # for the audit
        follow(server.parts.merger, made)
        told = acted_map(made, step=row.key, forked_from=found.id)
        return Document(told, 201, {"Location": f"/v1/tasks/{made.id}"})

    @routes.get("/tasks/{task}/steps/{step}/foreseen", responses=answers(Foreseen))
    def foresee(
        caller: Viewer,
        task: TaskName,
        step: StepKey,
        act: Annotated[Literal["fork", "retry", "edit", "reject"], Query(description="What is about to be done.")],
    ) -> Document:
        """Name what an act on a step would make stale: what runs again, what comes back, what will not run."""
        return Document(foreseen(seen_task(server, task, caller), step, act))

    return routes
