"""What is answered to whoever changes something, or asks what a change would do, as OpenAPI tells it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from longtask.api.documents.shape import TASK_ID, Shape


class Imported(Shape):
    task: str = Field(examples=[TASK_ID])
    handle: str = Field(examples=["shop-3"], description="With its number in this installation.")
    status: str = Field(examples=["completed"])
    again: bool = Field(description="This very archive was imported before.")
    told: list[str] = Field(description="What could not be done, though the task is here.")


class Acted(Shape):
    task: str = Field(examples=[TASK_ID])
    handle: str = Field(examples=["shop-12"])
    status: str = Field(examples=["running"])
    step: str | None = None
    answer: str | None = None
    by: str | None = None


class Taken(Acted):
    attempt: int = Field(description="With which it is the caller's: `done` names it.")
    base: str | None = Field(description="The commit that its folder begins from; null: the task has no code.")
    tree: str | None = Field(description="The files that earlier attempts have left, on that commit; null: none.")
    cache: list[str] = Field(description="Paths that are no part of the change of the code.")


class Grown(Acted):
    steps: list[str] = Field(description="The keys of what was added.", examples=[["docs"]])


class Forked(Acted):
    forked_from: str = Field(description="The task that was forked.", examples=[TASK_ID])


class Foreseen(Shape):
    """Keys of steps of the plan, stage by stage."""

    act: str = Field(description="fork, retry, edit or reject.", examples=["fork"])
    step: str = Field(examples=["migrate"])
    again: list[str] = Field(description="These have been begun, and run again.")
    begins: list[str] = Field(description="These have not been begun, and are to run.")
    skipped: list[str] = Field(description="These will not run.")
    kept: list[str] = Field(description="These have ended, and stay as they are.")
    gone: list[str] = Field(description="These were added later than a fork looks, and are not in it.")
    items_kept: dict[str, int] = Field(description="Of a `for_each` that runs again: how many items are kept.")
    asks: bool = Field(description="A person is asked first whether it goes on.")
    revised: bool = Field(description="A revision is put in front, and the question is asked again.")
    seq: int = Field(description="Of a fork: the last event of the task that it takes over; else 0.")
    head: str | None = Field(description="Of a fork: the commit that it begins from.")


class Checked(Shape):
    ok: bool
    name: str
    steps: int
    stages: list[str]
    notes: list[str]


EXAMPLES: dict[str, dict[str, Any]] = {
    "Acted": {"task": TASK_ID, "handle": "shop-12", "status": "running"},
    "Taken": {
        "task": TASK_ID,
        "handle": "shop-12",
        "status": "running",
        "step": "backend",
        "attempt": 2,
        "base": "8f1d3c0e5b7a49d2a6c4e1f0b3d5a7c9e2f4b6d8",
        "tree": None,
        "cache": [],
    },
    "Grown": {"task": TASK_ID, "handle": "shop-12", "status": "running", "steps": ["docs"]},
    "Forked": {
        "task": TASK_ID,
        "handle": "shop-13",
        "status": "running",
        "step": "migrate",
        "forked_from": "019b76da-a800-7000-8000-000000000000",
    },
    "Foreseen": {
        "act": "fork",
        "step": "migrate",
        "again": ["migrate", "tests"],
        "begins": ["review"],
        "skipped": [],
        "kept": ["analyse"],
        "gone": [],
        "items_kept": {},
        "asks": False,
        "revised": False,
        "seq": 41,
        "head": "9d2f3c1b7c4b0f6d1f0e4a5b6c7d8e9f0a1b2c3d",
    },
    "Checked": {"ok": True, "name": "shop", "steps": 2, "stages": ["steps"], "notes": []},
}
