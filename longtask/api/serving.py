"""Listening: a socket, the program that speaks HTTP on it, and a clean end.

At its end a server takes no new connections, tells every stream to come again elsewhere, lets what is being answered be
answered, for a few seconds, and then goes.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable, Iterator

import uvicorn

from longtask.api.access.listening import allow_files, uvicorn_options
from longtask.api.access.shared import check_listening
from longtask.api.app import create_app
from longtask.api.server import Server
from longtask.core.errors import Refused

log = logging.getLogger("longtask.api")

BACKLOG = 2_048
END_MAX_S = 10


def listen(server: Server) -> socket.socket:
    """Bound, and not yet listening.  Raises Refused."""
    host, port = server.settings.host, server.settings.port
    check_listening(server.access, host)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        found = socket.socket(family, socket.SOCK_STREAM)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
        except OSError:
            found.close()
            raise
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        raise Refused(
            f"cannot listen on {host!r}, port {port}: {said}; choose others with --host and --port"
        ) from error
    return found


def url_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    if bound.family == socket.AF_INET6:
        host = f"[{host}]"
    return f"http://{host}:{port}"


class Listener(uvicorn.Server):
    """Runs until `end`.  Signals are its caller's."""

    def __init__(self, server: Server, ready: Callable[[], None] = lambda: None) -> None:
        self._server, self._ready = server, ready
        allow_files(server.settings.policy)
        super().__init__(
            uvicorn.Config(
                create_app(server),
                access_log=False,  # what changes anything stands in the audit
                backlog=BACKLOG,
                lifespan="on",
                log_config=None,
                timeout_graceful_shutdown=END_MAX_S,
                **uvicorn_options(server.settings.policy),
            )
        )

    def end(self) -> None:
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._server.hub.end()
        self._server.waiting.end()
        await super().shutdown(sockets)
