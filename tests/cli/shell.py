"""Calls the installed `longtask` as a user does: in a folder, with a home of its own, piped or on a terminal.

Nothing waits for a fixed time: what takes its time is polled, up to a deadline that only a broken program meets.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from longtask.cli.app import call

LONGTASK = str(Path(sys.executable).with_name("longtask"))
DEADLINE_S = 60
POLL_S = 0.02
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[=>])")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class Shell:
    """`home`: LONGTASK_HOME of all calls; `cwd`: where they are made."""

    home: Path
    cwd: Path
    env: dict[str, str] = field(default_factory=dict)

    def environment(self, **more: str) -> dict[str, str]:
        path = f"{Path(LONGTASK).parent}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "LONGTASK_HOME": str(self.home), "LONGTASK_USER": "ann", **self.env, **more}

    def __call__(self, *words: str, code: int | None = 0, env: Mapping[str, str] | None = None) -> Result:
        """`code`: the exit code that is meant; None: any."""
        done = subprocess.run(
            [LONGTASK, *words],
            cwd=self.cwd,
            env=self.environment(**(env or {})),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE_S,
        )
        found = Result(done.returncode, done.stdout.decode(), done.stderr.decode())
        if code is not None:
            assert found.code == code, f"longtask {' '.join(words)} ended with {found.code}: {found.out}{found.err}"
        return found

    def here(self, *words: str, code: int | None = 0, env: Mapping[str, str] | None = None) -> Result:
        """The same without starting Python anew, for calls of which a test makes many."""
        contents = [io.BytesIO(), io.BytesIO()]
        out, err = (io.TextIOWrapper(content, "utf-8") for content in contents)
        before = (os.getcwd(), dict(os.environ), sys.argv)
        try:
            os.chdir(self.cwd)
            os.environ.update(self.environment(**(env or {})))
            sys.argv = [LONGTASK]
            with open(os.devnull) as nothing, redirect_stdout(out), redirect_stderr(err), _stdin(nothing):
                ended = call(words)
        finally:
            os.chdir(before[0])
            os.environ.clear()
            os.environ.update(before[1])
            sys.argv = before[2]
        for stream in (out, err):
            stream.flush()
        texts = [content.getvalue().decode() for content in contents]
        if code is not None:
            assert ended == code, f"longtask {' '.join(words)} ended with {ended}: {texts}"
        return Result(ended, *texts)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [LONGTASK, *words],
            cwd=self.cwd,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def plan(self, text: str, name: str = "longtask.yaml") -> str:
        (self.cwd / name).write_text(text)
        return name

    # processes

    def workers(self) -> list[int]:
        """Background workers of this home, by pid."""
        return [pid for pid, words in _processes(f"LONGTASK_HOME={self.home}") if "worker" in words]

    def processes(self) -> list[int]:
        """Whatever was started with this home and still lives."""
        return [pid for pid, _ in _processes(f"LONGTASK_HOME={self.home}")]

    def sweep(self) -> None:
        """Ends the workers of this home; their wardens end the rest."""
        for pid in self.workers():
            _kill(pid)
        until(lambda: not self.workers())


@contextmanager
def _stdin(stream: TextIO) -> Iterator[None]:
    before, sys.stdin = sys.stdin, stream
    try:
        yield
    finally:
        sys.stdin = before


def _kill(pid: int, number: int = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _processes(mark: str) -> Iterator[tuple[int, list[str]]]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name), (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue


def until(true: Callable[[], Any], deadline_s: float = DEADLINE_S) -> Any:
    """What `true` answers when it is not empty any more."""
    end = time.monotonic() + deadline_s
    while not (found := true()):
        assert time.monotonic() < end, "it did not come to that in time"
        select.select([], [], [], POLL_S)
    return found


class Terminal:
    """`longtask …` on a terminal of its own.  `screen`: all that it has written, without escape sequences."""

    def __init__(self, shell: Shell, *words: str, columns: int = 100, rows: int = 30, **env: str) -> None:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)  # before the program looks
            os.chdir(shell.cwd)
            os.execve(LONGTASK, [LONGTASK, *words], shell.environment(**{"TERM": "xterm-256color", **env}))
        self.raw = b""
        self._seen = 0

    @property
    def screen(self) -> str:
        return _ESCAPES.sub("", self.raw.decode(errors="replace")).replace("\r", "")

    def _read(self, wait_s: float) -> bool:
        """False: it has ended."""
        if not select.select([self._fd], [], [], wait_s)[0]:
            return True
        try:
            got = os.read(self._fd, 65_536)
        except OSError:  # the other side is closed
            return False
        self.raw += got
        return bool(got)

    def wait_for(self, text: str, deadline_s: float = DEADLINE_S) -> None:
        """Until it has written this, beyond what it had written at the last call."""
        end = time.monotonic() + deadline_s
        while (at := self.screen.find(text, self._seen)) < 0:
            assert time.monotonic() < end, f"{text!r} did not come; the screen is:\n{self.screen[-3_000:]}"
            assert self._read(0.1) or text in self.screen, f"it ended before {text!r}:\n{self.screen[-3_000:]}"
        self._seen = at + len(text)

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def end(self, deadline_s: float = DEADLINE_S) -> int:
        """Its exit code."""
        end = time.monotonic() + deadline_s
        while self._read(0.1):
            assert time.monotonic() < end, f"it does not end; the screen is:\n{self.screen[-3_000:]}"
        _, status = os.waitpid(self.pid, 0)
        os.close(self._fd)
        return os.waitstatus_to_exitcode(status)

    def hang_up(self) -> None:
        """Closes the terminal, as a user closes the window."""
        os.close(self._fd)
        os.waitpid(self.pid, 0)
