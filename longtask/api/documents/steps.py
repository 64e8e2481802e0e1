"""Steps, their attempts and what these print, as OpenAPI tells them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from longtask.api.documents.shape import TASK_ID, Instant, Json, Page, Shape


class Told(Shape):
    done: int
    total: int = Field(description="0: not known.")
    text: str


class Child(Shape):
    task: str = Field(examples=[TASK_ID])
    handle: str = Field(examples=["migrate-13"])
    status: str
    percent: int = Field(ge=0, le=100)


class Items(Shape):
    total: int
    ended: int = Field(description="Those included that had completed before a retry.")
    failed: int
    begun: int = Field(description="They are steps of the task already, and in its counts.")


class StepEntry(Shape):
    key: str = Field(examples=["tests"])
    kind: str = Field(examples=["run"])
    stage: int = Field(ge=1)
    state: str = Field(
        description="blocked, ready, running, waiting, merging, completed, failed, cancelled or skipped.",
        examples=["running"],
    )
    owner: str | None = Field(description="The step that a fix, a conflict or an item of a for_each belongs to.")
    attempt: int = Field(description="The newest; 0: none yet.")
    taken_by: str | None = Field(description="The person who works on it by hand.")
    run: int
    rounds: int
    began_at: Instant | None
    ended_at: Instant | None
    due_at: Instant | None
    reason: str | None = Field(description="Of the last failure, retry or loss.")
    because: str | None = Field(description="The step that decided a skip.")
    benign: bool
    tolerated: bool
    waived: bool = Field(description="It was skipped by hand after it had failed.")
    waiting_for: str | None
    question: dict[str, Json] | None
    ask: int | None
    commit: str | None
    result: Json = Field(description='Its outputs; a large one stands as {"$artifact": digest}.')
    child: Child | None = Field(default=None, description="Of a `task` step: the newest task that was made for it.")
    items: Items | None = Field(description="Of a `for_each`, and of an agent that has given out work.")
    progress: Told | None


class StepDetail(StepEntry):
    task: str
    needs: list[str]
    words: dict[str, Json] | None = Field(
        default=None,
        description="With `words`: what it is to do from its next attempt on; null: it cannot be edited.",
        examples=[{"run": "make test", "timeout": "1h", "retry": 2}],
    )


class Attempt(Shape):
    attempt: int
    worker: str | None
    runtime: str | None
    began_at: Instant | None
    ended_at: Instant | None
    outcome: str | None = Field(description="The type of the event that ended it; null: it runs.")
    reason: str | None


class OutputChunk(Shape):
    n: int = Field(description="Counts from 1; a gap means that the middle of a flood was left out.")
    at: Instant
    stream: str = Field(description="out, err or note")
    text: str


class StepPage(Page[StepEntry]):
    pass


class AttemptPage(Page[Attempt]):
    pass


class OutputPage(Page[OutputChunk]):
    pass


STEP = {
    "key": "tests",
    "kind": "run",
    "stage": 1,
    "state": "completed",
    "owner": None,
    "attempt": 1,
    "taken_by": None,
    "run": 1,
    "rounds": 0,
    "began_at": 1_767_225_600_100,
    "ended_at": 1_767_225_681_000,
    "due_at": None,
    "reason": None,
    "because": None,
    "benign": False,
    "tolerated": False,
    "waived": False,
    "waiting_for": None,
    "question": None,
    "ask": None,
    "commit": None,
    "result": {"exit_code": 0},
    "items": None,
    "progress": {"done": 183, "total": 183, "text": ""},
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "StepPage": {"items": [STEP], "next": None},
    "StepDetail": {**STEP, "task": TASK_ID, "needs": []},
    "AttemptPage": {
        "items": [
            {
                "attempt": 1,
                "worker": "w3f9a1c",
                "runtime": None,
                "began_at": 1_767_225_600_100,
                "ended_at": 1_767_225_681_000,
                "outcome": "completed",
                "reason": None,
            }
        ],
        "next": None,
    },
    "OutputPage": {
        "items": [{"n": 1, "at": 1_767_225_680_000, "stream": "out", "text": "183 passed\n"}],
        "next": None,
    },
}
