"""Nothing that an attempt starts outlives it: real trees, real kills."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from longtask.steps import warden
from longtask.steps.process import Exit
from longtask.steps.warden import find_marked, kill_marked
from tests.steps.trees import PATIENCE, finish, living, read_until, start, step, task, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="optional: trees are killed to the last on Linux only")

# Each of these has its own way of getting away; all work in the folder they were started in.
NASTY = r"""
trap '' TERM HUP INT
setsid bash -c "trap '' TERM; sleep 1000 & wait" &
nohup sleep 1000 >/dev/null 2>&1 &
env -i setsid sleep 1000 &
(setsid bash -c 'trap "" TERM; (sleep 1000 &) ; sleep 1000 &' &)
setsid PYTHON -S -c '
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.environ.clear()
os.execv("/bin/sleep", ["sleep", "1000"])
' &
sleep 1000
""".replace("PYTHON", sys.executable)
NASTY_COUNT = 7  # sleepers, for far longer than SOON_S
SOON_S = 10.0  # at once, on a machine that has much else to do

# A process that is always another one, for a while: each child forks the next and ends.
WANDERER = r"""
import os, sys
os.write(1, b"wandering\n")
for n in range(3000):
    if os.fork(): os._exit(0)
    if n % 3 == 0: os.setsid()
os.write(1, b"settled\n")
os.execv("/bin/sleep", ["sleep", "1000"])
"""

WORKER = """
import os, sys
from pathlib import Path
from longtask.steps.warden import now_ms
from tests.steps.trees import start, step
folder, mark, command = sys.argv[1:]
process = start(command, Path(folder), mark)
hold = Path(os.environ.get("HOLD", folder)).absolute()
os.chdir("/")
if os.environ.get("FORK"):
    if not os.fork():  # keeps a copy of every socket of its parent
        print(os.getpid(), flush=True)
        os.read(0, 1)
        os._exit(0)
while True:
    for chunk in step(process):
        os.write(1, chunk.content)
    if hold.is_file():
        process.hold(now_ms() + 1_000)
        hold.unlink()
"""


CLEANING = 12  # left-overs at once


def worker(folder: Path, command: str, **env: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(folder), f"{task(folder)}/step/1", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.getcwd(), **env},
    )


def sleepers(folder: Path) -> list[int]:
    found = []
    for pid in living(folder):
        try:
            if Path(f"/proc/{pid}/comm").read_text() == "sleep\n":
                found.append(pid)
        except OSError:
            continue
    return found


def kill(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.communicate()


def test_nothing_outlives_a_killed_worker(tmp_path):
    child = worker(tmp_path, NASTY)
    try:
        until(lambda: len(sleepers(tmp_path)) == NASTY_COUNT)
    finally:
        kill(child)
    assert until(lambda: not living(tmp_path) and not find_marked(f"{task(tmp_path)}/")) < 2


def test_a_process_that_is_always_another_one_dies_with_the_worker(tmp_path):
    (tmp_path / "wanderer.py").write_text(WANDERER)
    child = worker(tmp_path, f"exec {sys.executable} -S wanderer.py")
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"wandering\n"
    finally:
        kill(child)
    assert until(lambda: not living(tmp_path) and not find_marked(f"{task(tmp_path)}/")) < 2


def test_a_copy_of_the_dead_workers_socket_keeps_nothing_alive(tmp_path):
    child = worker(tmp_path, "sleep 1000", FORK="yes")
    assert child.stdout is not None
    fork = int(child.stdout.readline())
    try:
        until(lambda: sleepers(tmp_path))
        child.kill()
        assert until(lambda: not living(tmp_path) and not find_marked(f"{task(tmp_path)}/")) < 2
        os.kill(fork, 0)  # it has held the copy all the time
    finally:
        os.kill(fork, signal.SIGKILL)
        kill(child)


def test_a_worker_killed_at_once_leaves_nothing(tmp_path):
    for _ in range(5):
        child = worker(tmp_path, NASTY)
        try:
            until(lambda: find_marked(f"{task(tmp_path)}/"))
        finally:
            kill(child)
        assert until(lambda: not living(tmp_path) and not find_marked(f"{task(tmp_path)}/")) < 2


def test_what_a_program_leaves_behind_is_dead_before_its_exit_is_told(tmp_path):
    process = start(f"({NASTY}) & until [ -e go ]; do :; done; exit 7", tmp_path)
    until(lambda: len(sleepers(tmp_path)) == NASTY_COUNT)
    (tmp_path / "go").touch()
    end = time.monotonic() + PATIENCE
    while process.poll() is None:
        assert time.monotonic() < end
        step(process)
    assert living(tmp_path) == []
    exit, _ = finish(process)
    assert (exit.code, exit.signal, exit.tree_dead, exit.stopped) == (7, None, True, False)
    assert exit.stragglers >= NASTY_COUNT


def patient_warden(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same program with a longer grace for left-overs: however busy the machine is, its end decides nothing."""
    grace = f"LEFTOVER_GRACE_MS = {warden.LEFTOVER_GRACE_MS}"
    text = Path(warden.__file__).read_text()
    assert grace in text
    copy = folder / "patient_warden.py"
    copy.write_text(text.replace(grace, f"LEFTOVER_GRACE_MS = {PATIENCE * 1000:.0f}"))
    monkeypatch.setattr(warden, "__file__", str(copy))


def test_left_overs_may_clean_up(tmp_path, monkeypatch):
    """A `git gc` in the background removes its lock files on SIGTERM."""
    patient_warden(tmp_path, monkeypatch)
    left_over = "trap 'rm lock.$0; exit' TERM; : > lock.$0; sleep 1000 & wait"
    left_overs = f'for n in $(seq {CLEANING}); do setsid bash -c "{left_over}" $n & done'
    ready = f"until [ $(ls lock.* | wc -l) = {CLEANING} ]; do :; done"
    exit, _ = finish(start(f"set +e; {left_overs.replace('$0', chr(92) + '$0')}; {ready} 2>&-; exit 0", tmp_path))
    assert (exit.code, exit.tree_dead) == (0, True)
    assert [path.name for path in tmp_path.glob("lock.*")] == []


def test_a_clean_up_may_start_programs_after_a_stop(tmp_path):
    """Even one after another, each in a session of its own."""
    clean_up = "setsid rm one; env -i rm two; (sleep 0.1; rm three) & wait; exit 3"
    process = start(f"touch one two three; trap '{clean_up}' TERM; echo up; sleep 1000 & wait", tmp_path)
    read_until(process, b"up")
    process.stop(grace_ms=60_000)
    exit, _ = finish(process)
    assert (exit.code, exit.stopped, exit.tree_dead) == (3, True, True)
    assert list(tmp_path.iterdir()) == []


def test_a_clean_up_that_does_not_end_is_killed_when_the_grace_is_over(tmp_path):
    process = start("trap 'sleep 1000' TERM; echo up; sleep 1000 & wait", tmp_path)
    read_until(process, b"up")
    begun = time.monotonic()
    process.stop(grace_ms=300)
    exit, _ = finish(process)
    assert time.monotonic() - begun >= 0.3
    assert (exit.signal, exit.stopped, exit.tree_dead) == (signal.SIGKILL, True, True)
    assert living(tmp_path) == []


# The lease, by the clock of this machine.


def test_a_tree_dies_when_its_lease_is_over_though_its_worker_is_frozen(tmp_path):
    hold = tmp_path / "hold"
    child = worker(tmp_path, NASTY, HOLD=str(hold))
    try:
        until(lambda: len(sleepers(tmp_path)) == NASTY_COUNT)
        hold.touch()
        until(lambda: not hold.exists())
        os.kill(child.pid, signal.SIGSTOP)
        until(lambda: not living(tmp_path))
        assert b") T " in Path(f"/proc/{child.pid}/stat").read_bytes()
    finally:
        os.kill(child.pid, signal.SIGCONT)
        kill(child)


def test_a_lease_that_is_prolonged_keeps_its_tree(tmp_path):
    process = start("echo up; until [ -e go ]; do sleep 0.01; done; exit 5", tmp_path)
    read_until(process, b"up")
    begun = time.monotonic()
    while time.monotonic() < begun + 1:  # ten times as long as one of them
        process.hold(warden.now_ms() + 5_000)
        process.hold(warden.now_ms() + 100 + 10_000)
        step(process)
    assert process.poll() is None
    (tmp_path / "go").touch()
    assert finish(process)[0].code == 5


def test_a_lease_that_is_over_is_told_as_a_stop(tmp_path):
    process = start("trap '' TERM; echo up; while :; do sleep 1000; done", tmp_path)
    read_until(process, b"up")
    begun = time.monotonic()
    process.hold(warden.now_ms() + 300)
    exit, _ = finish(process)
    assert time.monotonic() - begun >= 0.3
    assert exit == Exit(signal=signal.SIGKILL, stopped=True)


def test_a_stop_asks_the_whole_tree_first(tmp_path):
    process = start("trap 'echo bye; exit 3' TERM; echo up; sleep 1000", tmp_path)
    read_until(process, b"up")
    process.stop(grace_ms=60_000)
    exit, content = finish(process)
    assert (exit.code, exit.stopped, exit.tree_dead) == (3, True, True)
    assert b"bye\n" in content


def test_a_stop_kills_what_does_not_obey_when_the_grace_is_over(tmp_path):
    process = start(NASTY, tmp_path)
    until(lambda: len(sleepers(tmp_path)) == NASTY_COUNT)
    begun = time.monotonic()
    process.stop(grace_ms=300)
    exit, _ = finish(process)
    assert 0.3 <= time.monotonic() - begun < SOON_S
    assert (exit.signal, exit.stopped, exit.tree_dead) == (signal.SIGKILL, True, True)
    assert living(tmp_path) == []


def test_a_later_stop_shortens_the_grace(tmp_path):
    process = start("trap '' TERM; echo up; while :; do sleep 1000; done", tmp_path)
    read_until(process, b"up")
    process.stop(grace_ms=600_000)
    process.stop(grace_ms=10)
    assert finish(process)[0].signal == signal.SIGKILL


def test_a_stopped_process_hears_a_stop(tmp_path):
    process = start("trap 'exit 4' TERM; kill -STOP $$; sleep 1000", tmp_path)
    until(lambda: process.poll() or (process.pid and b") T " in Path(f"/proc/{process.pid}/stat").read_bytes()))
    process.stop(grace_ms=5_000)
    assert finish(process)[0].code == 4


def test_a_kill_is_at_once(tmp_path):
    process = start(NASTY, tmp_path)
    until(lambda: len(sleepers(tmp_path)) == NASTY_COUNT)
    process.kill()
    begun = time.monotonic()
    exit, _ = finish(process)
    assert time.monotonic() - begun < SOON_S
    assert exit == Exit(signal=signal.SIGKILL, stopped=True)
    assert living(tmp_path) == []


def test_a_stop_before_the_start_starts_nothing(tmp_path):
    process = start("touch ran", tmp_path)
    process.stop(grace_ms=10_000)
    exit, _ = finish(process)
    assert exit.stopped and exit.tree_dead
    if exit.code is None and exit.signal is None:
        assert not (tmp_path / "ran").exists()


def test_a_warden_ignores_the_signals_of_a_terminal_and_of_a_service_manager(tmp_path):
    process = start("echo up; until [ -e go ]; do sleep 0.01; done; exit 5", tmp_path)
    read_until(process, b"up")
    (own,) = [entry.pid for entry in find_marked(process.mark) if entry.warden]
    assert os.getsid(own) == own
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR2):
        os.kill(own, number)
    (tmp_path / "go").touch()
    assert finish(process)[0].code == 5


def test_a_killed_warden_takes_its_tree_with_it_and_the_worker_hears_of_it(tmp_path):
    process = start("setsid sleep 1000 & nohup sleep 1000 & echo up; exec env -i sleep 1000", tmp_path)
    read_until(process, b"up")
    until(lambda: len(sleepers(tmp_path)) == 3)
    (own,) = [entry.pid for entry in find_marked(process.mark) if entry.warden]
    os.kill(own, signal.SIGKILL)
    exit, _ = finish(process)
    assert exit.warden_lost and exit.tree_dead
    assert (exit.code, exit.signal) == (None, None)
    assert living(tmp_path) == []


def test_a_program_gets_signals_as_they_come_from_the_factory(tmp_path):
    """A worker under `nohup`, or one that blocks signals in its threads, must not hand that on."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        process = start(["cat", "/proc/self/status"], tmp_path)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        signal.signal(signal.SIGHUP, before)
    _, content = finish(process)
    masks = dict(line.split(":\t") for line in content.decode().splitlines() if line.startswith("Sig"))
    # The C library keeps signals 32 and 33 to itself: how those were inherited, no program can change.
    settable = sum(1 << (number - 1) for number in signal.valid_signals())
    assert int(masks["SigIgn"], 16) & settable == 0
    assert int(masks["SigBlk"], 16) & settable == 0


# Marks.


def test_marks_name_one_attempt_or_all_below(tmp_path):
    name = task(tmp_path)
    processes = [
        start("echo up; sleep 1000", tmp_path, f"{name}/step/{attempt}", sweep=False) for attempt in (1, 2, 12)
    ]
    for process in processes:
        read_until(process, b"up")
    marks = {entry.mark for entry in find_marked(f"{name}/step/1")}
    assert marks == {f"{name}/step/1"}
    assert {entry.mark for entry in find_marked(f"{name}/step/")} == {f"{name}/step/{n}" for n in (1, 2, 12)}
    assert {entry.mark for entry in find_marked(f"{name}/step/", older_than=12)} == {f"{name}/step/{n}" for n in (1, 2)}
    assert find_marked(f"{name}/ste/") == find_marked(name) == []
    assert kill_marked(f"{name}/step/1") == []
    assert {entry.mark for entry in find_marked(f"{name}/step/")} == {f"{name}/step/{n}" for n in (2, 12)}
    assert processes[0].poll() is not None or finish(processes[0])[0].signal == signal.SIGKILL
    for process in processes:
        process.close()


def test_an_attempt_starts_after_everything_of_older_attempts_is_dead(tmp_path):
    name = task(tmp_path)
    old = start("env -i setsid sleep 1000 & setsid sleep 1000 & echo up; sleep 1000", tmp_path, f"{name}/step/3")
    other = start("echo up; sleep 1000", tmp_path, f"{name}/step2/3")
    read_until(old, b"up")
    read_until(other, b"up")
    until(lambda: len(sleepers(tmp_path)) == 4)
    look = '[ "$(readlink $f/cwd)" = "$PWD" ] && [ "$(cat $f/comm)" = sleep ] && echo sleeper'
    exit, content = finish(start(f"for f in /proc/[0-9]*; do {look}; done 2>&-; true", tmp_path, f"{name}/step/4"))
    assert exit.code == 0
    assert content == b"sleeper\n"  # of the other step
    assert len(sleepers(tmp_path)) == 1
    exit, _ = finish(old)
    assert exit.tree_dead
    other.close()


def test_a_late_older_attempt_does_not_kill_a_newer_one(tmp_path):
    name = task(tmp_path)
    new = start("echo up; sleep 1000", tmp_path, f"{name}/step/2")
    read_until(new, b"up")
    assert finish(start("true", tmp_path, f"{name}/step/1"))[0].code == 0
    assert new.poll() is None
    new.close()


def test_a_tree_whose_warden_and_worker_are_dead_is_found_by_its_mark(tmp_path):
    name = task(tmp_path)
    env = {"PATH": os.environ["PATH"], warden.MARK: f"{name}/step/1"}
    left = subprocess.Popen(["sh", "-c", "setsid sleep 1000 & env -i sleep 1000"], cwd=tmp_path, env=env)
    try:
        until(lambda: len(sleepers(tmp_path)) == 2)
        assert finish(start("true", tmp_path, f"{name}/step/2"))[0].code == 0
        assert living(tmp_path) == []
    finally:
        left.kill()
        left.wait()


def test_kill_marked_spares_its_caller(tmp_path):
    code = "import sys; from longtask.steps.warden import kill_marked; print(kill_marked(sys.argv[1]))"
    env = {**os.environ, warden.MARK: f"{task(tmp_path)}/s/1", "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        ["sh", "-c", '"$0" -c "$1" "$2"; true', sys.executable, code, f"{task(tmp_path)}/s/"],
        env=env,
        capture_output=True,
        check=False,
    )
    assert done.stdout == b"[]\n"


# Other systems.


def test_children_are_found_without_help_of_the_kernel(tmp_path, monkeypatch):
    child = subprocess.Popen(["sleep", "1000"])
    try:
        listed = set(warden.children(os.getpid()))
        monkeypatch.setattr(warden, "_CHILDREN_LISTED", False)
        assert child.pid in listed
        assert set(warden.children(os.getpid())) == listed
    finally:
        child.kill()
        child.wait()


def test_without_a_subreaper_the_process_group_dies(tmp_path):
    """As on macOS: what has left the group lives on, and is not waited for."""
    script = "import os, sys, longtask.steps.warden as w; w.prctl = lambda *_: False; os._exit(w.main(sys.argv[1:]))"
    ours, theirs = socket.socketpair()
    null = os.open(os.devnull, os.O_RDWR)
    fds = [theirs.fileno(), null]
    child = subprocess.Popen(
        [sys.executable, "-c", script, "watch", str(fds[0]), *[str(null)] * 3, "-1", str(os.getpid())],
        pass_fds=fds,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    theirs.close()
    os.close(null)
    command = ["sh", "-c", "trap '' TERM; sleep 1000 & (sleep 1000 &); sleep 1000"]
    ours.sendall(warden.pack(str(tmp_path), False, "t/s/1", command, dict(os.environ)))
    ours.settimeout(PATIENCE)
    assert ours.recv(100).startswith(b"started ")
    until(lambda: len(sleepers(tmp_path)) == 3)
    ours.sendall(b"stop 100\n")
    assert ours.recv(100).split() == [b"exit", b"-", b"9", b"1", b"1", b"0"]
    assert living(tmp_path) == []
    assert child.wait(PATIENCE) == 0
    ours.close()
