"""The warden: one small process above the process tree of one attempt, so that nothing of it outlives its worker.

It is run by path (`python -I -S warden.py`), in a session of its own, and imports little, to be there in no time.
That is also why it is one long file: nothing of ours can be imported from there.

- It is a *subreaper*: whatever the tree starts, `setsid`, `nohup` and double forks included, becomes its child when
  the parent in between dies. So "`waitpid` says that I have no children" is the proof that the tree is dead, and an
  exit is reported after that proof only. Left-overs of a program that has ended are terminated, then killed.
- It holds a socket from the worker. End of the socket (the worker was killed) or `kill`: SIGKILL to all at once.
  `stop GRACE_MS`: SIGTERM to all, SIGKILL when the grace is over. What is born after that SIGTERM is somebody's
  clean-up, and is left alone until then.
- `hold UNTIL`, on the monotonic clock of this machine: SIGKILL to all at that instant, if no later `hold` comes before.
  So a worker that hangs, is frozen or cannot reach the store has no tree that outlives the attempt's lease.
- It ignores the signals that a terminal or a service manager sends to a whole group, and ends after its tree only.
  If it is killed itself, the program dies with it (PDEATHSIG), and its worker searches for the rest by mark.
- Each process of the tree carries a mark in its environment. Before a program starts, its warden kills what still
  carries the mark of an older attempt on this host; wardens last, since a tree without its warden scatters.

Out of its reach: what another service starts on behalf of the tree (a container engine, cron, `systemd-run`), and
processes of other users (`sudo`) if the worker is not root: those are reported as a tree that is not dead.
Without Linux (macOS) there is neither subreaper nor /proc: the process group of the program is killed, and whatever
has left that group lives on.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

MARK = "LONGTASK_MARK"  # TASK/STEP/ATTEMPT
WARDEN = "LONGTASK_WARDEN"  # set for a warden, and for no process of its tree

LEFTOVER_GRACE_MS = 500  # a left-over `git gc` removes its lock files on SIGTERM
ALONE_MS = 200  # a warden whose tree is dead ends by itself in a few; then it is one that has not begun
SWEEP_MS = 10_000
HOPELESS_MS = 10_000  # after so much killing, tell the worker that something does not die; then go on killing
PAUSE_MAX_MS = 50
LISTINGS_MAX = 5  # of a tree that is about to be asked to end, and grows meanwhile

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGUSR1)
_CHILDREN_LISTED = os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def prctl(option: int, value: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    return int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0)) == 0


# What the worker says first: the length in 8 bytes, then strings with a NUL between them.


def pack(cwd: str, sweep: bool, mark: str, argv: Sequence[str], env: Mapping[str, str]) -> bytes:
    """Raises ValueError for a string that no process can be given."""
    texts = [cwd, "sweep" if sweep else "", mark, str(len(argv)), *argv]
    texts += [f"{name}={value}" for name, value in env.items()]
    if any("\0" in text for text in texts):
        raise ValueError("a NUL character in the command, the folder or the environment")
    body = b"\0".join(os.fsencode(text) for text in texts)
    return len(body).to_bytes(8, "big") + body


class Request:
    def __init__(self, body: bytes) -> None:
        self.cwd, sweep, self.mark, count, *rest = (os.fsdecode(part) for part in body.split(b"\0"))
        self.sweep = sweep == "sweep"
        self.argv = rest[: int(count)]
        self.env = dict(pair.split("=", 1) for pair in rest[int(count) :])


# Reading /proc.


class Stat:
    __slots__ = ("born", "parent", "zombie")

    def __init__(self, fields: list[bytes]) -> None:
        self.zombie = fields[0] in (b"Z", b"X")
        self.parent = int(fields[1])
        self.born = int(fields[19])  # clock ticks since boot; with the pid it names a process for ever


def stat(pid: int) -> Stat | None:
    """None: no such process (any more)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return Stat(file.read().rpartition(b")")[2].split())  # the name may contain spaces and parentheses
    except (OSError, IndexError):
        return None


def processes() -> dict[int, Stat]:
    """All living processes; zombies hold nothing and are left out.  Empty without /proc."""
    found = ((pid, stat(pid)) for pid in _pids())
    return {pid: seen for pid, seen in found if seen is not None and not seen.zombie}


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def children(pid: int) -> list[int]:
    found: list[int] = []
    if not _CHILDREN_LISTED:  # a kernel without CONFIG_PROC_CHILDREN
        for child in _pids():
            seen = stat(child)
            if seen is not None and seen.parent == pid:
                found.append(child)
        return found
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:
        pass  # it ended meanwhile; its children are listed by their new parent the next time
    return found


def descendants(pid: int) -> Iterator[tuple[int, Stat]]:
    """Parents before their children, so that a parent that is killed first starts no more of them."""
    queue = [pid]
    for parent in queue:
        for child in children(parent):
            seen = stat(child)
            if seen is not None and seen.parent in (parent, pid):
                queue.append(child)
                if not seen.zombie:
                    yield child, seen


def send(pid: int, seen: Stat, number: int) -> None:
    """Signals the process that was seen, never another one that got its pid meanwhile."""
    handle = -1
    try:
        if hasattr(os, "pidfd_open"):
            handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except OSError:
        pass  # an old kernel, or a sandbox that forbids it: the check below must do
    try:
        now = stat(pid)
        if now is None or now.born != seen.born:
            return
        if handle >= 0:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(pid, number)
    except OSError:
        pass  # dead already, or not ours to kill: whoever verifies will see
    finally:
        if handle >= 0:
            os.close(handle)


# Marks.


class Marked:
    """A living process that carries a mark."""

    __slots__ = ("mark", "pid", "warden")

    def __init__(self, pid: int, mark: str, warden: bool) -> None:
        self.pid = pid
        self.mark = mark
        self.warden = warden


def attempt_of(mark: str) -> int | None:
    """None: the mark names no attempt."""
    number = mark.rpartition("/")[2]
    return int(number) if number.isdecimal() else None


def find_marked(wanted: str, older_than: int | None = None) -> list[Marked]:
    """The processes of this host with such a mark.  `wanted` ends in `/`: all marks below it; else this one mark.

    `older_than`: only attempts with a smaller number.  Empty without /proc.  Processes of other users are not seen.
    """
    found = []
    for pid in _pids():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                content = file.read()
        except OSError:
            continue
        if os.fsencode(MARK) not in content:
            continue
        env = dict(os.fsdecode(pair).partition("=")[::2] for pair in content.split(b"\0"))
        mark = env.get(MARK, "")
        fits = mark == wanted or (wanted.endswith("/") and mark.startswith(wanted))
        if fits and (older_than is None or (attempt_of(mark) or 0) < older_than):
            found.append(Marked(pid, mark, WARDEN in env))
    return found


def kill_marked(wanted: str, older_than: int | None = None, within_ms: int = SWEEP_MS) -> list[int]:
    """Kills what `find_marked` finds, and its descendants; returns the pids that still live when the time is up.

    Blocks until they are dead, `within_ms` at most.  Never kills the caller or those above it.
    """
    started_at = now_ms()
    alone_at = 0
    pause_ms = 1
    while marked := find_marked(wanted, older_than):
        alive = processes()
        wardens = {entry.pid for entry in marked if entry.warden}
        doomed = _with_descendants({entry.pid for entry in marked}, alive) - _ancestors(os.getpid(), alive)
        if not doomed:
            return []
        now = now_ms()
        alone_at = 0 if doomed - wardens else alone_at or now
        for pid in doomed if alone_at and now >= alone_at + ALONE_MS else doomed - wardens:
            if pid in alive:
                send(pid, alive[pid], signal.SIGKILL)
        if now >= started_at + within_ms:
            return sorted(doomed)
        time.sleep(pause_ms / 1000)
        pause_ms = min(pause_ms * 2, PAUSE_MAX_MS)
    return []


def _ancestors(pid: int, alive: Mapping[int, Stat]) -> set[int]:
    found = {pid}
    while pid in alive and alive[pid].parent not in found:
        pid = alive[pid].parent
        found.add(pid)
    return found


def _with_descendants(roots: set[int], alive: Mapping[int, Stat]) -> set[int]:
    below: dict[int, list[int]] = {}
    for pid, seen in alive.items():
        below.setdefault(seen.parent, []).append(pid)
    queue = list(roots)
    for pid in queue:
        queue += [child for child in below.get(pid, ()) if child not in roots]
    return set(queue)


# The warden itself.


class Warden:
    def __init__(self, control: int, streams: tuple[int, ...], frames: int, worker: int) -> None:
        self.control = control  # -1: the worker is gone, or has been told all
        self.streams = streams
        self.frames = frames
        self.worker = worker  # pid
        self.heard = bytearray()
        self.main = 0  # pid of the program
        self.status: int | None = None  # of the program, as `wait` gives it
        self.failures = -1  # where the program-to-be says why it cannot start; ends when it has started
        self.failure = b""
        self.stopped = False  # a stop was asked while the program ran
        self.kill_at: int | None = None  # SIGKILL from then on; None: nobody has to die
        self.held_until: int | None = None  # so long the attempt's lease lasts; None: nobody has told
        self.terminate = False  # SIGTERM is due
        self.dead = True  # proven: nothing of the tree lives
        self.stragglers: set[int] = set()

    def guard(self) -> None:
        """Comes before everything else: from here on we outlive what we start."""
        self.wake, waker = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        # These do nothing but end a select.  SIGUSR2 also comes when only a thread of the worker has ended.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGUSR2, lambda *_: None)
        prctl(PR_SET_PDEATHSIG, signal.SIGUSR2)
        self.reaper = prctl(PR_SET_CHILD_SUBREAPER, 1)

    def run(self) -> None:
        request = self.read_request()
        if request is None:
            return
        if request.sweep:
            left = kill_marked(request.mark.rpartition("/")[0] + "/", attempt_of(request.mark))
            if left:
                self.report(f"failed cannot start: processes {left} of an older attempt still run and cannot be killed")
                return
        self.listen(0)
        if self.kill_at is None:
            self.start(request)
            self.watch()
        self.report_end()

    # From and to the worker.

    def read_request(self) -> Request | None:
        """None: the worker died before it had said everything."""
        os.set_blocking(self.control, True)
        size = 8
        while len(self.heard) < size:
            content = os.read(self.control, 65536)
            if not content:
                return None
            self.heard += content
            if len(self.heard) >= 8:
                size = 8 + int.from_bytes(self.heard[:8], "big")
        body = bytes(self.heard[8:size])
        del self.heard[:size]
        os.set_blocking(self.control, False)
        return Request(body)

    def listen(self, timeout_ms: int | None) -> None:
        """Waits for the worker, the program or the time, and obeys."""
        timeout = None if timeout_ms is None else max(timeout_ms, 0) / 1000
        ready, _, _ = select.select([fd for fd in (self.wake, self.control, self.failures) if fd >= 0], [], [], timeout)
        if self.wake in ready:
            os.read(self.wake, 4096)
        if self.failures in ready:
            self.hear_start()
        if self.control in ready:
            try:
                content = os.read(self.control, 4096)
            except BlockingIOError:
                return
            except OSError:
                content = b""
            self.heard += content
            if not content:
                self.end_control()
        if self.control >= 0 and os.getppid() != self.worker:
            self.end_control()  # the worker is dead, although somebody holds a copy of its end of the socket
        while b"\n" in self.heard:
            line, _, rest = bytes(self.heard).partition(b"\n")
            self.heard[:] = rest
            self.obey(line)

    def obey(self, line: bytes) -> None:
        word, _, number = line.partition(b" ")
        if word == b"hold":
            self.held_until = int(number)
        else:
            self.ask_stop(0 if word == b"kill" else int(number))

    def end_control(self) -> None:
        os.close(self.control)
        self.control = -1
        self.heard.clear()
        self.ask_stop(0)

    def ask_stop(self, grace_ms: int) -> None:
        self.stopped = self.stopped or self.status is None
        self.die(grace_ms)

    def die(self, grace_ms: int) -> None:
        self.terminate = self.terminate or self.kill_at is None
        at = now_ms() + grace_ms
        self.kill_at = at if self.kill_at is None else min(at, self.kill_at)

    def report(self, line: str) -> None:
        try:
            if self.control >= 0:
                os.write(self.control, os.fsencode(line.replace("\n", " ") + "\n"))
        except OSError:
            pass  # the worker is gone, there is nobody to tell

    def report_end(self) -> None:
        if self.failure:
            self.report(f"failed {os.fsdecode(self.failure)}")
            return
        code = signal_number = "-"
        if self.status is not None:
            value = os.waitstatus_to_exitcode(self.status)
            code, signal_number = (str(value), "-") if value >= 0 else ("-", str(-value))
        self.report(f"exit {code} {signal_number} {int(self.dead)} {int(self.stopped)} {len(self.stragglers)}")

    # The tree.

    def start(self, request: Request) -> None:
        self.failures, writing = os.pipe()
        self.main = os.fork()
        if not self.main:
            become(request, self.streams, self.frames, writing)
        self.dead = False
        for fd in {writing, *self.streams, self.frames}:  # stdout and stderr may be one
            if fd >= 0:
                os.close(fd)

    def hear_start(self) -> None:
        content = os.read(self.failures, 4096)
        self.failure += content
        if content:
            return
        os.close(self.failures)  # also closed by the exec of the program
        self.failures = -1
        if not self.failure:
            self.report(f"started {self.main}")

    def watch(self) -> None:
        """To the end of the tree; when something cannot be killed, the worker is told and it goes on."""
        pause_ms = 1
        hopeless_at: int | None = None
        while not self.reap():
            now = now_ms()
            timeout_ms: int | None = None
            if self.status is not None and self.kill_at is None:
                self.die(LEFTOVER_GRACE_MS)
            if self.held_until is not None and now >= self.held_until:
                self.held_until = None
                self.ask_stop(0)
            if self.kill_at is not None and now >= self.kill_at:
                self.signal_tree(signal.SIGKILL)
                hopeless_at = hopeless_at or now + HOPELESS_MS
                if now >= hopeless_at and self.control >= 0:
                    self.report_end()
                    self.end_control()
                timeout_ms, pause_ms = pause_ms, min(pause_ms * 2, PAUSE_MAX_MS)
            elif self.kill_at is not None:
                if self.terminate:
                    self.ask_tree()
                    self.terminate = False
                timeout_ms = self.kill_at - now
            if self.held_until is not None:
                left_ms = self.held_until - now
                timeout_ms = left_ms if timeout_ms is None else min(left_ms, timeout_ms)
            self.listen(timeout_ms)
        while self.failures >= 0:
            self.hear_start()

    def reap(self) -> bool:
        """Buries the dead; True: nothing lives any more."""
        while not self.dead:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.dead = self.reaper or not _group_lives(self.main)
                break
            if not pid:
                break
            if pid == self.main:
                self.status = status
        return self.dead

    def ask_tree(self) -> None:
        """SIGTERM to what lives now: the tree is listed before the first of it is asked.

        Were it listed on the way, a program that a clean-up has just begun would be found and ended in its midst.
        """
        tree = self.whole_tree()
        for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped process cannot obey
            self.signal_tree(number, tree)

    def whole_tree(self) -> dict[int, Stat]:
        """Looked at again until nothing new is found, since a tree may grow while it is listed."""
        tree: dict[int, Stat] = {}
        for _ in range(LISTINGS_MAX):
            found = dict(descendants(os.getpid())) if self.reaper else {}
            if found.keys() <= tree.keys():
                break
            tree |= found
        return tree

    def signal_tree(self, number: int, tree: Mapping[int, Stat] | None = None) -> None:
        """`tree`: to these only.  None: to all, those included that are born meanwhile."""
        if self.reaper:
            for pid, seen in descendants(os.getpid()) if tree is None else tree.items():
                if self.status is not None and not self.stopped:
                    self.stragglers.add(pid)
                send(pid, seen, number)
        elif _group_lives(self.main):
            os.killpg(self.main, number)


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:  # macOS says EPERM of a group of zombies
        return False
    return True


def become(request: Request, streams: Sequence[int], frames: int, failures: int) -> None:
    """In the child: becomes the program, or says why not.  Never returns: a second warden must not go on from here."""
    program = request.argv[0]
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)  # what the worker ignores (nohup) must not be ignored by the program
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for target, fd in enumerate(streams):
            os.dup2(fd, target)
        if frames >= 0:
            os.set_inheritable(frames, True)
        try:
            os.chdir(request.cwd)
        except OSError as error:
            raise RuntimeError(f"cannot start '{program}' in folder '{request.cwd}': {_reason(error)}") from error
        try:
            os.execvpe(program, request.argv, request.env)
        except FileNotFoundError as error:
            raise RuntimeError(f"cannot start '{program}': {_not_found(request)}") from error
        except OSError as error:
            raise RuntimeError(f"cannot start '{program}': {_reason(error)}") from error
    except (RuntimeError, ValueError, OSError) as error:
        os.write(failures, os.fsencode(str(error) or repr(error)))
    finally:
        os._exit(127)


def _not_found(request: Request) -> str:
    program = request.argv[0]
    if "/" not in program:
        return f"no such program in PATH ({request.env.get('PATH', os.defpath)})"
    if os.path.exists(program):
        return "the interpreter that its first line names does not exist"
    return "no such file"


def _reason(error: OSError) -> str:
    if error.errno == errno.E2BIG:
        return "command and environment are too long for this system; put the text into a file"
    if error.errno == errno.ENOEXEC:
        return "not a program; a script needs a first line like '#!/bin/sh'"
    return (error.strerror or str(error)).lower()


def main(arguments: Sequence[str]) -> int:
    """`sweep MARK`, or `watch` and numbers: control, stdin, stdout, stderr, frames (-1: none), pid of the worker."""
    if arguments[0] == "sweep":
        return 1 if kill_marked(arguments[1]) else 0
    control, *streams, frames, worker = map(int, arguments[1:])
    for fd in (control, *streams, frames):
        if fd >= 0:
            os.set_inheritable(fd, False)
    warden = Warden(control, tuple(streams), frames, worker)
    warden.guard()
    try:
        warden.run()
    finally:  # whatever went wrong here, nothing may stay behind
        warden.die(0)
        warden.watch()
    return 0


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
