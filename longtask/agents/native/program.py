"""One launch of an agent's own program: what it writes, line by line, and its end.

Everything is done by one thread: `next` waits for the next event of the program, and serves what was given to `watch`
meanwhile.  A program that is not read waits; so the caller may take its time between two events.

`kill` ends the program with all that it has started, also what has a session of its own: each process carries the mark
of its launch in its environment.  What `kill` does not see, the attempt's warden does.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from longtask.core.errors import LongTaskError
from longtask.core.model import JsonMap

MARK = "LONGTASK_LAUNCH"
READ_BYTES = 256 * 1024
LINE_BYTES_MAX = 64 * 1024 * 1024
SAID_BYTES = 8_000  # of stderr, its last
SWEEPS = 20  # each finds what was started since the one before
SWEEP_S = 0.02


class ProgramError(LongTaskError):
    """The program does not speak as agreed."""


class Launch:
    """`feed`: written to its stdin, which then ends; None: it stays open for `send`.

    `descriptors`: kept open for it.  Raises OSError when it cannot be started."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        feed: bytes | None,
        descriptors: Sequence[int] = (),
    ) -> None:
        self._mark = uuid.uuid4().hex
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**env, MARK: self._mark},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=tuple(descriptors),
            start_new_session=True,
            bufsize=0,
        )
        self._selector = selectors.DefaultSelector()
        self._lines: deque[bytes] = deque()
        self._rest = bytearray()
        self._said = bytearray()
        self._to_send = bytearray(feed or b"")
        self._ends_input = feed is not None
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._stdin, self._open = self._process.stdin, {self._process.stdout, self._process.stderr}
        self._own = {self._stdin, *self._open}
        for stream in (self._stdin, *self._open):
            os.set_blocking(stream.fileno(), False)
        self._selector.register(self._process.stdout, selectors.EVENT_READ, self._read_out)
        self._selector.register(self._process.stderr, selectors.EVENT_READ, self._read_err)
        self._writing = False
        self._flush()

    def watch(self, descriptor: int, ready: Callable[[], None]) -> None:
        """`ready` is called within `next` whenever there is something to read."""
        self._selector.register(descriptor, selectors.EVENT_READ, ready)

    def send(self, message: JsonMap) -> None:
        self._to_send += json.dumps(message, separators=(",", ":")).encode() + b"\n"
        self._flush()

    def next(self, within_s: float) -> JsonMap | None:
        """The next event; None: it has ended; empty: something that is watched was served, or nothing came for so
        long."""
        until = time.monotonic() + within_s
        while True:
            while self._lines:
                event = _event(self._lines.popleft())
                if event is not None:
                    return event
            if not self._open:
                return None
            left = until - time.monotonic()
            if left <= 0:
                return {}
            served = False
            for key, _ in self._selector.select(left):
                key.data()
                served = served or key.fileobj not in self._own
            if served and not self._lines:
                return {}

    def wait(self, within_s: float = 10.0) -> int:
        """Its exit code, below zero for a signal.  Its streams have ended, so it is about to end."""
        self._close_input()
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait()

    def kill(self) -> None:
        """All of it, verified; returns when nothing is left, or nothing more can be done."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for _ in range(SWEEPS):
            found = [pid for pid in _marked(self._mark) if pid != os.getpid()]
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not found:
                break
            time.sleep(SWEEP_S)
        self._process.wait()

    @property
    def said(self) -> str:
        """The last of what it has written to stderr."""
        return self._said.decode(errors="replace").strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._selector.close()
        for stream in (self._stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    # streams

    def _read_out(self) -> None:
        assert self._process.stdout is not None
        content = self._read(self._process.stdout)
        *lines, rest = (bytes(self._rest) + content).split(b"\n")
        self._lines += (line for line in lines if line.strip())
        self._rest = bytearray(rest)
        if len(self._rest) > LINE_BYTES_MAX:
            raise ProgramError(f"the program wrote a line of more than {LINE_BYTES_MAX} bytes")

    def _read_err(self) -> None:
        assert self._process.stderr is not None
        self._said += self._read(self._process.stderr)
        del self._said[:-SAID_BYTES]

    def _read(self, stream: IO[bytes]) -> bytes:
        descriptor = stream.fileno()
        try:
            content = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return b""
        if not content:
            self._selector.unregister(descriptor)
            self._open.discard(stream)
        return content

    def _flush(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            while self._to_send and not self._stdin.closed:
                try:
                    del self._to_send[: os.write(self._stdin.fileno(), self._to_send)]
                except BlockingIOError:
                    break
        if self._to_send and not self._writing and not self._stdin.closed:
            self._selector.register(self._stdin, selectors.EVENT_WRITE, self._flush)
            self._writing = True
        elif not self._to_send:
            if self._writing:
                self._selector.unregister(self._stdin)
                self._writing = False
            if self._ends_input:
                self._close_input()

    def _close_input(self) -> None:
        if self._writing:
            self._selector.unregister(self._stdin)
            self._writing = False
        with contextlib.suppress(OSError):
            self._stdin.close()


def _event(line: bytes) -> JsonMap | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def _marked(mark: str) -> list[int]:
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in Path(entry.path, "environ").read_bytes().split(b"\0") and _lives(entry.path):
                    found.append(int(entry.name))
    return found


def _lives(process: str) -> bool:
    return Path(process, "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
