"""Questions to people, as OpenAPI tells them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from longtask.api.documents.shape import TASK_ID, Instant, Json, Page, Shape


class Approval(Shape):
    task: str
    handle: str
    step: str
    ask: int
    version: str = Field(description="The ETag without its quotes.")
    kind: str = Field(description="approval, or a question of the machine: unknown, failed, no_fix, conflict, limit.")
    text: str
    who: list[str] = Field(description="Who may decide; empty: anybody who may decide on this task.")
    answers: list[str] = Field(examples=[["approve", "reject", "edit", "respond"]])
    since: Instant | None
    expires_at: Instant | None
    question: dict[str, Json]


class ApprovalPage(Page[Approval]):
    pass


_QUESTION = {"kind": "approval", "text": "Does this look right?", "digest": "5d41402abc4b2a76", "bind": "frozen"}

EXAMPLES: dict[str, dict[str, Any]] = {
    "Approval": {
        "task": TASK_ID,
        "handle": "shop-12",
        "step": "review",
        "ask": 1,
        "version": "1.5d41402abc4b2a76",
        "kind": "approval",
        "text": "Does this look right?",
        "who": [],
        "answers": ["approve", "reject", "edit", "respond"],
        "since": 1_767_225_681_000,
        "expires_at": None,
        "question": _QUESTION,
    },
}
