"""Events: what has happened, as CloudEvents, a page at a time."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from longtask.api.documents.events import EventPage
from longtask.api.documents.shape import answers
from longtask.api.problems import Document, Problem
from longtask.api.server import Server
from longtask.api.sight import After, Limit, TaskName, Viewer, page, seen_task
from longtask.core.errors import NotFound
from longtask.core.model import Task
from longtask.views.events import Agents, cloud_events

CURSOR = r"^([0-9]{1,18}(\.[0-9]{1,18})?)?$"


def router(server: Server) -> APIRouter:
    routes = APIRouter(tags=["events"])
    store = server.parts.store

    @routes.get("/tasks/{task}/events", responses=answers(EventPage))
    def list_events_of_task(
        caller: Viewer,
        task: TaskName,
        limit: Limit = 100,
        cursor: After = 0,
        types: Annotated[list[str], Query(alias="type", description="Only events of these types.")] = [],  # noqa: B006
    ) -> Document:
        """What has happened to a task, oldest first.

        `limit` counts facts, of which one may show as several events, or as none. `next` is null when the task has
        ended and all was told; else ask again with it, for what comes.
        """
        found = seen_task(server, task, caller)
        facts = store.events(found.id, cursor, limit)
        agents = Agents(store, found.id)
        told = (one for event in facts for one in cloud_events(found, event, agents))
        items = [one for one in told if not types or one["type"] in types]
        last = facts[-1].seq if facts else cursor
        over = found.ended and last >= found.seq
        return Document(page(items, None if over else last))

    @routes.get("/events", responses=answers(EventPage))
    def list_events(
        caller: Viewer,
        limit: Limit = 100,
        cursor: Annotated[
            str, Query(pattern=CURSOR, description="`next` of the page before; absent: from the first.")
        ] = "",
    ) -> Document:
        """What has happened to all tasks that the caller may see.

        Those of one task come in their order. `next` is never null: more will come.
        """
        try:
            facts, next_ = store.feed(cursor, limit)
        except ValueError:
            where = f"cursor {cursor!r}: not one that this server has told"
            raise Problem(422, "bad-value", "a value breaks the rules", where) from None
        seen: dict[str, tuple[Task, Agents] | None] = {}
        items: list[dict[str, Any]] = []
        for event in facts:
            if event.task_id not in seen:
                try:
                    task = store.get_task(event.task_id)
                except NotFound:  # pruned meanwhile
                    seen[event.task_id] = None
                else:
                    visible = caller.sees(task.workspace_id)
                    seen[event.task_id] = (task, Agents(store, task.id)) if visible else None
            if (whose := seen[event.task_id]) is not None:
                items += cloud_events(whose[0], event, whose[1])
        return Document(page(items, next_))

    return routes
