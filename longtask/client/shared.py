"""What both clients know before they send anything, and how answers are seen."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import Any

import httpx

from longtask.client.course import Course, Limits, Tries
from longtask.client.request import Answer
from longtask.client.servers import is_here, server_url, token_for
from longtask.core.errors import BadPlan

CHUNK_BYTES = 1 << 16
NO_RANGE = 416
WORKING_S = 3_600.0
# A library's own mistakes in what it was told to send; to repeat them mends nothing.
HOPELESS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


class Bearer(httpx.Auth):
    """Keeps the token out of whatever shows a client, its headers or its settings."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if self._token is not None:
            request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


class Shared:
    """What both clients know before they send anything."""

    def __init__(self, url: str | None = None, token: str | None = None, *, limits: Limits | None = None) -> None:
        """`url`: else LONGTASK_SERVER, else this machine's.  `token`: else LONGTASK_TOKEN, else what `longtask login`
        has kept.  Raises BadPlan, Refused."""
        self.url = server_url(url)
        self.limits = limits or Limits()
        self._auth = Bearer(token_for(self.url, token))
        answer_s, connect_s = self.limits.answer_s, self.limits.connect_s
        self.options: dict[str, Any] = {
            "auth": self._auth,
            "timeout": httpx.Timeout(answer_s, connect=connect_s),
            # Streams take a connection each, for long.
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=20),
            "trust_env": not is_here(self.url),  # no proxy stands between a machine and itself
            "headers": {"User-Agent": "longtask"},
        }
        # What the server makes or checks before it answers; the connection is there, or breaks.
        self.working = httpx.Timeout(WORKING_S, connect=connect_s)
        self.listening = httpx.Timeout(self.limits.silence_s, connect=connect_s)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def patience(self, made: bool) -> httpx.Timeout:
        """Of one answer; `made`: it is made first."""
        timeout: httpx.Timeout = self.working if made else self.options["timeout"]
        return timeout

    def course(self) -> Course:
        """Of one request."""
        return Course(self.url, self.limits, Tries(self.limits, self.limits.patience_s))

    def lasting(self) -> tuple[Tries, Course]:
        """Of what goes on for long, and is taken up again when it is cut."""
        tries = Tries(self.limits, self.limits.stream_patience_s)
        return tries, Course(self.url, self.limits, tries)


def answer_of(got: httpx.Response, body: bytes) -> Answer:
    return Answer(got.status_code, got.headers, body)


def media_type_of(got: httpx.Response) -> str:
    return str(got.headers.get("content-type", ""))


def hopeless(error: Exception) -> BadPlan:
    return BadPlan(f"the request cannot be sent: {error}")


def shown(method: Any, describe: Callable[..., Any]) -> None:
    """`help` tells its arguments, with `self` in front."""
    told = inspect.signature(describe)
    me = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = told.replace(parameters=[me, *told.parameters.values()])
