"""A connection that breaks: in front of a real server, and cut at any byte of its answers."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

RESET = struct.pack("ii", 1, 0)  # closes with a reset, as a machine that has lost its network does
BLOCK = 65_536


@dataclass
class Cutter:
    """`cuts`: so many bytes of answers each new connection lets through before it breaks; none left: all.  At 0 the
    request is carried out, and its answer is lost.  -1: the request does not arrive."""

    port: int
    cuts: list[int] = field(default_factory=list)
    connections: int = 0
    abrupt: bool = True  # a reset takes along what nobody has read yet; else all that was let through arrives

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listening.getsockname()[1]}"

    def __post_init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []

    def serve(self) -> None:
        while True:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            self.connections += 1
            cut = self.cuts.pop(0) if self.cuts else None
            if cut == -1:
                _reset(client)
                continue
            server = socket.create_connection(("127.0.0.1", self.port))
            self._open += [client, server]
            for work in (_forward, _back):
                threading.Thread(target=work, args=(self, client, server, cut), daemon=True).start()

    def cut(self) -> None:
        """All that is open breaks."""
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        for one in self._open:
            one.close()


def _forward(cutter: Cutter, client: socket.socket, server: socket.socket, cut: int | None) -> None:
    with suppress(OSError):
        while content := client.recv(BLOCK):
            server.sendall(content)
    with suppress(OSError):
        server.shutdown(socket.SHUT_RDWR)


def _back(cutter: Cutter, client: socket.socket, server: socket.socket, cut: int | None) -> None:
    told = 0
    with suppress(OSError):
        while content := server.recv(BLOCK):
            part = content if cut is None else content[: cut - told]
            client.sendall(part)
            told += len(part)
            if told == cut:
                break
    for line in (client, server):
        with suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)  # wakes the other thread too, which a close alone does not
    if cutter.abrupt:
        _reset(client)


def _reset(line: socket.socket) -> None:
    with suppress(OSError):
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        line.close()


@contextmanager
def cutting(port: int, *cuts: int) -> Iterator[Cutter]:
    made = Cutter(port, list(cuts))
    thread = threading.Thread(target=made.serve, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.close()
        thread.join()
