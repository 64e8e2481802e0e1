"""Changing the work of a task that is under way: steps added, edited, taken by hand, done by hand."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field, model_validator

from longtask.api.documents.acts import Acted, Grown, Taken
from longtask.api.documents.shape import answers
from longtask.api.problems import Document
from longtask.api.pushed import COMMIT_PATTERN, pushed
from longtask.api.server import Server
from longtask.api.sight import NAME_MAX, Body, Operator, StepKey, TaskName, seen_step, seen_task
from longtask.boot.working import begins_at
from longtask.core.errors import Refused
from longtask.core.hands import held_by
from longtask.core.model import Step, Task
from longtask.core.policy import GROWTH_MAX
from longtask.plan.growth import without_head
from longtask.store.contract import Ref
from longtask.views.documents import acted_map
from longtask.workspace.names import attempt_ref

HOURS_MAX = 24 * 90
Words = dict[str, Any]  # of a step, as a plan writes them


class Growth(Body):
    steps: Annotated[list[Words], Field(max_length=GROWTH_MAX)] | None = Field(
        default=None,
        description="Steps as a plan writes them; each may need steps of the task and those above it.",
        examples=[[{"id": "docs", "run": "make docs", "needs": ["backend"]}]],
    )
    stages: Annotated[list[Words], Field(max_length=GROWTH_MAX)] | None = Field(
        default=None,
        description="Instead of `steps`: stages as a plan writes them.  They become needs: all enter one stage.",
        examples=[[{"name": "docs", "steps": [{"id": "docs", "run": "make docs"}]}]],
    )
    defaults: Words | None = Field(default=None, description="Of the new steps; null: those of the task's plan.")
    stage: str | None = Field(
        default=None, max_length=NAME_MAX, description="The stage that they enter; null: the one under way."
    )
    before: str | None = Field(default=None, max_length=NAME_MAX, description="A step that is to wait for them.")
    after: str | None = Field(
        default=None, max_length=NAME_MAX, description="A step that those without `needs` wait for."
    )

    @model_validator(mode="before")
    @classmethod
    def of_a_plan(cls, raw: Any) -> Any:
        """A whole plan may be sent as it is."""
        return without_head(raw) if isinstance(raw, dict) else raw


class Edit(Body):
    words: Words = Field(
        description="What the step is to do from its next attempt on; what is not said stays as it was.",
        examples=[{"agent": {"prompt": "Keep the old endpoint as well."}, "timeout": "2h"}],
    )
    retry: bool = Field(default=False, description="And take it up again at once.")


class Take(Body):
    hours: float = Field(default=24.0, gt=0, le=HOURS_MAX, description="After which it is given back.")


class Done(Body):
    outputs: dict[str, Any] | None = Field(default=None, description="What the step hands over.")
    commit: str | None = Field(
        default=None,
        pattern=COMMIT_PATTERN,
        description="The change of the code, pushed to the hub as `refs/longtask/TASK/attempts/STEP.ATTEMPT`, which "
        "`longtask --server URL done` does; null: there is none.",
    )
    attempt: int | None = Field(default=None, ge=1, description="With `commit`: the one with which it was taken.")


def router(server: Server) -> APIRouter:
    routes = APIRouter(tags=["steps"])
    hands, desk, store = server.parts.hands, server.parts.desk, server.parts.store
    language = server.parts.expressions

    def acted(task: Task, step: Step) -> Document:
        return Document(acted_map(store.get_task(task.id), step=step.key))

    @routes.post("/tasks/{task}/steps", responses=answers(Grown))
    def add_steps(caller: Operator, task: TaskName, body: Growth) -> Document:
        """Add steps to a task that is under way; nothing is added if something is wrong with one of them."""
        found = seen_task(server, task, caller)
        raw = body.model_dump(exclude_none=True)
        rows = desk.add(found.id, language.growth(raw, found), caller.name)
        return Document(acted_map(store.get_task(found.id), steps=[row.key for row in rows]))

    @routes.post("/tasks/{task}/steps/{step}/edit", responses=answers(Acted))
    def edit_step(caller: Operator, task: TaskName, step: StepKey, body: Edit) -> Document:
        """Say anew what a step does that has not completed and does not run."""
        found = seen_task(server, task, caller)
        ref = Ref(found.id, seen_step(server, found, step).key)
        return acted(found, hands.edit(ref, body.words, caller.name, again=body.retry))

    @routes.post("/tasks/{task}/steps/{step}/take", responses=answers(Taken))
    def take_step(caller: Operator, task: TaskName, step: StepKey, body: Take | None = None) -> Document:
        """Nobody else works on it until the caller says that it is done, gives it back, or the time is over.

        What is the caller's already stays so, until the same instant, and is told again."""
        found = seen_task(server, task, caller)
        row = seen_step(server, found, step)
        ref = Ref(found.id, row.key)
        if not held_by(row, caller.name):
            row = hands.take(ref, caller.name, round((body or Take()).hours * 3_600_000))
        base, tree = (None, None) if row.base is None else begins_at(store, ref, row)
        cache = list((found.options.workspace or {}).get("cache") or ())
        told = acted_map(store.get_task(found.id), step=row.key, attempt=row.attempt)
        return Document({**told, "base": base, "tree": tree, "cache": cache})

    @routes.post("/tasks/{task}/steps/{step}/give-back", responses=answers(Acted))
    def give_back_step(caller: Operator, task: TaskName, step: StepKey) -> Document:
        """A step that was taken is what it was before: ready, failed, cancelled, or asking."""
        found = seen_task(server, task, caller)
        return acted(found, hands.give_back(Ref(found.id, seen_step(server, found, step).key), caller.name))

    @routes.post("/tasks/{task}/steps/{step}/done", responses=answers(Acted))
    def finish_step(caller: Operator, task: TaskName, step: StepKey, body: Done | None = None) -> Document:
        """What the caller did is the step's outcome.  A change of the code was pushed to the hub before."""
        found = seen_task(server, task, caller)
        row, said = seen_step(server, found, step), body or Done()
        ref = Ref(found.id, row.key)
        base = None if said.commit is None else made_on(found, row, said.commit, said.attempt)
        done = hands.done(ref, caller.name, commit=said.commit, base=base, result=said.outputs, attempt=said.attempt)
        return acted(found, done)

    def made_on(task: Task, row: Step, commit: str, attempt: int | None) -> str:
        """Raises Refused: the commit is not the attempt's, or has nothing to do with the task."""
        if not task.workspace_id or row.base is None:
            raise Refused(f"step {row.key!r}: its task has no code, so its outcome has no commit")
        if attempt is None:
            raise Refused(f"step {row.key!r}: say with which attempt it was taken, whose commit {commit[:12]} is")
        return pushed(server, task, row, attempt_ref(task.id, row.key, attempt), commit).made_on(commit, row.base)

    return routes
