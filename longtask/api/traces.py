"""The trace of a task, as the page and `longtask trace` show it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from longtask.api.documents.shape import Instant, Shape, answers
from longtask.api.problems import Document
from longtask.api.server import Server
from longtask.api.sight import TaskName, Viewer, seen_task
from longtask.telemetry import settings
from longtask.telemetry.reading import SPANS_SHOWN, read_trace, trace_map


class SpanEntry(Shape):
    span_id: str = Field(examples=["00f067aa0ba902b7"])
    parent_id: str | None
    kind: str = Field(description="task, stage, step, wait, attempt, run, turn or tool.", examples=["attempt"])
    name: str = Field(examples=["attempt build.1"])
    step: str | None
    attempt: int | None
    started_at: Instant
    ended_at: Instant | None = Field(description="null: it goes on.")
    status: str | None = Field(description="ok or error; null: neither.")
    attributes: dict[str, Any]


class TraceDocument(Shape):
    task: str
    handle: str = Field(examples=["shop-12"])
    trace_id: str = Field(examples=["019b76daa80070008000000000000001"])
    spans: list[SpanEntry]
    cut: bool = Field(description="There are more than were asked for.")
    dropped: int = Field(description="So many spans are not kept, since the task has too many.")


def router(server: Server) -> APIRouter:
    routes = APIRouter(tags=["tasks"])
    parts, chosen = server.parts, settings.load()

    @routes.get("/tasks/{task}/trace", responses=answers(TraceDocument))
    def show_trace(
        caller: Viewer,
        task: TaskName,
        limit: Annotated[int, Query(ge=1, le=SPANS_SHOWN, description="At most so many spans.")] = SPANS_SHOWN,
    ) -> Document:
        """Show where a task's time has gone: its spans by their beginning, from the task down to each call of a model
        or a tool."""
        found = seen_task(server, task, caller)
        return Document(trace_map(read_trace(parts.store, parts.config.home, chosen, found, limit=limit)))

    return routes
