"""Who calls, and what that caller may do.

The guard (`guard.py`) finds out who calls, once for each request, and lays the `Caller` into the request's state; a
route names the role that it needs:

    @routes.post("/v1/tasks/{task_id}/cancel")
    def cancel(task_id: str, caller: Annotated[Caller, needs(Role.OPERATOR)]) -> ...:

A route without `needs` answers anybody whom the guard lets pass: see `guard.OPEN`.  A task of a workspace that the
caller does not see is answered as one that is not there: that it exists is nobody else's business.
"""

from __future__ import annotations

from typing import Any

from fastapi import Depends
from starlette.requests import HTTPConnection

from longtask.api.access.roles import Caller, Role
from longtask.api.problems import Problem

__all__ = ["STATE", "Caller", "Needed", "Role", "allowed", "caller_of", "needs", "unknown"]

STATE = "caller"  # of a request: its Caller; not there for one who has shown no token


class Needed:
    """The dependency; `role` can be read, so that a test finds routes that need none.  A coroutine though it waits for
    nothing: for a function the framework would use a thread."""

    def __init__(self, role: Role) -> None:
        self.role = role

    async def __call__(self, request: HTTPConnection) -> Caller:
        return allowed(request, self.role)


def needs(role: Role) -> Any:
    """A dependency of a route: gives the Caller.  Raises Problem 401, or 403 for one without the role."""
    return Depends(Needed(role))


def allowed(request: HTTPConnection, role: Role) -> Caller:
    """Who calls.  Raises Problem 401, or 403 for one without the role."""
    caller = caller_of(request)
    if not caller.may(role):
        raise Problem(
            403,
            "forbidden",
            "the role for this is missing",
            f"caller {caller.shown} lacks the role {str(role)!r}; use a token that has it "
            "(longtask token list shows them)",
        )
    return caller


def caller_of(request: HTTPConnection) -> Caller:
    """Of a request that the guard has let pass.  Raises Problem 401."""
    caller = getattr(request.state, STATE, None)
    if not isinstance(caller, Caller):
        raise unknown()
    return caller


def unknown(
    detail: str = "this server asks for a token: send 'Authorization: Bearer lt_…'; made on the server's machine by: "
    "longtask token create NAME --role operator",
) -> Problem:
    return Problem(401, "unauthenticated", "who asks is not known", detail, headers={"WWW-Authenticate": "Bearer"})
