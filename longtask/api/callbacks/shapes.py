"""The documents of signals, callbacks, links and webhooks, as OpenAPI tells them."""

from __future__ import annotations

from pydantic import Field

from longtask.api.documents.acts import Acted
from longtask.api.documents.shape import TASK_ID, Instant, Page, Shape

TOKEN = "eyJhIjoxfQ.c2VhbA"


class Signalled(Acted):
    number: int = Field(description="Of the signal in the task's inbox.")
    woken: list[str] = Field(description="Steps that it woke at once; none: it is kept.", examples=[["ci"]])


class Noticed(Shape):
    workspace: str | None
    delivery: str = Field(examples=["d-1"])
    new: bool = Field(description="False: this delivery was here before.")
    tasks: int = Field(description="Tasks that have it already; others follow.")


class CalledBack(Shape):
    task: str = Field(examples=[TASK_ID])
    step: str = Field(examples=["deploy"])
    run: int
    number: int
    new: bool = Field(description="False: the call was answered before, and that answer stands.")


class Hooked(Shape):
    taken: bool = Field(description="False: it was heard, and nothing is made of it.")
    reason: str | None = Field(description="Why not.")
    delivery: str | None = None
    tasks: int | None = None


class NewLink(Shape):
    id: str
    url: str = Field(
        description="Told now and never again.", examples=[f"https://longtask.example.com/v1/callbacks/links/{TOKEN}"]
    )
    task: str = Field(examples=[TASK_ID])
    step: str
    ask: int
    digest: str | None
    who: str
    expires_at: Instant


class Webhook(Shape):
    id: str
    url: str = Field(description="Without its query.")
    types: list[str] = Field(examples=[["longtask.*", "approval.required"]])
    workspace: str | None
    secret_env: str | None = Field(description="The variable of the server that holds the secret; null: it was made.")
    state: str = Field(description="active, failing or disabled.", examples=["active"])
    failures: int = Field(description="In a row, of the delivery that comes next.")
    reason: str | None = Field(description="What came of the last failure.", examples=["answer 500"])
    next_at: Instant | None
    delivered_at: Instant | None
    disabled_at: Instant | None
    created_by: str
    created_at: Instant


class NewWebhook(Webhook):
    secret: str | None = Field(
        description="Told now and never again; null: it is in a variable.", examples=["whsec_ZmFrZQ=="]
    )


class WebhookPage(Page[Webhook]):
    pass


__all__ = ["CalledBack", "Hooked", "NewLink", "NewWebhook", "Noticed", "Signalled", "Webhook", "WebhookPage"]
