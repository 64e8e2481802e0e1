"""Endpoints for outgoing webhooks, over HTTP; the command line does the same (`longtask webhook`)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from longtask.api.access.caller import Caller
from longtask.api.callbacks import shapes
from longtask.api.documents.shape import answers
from longtask.api.problems import Document
from longtask.api.server import Server
from longtask.api.sight import NAME_MAX, Admin, Body, Limit, Name, Number, page
from longtask.core.errors import NotFound
from longtask.store.outward import Webhook
from longtask.webhooks import endpoints

Id = Annotated[str, Path(max_length=NAME_MAX)]


class NewWebhook(Body):
    url: Annotated[str, Field(max_length=2_000, examples=["https://hooks.example.com/longtask"])]
    types: list[Name] = Field(
        default_factory=list, description="Patterns of event types; none: all.", examples=[["longtask.*"]]
    )
    workspace: Name | None = Field(default=None, description="Only events of its tasks; null: of all.")
    secret_env: Name | None = Field(
        default=None, description="A variable of the server that holds the secret; null: one is made, and told once."
    )


class Replay(Body):
    since: Number = Field(description="Deliver anew what has happened since; ms since 1970 UTC.")


def add_to(routes: APIRouter, server: Server) -> None:
    store, outgoing = server.parts.store, server.outgoing

    def seen(id: str, caller: Caller) -> Webhook:
        found = store.webhook(id.replace("\0", ""))
        if caller.workspaces is not None and (found.workspace_id is None or not caller.sees(found.workspace_id)):
            raise NotFound(f"no webhook {id!r}")
        return found

    @routes.post("/webhooks", status_code=201, responses=answers(shapes.NewWebhook, status=201))
    def add_webhook(caller: Admin, body: NewWebhook) -> Document:
        """Have events sent to an address, signed by Standard Webhooks; the body of each is the CloudEvent.

        It hears what happens from now on. The secret is told in this answer and never again.
        """
        if caller.workspaces is not None and (body.workspace is None or not caller.sees(body.workspace)):
            raise NotFound(f"no workspace {body.workspace!r}; name one of this token's")
        added, secret = endpoints.add(
            store,
            body.url,
            types=body.types,
            workspace_id=body.workspace,
            secret_env=body.secret_env,
            by=caller.name,
        )
        told = {**endpoints.document(store.webhook(added.id)), "secret": secret}
        return Document(told, status_code=201, headers={"Location": f"/v1/webhooks/{added.id}"})

    @routes.get("/webhooks", responses=answers(shapes.WebhookPage))
    def list_webhooks(
        caller: Admin, limit: Limit = 100, cursor: Annotated[str, Query(max_length=NAME_MAX)] = ""
    ) -> Document:
        """List the endpoints, and how each is doing."""
        rows = store.webhooks(cursor.replace("\0", ""), limit)
        shown = [
            row for row in rows if caller.workspaces is None or (row.workspace_id and caller.sees(row.workspace_id))
        ]
        items = [dict(endpoints.document(row)) for row in shown]
        return Document(page(items, rows[-1].id if len(rows) == limit else None))

    @routes.get("/webhooks/{id}", responses=answers(shapes.Webhook))
    def show_webhook(caller: Admin, id: Id) -> Document:
        """Show one endpoint."""
        return Document(endpoints.document(seen(id, caller)))

    @routes.delete("/webhooks/{id}", responses=answers(shapes.Webhook))
    def remove_webhook(caller: Admin, id: Id) -> Document:
        """Send nothing there any more; answered with what it was."""
        found = seen(id, caller)
        store.remove_webhook(found.id)
        return Document(endpoints.document(found))

    @routes.post("/webhooks/{id}/replay", responses=answers(shapes.Webhook))
    def replay_webhook(caller: Admin, id: Id, body: Replay) -> Document:
        """Deliver anew what has happened since an instant, under the same ids; takes up one that was disabled."""
        found = seen(id, caller)
        store.replay_webhook(found.id, body.since)
        outgoing.wake()
        return Document(endpoints.document(store.webhook(found.id)))

    @routes.post("/webhooks/{id}/enable", responses=answers(shapes.Webhook))
    def enable_webhook(caller: Admin, id: Id) -> Document:
        """Go on with an endpoint that was disabled, or that waits for its next try: from where it was, at once."""
        found = seen(id, caller)
        store.enable_webhook(found.id)
        outgoing.wake()
        return Document(endpoints.document(store.webhook(found.id)))
