"""The short way: what is asked hundreds of times a second is answered without the framework's walk.

To find a route and to make the arguments of its function takes FastAPI two fifths of the time of a submit.  So a
request without a query, for an address that has such a way, is taken past the routes: same guard, same idempotency,
same function, same problems.  The route stays: `openapi.json` describes it, and it answers whoever sends a query.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from longtask.api import problems
from longtask.api.problems import Problem
from longtask.core.errors import LongTaskError

Way = Callable[[Request], Awaitable[Response]]
Ways = Mapping[tuple[str, str], Way]  # of a method and a whole path


class ShortWay:
    """ASGI middleware, the innermost."""

    def __init__(self, app: ASGIApp, ways: Ways) -> None:
        self._app, self._ways = app, ways

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        way = None
        if scope["type"] == "http" and not scope["query_string"]:
            way = self._ways.get((scope["method"], scope["path"]))
        if way is None:
            return await self._app(scope, receive, send)
        try:
            response = await way(Request(scope, receive))
        except (Problem, LongTaskError, HTTPException) as error:
            response = problems.response_to(error)
        return await response(scope, receive, send)
