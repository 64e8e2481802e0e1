"""Steps, their attempts, and what those have written."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Path, Query

from longtask.api.documents.acts import Acted
from longtask.api.documents.shape import answers
from longtask.api.documents.steps import AttemptPage, OutputPage, StepDetail, StepPage
from longtask.api.problems import Document
from longtask.api.server import Server
from longtask.api.sight import (
    NAME_MAX,
    NUMBER_MAX,
    After,
    Limit,
    Operator,
    StepKey,
    TaskName,
    Viewer,
    page,
    seen_step,
    seen_task,
)
from longtask.core.errors import NotFound, Refused
from longtask.core.model import Step, StepState, Task, WaitingFor
from longtask.plan.edit import words_now
from longtask.store.contract import Ref
from longtask.views.attempts import attempt_maps
from longtask.views.documents import acted_map, step_map
from longtask.views.output import LOOKED_BACK, Told
from longtask.views.picture import PROGRESS_MAX, Picture, children_of, passed_of

NEEDS_SHOWN_MAX = 1_000
Attempt = Annotated[int, Path(ge=1, le=NUMBER_MAX, description="Its number; a step's first attempt is 1.")]


def router(server: Server) -> APIRouter:
    routes = APIRouter(tags=["steps"])
    _looking(routes, server)
    _acting(routes, server)
    return routes


def _looking(routes: APIRouter, server: Server) -> None:
    store, records = server.parts.store, server.parts.records

    def picture(task: Task, steps: Iterable[Step]) -> Picture:
        progress = {row.step: row for row in store.progress(task.id, PROGRESS_MAX)}
        rows = list(steps)
        passed = passed_of(store, task.id, rows)
        return Picture(task, rows, progress, store.now(), children=children_of(store, task.id, rows), passed=passed)

    @routes.get("/tasks/{task}/steps", responses=answers(StepPage))
    def list_steps(
        caller: Viewer,
        task: TaskName,
        limit: Limit = 100,
        cursor: Annotated[str, Query(max_length=NAME_MAX, description="`next` of the page before.")] = "",
    ) -> Document:
        """List the steps by key; `GET /v1/tasks/{task}` has them in the plan's order."""
        found = seen_task(server, task, caller)
        rows = store.steps(found.id, cursor.replace("\0", ""), limit)
        shown = picture(found, [row for row in rows if not row.gate])
        items = [step_map(shown, row) for row in shown.steps]
        return Document(page(items, rows[-1].key if len(rows) == limit else None))

    @routes.get("/tasks/{task}/steps/{step}", responses=answers(StepDetail))
    def show_step(
        caller: Viewer,
        task: TaskName,
        step: StepKey,
        values: Annotated[
            bool, Query(description="Fetch a result that is too large for a row, also one that is asked about.")
        ] = False,
        words: Annotated[bool, Query(description="Tell what it is to do, in the words that an edit takes.")] = False,
    ) -> Document:
        """Show one step, and what it needs."""
        found = seen_task(server, task, caller)
        row = seen_step(server, found, step)
        needs = store.results(found.id, store.needs(Ref(found.id, row.key), NEEDS_SHOWN_MAX)).values()
        shown = step_map(picture(found, [row]), row)
        if values:
            shown["result"] = records.value(found.workspace_id, row.result)
            if row.question is not None and "result" in row.question:
                proposed = records.value(found.workspace_id, row.question["result"])
                shown["question"] = {**row.question, "result": proposed}
        if words:
            shown["words"] = words_now(store.spec(found.id, row.spec))
        others = sorted(need.key for need in needs if not need.gate and need.owner != row.key)
        return Document({**shown, "task": found.id, "needs": others})

    @routes.get("/tasks/{task}/steps/{step}/attempts", responses=answers(AttemptPage))
    def list_attempts(caller: Viewer, task: TaskName, step: StepKey, limit: Limit = 100, cursor: After = 0) -> Document:
        """List the attempts of a step, oldest first: who made it, and what it came to."""
        found = seen_task(server, task, caller)
        row = seen_step(server, found, step)
        rest = [one for one in attempt_maps(store, Ref(found.id, row.key)) if one["attempt"] > cursor]
        return Document(page(rest[:limit], rest[limit - 1]["attempt"] if len(rest) > limit else None))

    @routes.get("/tasks/{task}/steps/{step}/attempts/{attempt}/output", responses=answers(OutputPage))
    def show_output(
        caller: Viewer, task: TaskName, step: StepKey, attempt: Attempt, limit: Limit = 200, cursor: After = 0
    ) -> Document:
        """What an attempt has written, in chunks.

        `next` is null when the attempt is over and all of it was told; else ask again with it, for what comes.
        """
        found = seen_task(server, task, caller)
        row = seen_step(server, found, step)
        if attempt > row.attempt:
            raise NotFound(f"step {row.key!r} has no attempt {attempt}; the newest is {row.attempt}")
        ref = Ref(found.id, row.key)
        runs = row.state is StepState.RUNNING and row.attempt == attempt
        before = store.output(ref, attempt, max(cursor - LOOKED_BACK, 0), LOOKED_BACK) if cursor else []
        told = Told(chunk for chunk in before if chunk.n <= cursor)
        chunks = store.output(ref, attempt, cursor, limit)
        more = runs or len(chunks) == limit
        return Document(page([told(c) for c in chunks], (chunks[-1].n if chunks else cursor) if more else None))


def _acting(routes: APIRouter, server: Server) -> None:
    desk, store = server.parts.desk, server.parts.store

    def acted(task: Task, step: Step) -> Document:
        return Document(acted_map(store.get_task(task.id), step=step.key))

    @routes.post("/tasks/{task}/steps/{step}/retry", responses=answers(Acted))
    def retry_step(caller: Operator, task: TaskName, step: StepKey) -> Document:
        """Take up a failed or cancelled step again, in place; what was skipped because of it comes back by itself."""
        found = seen_task(server, task, caller)
        row = seen_step(server, found, step)
        if row.state is StepState.WAITING and row.waiting_for is WaitingFor.USER:
            where = f"POST /v1/tasks/{found.id}/steps/{row.key}/approval"
            raise Refused(f"step {row.key!r} asks a person; answer it: {where}")
        return acted(found, desk.retry(Ref(found.id, row.key), caller.name))

    @routes.post("/tasks/{task}/steps/{step}/cancel", responses=answers(Acted))
    def cancel_step(caller: Operator, task: TaskName, step: StepKey) -> Document:
        """Cancel one step; it can be taken up again by retry."""
        found = seen_task(server, task, caller)
        row = seen_step(server, found, step)
        return acted(found, desk.cancel_step(Ref(found.id, row.key), caller.name))

    @routes.post("/tasks/{task}/steps/{step}/skip", responses=answers(Acted))
    def skip_step(caller: Operator, task: TaskName, step: StepKey) -> Document:
        """Go on without a step: a failed or cancelled one is waived, one that has not begun is not wanted any more."""
        found = seen_task(server, task, caller)
        row = seen_step(server, found, step)
        return acted(found, desk.skip(Ref(found.id, row.key), caller.name))
