"""Events, as OpenAPI tells them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from longtask.api.documents.shape import TASK_ID, Json, Page, Shape


class CloudEvent(Shape):
    specversion: str = Field(examples=["1.0"])
    id: str = Field(examples=[f"{TASK_ID}/12"])
    source: str = Field(examples=[f"/tasks/{TASK_ID}"])
    type: str = Field(examples=["step.completed"])
    time: str = Field(examples=["2026-01-01T00:00:00.000+00:00"])
    seq: int
    actor: str | None
    data: dict[str, Json]


class EventPage(Page[CloudEvent]):
    pass


EXAMPLES: dict[str, dict[str, Any]] = {
    "EventPage": {
        "items": [
            {
                "specversion": "1.0",
                "id": f"{TASK_ID}/12",
                "source": f"/tasks/{TASK_ID}",
                "type": "step.completed",
                "time": "2026-01-01T00:01:21.000+00:00",
                "seq": 12,
                "actor": None,
                "data": {"step": "tests", "attempt": 1},
            }
        ],
        "next": "12",
    },
}
