"""What all documents of the API are made of, as OpenAPI tells them; pages, problems, answers.

Documents are described here and made in `views/`; that both agree is tested, and costs nothing when one is served.  Of
a document keys may be added, never taken away; so a description says which are always there, and leaves room for more.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

Instant = Annotated[int, Field(description="ms since 1970 UTC", examples=[1_767_225_600_000])]
Json = Any
T = TypeVar("T")
TASK_ID = "019b76da-a800-7000-8000-000000000001"


class Shape(BaseModel):
    model_config = ConfigDict(extra="allow")


class Page(Shape, Generic[T]):
    items: list[T]
    next: str | None = Field(description="What the next request names as its cursor; null: there is no more.")


class ProblemItem(Shape):
    message: str
    path: str
    line: int | None = Field(default=None, description="From 1; 0: the place is not known.")
    column: int | None = None


class Problem(Shape):
    """RFC 9457.  `type` never changes its meaning."""

    type: str = Field(examples=["urn:longtask:problem:not-found"])
    title: str = Field(examples=["no such thing"])
    status: int = Field(examples=[404])
    detail: str | None = Field(default=None, examples=["no task 'shop-9'; list them: GET /v1/tasks"])
    problems: list[ProblemItem] | None = Field(default=None, description="Everything that is wrong with a plan.")


def answers(model: Any, media_type: str | None = None, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """What a route answers when all is well, for its `responses`.  `media_type` None: JSON of this shape."""
    if media_type is None:
        return {status: {"model": model, "description": "As asked."}}
    shape = {"type": "string"} if model is str else {"type": "string", "format": "binary"}
    return {status: {"description": "As asked.", "content": {media_type: {"schema": shape}}}}


EXAMPLES: dict[str, dict[str, Any]] = {
    "Problem": {
        "type": "urn:longtask:problem:not-found",
        "title": "no such thing",
        "status": 404,
        "detail": "no task 'shop-9'; list them: GET /v1/tasks",
    },
}
