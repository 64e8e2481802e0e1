"""How the web server listens: what it must not believe, and how long it waits for whoever does not speak.

`uvicorn` by itself waits for ever for the end of a request's headers, and believes `X-Forwarded-For` of whoever calls
from this machine; both are put right here.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from longtask.api.access.policy import Policy

HEADERS_S = 10.0  # so long may the headers of a request take to come, counted from the connection or the first byte
IDLE_S = 30.0  # a connection is kept for the next request
SPARE = 1_000  # connections beside streams
LATE = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Hurried(H11Protocol):
    """Closes a connection whose next request does not come in time."""

    headers_s = HEADERS_S
    _hurry: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._hurry = self.loop.call_later(self.headers_s, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._calm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle: RequestResponseCycle | None = self.cycle  # None until the first request
        if cycle is not None and not cycle.response_complete:
            self._calm()
        elif self._hurry is None:
            self._hurry = self.loop.call_later(self.headers_s, self._late)

    def _calm(self) -> None:
        if self._hurry is not None:
            self._hurry.cancel()
            self._hurry = None

    def _late(self) -> None:
        self._hurry = None
        if not self.transport.is_closing():
            self.transport.write(LATE)
            self.transport.close()


def uvicorn_options(policy: Policy) -> dict[str, Any]:
    """For `uvicorn.Config`."""
    return {
        "http": Hurried,
        "ws": "none",
        "proxy_headers": False,  # the guard knows whom to believe
        "server_header": False,
        "h11_max_incomplete_event_size": policy.headers_bytes_max,  # of what has not come whole
        "timeout_keep_alive": IDLE_S,
        "limit_concurrency": policy.streams_max + SPARE,
    }
