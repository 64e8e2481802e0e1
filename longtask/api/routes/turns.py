"""What an agent does while it runs; afterwards its attempt's transcript tells the same, as an artifact."""

from typing import Any

from fastapi import APIRouter
from pydantic import Field

from longtask.api.documents.shape import Instant, Page, Shape, answers
from longtask.api.problems import Document
from longtask.api.server import Server
from longtask.api.sight import After, Limit, StepKey, TaskName, Viewer, page, seen_step, seen_task
from longtask.core.model import StepState
from longtask.store.contract import Ref
from longtask.views.turns import turn_maps


class TurnEntry(Shape):
    n: int = Field(description="Counts from 1 within the run.")
    kind: str = Field(description="told, turn, tool, asked or spawned.", examples=["turn"])
    name: str = Field(description="Of the model or the tool.", examples=["shell"])
    attempt: int
    tokens_in: int
    tokens_out: int
    micros: int | None = Field(description="null: no price is known.")
    started_at: Instant | None
    done_at: Instant | None
    body: dict[str, Any] | None = Field(description="What was said or answered; null: it goes on.")


class TurnPage(Page[TurnEntry]):
    pass


def router(server: Server) -> APIRouter:
    routes = APIRouter(tags=["steps"])
    store = server.parts.store

    @routes.get("/tasks/{task}/steps/{step}/turns", responses=answers(TurnPage))
    def list_turns(caller: Viewer, task: TaskName, step: StepKey, limit: Limit = 200, cursor: After = 0) -> Document:
        """List the calls of an agent's newest run, the last of which may go on.

        `next` is null when all was told and the step does not run; else ask again with it, for what comes. A call that
        goes on (`body` null) is told anew to whoever asks with the number before it.
        """
        found = seen_task(server, task, caller)
        row = seen_step(server, found, step)
        rows = [one for one in store.journal(Ref(found.id, row.key), row.run) if one.n > cursor]
        shown = rows[:limit]
        more = len(rows) > limit or row.state is StepState.RUNNING
        return Document(page(turn_maps(shown), (shown[-1].n if shown else cursor) if more else None))

    return routes
