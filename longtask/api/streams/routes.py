"""The addresses of the streams.

A stream begins with how things stand, unless the client says where it was (`Last-Event-ID`, which a browser sends by
itself when it comes again, before `?after=`).  What ends a stream is told: `ended` (nothing comes any more), or
`closed` (come again; `after` says where).  Who comes again behind `ended` is answered 204, which tells a browser to
stay away.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from longtask.api.access.caller import Caller
from longtask.api.problems import Problem
from longtask.api.server import Server
from longtask.api.sight import NAME_MAX, NUMBER_MAX, StepKey, TaskName, Viewer, seen_step, seen_task
from longtask.api.streams.channel import Watcher
from longtask.api.streams.journal import Everything, TaskJournal
from longtask.api.streams.output import Output
from longtask.api.streams.sse import MEDIA_TYPE, EventStream, Mark, body, mark_of, message, place_of, read_mark
from longtask.core.errors import NotFound
from longtask.core.model import OPEN, StepState, Task
from longtask.store.contract import Ref
from longtask.views.documents import picture_map, task_map
from longtask.views.picture import look

STEPS_MAX = 2_000  # in the snapshot of a task; `steps_left_out` counts the others
TASKS_MAX = 200  # in the snapshot of all
WORKSPACES_MAX = 100

After = Annotated[
    str | None,
    Query(max_length=NAME_MAX, description="The `id` of the last message that was heard: go on behind it."),
]
LastEventId = Annotated[
    str | None, Header(max_length=NAME_MAX, description="The same, as a browser sends it; goes before `after`.")
]

TASK_EXAMPLE = (
    "retry: 1000\n\n"
    'id: 4\nevent: snapshot\ndata: {"id":"018bcfe5-0001-7000-8000-000000000000","status":"running","steps":[]}\n\n'
    'id: 5\nevent: event\ndata: {"specversion":"1.0","type":"step.completed","seq":5,"data":{"step":"tests"}}\n\n'
    'event: progress\ndata: {"step":"tests","attempt":1,"done":128,"total":183,"text":"","at":1700000000000}\n\n'
    'id: 9:ended\nevent: ended\ndata: {"task":"018bcfe5-0001-7000-8000-000000000000","status":"completed"}\n\n'
)
OUTPUT_EXAMPLE = (
    'id: 1.1\nevent: output\ndata: {"attempt":1,"n":1,"at":1700000000000,"stream":"out","text":"3 passed\\n"}\n\n'
    'id: 1.1:ended\nevent: ended\ndata: {"step":"tests","attempt":1,"state":"completed"}\n\n'
)
ALL_EXAMPLE = (
    'id: 4711\nevent: snapshot\ndata: {"tasks":[]}\n\n'
    'id: 4712\nevent: event\ndata: {"specversion":"1.0","type":"longtask.started","seq":1,"data":{}}\n\n'
)


def stream_of(example: str) -> dict[int | str, dict[str, Any]]:
    text = {"schema": {"type": "string"}, "example": example}
    return {
        200: {"description": "Server-sent events.", "content": {MEDIA_TYPE: text}},
        204: {"description": "The client has heard that it ended: nothing comes any more."},
    }


def router(server: Server) -> APIRouter:
    routes = APIRouter(tags=["streams"])
    hub, store = server.hub, server.parts.store

    @routes.get("/stream", response_class=Response, responses=stream_of(ALL_EXAMPLE))
    async def stream_all(caller: Viewer, after: After = None, last_event_id: LastEventId = None) -> Response:
        """Follow every task that the caller may see.

        First `snapshot` (open tasks, newest first), then `event`, each a CloudEvent, for ever.
        """
        hub.refuse_at_the_end()
        mark, first = _mark(last_event_id, after), b""
        if mark is None:
            end, shown = await hub.together(("all", caller.workspaces), lambda: open_tasks(server, caller))
            mark = Mark(place_of(end))
            first = message("snapshot", body({"tasks": shown}), end)
        else:
            newest = place_of(await hub.apart(store.feed_end))
            if len(mark.place) != len(newest) or mark.place > newest or mark.ended:
                raise no_mark(mark_of(mark.place))
        return EventStream(Watcher(hub, Everything(store, caller.workspaces, caller.sees), mark, first))

    @routes.get("/tasks/{task}/stream", response_class=Response, responses=stream_of(TASK_EXAMPLE))
    async def stream_task(
        task: TaskName, caller: Viewer, after: After = None, last_event_id: LastEventId = None
    ) -> Response:
        """Follow a task until it ends.

        First `snapshot` (as `GET /v1/tasks/{task}`), then `event`, each a CloudEvent, and `progress` between them; at
        the end `ended`. `after=0`: no snapshot, everything that has happened.
        """
        hub.refuse_at_the_end()
        found: Task = await hub.apart(seen_task, server, task, caller)
        mark, first = _mark(last_event_id, after), b""
        if mark is None:
            shown = await hub.together(("task", found.id), lambda: look(store, found.id, STEPS_MAX))
            mark = Mark((shown.task.seq,))
            first = message("snapshot", body(picture_map(shown)), mark_of(mark.place))
        elif len(mark.place) != 1 or mark.place[0] > found.seq:
            raise no_mark(mark_of(mark.place))
        elif mark.ended and found.ended and mark.place[0] == found.seq:
            return Response(status_code=204)
        return EventStream(Watcher(hub, TaskJournal(store, found.id), mark, first))

    @routes.get("/tasks/{task}/steps/{step}/stream", response_class=Response, responses=stream_of(OUTPUT_EXAMPLE))
    async def stream_output(
        task: TaskName,
        step: StepKey,
        caller: Viewer,
        attempt: Annotated[
            int, Query(ge=0, le=NUMBER_MAX, description="This attempt alone; 0: the newest, and those that follow.")
        ] = 0,
        after: After = None,
        last_event_id: LastEventId = None,
    ) -> Response:
        """Follow what a step writes, from its first line, until the step has ended.

        `output` with the shape of a line of `GET …/output`, `attempt` when the next one begins, at the end `ended`. A
        gap in `n` means that the middle of a flood was left out.
        """
        hub.refuse_at_the_end()
        found: Task = await hub.apart(seen_task, server, task, caller)
        row = await hub.apart(seen_step, server, found, step)
        if attempt > row.attempt:
            raise NotFound(f"step {step!r} has no attempt {attempt}; the newest is {row.attempt}")
        mark = _mark(last_event_id, after)
        if mark is None:
            mark = Mark((attempt or max(row.attempt, 1), 0))
        elif not _is_of(mark, attempt, row.attempt):
            raise no_mark(mark_of(mark.place))
        elif mark.ended and _is_over(attempt, row.attempt, row.state, mark):
            return Response(status_code=204)
        return EventStream(Watcher(hub, Output(store, Ref(found.id, row.key), attempt), mark))

    return routes


def _mark(header: str | None, query: str | None) -> Mark | None:
    """Raises Problem."""
    text = header or query
    if not text:
        return None
    mark = read_mark(text)
    if mark is None:
        raise no_mark(text)
    return mark


def no_mark(text: str) -> Problem:
    return Problem(
        400,
        "bad-cursor",
        "the cursor is none of this stream",
        f"cursor {text!r} was not given out by this stream of this database; begin without one",
    )


def _is_of(mark: Mark, asked: int, newest: int) -> bool:
    if len(mark.place) != 2:
        return False
    attempt = mark.place[0]
    return attempt == asked if asked else 1 <= attempt <= max(newest, 1)


def _is_over(asked: int, newest: int, state: StepState, mark: Mark) -> bool:
    if asked:
        return newest > asked or state is not StepState.RUNNING
    return mark.place[0] == newest and state not in OPEN


def open_tasks(server: Server, caller: Caller) -> tuple[str, list[dict[str, Any]]]:
    """Newest first; and a cursor from before they were read, so that what happens meanwhile comes twice at worst."""
    end = server.parts.store.feed_end()
    workspaces: list[str | None] = [None]
    if caller.workspaces is not None:
        workspaces = list(sorted(caller.workspaces)[:WORKSPACES_MAX])
    found = [
        task
        for workspace_id in workspaces
        for task in server.parts.store.tasks(open_only=True, workspace_id=workspace_id, before=0, limit=TASKS_MAX)
    ]
    found.sort(key=lambda task: -task.number)
    return end, [task_map(task) for task in found[:TASKS_MAX]]
