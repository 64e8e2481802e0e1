"""Changing the work of a task that is under way: steps added, edited, taken by hand, done by hand."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from longtask.api.documents.acts import Acted, Grown
from longtask.api.documents.shape import answers
from longtask.api.problems import Document
from longtask.api.server import Server
from longtask.api.sight import NAME_MAX, Body, Operator, StepKey, TaskName, seen_step, seen_task
from longtask.core.model import Step, Task
from longtask.core.policy import GROWTH_MAX
from longtask.store.contract import Ref
from longtask.views.documents import acted_map

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
        rows = desk.add(found.id, language.growth(raw, found, store.get_plan(found.id)), caller.name)
        return Document(acted_map(store.get_task(found.id), steps=[row.key for row in rows]))

    @routes.post("/tasks/{task}/steps/{step}/edit", responses=answers(Acted))
    def edit_step(caller: Operator, task: TaskName, step: StepKey, body: Edit) -> Document:
        """Say anew what a step does that has not completed and does not run."""
        found = seen_task(server, task, caller)
        ref = Ref(found.id, seen_step(server, found, step).key)
        return acted(found, hands.edit(ref, body.words, caller.name, again=body.retry))

    @routes.post("/tasks/{task}/steps/{step}/take", responses=answers(Acted))
    def take_step(caller: Operator, task: TaskName, step: StepKey, body: Take | None = None) -> Document:
        """Nobody else works on it until the caller says that it is done, gives it back, or the time is over."""
        found = seen_task(server, task, caller)
        ref = Ref(found.id, seen_step(server, found, step).key)
        return acted(found, hands.take(ref, caller.name, round((body or Take()).hours * 3_600_000)))

    @routes.post("/tasks/{task}/steps/{step}/give-back", responses=answers(Acted))
    def give_back_step(caller: Operator, task: TaskName, step: StepKey) -> Document:
        """A step that was taken is a worker's again."""
        found = seen_task(server, task, caller)
        return acted(found, hands.give_back(Ref(found.id, seen_step(server, found, step).key), caller.name))

    @routes.post("/tasks/{task}/steps/{step}/done", responses=answers(Acted))
    def finish_step(caller: Operator, task: TaskName, step: StepKey, body: Done | None = None) -> Document:
        """What the caller did is the step's outcome: one without a change of the code, which `longtask done` brings
        from the step's folder."""
        found = seen_task(server, task, caller)
        ref = Ref(found.id, seen_step(server, found, step).key)
        return acted(found, hands.done(ref, caller.name, result=(body or Done()).outputs))

    return routes
