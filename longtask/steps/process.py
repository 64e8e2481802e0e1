"""One process tree of an attempt, as its worker sees it: start, poll, read, stop.

Nothing here blocks, and nothing is raised for a program that cannot be started: that is an `Exit` too. A warden
(`warden.py`) stands between the worker and the program; an exit is told only after the whole tree is dead.

- A shell text is run by `bash --noprofile --norc -eo pipefail -c`, or `sh -e -c` where there is no bash: a failing
  line fails the step. Not `-u`: unset variables are common in scripts that work.
- The program gets exactly the environment that is handed in, plus its mark. `allowed_environment` makes one out of
  the worker's own: names that carry no secrets, and beyond them only what is asked for by name.
- Output that nobody reads makes the program wait, never the worker.
- One thread uses a `Process`; `hold` and `kill` may come from any other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from longtask.core.errors import NotFound
from longtask.redaction import Mask
from longtask.steps import warden
from longtask.steps.frames import FRAMES_FD, Decoder, Frame, FrameError, encode

READ_BYTES_MAX = 256 * 1024  # of one call of `read` or `frames`: a flood must not stop the worker's other steps
PIPE_BYTES = 256 * 1024  # more than the system's 64 KiB, so that a program seldom waits for the worker's next round
CONTENT_BYTES_MAX = 64 * 1024
DYING_MS = 20
FRAMES_PENDING_BYTES_MAX = 64 * 1024 * 1024

# No secrets in these.  HOME is among them: agents and git find their logins there, as they do for the user.
ALLOWED = frozenset(
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ LD_LIBRARY_PATH DYLD_LIBRARY_PATH SSL_CERT_FILE SSL_CERT_DIR "
    "REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO PIP_CERT "
    "XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR".split()
)
PROXIES = frozenset("http_proxy https_proxy no_proxy all_proxy".split())  # unless they hold a password


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process tree ended."""

    code: int | None = None  # of the program; None: killed by a signal, or it never ran
    signal: int | None = None
    tree_dead: bool = True  # False: something of it cannot be killed (another user's process, a hung disk)
    stopped: bool = False  # `stop` or `kill` came before the program had ended
    stragglers: int = 0  # processes that the program had left behind; they were killed
    start_failed: str | None = None  # why the program was never started
    warden_lost: bool = False  # somebody killed the warden: how the program ended is not known


@dataclass(frozen=True, slots=True)
class Chunk:
    stream: str  # stdout, stderr
    content: bytes


class Process:
    """Made by `Process.start`.  Drop it after `close`, or after `poll` gave an Exit and `read` gave nothing."""

    def __init__(self, mark: str, hidden: Sequence[str] = ()) -> None:
        self.mark = mark
        self._hidden = hidden
        self._masks: dict[str, Mask] = {}  # by stream
        self.pid: int | None = None  # of the program, once it runs
        self._warden: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._frames: socket.socket | None = None
        self._streams: dict[str, int] = {}
        self._heard = bytearray()
        self._to_warden = bytearray()
        self._telling = threading.Lock()  # guards it, and the sending of it
        self._to_program = bytearray()
        self._decoder = Decoder()
        self._told: Exit | None = None
        self._exit: Exit | None = None
        self._sweeper: subprocess.Popen[bytes] | None = None
        self._alive_at = _now_ms()

    @classmethod
    def start(
        cls,
        command: Sequence[str] | str,
        *,
        cwd: str | Path,
        env: Mapping[str, str],
        mark: str,
        frames: bool = False,
        stdin: bytes = b"",
        merge_stderr: bool = False,
        sweep: bool = True,
        secrets: Sequence[str] = (),
        inside: Sequence[str] = (),
    ) -> Self:
        """Returns before the program runs.  `command` as text is for the shell.

        `mark`: `TASK/STEP/ATTEMPT`. `sweep`: first kill what older attempts of the step have left on this host.
        `frames`: the program inherits a socket, see `frames.py`. `merge_stderr`: all comes as stdout, in its order.
        `secrets`: names in `env` whose values are masked in all that comes back. `inside`: words that go before the
        command and put it into its sandbox.
        """
        assert warden.attempt_of(mark) is not None, f"mark '{mark}': TASK/STEP/ATTEMPT"
        bury()
        process = cls(mark, [env[name] for name in secrets if name in env])
        try:
            argv = shell(command, env) if isinstance(command, str) else list(command)
            process._launch([*inside, *argv], Path(cwd).absolute(), dict(env), frames, stdin, merge_stderr, sweep)
        except (OSError, ValueError, IndexError) as error:
            process.close()
            process._exit = Exit(start_failed=f"cannot start {str(command)[:100]!r}: {error}")
        return process

    def _launch(
        self, argv: list[str], cwd: Path, env: dict[str, str], frames: bool, stdin: bytes, merge: bool, sweep: bool
    ) -> None:
        if not argv:
            raise ValueError("an empty command")
        with contextlib.ExitStack() as theirs:
            self._control, control = socket.socketpair()
            theirs.callback(control.close)
            frames_fd = -1
            if frames:
                self._frames, program_side = socket.socketpair()
                theirs.callback(program_side.close)
                self._frames.setblocking(False)
                frames_fd = program_side.fileno()
                env[FRAMES_FD] = str(frames_fd)
            fds = [_stdin(stdin)]
            theirs.callback(os.close, fds[0])
            for stream in ["stdout"] if merge else ["stdout", "stderr"]:
                self._streams[stream], writing = _pipe()
                theirs.callback(os.close, writing)
                fds.append(writing)
            env.pop(warden.WARDEN, None)
            env[warden.MARK] = self.mark
            self._to_warden += warden.pack(str(cwd), sweep, self.mark, argv, env)
            numbers = [control.fileno(), *fds[:2], fds[-1], frames_fd, os.getpid()]
            self._control.setblocking(False)
            self._warden = _run_warden(["watch", *map(str, numbers)], self.mark, [fd for fd in numbers[:-1] if fd >= 0])
        self._flush()

    def poll(self) -> Exit | None:
        """None while anything of the tree lives.  Also sends on what could not be sent at once: call it often."""
        if self._exit is None:
            self._flush()
            self._hear()
            if self._told is not None and (not self._told.tree_dead or self._warden_buried()):
                self._exit = self._told
            elif self._told is None and self._warden_buried():
                self._exit = self._search()
            if self._exit is not None:
                self._close_control()
                self._let_go()
        return self._exit

    def read(self) -> list[Chunk]:
        """What has been written since, 256 KiB at most.  After an Exit: nothing means that there will be no more."""
        found: list[Chunk] = []
        for _ in range(READ_BYTES_MAX // CONTENT_BYTES_MAX):
            for stream, fd in list(self._streams.items()):
                try:
                    content = os.read(fd, CONTENT_BYTES_MAX // len(self._streams))
                except BlockingIOError:
                    # A pipe that stays open after the end is held by a process outside the tree.
                    if self._exit is None:
                        continue
                    content = b""
                mask = self._masks.setdefault(stream, Mask(self._hidden, shapes=False))
                if content:
                    shown = mask.feed(content)
                else:
                    os.close(self._streams.pop(stream))
                    shown = mask.rest()
                if shown:
                    found.append(Chunk(stream, shown))
            if not self._streams:
                break
        if found:
            self._alive_at = _now_ms()
        return found

    def send_frame(self, frame: Mapping[str, Any]) -> None:
        """To the program; kept until it reads.  Raises FrameError for a bad frame and when far too much is kept."""
        content = encode(frame)
        if len(self._to_program) + len(content) > FRAMES_PENDING_BYTES_MAX:
            raise FrameError(f"process '{self.mark}': does not read its frames, {len(self._to_program)} bytes wait")
        if self._frames is not None:
            self._to_program += content
            self._flush()

    def frames(self) -> list[Frame]:
        """Frames of the program that have come since.  Raises FrameError when it does not speak as agreed."""
        found: list[Frame] = []
        taken = 0
        while self._frames is not None and taken < READ_BYTES_MAX:
            try:
                content = self._frames.recv(CONTENT_BYTES_MAX)
            except BlockingIOError:
                if self._exit is None:
                    break
                content = b""
            except OSError:
                content = b""
            if not content:
                self._frames.close()
                self._frames = None
                break
            taken += len(content)
            self._alive_at = _now_ms()
            found += [Mask(self._hidden, shapes=False).value(frame) for frame in self._decoder.feed(content)]
        return found

    def stop(self, grace_ms: int) -> None:
        """SIGTERM to the whole tree, SIGKILL after the grace; a later call can shorten it.  Returns at once."""
        self._order(f"stop {grace_ms}\n")

    def kill(self) -> None:
        """SIGKILL to the whole tree.  Returns at once; `poll` tells when it is dead."""
        self._order("kill\n")

    def hold(self, until_ms: int) -> None:
        """The tree may live until then, by the monotonic clock, and no longer; a later call prolongs it.

        Its warden sees to that, so it holds though the worker hangs or is frozen.  Never told: no limit."""
        self._order(f"hold {until_ms}\n")

    def silent_ms(self) -> int:
        """Since the last output or frame that was read, or the start; 0 while there is something to read."""
        waiting = [*self._streams.values(), *([self._frames.fileno()] if self._frames else [])]
        return 0 if _readable(waiting) else _now_ms() - self._alive_at

    def filenos(self) -> list[int]:
        """For a select on reading: when one is ready, `read`, `frames` or `poll` may have something.  Changes."""
        sockets = [sock.fileno() for sock in (self._control, self._frames) if sock is not None]
        return [*sockets, *self._streams.values()]

    def filenos_to_write(self) -> list[int]:
        """For a select on writing: when one is ready, `poll` can send on what waits.  Mostly empty."""
        pairs = ((self._control, self._to_warden), (self._frames, self._to_program))
        return [sock.fileno() for sock, pending in pairs if sock is not None and pending]

    def close(self) -> None:
        """Lets go of everything; a tree that still lives is killed by its warden."""
        self._close_control()
        if self._frames is not None:
            self._frames.close()
            self._frames = None
        while self._streams:
            os.close(self._streams.popitem()[1])
        self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The warden.

    def _order(self, line: str) -> None:
        if self._exit is None and self._told is None:
            with self._telling:
                self._to_warden += line.encode()
            self._flush_control()

    def _flush(self) -> None:
        self._flush_control()
        if self._frames is not None and self._to_program:
            _send(self._frames, self._to_program)

    def _flush_control(self) -> None:
        with self._telling:
            if self._control is not None and self._to_warden:
                _send(self._control, self._to_warden)

    def _hear(self) -> None:
        while self._control is not None:
            try:
                content = self._control.recv(4096)
            except BlockingIOError:
                break
            except OSError:
                content = b""
            if not content:
                self._close_control()
            self._heard += content
        *lines, rest = bytes(self._heard).split(b"\n")
        self._heard[:] = rest
        for line in lines:
            word, _, text = os.fsdecode(line).partition(" ")
            if word == "started":
                self.pid = int(text)
            elif word == "failed":
                self._told = Exit(start_failed=text)
            else:
                self._told = _exit(text)

    def _close_control(self) -> None:
        with self._telling:
            if self._control is not None:
                self._control.close()
                self._control = None

    def _warden_buried(self) -> bool:
        if self._control is not None or self._warden is None:
            return False
        try:
            self._warden.wait(DYING_MS / 1000)  # its end of the socket is closed: it is dying at this moment
        except subprocess.TimeoutExpired:
            return False
        return True

    def _let_go(self) -> None:
        bury([child for child in (self._warden, self._sweeper) if child is not None])
        self._warden = self._sweeper = None

    def _search(self) -> Exit | None:
        """The warden is dead and has told nothing: another process kills what carries the mark."""
        if self._sweeper is None:
            try:
                self._sweeper = _run_warden(["sweep", self.mark], "", [])
            except OSError:
                return None  # no process or file can be had just now; tried again at the next poll
        dead = self._sweeper.poll()
        return None if dead is None else Exit(tree_dead=dead == 0, warden_lost=True)


def shell(text: str, env: Mapping[str, str]) -> list[str]:
    """The command that runs a shell text."""
    bash = shutil.which("bash", path=env.get("PATH", os.defpath))
    return [bash, "--noprofile", "--norc", "-eo", "pipefail", "-c", text] if bash else ["/bin/sh", "-e", "-c", text]


def allowed_environment(
    extra: Mapping[str, str], names: Sequence[str] = (), source: Mapping[str, str] | None = None
) -> dict[str, str]:
    """A program's environment: what is harmless in `source` (the worker's own), what `names` asks for, then `extra`.

    Raises NotFound for a name that is asked for and not there: a step without its secret fails in stranger ways.
    """
    source = os.environ if source is None else source
    env = {"PATH": os.defpath, "TERM": "dumb"}
    for name, value in source.items():
        proxy = name.lower() in PROXIES and "@" not in value
        if name in ALLOWED or name.startswith("LC_") or proxy:
            env[name] = value
    missing = [name for name in names if name not in source and name not in extra]
    if missing:
        listed = ", ".join(f"'{name}'" for name in missing)
        raise NotFound(f"environment of the worker: no {listed}; set it where the worker is started")
    env.update({name: source[name] for name in names if name in source})
    env.update(extra)
    return env


# Wardens that outlive their `Process` (it was closed, or something cannot be killed); they must not stay zombies.
_left: list[subprocess.Popen[bytes]] = []
_left_lock = threading.Lock()


def bury(fresh: Sequence[subprocess.Popen[bytes]] = ()) -> int:
    """Reaps wardens that have ended; returns how many still live.  Done at each start and close, too."""
    with _left_lock:
        _left[:] = [child for child in (*_left, *fresh) if child.poll() is None]
        return len(_left)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _exit(text: str) -> Exit:
    code, signal_number, dead, stopped, stragglers = text.split()
    return Exit(
        code=None if code == "-" else int(code),
        signal=None if signal_number == "-" else int(signal_number),
        tree_dead=dead == "1",
        stopped=stopped == "1",
        stragglers=int(stragglers),
    )


def _run_warden(arguments: list[str], mark: str, fds: Sequence[int]) -> subprocess.Popen[bytes]:
    env = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}
    if mark:
        env |= {warden.MARK: mark, warden.WARDEN: "1"}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", warden.__file__, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=env,
        pass_fds=fds,
        start_new_session=True,
    )


def _pipe() -> tuple[int, int]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # a user may have only so much of it
            fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return reading, writing


def _stdin(content: bytes) -> int:
    """A file, not a pipe: nobody has to feed it."""
    if not content:
        return os.open(os.devnull, os.O_RDONLY)
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        return os.dup(file.fileno())


def _send(sock: socket.socket, pending: bytearray) -> None:
    try:
        while pending:
            del pending[: sock.send(pending[:65536])]
    except BlockingIOError:
        pass
    except OSError:  # nobody reads any more; `poll` will hear of it
        pending.clear()


def _readable(fds: Sequence[int]) -> bool:
    poller = select.poll()  # unlike select, it knows no largest number
    for fd in fds:
        poller.register(fd, select.POLLIN)
    return any(event & select.POLLIN for _, event in poller.poll(0))
