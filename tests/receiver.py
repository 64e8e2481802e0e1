"""A program elsewhere: an HTTP server on loopback that keeps what it is sent, and answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DEADLINE_S = 30.0


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]  # names in small letters
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer = int | tuple[int, dict[str, str], bytes]


class Receiver:
    """`answer`: what the next requests are answered, one after another, the last one again and again; or a function."""

    def __init__(self, *answers: Answer) -> None:
        self.got: list[Received] = []
        self.answer: Callable[[Received], Answer] = self._next
        self._answers = list(answers or (204,))
        self._change = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.take(self, Received(self.path, headers, self.rfile.read(length)))

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def take(self, handler: BaseHTTPRequestHandler, received: Received) -> None:
        with self._change:
            self.got.append(received)
            self._change.notify_all()
        answer = self.answer(received)
        status, headers, body = answer if isinstance(answer, tuple) else (answer, {}, b"")
        with suppress(OSError):  # whoever asked may be gone
            handler.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(body)

    def _next(self, _: Received) -> Answer:
        with self._change:
            return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def wait(self, count: int = 1) -> list[Received]:
        """Until it has got so many."""
        with self._change:
            assert self._change.wait_for(lambda: len(self.got) >= count, DEADLINE_S), f"got {len(self.got)} of {count}"
            return list(self.got)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def receiving(*answers: Answer) -> Iterator[Receiver]:
    made = Receiver(*answers)
    try:
        yield made
    finally:
        made.close()
