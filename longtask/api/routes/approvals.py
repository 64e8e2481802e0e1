"""What people are asked, and what they answer.

A decision names the version of what its maker has seen (If-Match); the desk compares it again under the task's lock.
"""

import asyncio
import time
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from longtask.api import etags
from longtask.api.access.caller import Caller
from longtask.api.documents.acts import Acted
from longtask.api.documents.approvals import Approval, ApprovalPage
from longtask.api.documents.shape import answers
from longtask.api.problems import Document, Problem
from longtask.api.pushed import COMMIT_PATTERN, pushed
from longtask.api.server import Server
from longtask.api.sight import Approver, Body, Limit, Name, StepKey, TaskName, Text, Viewer, page, seen_step, seen_task
from longtask.core.errors import NotFound, Refused
from longtask.core.model import Question, Step, StepState, Task, WaitingFor
from longtask.engine.desk import Superseded
from longtask.store.contract import Ref
from longtask.views.documents import acted_map, approval_map, version
from longtask.workspace.names import resolved_ref

ASKING_MAX = 1_000
ANEW_S, LOOK_S = 2.0, 0.05  # so long a refusal waits for what is asked instead, which takes a worker a moment


class Decision(Body):
    answer: Name = Field(description="One of `answers`.", examples=["approve"])
    text: Text = Field(default="", description="A word for the record; a rejection takes a reason.")
    edited: Any = Field(default=None, description="With `edit`: what the result holds as `edited`.")
    commit: str | None = Field(
        default=None,
        pattern=COMMIT_PATTERN,
        description="With `resolve`: a commit that contains both sides, pushed to the hub as "
        "`refs/longtask/TASK/attempts/STEP.ATTEMPT-ASK`, which `longtask --server URL done` does.",
    )


def asks(step: Step) -> bool:
    return step.state is StepState.WAITING and step.waiting_for is WaitingFor.USER and step.question is not None


def asked(step: Step, caller: Caller) -> bool:
    """This caller is asked: named, or nobody is."""
    who = (step.question or {}).get("who")
    return not who or caller.name in who


def router(server: Server) -> APIRouter:
    routes = APIRouter(tags=["approvals"])
    store, desk = server.parts.store, server.parts.desk

    @routes.get("/approvals", responses=answers(ApprovalPage))
    def list_approvals(
        caller: Viewer,
        mine: Annotated[bool, Query(description="Only what the caller may decide; else all that is asked.")] = True,
        limit: Limit = 100,
    ) -> Document:
        """List what is asked, the longest waiting first."""
        found: list[dict[str, Any]] = []
        tasks: dict[str, Task] = {}
        for task_id, step in store.asking(task_id=None, limit=ASKING_MAX):
            if not asks(step) or (mine and not asked(step, caller)):
                continue
            if task_id not in tasks:
                tasks[task_id] = store.get_task(task_id)
            if caller.sees(tasks[task_id].workspace_id):
                found.append(approval_map(tasks[task_id], step))
            if len(found) == limit:
                break
        return Document(page(found, None))

    @routes.get("/tasks/{task}/approvals", responses=answers(ApprovalPage))
    def list_approvals_of_task(caller: Viewer, task: TaskName, limit: Limit = 100) -> Document:
        """List what a task asks."""
        found = seen_task(server, task, caller)
        rows = store.asking(task_id=found.id, limit=limit)
        return Document(page([approval_map(found, step) for _, step in rows if asks(step)], None))

    @routes.get(
        "/tasks/{task}/steps/{step}/approval",
        responses={**answers(Approval), 304: etags.UNCHANGED},
        openapi_extra={"parameters": [etags.IF_NONE_MATCH]},
    )
    def show_approval(caller: Viewer, request: Request, task: TaskName, step: StepKey) -> Response:
        """What a step asks: exactly what was frozen when it asked.  Its ETag is what a decision names."""
        found = seen_task(server, task, caller)
        row = seen_step(server, found, step)
        if not asks(row):
            raise NotFound(f"step {row.key!r} is {row.state}: it asks nothing now")
        headers = {"ETag": etags.etag(version(row))}
        if etags.matches(request, version(row)):
            return Response(status_code=304, headers=headers)
        return Document(approval_map(found, row), headers=headers)

    @routes.post(
        "/tasks/{task}/steps/{step}/approval",
        responses=answers(Acted),
        openapi_extra={"parameters": [etags.IF_MATCH]},
    )
    async def decide_approval(
        caller: Approver, request: Request, task: TaskName, step: StepKey, body: Decision
    ) -> Document:
        """Answer what a step asks.

        `If-Match` names the ETag of what was seen: without it the answer is 428; if another question, or another
        state of what it shows, is asked now, 412 with that; so also when the code has moved under a question that is
        bound to it (`bind: head`), without `current` while no worker has asked anew. Who has decided already is told
        with 409.
        """
        named = etags.required(request)
        found = await run_sync(seen_task, server, task, caller)
        try:
            return await run_sync(decide, caller, named, found, step, body)
        except Superseded as moved:
            raise await asked_anew(found, step, str(moved)) from moved

    def decide(caller: Caller, named: frozenset[str], found: Task, step: str, body: Decision) -> Document:
        row = seen_step(server, found, step)
        if not asks(row):
            raise Refused(f"step {row.key!r} is {row.state}: it asks nothing now; somebody has answered, or it is over")
        if version(row) not in named:
            raise etags.changed(approval_map(found, row))
        question = row.question or {}
        takes_reason = question.get("kind") in (Question.APPROVAL, Question.PLAN)
        if takes_reason and body.answer == "reject" and not body.text.strip():
            raise Problem(
                422,
                "reason-needed",
                "a rejection takes a reason",
                f"step {row.key!r}: say in 'text' what is wrong, so that somebody can act on it",
            )
        if body.commit is not None:
            need_resolved(found, row, body.commit)
        try:
            after = desk.answer(
                Ref(found.id, row.key),
                body.answer,
                caller.name,
                ask=row.ask,
                digest=question.get("digest"),
                text=body.text,
                commit=body.commit,
                edited=body.edited,
            )
        except Superseded:
            raise
        except Refused:
            now = store.get_step(Ref(found.id, row.key))
            if asks(now) and version(now) != version(row):
                raise etags.changed(approval_map(found, now)) from None
            raise
        answered = acted_map(store.get_task(found.id), step=after.key, answer=body.answer, by=caller.name)
        return Document(answered)

    def need_resolved(task: Task, row: Step, commit: str) -> None:
        """Raises Refused: the commit is not in the hub, or does not resolve the step's conflict."""
        if not task.workspace_id or row.commit is None:
            raise Refused(f"step {row.key!r} asks about no conflict: leave the commit out")
        workspace = pushed(server, task, row, resolved_ref(task.id, row.key, row.attempt, row.ask), commit)
        workspace.need_both(commit, row.commit, task.head)

    async def asked_anew(task: Task, step: str, told: str) -> Problem:
        until = time.monotonic() + ANEW_S
        while not asks(row := await run_sync(store.get_step, Ref(task.id, step))):
            if time.monotonic() >= until:
                return etags.changing(told)
            await asyncio.sleep(LOOK_S)
        return etags.changed(approval_map(task, row))

    return routes
