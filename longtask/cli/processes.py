"""`--processes N`: the page and the API in N processes that take connections from one socket, and a parent that looks
after them.

Python runs on one core of a process; N of them use N.  They share the socket and the database and nothing else, as
several servers do: limits hold for each of them, and `/metrics` tells of the one that answers.  One that dies is
started anew.  Each ends in order as soon as its standard input does, so none outlives the parent, however that ends.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

from longtask.config import DATABASE, HOME, Config
from longtask.core.errors import StoreError

log = logging.getLogger("longtask.server")

LOOK_EVERY_S = 0.1
AGAIN_S = 1.0  # so long after one has died another is started
END_MAX_S = 20.0  # longer than what is being answered may take

Process = subprocess.Popen[bytes]


class Processes:
    """`words`: of the command that serves on a socket which it is given by number.  `ready` is called when all do."""

    def __init__(self, config: Config, words: Sequence[str], count: int, ready: Callable[[], None]) -> None:
        self._words, self._count, self._ready = words, count, ready
        self._environment = {**os.environ, HOME: str(config.home), DATABASE: config.database}
        self._over = threading.Event()

    def run(self, sockets: list[socket.socket]) -> None:
        """Until `end`, on one socket.  Raises StoreError if they do not start."""
        [bound] = sockets
        running: list[Process] = []
        try:
            running += [self._start(bound) for _ in range(self._count)]
            for process in running:
                assert process.stdout is not None
                if not process.stdout.readline() and not self._over.is_set():
                    raise StoreError("a process of the server did not start; what it has told stands above")
            if not self._over.is_set():
                self._ready()
            while not self._over.wait(LOOK_EVERY_S):
                for n, process in enumerate(running):
                    if process.poll() is None:
                        continue
                    log.error("server.died pid=%d code=%d", process.pid, process.returncode)
                    if not self._over.wait(AGAIN_S):
                        _end([process])
                        running[n] = self._start(bound)
        finally:
            _end(running)

    def end(self) -> None:
        self._over.set()

    def _start(self, bound: socket.socket) -> Process:
        number = bound.fileno()
        return subprocess.Popen(
            [sys.executable, "-m", "longtask.cli.main", *self._words, "--serve-fd", str(number), "--json"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(number,),
            start_new_session=True,  # Ctrl-C is the parent's
            env=self._environment,
        )


def _end(running: Sequence[Process]) -> None:
    for process in running:
        assert process.stdin is not None
        process.stdin.close()
    for process in running:
        try:
            process.wait(END_MAX_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def end_with_parent(end: Callable[[], None]) -> None:
    """In such a process: as soon as nobody holds the other end of its standard input."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        end()

    threading.Thread(target=wait, name="parent", daemon=True).start()
