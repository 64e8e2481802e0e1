"""Who calls, tokens, and the audit."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field

from longtask.api.access.caller import caller_of
from longtask.api.access.tokens import EXPIRES_MS, GRACE_MS, Tokens
from longtask.api.documents.shape import TASK_ID, Instant, Page, Shape, answers
from longtask.api.problems import Document, Problem
from longtask.api.server import Server
from longtask.api.sight import Admin, Body, Limit, Name, page, whole
from longtask.core.errors import NotFound
from longtask.core.model import JsonMap
from longtask.store.callers import Token
from longtask.views.access import audit_map, token_map

TokenName = Annotated[str, Path(description="Its id.", max_length=100)]
Ms = Annotated[int, Field(ge=0, le=100 * 365 * 86_400_000)]


class NewToken(Body):
    name: Name = Field(description="Who will use it.")
    roles: list[Name] = Field(max_length=10, description="viewer, operator, approver, worker, admin.")
    workspaces: list[Name] | None = Field(default=None, max_length=1_000, description="Absent: all.")
    expires_ms: Ms | None = Field(default=EXPIRES_MS, description="From now; null: never.")


class Rotation(Body):
    grace_ms: Ms = Field(default=GRACE_MS, description="So long the old form is good.")
    expires_ms: Ms | None = Field(default=EXPIRES_MS, description="From now; null: never.")


class Who(Shape):
    name: str = Field(examples=["ann"])
    roles: list[str] = Field(examples=[["approver", "operator"]])
    workspaces: list[str] | None = Field(description="null: all.")
    token: str | None = Field(description="The id of the token; null: none was needed.")


class TokenEntry(Shape):
    id: str = Field(examples=["4k2m9x1b7q"])
    name: str = Field(examples=["ann"])
    roles: list[str] = Field(examples=[["operator"]])
    workspaces: list[str] | None = Field(description="null: all.")
    good: bool
    created_by: str
    created_at: Instant
    expires_at: Instant | None
    revoked_at: Instant | None
    used_at: Instant | None = Field(description="Right within a minute.")


class MadeToken(TokenEntry):
    token: str = Field(description="What its bearer sends; seen this once.")


class AuditEntry(Shape):
    id: str
    at: Instant
    who: str = Field(examples=["ann"])
    token: str | None
    address: str = Field(examples=["192.0.2.7"])
    action: str = Field(examples=["POST /v1/tasks/{task}/cancel"])
    task: str | None = Field(examples=[TASK_ID])
    step: str | None
    status: int | None = Field(description="Of the answer; null: the server ended before it was known.")
    outcome: str | None = Field(description="Of a refusal, the type of its problem.", examples=["refused"])


TokenPage = Page[TokenEntry]
AuditPage = Page[AuditEntry]


def router(server: Server) -> APIRouter:
    routes = APIRouter(tags=["access"])
    _looking(routes, server)
    _tokens(routes, server)
    return routes


def _looking(routes: APIRouter, server: Server) -> None:
    store = server.parts.store

    @routes.get("/whoami", responses=answers(Who))
    def who_am_i(request: Request) -> Document:
        """Tell who the caller is, and what that caller may do."""
        caller = caller_of(request)
        return Document({
            "name": caller.name,
            "roles": sorted(caller.roles),
            "workspaces": None if caller.workspaces is None else sorted(caller.workspaces),
            "token": caller.token,
        })  # fmt: skip

    @routes.get("/audit", responses=answers(AuditPage))
    def list_audit(
        caller: Admin,
        limit: Limit = 100,
        cursor: Annotated[str, Query(max_length=100, description="`next` of the page before.")] = "",
        task: Annotated[str | None, Query(max_length=100, description="Only of this task, by its id.")] = None,
        who: Annotated[str | None, Query(max_length=200, description="Only of this caller.")] = None,
    ) -> Document:
        """List who has changed what, from where, and what came of it, newest first.  What was refused is there too."""
        whole(caller)
        texts = {"task": task, "who": who, "cursor": cursor}
        for name, text in texts.items():
            if text is not None and not keepable(text):
                raise Problem(422, "bad-value", "a value breaks the rules", f"{name}: must be text without NUL")
        rows = store.audit(task_id=task, who=who, before=cursor, limit=limit)
        return Document(page([audit_map(row) for row in rows], rows[-1].id if len(rows) == limit else None))


def _tokens(routes: APIRouter, server: Server) -> None:
    store, tokens = server.parts.store, Tokens(server.parts.store)

    def new(token: Token, text: str, status: int) -> Document:
        made: JsonMap = token_map(token, store.now())
        return Document({**made, "token": text}, status, {"Cache-Control": "no-store"})

    @routes.get("/tokens", responses=answers(TokenPage))
    def list_tokens(caller: Admin) -> Document:
        """List all tokens, also those that are good no more."""
        whole(caller)
        now = store.now()
        return Document(page([token_map(token, now) for token in tokens.list()], None))

    @routes.post("/tokens", status_code=201, responses=answers(MadeToken, status=201))
    def create_token(caller: Admin, given: NewToken) -> Document:
        """Make a token.  Its text is in this answer and nowhere else, so that no Idempotency-Key brings it back."""
        whole(caller)
        made = tokens.create(
            given.name, given.roles, by=caller.name, workspaces=given.workspaces, expires_ms=given.expires_ms
        )
        return new(*made, 201)

    @routes.post("/tokens/{token}/rotate", responses=answers(MadeToken))
    def rotate_token(caller: Admin, token: TokenName, given: Rotation) -> Document:
        """Give a token a new form; the old one is good for a grace.  No Idempotency-Key brings it back."""
        whole(caller)
        return new(*tokens.rotate(_keepable(token), grace_ms=given.grace_ms, expires_ms=given.expires_ms), 200)

    @routes.post("/tokens/{token}/revoke", responses=answers(TokenEntry))
    def revoke_token(caller: Admin, token: TokenName) -> Document:
        """Make a token good no more, within seconds, on every server; streams that it has open end too."""
        whole(caller)
        revoked = tokens.revoke(_keepable(token))  # a name is that of a good token
        return Document(token_map(tokens.get(revoked.id), store.now()))


def _keepable(token: str) -> str:
    if not keepable(token):
        raise NotFound(f"no token {token!r}; list them: GET /v1/tokens")
    return token


def keepable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
