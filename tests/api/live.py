"""A real server on a real socket of this machine, and a client that writes what no library would."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn

from longtask.api.access.listening import uvicorn_options
from longtask.api.app import create_app
from longtask.api.server import Server

WAIT_S = 60.0


@dataclass
class Answer:
    """`status` 0: the connection was closed without an answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def slug(self) -> str:
        """Of a problem."""
        return str(json.loads(self.body)["type"]).rpartition(":")[2]

    @property
    def detail(self) -> str:
        return str(json.loads(self.body)["detail"])

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Live:
    port: int

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def raw(self, sent: bytes, *, then: bytes | None = None) -> Answer:
        """Sends just these bytes, and `then` more until the server has had enough; reads one answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S) as line:
            try:
                line.sendall(sent)
                while then is not None and not _readable(line):
                    line.sendall(then)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has answered already
            return _read(line)

    def ask(self, request: str, *headers: str, body: bytes = b"") -> Answer:
        """`request` is such as `GET /v1/tasks`; a `Host` is added unless one is given."""
        lines = [f"{request} HTTP/1.1", *headers, "Connection: close"]
        if not any(header.lower().startswith("host:") for header in headers):
            lines.append(f"Host: {self.host}")
        if body:
            lines.append(f"Content-Length: {len(body)}")
        return self.raw("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def post(self, path: str, value: Any, *headers: str) -> Answer:
        return self.ask(f"POST {path}", "Content-Type: application/json", *headers, body=json.dumps(value).encode())


def _readable(line: socket.socket) -> bool:
    line.settimeout(0.001)
    try:
        return line.recv(1, socket.MSG_PEEK) is not None
    except TimeoutError:
        return False
    finally:
        line.settimeout(WAIT_S)


def _read(line: socket.socket) -> Answer:
    got = b""
    try:
        while b"\r\n\r\n" not in got and (piece := line.recv(65_536)):
            got += piece
        head, _, body = got.partition(b"\r\n\r\n")
        if not head:
            return Answer(0, {}, b"")
        first, *rest = head.decode("latin-1").split("\r\n")
        pairs = [entry.partition(":") for entry in rest]
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        length = int(headers.get("content-length", "-1"))
        while (length < 0 or len(body) < length) and (piece := line.recv(65_536)):
            body += piece
        body = body if length < 0 else body[:length]  # what is wrong may have been answered twice
    except ConnectionResetError:
        return Answer(0, {}, b"") if not got else Answer(int(got.split()[1]), {}, b"")
    return Answer(int(first.split()[1]), headers, body)


@contextmanager
def serving(server: Server, **options: Any) -> Iterator[Live]:
    config = uvicorn.Config(
        create_app(server), host="127.0.0.1", port=0, log_config=None, lifespan="on",
        timeout_graceful_shutdown=1, **{**uvicorn_options(server.settings.policy), **options},
    )  # fmt: skip
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    until = time.monotonic() + WAIT_S
    while not running.started:
        assert thread.is_alive() and time.monotonic() < until, "the server does not start"
        threading.Event().wait(0.005)
    try:
        yield Live(running.servers[0].sockets[0].getsockname()[1])
    finally:
        running.should_exit = True
        thread.join(WAIT_S)
        assert not thread.is_alive(), "the server does not end"
