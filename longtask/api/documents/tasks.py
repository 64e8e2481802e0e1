"""Tasks: listed, as a tree, as a graph, and why one is where it is, as OpenAPI tells them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from longtask.api.documents.shape import TASK_ID, Instant, Page, Shape
from longtask.api.documents.steps import STEP, StepEntry


class TaskEntry(Shape):
    id: str = Field(examples=[TASK_ID])
    handle: str = Field(examples=["shop-12"])
    name: str = Field(examples=["shop"])
    goal: str
    status: str = Field(
        description="completed, failed, cancelled, cancelling, paused, running, queued, waiting_budget, waiting_user, "
        "waiting_ci, waiting_event or waiting_timer.",
        examples=["waiting_user"],
    )
    percent: int = Field(ge=0, le=100, examples=[62])
    stage: str | None = Field(description="The one that runs; null: it has ended.", examples=["build"])
    cost_micros: int
    tokens: int
    created_at: Instant
    ended_at: Instant | None
    created_by: str = Field(examples=["ann"])
    parent: str | None = Field(default=None, description="The task for whose step it was made; null: for none.")
    parent_step: str | None = None


class Asks(Shape):
    step: str
    text: str
    who: list[str] = Field(description="Who may decide; empty: anybody who may decide on this task.")
    since: Instant | None


class ListedTask(TaskEntry):
    asks: Asks | None = Field(description="What it has asked somebody for longest; null: nothing.")


class StageEntry(Shape):
    name: str
    status: str = Field(description="upcoming, ahead, running, completed, failed or skipped.")


class ForkedFrom(Shape):
    task: str = Field(examples=[TASK_ID])
    step: str | None = Field(description="What it does again.")
    seq: int = Field(description="Up to which event of that task it has taken it over.")


class TaskTree(TaskEntry):
    state: str
    workspace: str | None = Field(description="Its id; null: the task has no code.")
    base: str | None
    head: str | None
    cost_limit_micros: int | None = Field(description="Null: there is none.")
    tokens_limit: int | None
    forked_from: ForkedFrom | None = Field(default=None, description="Null: it is no fork.")
    stages: list[StageEntry]
    counts: dict[str, int] = Field(description="Steps by state and by what they wait for.")
    steps: list[StepEntry]
    steps_left_out: int


class GraphStep(Shape):
    key: str
    kind: str
    stage: int
    state: str
    owner: str | None


class Graph(Shape):
    task: str
    name: str
    stages: list[str]
    steps: list[GraphStep]
    edges: list[tuple[str, str]] = Field(description="[need, step]")
    steps_left_out: int


class Reason(Shape):
    what: str = Field(examples=["review asks ann: Does this look right?"])
    since: Instant | None
    help: list[str] = Field(description="Commands that help.", examples=[["longtask approve shop-12 review"]])
    step: str | None
    who: list[str] = Field(description="Who may decide; empty: anybody who may decide on this task.")
    details: list[str] = Field(
        description="Of one step that is asked about: all problems, where its reason lists several; or the steps that "
        "it wants to add."
    )


class Reasons(Shape):
    items: list[Reason]


class TaskPage(Page[ListedTask]):
    pass


_TASK = {
    "id": TASK_ID,
    "handle": "shop-12",
    "name": "shop",
    "goal": "Everything builds, and somebody has looked at it.",
    "status": "waiting_user",
    "percent": 50,
    "stage": "steps",
    "cost_micros": 0,
    "tokens": 0,
    "created_at": 1_767_225_600_000,
    "ended_at": None,
    "created_by": "ann",
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "TaskPage": {
        "items": [
            {
                **_TASK,
                "asks": {
                    "step": "review",
                    "text": "Does this look right?",
                    "who": [],
                    "since": 1_767_225_681_000,
                },
            }
        ],
        "next": "12",
    },
    "TaskTree": {
        **_TASK,
        "state": "active",
        "workspace": "4f1c2a9be07d6835",
        "base": "9d2f3c1b7c4b0f6d1f0e4a5b6c7d8e9f0a1b2c3d",
        "head": "9d2f3c1b7c4b0f6d1f0e4a5b6c7d8e9f0a1b2c3d",
        "cost_limit_micros": 5_000_000,
        "tokens_limit": None,
        "forked_from": None,
        "stages": [{"name": "steps", "status": "running"}],
        "counts": {"steps": 3, "open": 2, "wait_user": 1},
        "steps": [STEP],
        "steps_left_out": 1,
    },
    "Graph": {
        "task": TASK_ID,
        "name": "shop",
        "stages": ["steps"],
        "steps": [
            {"key": "tests", "kind": "run", "stage": 1, "state": "completed", "owner": None},
            {"key": "review", "kind": "approval", "stage": 1, "state": "waiting", "owner": None},
        ],
        "edges": [["tests", "review"]],
        "steps_left_out": 0,
    },
    "Reasons": {
        "items": [
            {
                "what": "review asks anybody: Does this look right?",
                "since": 1_767_225_681_000,
                "help": ["longtask approve shop-12 review", "longtask reject shop-12 review -m REASON"],
                "step": "review",
                "who": [],
                "details": [],
            }
        ]
    },
}
