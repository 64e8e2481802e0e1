"""`ModelServer`: the scripted model server in a thread of its own.

    with ModelServer(script) as models:
        …                                  # an agent that is told models.url
    models.requests()                      # what it has asked

One server plays many scripts side by side: `models.load("one", script)`, and the agent is told `models.url_of("one")`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from longtask.core.errors import NotFound, Refused
from longtask.core.model import JsonMap
from longtask.modelserver.app import DEFAULT, Scripts, Watch, make_app
from longtask.modelserver.performing import CLOSE
from longtask.modelserver.playback import Playback, Request
from longtask.modelserver.script import Script, from_values, load, load_file

HOST = "127.0.0.1"
KEY = "not-a-key"  # what agents are told to send
START_MAX_S = 30.0
END_MAX_S = 5
IDLE_S = 3_600  # an agent whose tool takes its time is not to find its connection closed: that would be a fault

ScriptLike = Script | Mapping[str, Any] | str | Path


class ModelServer:
    """`script`: a Script, plain values, the text of one, or the path of a file; None: it is loaded later.

    `watch` hears, in the server's thread, of each request of a model when it was answered.
    """

    def __init__(self, script: ScriptLike | None = None, *, port: int = 0, watch: Watch = lambda request: None) -> None:
        """Raises BadPlan."""
        self._scripts = Scripts(watch)
        self._port = port
        self._running: _Running | None = None
        self._thread: threading.Thread | None = None
        if script is not None:
            self.load(DEFAULT, script)

    def start(self) -> Self:
        """Returns when it listens.  Raises Refused for a port that is taken."""
        assert self._running is None, "it is started already"
        bound = _bind(self._port)
        self._port = bound.getsockname()[1]
        started = threading.Event()
        self._running = _Running(self._scripts, started.set)
        self._thread = threading.Thread(target=self._running.run, args=([bound],), name="model-server", daemon=True)
        self._thread.start()
        if not started.wait(START_MAX_S):
            raise Refused("the model server does not start")
        return self

    def stop(self) -> None:
        """At once: what is being answered is cut."""
        if self._running is not None and self._thread is not None:
            self._running.should_exit = True
            self._thread.join()
        self._running = self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # where it is

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}"

    def url_of(self, name: str = DEFAULT) -> str:
        """Where this script is played: what Anthropic's clients call the base URL; OpenAI's add `/v1` to it."""
        return self.url if name == DEFAULT else f"{self.url}/s/{quote(name, safe='')}"

    def environment(self, name: str = DEFAULT) -> dict[str, str]:
        """What agents read."""
        return environment(self.url_of(name))

    # what it plays

    def load(self, name: str, script: ScriptLike) -> None:
        """Begins the script anew.  Raises BadPlan."""
        self._scripts.load(name, _script(script))

    def requests(self, name: str = DEFAULT) -> list[Request]:
        """What was asked, oldest first.  Raises NotFound."""
        return self._playback(name).requests()

    def state(self, name: str = DEFAULT) -> JsonMap:
        """See `Playback.state`.  Raises NotFound."""
        return self._playback(name).state()

    def _playback(self, name: str) -> Playback:
        found = self._scripts.find(name)
        if found is None:
            raise NotFound(f"no script {name!r} was loaded")
        return found


def environment(url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": KEY,
    }


def _script(script: ScriptLike) -> Script:
    match script:
        case Script():
            return script
        case str():
            return load(script)
        case Path():
            return load_file(script)
    return from_values(dict(script))


def _bind(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((HOST, port))
    except OSError as error:
        bound.close()
        said = (error.strerror or str(error)).lower()
        raise Refused(f"cannot listen on {HOST}, port {port}: {said}; choose another with --port") from error
    return bound


class _Severable(H11Protocol):
    """Hands the application a way to end its connection in the middle of an answer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, CLOSE: transport.close}


class _Running(uvicorn.Server):
    """Ends when `should_exit` is set.  Signals are its caller's."""

    def __init__(self, scripts: Scripts, started: Callable[[], None]) -> None:
        self._told = started
        super().__init__(
            uvicorn.Config(
                make_app(scripts),
                http=_Severable,
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=END_MAX_S,
                timeout_keep_alive=IDLE_S,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._told()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for connection in list(self.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.close()
        await super().shutdown(sockets)
