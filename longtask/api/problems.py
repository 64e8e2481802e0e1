"""Errors as `application/problem+json` (RFC 9457), with a `type` that a program can rely on.

`type` is `urn:longtask:problem:<slug>`; the slug, like a key of a document, never changes its meaning.  `detail` is the
error's own message: what, which one, what was found, what to do.  What nobody foresaw is told without its message,
which may hold anything; the log has it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from longtask.core.errors import (
    BadPlan,
    HubUnreachable,
    LeaseLost,
    LongTaskError,
    NotFound,
    Refused,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    WorkspaceError,
)
from longtask.redaction import redact, redact_value

log = logging.getLogger("longtask.api")

MEDIA_TYPE = "application/problem+json"
URN = "urn:longtask:problem:"
RETRY_AFTER_S = 1
PROBLEMS_MAX = 200


class Problem(Exception):
    """Raised by whatever answers a request.  `extra`: further members of the document."""

    def __init__(
        self,
        status: int,
        slug: str,
        title: str,
        detail: str = "",
        extra: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail or title)
        self.status, self.slug, self.title, self.detail = status, slug, title, detail
        self.extra, self.headers = dict(extra or {}), dict(headers or {})

    def document(self) -> dict[str, Any]:
        detail = {"detail": redact(self.detail)} if self.detail else {}
        extra: dict[str, Any] = redact_value(self.extra)
        return {"type": URN + self.slug, "title": self.title, "status": self.status, **detail, **extra}

    def response(self) -> JSONResponse:
        return ProblemResponse(self.document(), self.status, self.headers)


class Document(JSONResponse):
    """JSON.  A name that is no UTF-8 (a lone surrogate) is escaped, not refused."""

    def render(self, content: Any) -> bytes:
        try:
            return super().render(content)
        except UnicodeEncodeError:
            import json

            return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


class ProblemResponse(Document):
    media_type = MEDIA_TYPE


KINDS: tuple[tuple[type[LongTaskError], int, str, str], ...] = (  # the first that fits
    (LeaseLost, 409, "lease-lost", "the attempt is not the newest"),
    (Refused, 409, "refused", "not now"),
    (NotFound, 404, "not-found", "no such thing"),
    (BadPlan, 422, "bad-plan", "the plan or a value breaks the rules"),
    (StoreBusy, 503, "busy", "the store is busy"),
    (StoreUnavailable, 503, "store-unavailable", "the store cannot be used just now"),
    (StoreError, 500, "store", "the store cannot be used"),
    (HubUnreachable, 503, "hub-unreachable", "the hub of the code cannot be used just now"),
    (WorkspaceError, 500, "workspace", "the repository cannot be used"),
    (LongTaskError, 500, "error", "it did not work"),
)
OF_HTTP = {
    400: ("bad-request", "the request cannot be read"),
    401: ("unauthenticated", "who asks is not known"),
    403: ("forbidden", "not allowed"),
    404: ("not-found", "no such thing"),
    405: ("method-not-allowed", "the address does not take this method"),
    413: ("too-large", "the request is too large"),
    415: ("media-type", "the media type is not taken"),
    429: ("too-many-requests", "too many requests"),
}


def problem_of(error: LongTaskError) -> Problem:
    status, slug, title = next(row[1:] for row in KINDS if isinstance(error, row[0]))
    extra: dict[str, Any] = {}
    if isinstance(error, BadPlan):
        extra["problems"] = [
            {"message": p.message, "path": p.path, "line": p.line, "column": p.column}
            for p in error.problems[:PROBLEMS_MAX]
        ]
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else {}
    return Problem(status, slug, title, str(error), extra, headers)


def response_to(error: Problem | LongTaskError | HTTPException) -> JSONResponse:
    if isinstance(error, LongTaskError):
        return problem_of(error).response()
    if isinstance(error, Problem):
        return error.response()
    if isinstance(error.__cause__, Problem):  # in the only form that the framework lets through while it reads
        return error.__cause__.response()
    slug, title = OF_HTTP.get(error.status_code, ("http", "the request was not carried out"))
    return Problem(error.status_code, slug, title, str(error.detail), headers=error.headers).response()


def install(app: FastAPI) -> None:
    """Every error that leaves a route becomes a problem."""

    @app.exception_handler(Problem)
    @app.exception_handler(LongTaskError)
    @app.exception_handler(HTTPException)
    async def of_known(request: Request, error: Problem | LongTaskError | HTTPException) -> JSONResponse:
        return response_to(error)

    @app.exception_handler(RequestValidationError)
    def of_values(request: Request, error: RequestValidationError) -> JSONResponse:
        found = [
            {"message": str(one["msg"]), "path": ".".join(str(part) for part in one["loc"])} for one in error.errors()
        ][:PROBLEMS_MAX]
        text = "; ".join(f"{one['path']}: {one['message']}" for one in found[:3])
        return Problem(422, "bad-value", "a value breaks the rules", text, {"problems": found}).response()

    @app.exception_handler(Exception)
    def of_nobody(request: Request, error: Exception) -> JSONResponse:
        log.error("request.failed method=%s path=%s", request.method, request.url.path, exc_info=error)
        return Problem(500, "unexpected", "an unexpected error; the server's log tells more").response()
