"""One shell command of an agent: run to its end, its output bounded, its process group gone when it answers.

The command's effect must be over when its call is journaled, since the worktree is saved then: what it has left in its
process group is killed.  What has left the group (`setsid`) lives until the attempt ends and the warden kills it.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HEAD_BYTES, TAIL_BYTES = 8_000, 24_000  # the start says what it was, the end how it went
READ_BYTES = 65_536
DRAIN_READS_MAX = 32  # 2 MB: more than a pipe holds
DYING_S = 0.5  # a killed process is gone in less, but for one that its new parent does not bury
TICK_S = 0.05  # where the end of a process cannot be waited for together with its output


@dataclass(frozen=True, slots=True)
class Finished:
    text: str  # stdout and stderr in their order
    exit_code: int | None  # None: killed by a signal, or by us
    signal: int | None = None
    timed_out: bool = False


class Output:
    """What comes through a pipe: shown as it comes, kept as its first and its last part."""

    def __init__(self, pipe: int, show: Callable[[str], None]) -> None:
        os.set_blocking(pipe, False)
        self.pipe = pipe
        self._show = show
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def read(self) -> bool:
        """False: there is nothing to read now."""
        try:
            content = os.read(self.pipe, READ_BYTES)
        except BlockingIOError:
            return False
        if not content:
            return False
        self._show(self._decoder.decode(content))
        room = HEAD_BYTES - len(self._head)
        self._head += content[: max(room, 0)]
        self._tail += content[max(room, 0) :]
        if len(self._tail) > 2 * TAIL_BYTES:
            self._drop()
        return True

    def drain(self) -> None:
        """What the pipe still holds; what left the group may go on writing, so there is an end to it."""
        for _ in range(DRAIN_READS_MAX):
            if not self.read():
                break

    def text(self) -> str:
        if len(self._tail) > TAIL_BYTES:
            self._drop()
        if not self._dropped:
            return (self._head + self._tail).decode(errors="replace")
        middle = f"\n… ({self._dropped} bytes left out)\n"
        return self._head.decode(errors="replace") + middle + self._tail.decode(errors="replace")

    def _drop(self) -> None:
        excess = len(self._tail) - TAIL_BYTES
        self._dropped += excess
        del self._tail[:excess]


def run(
    command: str,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    show: Callable[[str], None],
    inside: Sequence[str] = (),
) -> Finished:
    """`show` hears the output as it comes.  `inside`: words that put the shell into its sandbox.

    Raises OSError when there is no shell."""
    bash = shutil.which("bash", path=env.get("PATH", os.defpath))
    argv = [bash, "--noprofile", "--norc", "-c", command] if bash else ["/bin/sh", "-c", command]
    with subprocess.Popen(
        [*inside, *argv],
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        bufsize=0,
    ) as process:
        assert process.stdout is not None
        output = Output(process.stdout.fileno(), show)
        timed_out = not _watch(process.pid, time.monotonic() + timeout_s, output)
        # Before it is reaped: until then nobody else can have its number.
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS says EPERM of a group of zombies
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        _outlive(process.pid)
        output.drain()
    return Finished(
        output.text(),
        exit_code=code if code >= 0 and not timed_out else None,
        signal=-code if code < 0 and not timed_out else None,
        timed_out=timed_out,
    )


def _watch(pid: int, until: float, output: Output) -> bool:
    """To the end of the process, not of its output: a left-over may hold the pipe open.  False: out of time."""
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as open_fds:
        selector.register(output.pipe, selectors.EVENT_READ)
        end = _end_of(pid)
        if end is not None:
            open_fds.callback(os.close, end)
            selector.register(end, selectors.EVENT_READ)
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            left = until - time.monotonic()
            if left <= 0:
                return False
            ready = {key.fd for key, _ in selector.select(left if end is not None else min(left, TICK_S))}
            if output.pipe in ready and not output.read():
                selector.unregister(output.pipe)  # its end
    return True


def _outlive(group: int) -> None:
    """Waits for what was killed: until then it may be in the middle of a write."""
    until = time.monotonic() + DYING_S
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < until:
            os.killpg(group, 0)
            time.sleep(0.001)


def _end_of(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None where the system has none."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
