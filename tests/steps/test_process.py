"""A process tree as its worker sees it: nothing blocks, nothing leaks, nothing is lost."""

import os
import select
import signal
import sys
import time
from pathlib import Path

import pytest

from longtask.core.errors import NotFound
from longtask.steps.frames import FRAME_BYTES_MAX, FrameError
from longtask.steps.process import READ_BYTES_MAX, Exit, Process, allowed_environment, bury, shell
from longtask.steps.warden import find_marked
from tests.steps.trees import PATIENCE, finish, living, read_until, start, step, task, until

CHILD = f"exec {sys.executable} child.py"


def frames_until(process: Process, count: int) -> list[dict]:
    found: list[dict] = []
    end = time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < end, f"only {len(found)} frames"
        step(process)
        found += process.frames()
    return found


def child(folder: Path, code: str, **options) -> Process:
    """A Python program that can import us and has a `channel`."""
    (folder / "child.py").write_text("from longtask.steps.frames import *\nimport os, sys, threading\n" + code)
    env = allowed_environment({"PYTHONPATH": os.getcwd()})
    return Process.start(CHILD, cwd=folder, env=env, mark=f"{task(folder)}/step/1", frames=True, **options)


def test_output_and_exit_code(tmp_path):
    process = start("echo out; echo err >&2; exit 3", tmp_path)
    chunks = []
    while process.poll() is None:
        chunks += step(process)
    while found := process.read():
        chunks += found
    assert {(chunk.stream, chunk.content) for chunk in chunks} == {("stdout", b"out\n"), ("stderr", b"err\n")}
    assert process.poll() == Exit(code=3)
    assert process.filenos() == []


def test_the_signal_that_ended_a_program_is_told(tmp_path):
    exit, _ = finish(start("kill -SEGV $$", tmp_path))
    assert (exit.code, exit.signal, exit.stopped) == (None, signal.SIGSEGV, False)


def test_a_list_is_not_seen_by_a_shell(tmp_path):
    assert finish(start(["printf", "%s|", "a b", "$HOME", "*", ""], tmp_path))[1] == b"a b|$HOME|*||"


def test_a_shell_text_fails_with_its_first_failing_line(tmp_path):
    exit, content = finish(start("echo one\nfalse\necho two", tmp_path))
    assert (exit.code, content) == (1, b"one\n")
    exit, content = finish(start("false | cat\necho two", tmp_path))
    assert (exit.code, content) == (1, b"")
    assert finish(start('echo "${NOT_SET}."', tmp_path))[1] == b".\n"


def test_without_bash_a_shell_text_is_run_by_sh(tmp_path):
    assert shell("true", {"PATH": str(tmp_path)})[:2] == ["/bin/sh", "-e"]
    process = Process.start("false\necho two", cwd=tmp_path, env={"PATH": str(tmp_path)}, mark="tests/process/1")
    assert finish(process) == (Exit(code=1), b"")


def test_streams_that_are_merged_keep_their_order(tmp_path):
    process = start("for n in 1 2 3 4 5; do echo o$n; echo e$n >&2; done", tmp_path, merge_stderr=True)
    exit, content = finish(process)
    assert exit.code == 0
    assert content.split() == [part for n in range(1, 6) for part in (b"o%d" % n, b"e%d" % n)]


def test_input_is_given_whole_and_ends(tmp_path):
    text = os.urandom(300_000)
    process = start(["cksum"], tmp_path, stdin=text)
    assert finish(process)[1].split()[1] == b"300000"
    assert finish(start(["cat"], tmp_path))[1] == b""


# Starting.


def test_a_start_takes_the_worker_a_few_milliseconds(tmp_path):
    times = []
    for _ in range(8):
        begun = time.perf_counter()
        process = start(["true"], tmp_path)
        times.append(time.perf_counter() - begun)
        finish(process)
    assert min(times) < 0.01


def test_a_big_environment_does_not_hold_up_the_worker(tmp_path):
    """It does not fit into the socket while the warden is still starting."""
    env = allowed_environment({f"LARGE_{n}": "x" * 100_000 for n in range(12)})
    process = Process.start("echo ${#LARGE_11}", cwd=tmp_path, env=env, mark="tests/process/1")
    assert process.filenos_to_write() != []  # it has not waited until all was read
    assert finish(process)[1] == b"100000\n"


@pytest.mark.parametrize(
    ("command", "folder", "reason"),
    [
        (["no-such-program"], ".", "cannot start 'no-such-program': no such program in PATH (/bin:/usr/bin)"),
        (["./nothing"], ".", "cannot start './nothing': no such file"),
        (["./text"], ".", "cannot start './text': permission denied"),
        (["./lost"], ".", "cannot start './lost': the interpreter that its first line names does not exist"),
        (["./noise"], ".", "cannot start './noise': not a program; a script needs a first line like '#!/bin/sh'"),
        (["true"], "nowhere", "cannot start 'true' in folder '{folder}': no such file or directory"),
        (["true"], "text", "cannot start 'true' in folder '{folder}': not a directory"),
        ([], ".", "cannot start '[]': an empty command"),
        (["true", "a\0b"], ".", "a NUL character in the command, the folder or the environment"),
        (["true", "x" * 3_000_000], ".", "too long for this system; put the text into a file"),
    ],
)
def test_what_cannot_be_started_says_why(tmp_path, command, folder, reason):
    (tmp_path / "text").write_text("no program")
    for name, content in (("lost", "#!/no/such/interpreter\n"), ("noise", "\1\2\3")):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    place = tmp_path / folder
    exit, output = finish(Process.start(command, cwd=place, env={"PATH": "/bin:/usr/bin"}, mark="tests/process/1"))
    assert exit.start_failed is not None
    assert reason.format(folder=place) in exit.start_failed
    assert (exit.code, exit.signal, exit.tree_dead, output) == (None, None, True, b"")


def test_a_program_inherits_only_what_it_should(tmp_path):
    inherited = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(inherited, True)
    try:
        process = start(["ls", "/proc/self/fd"], tmp_path)
        assert finish(process)[1].split() == [b"0", b"1", b"2", b"3"]  # 3 is the folder that `ls` reads
        process = start("ls /proc/self/fd | wc -l", tmp_path, frames=True)
        assert finish(process)[1].split() == [b"5"]
    finally:
        os.close(inherited)
    session, pid, terminal = finish(start("echo $(ps -o sid= -p $$) $$; ps -o tty= -p $$", tmp_path))[1].split()
    assert session == pid  # a session of its own
    assert terminal == b"?"


def test_nothing_leaks(tmp_path):
    finish(start(["true"], tmp_path))
    before, children = sorted(os.listdir("/proc/self/fd")), own_children()
    for command in (["true"], ["no-such-program"], [], "echo x; exit 2"):
        process = start(command, tmp_path, frames=True)
        finish(process)
        assert process.filenos() == []
    start("sleep 1000", tmp_path, frames=True).close()
    with start("sleep 1000", tmp_path):
        pass
    assert sorted(os.listdir("/proc/self/fd")) == before
    until(lambda: bury() == 0)
    assert own_children() <= children  # no zombie, no child (other tests may have left servers)
    assert living(tmp_path) == []


def own_children() -> set[str]:
    """Of all threads, zombies included."""
    return {pid for tasks in Path("/proc/self/task").iterdir() for pid in (tasks / "children").read_text().split()}


def test_descriptors_are_freed_by_reading_to_the_end(tmp_path):
    before = sorted(os.listdir("/proc/self/fd"))
    process = start("echo x", tmp_path, frames=True)
    while process.poll() is None:
        step(process)
    while process.read() or process.frames():
        pass
    assert sorted(os.listdir("/proc/self/fd")) == before


# Output.


def test_a_flood_is_read_in_bounded_parts_and_whole(tmp_path):
    size = 100_000_000
    process = start(f"head -c {size} /dev/zero; head -c 1000 /dev/zero >&2", tmp_path)
    total = {"stdout": 0, "stderr": 0}
    largest = 0
    while True:
        done = process.poll()
        select.select(process.filenos(), [], [], 0.2)
        chunks = process.read()
        largest = max(largest, sum(len(chunk.content) for chunk in chunks))
        for chunk in chunks:
            total[chunk.stream] += len(chunk.content)
        if done and not chunks:
            break
    assert done == Exit(code=0)
    assert total == {"stdout": size, "stderr": 1000}
    assert largest <= READ_BYTES_MAX


def test_output_that_nobody_reads_holds_up_nobody_and_can_be_stopped(tmp_path):
    process = start("yes; echo never", tmp_path)
    until(lambda: process.silent_ms() == 0 and process.poll() is None and process.pid)
    process.stop(grace_ms=10_000)
    exit, _ = finish(process)
    assert exit.stopped and exit.tree_dead


def test_what_was_written_before_the_end_is_not_lost(tmp_path):
    process = start("head -c 200000 /dev/zero", tmp_path)
    until(process.poll)
    chunks = []
    while found := process.read():
        chunks += found
    assert sum(len(chunk.content) for chunk in chunks) == 200_000


def test_a_pipe_that_is_held_from_outside_does_not_hold_up_the_end(tmp_path):
    """A daemon outside the tree that was handed our pipe, as container engines are."""
    process = start("echo x; exec sleep 1000", tmp_path)
    read_until(process, b"x")
    until(lambda: process.poll() or process.pid)
    held = os.open(f"/proc/{process.pid}/fd/1", os.O_WRONLY)
    try:
        process.kill()
        until(process.poll)
        assert process.read() == []
        assert process.filenos() == []
        assert finish(process)[0].signal == signal.SIGKILL
    finally:
        os.close(held)


def test_silence_is_measured_from_the_last_sign_of_life(tmp_path):
    for name in ("fifo", "end"):  # one each: it may open the first again before its writer has closed it
        os.mkfifo(tmp_path / name)
    process = start("echo one; read x < fifo; echo two; read x < end", tmp_path)
    read_until(process, b"one")
    until(lambda: process.silent_ms() >= 50)
    (tmp_path / "fifo").write_text("go\n")
    until(lambda: process.silent_ms() == 0)  # it has said something that we have not read yet
    read_until(process, b"two")
    assert process.silent_ms() < 1000
    process.close()


# Frames.


def test_frames_go_both_ways(tmp_path):
    process = child(
        tmp_path,
        """
channel = Channel.from_environment()
assert "LONGTASK_FRAMES_FD" not in os.environ
begin = channel.receive()
channel.send("progress", done=1, total=begin["total"])
try:
    channel.call("journal.started", n=1, kind="tool")
except CallRefused as error:
    channel.send("note", text=str(error), reply=error.reply)
assert channel.call("checkpoint", position=4)["tree"] == "abc"
assert os.system("ls /proc/self/fd | wc -l > count") == 0
""",
    )
    process.send_frame({"frame": "start", "total": 7})
    progress, started = frames_until(process, 2)
    assert progress == {"frame": "progress", "done": 1, "total": 7}
    assert started == {"frame": "journal.started", "id": 1, "n": 1, "kind": "tool"}
    process.send_frame({"id": started["id"], "ok": False, "error": "the lease is lost"})
    note, checkpoint = frames_until(process, 2)
    assert note["text"] == "journal.started: the lease is lost"
    process.send_frame({"id": checkpoint["id"], "ok": True, "tree": "abc"})
    assert finish(process) == (Exit(code=0), b"")
    assert (tmp_path / "count").read_text().strip() == "4"  # tools do not inherit the socket


def test_frames_that_were_sent_before_the_end_are_not_lost(tmp_path):
    process = child(tmp_path, "Channel.from_environment().send('outcome', outcome='done')")
    until(process.poll)
    assert process.frames() == [{"frame": "outcome", "outcome": "done"}]
    assert process.frames() == []
    finish(process)


def test_a_large_frame_goes_both_ways_though_neither_side_reads_at_once(tmp_path):
    process = child(
        tmp_path,
        "channel = Channel.from_environment()\nbig = channel.receive()\nchannel.send('echo', text=big['text'])",
    )
    text = "x" * (FRAME_BYTES_MAX - 100)
    process.send_frame({"frame": "start", "text": text})
    assert process.filenos_to_write() != []  # it has not waited until all was read
    assert frames_until(process, 1) == [{"frame": "echo", "text": text}]
    assert finish(process)[0].code == 0


def test_frames_that_nobody_takes_are_bounded(tmp_path):
    process = child(tmp_path, "channel = Channel.from_environment()\nthreading.Event().wait()")
    with pytest.raises(FrameError, match="does not read its frames"):
        for _ in range(20):
            process.send_frame({"frame": "x", "text": "x" * (FRAME_BYTES_MAX - 100)})
    process.close()


def test_a_child_that_does_not_speak_as_agreed_is_an_error(tmp_path):
    process = start("printf 'hello, worker' >&$LONGTASK_FRAMES_FD; sleep 1000", tmp_path, frames=True)
    with pytest.raises(FrameError, match="announced"):
        frames_until(process, 1)
    process.close()


def test_a_child_ends_when_its_worker_lets_go(tmp_path):
    """Also through a handler that swallows every `Exception`; here the warden is not quicker, since it was stopped."""
    process = child(
        tmp_path,
        """
channel = Channel.from_environment()
print("up", flush=True)
try:
    try:
        channel.call("ask")
    except Exception:
        open("swallowed", "w")
finally:
    open("left", "w")
""",
    )
    read_until(process, b"up")
    frames_until(process, 1)
    os.kill(warden_of(process), signal.SIGSTOP)
    stopped = warden_of(process)
    try:
        process.close()
        until(lambda: (tmp_path / "left").exists())
        assert not (tmp_path / "swallowed").exists()
    finally:
        os.kill(stopped, signal.SIGCONT)
    until(lambda: bury() == 0)


def warden_of(process: Process) -> int:
    (found,) = [entry.pid for entry in find_marked(process.mark) if entry.warden]
    return found


def test_each_thread_of_a_child_gets_its_own_answer(tmp_path):
    process = child(
        tmp_path,
        """
channel = Channel.from_environment()
def ask(n):
    for k in range(5):
        assert channel.call("ask", n=n, k=k)["n"] == n
threads = [threading.Thread(target=ask, args=(n,)) for n in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
channel.send("outcome")
""",
    )
    for _ in range(5):
        for frame in reversed(frames_until(process, 6)):
            process.send_frame({"id": frame["id"], "ok": True, "n": frame["n"]})
    assert frames_until(process, 1) == [{"frame": "outcome"}]
    assert finish(process) == (Exit(code=0), b"")


# The environment.


def test_no_secret_reaches_a_program_unless_it_is_named(tmp_path):
    source = {
        "PATH": os.environ["PATH"],
        "HOME": "/home/x",
        "LC_ALL": "C.UTF-8",
        "API_TOKEN": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "GIT_DIR": "/elsewhere",
        "https_proxy": "http://user:secret@proxy:1",
        "http_proxy": "http://proxy:1",
        "BASH_ENV": "/evil",
        "NPM_TOKEN": "wanted",
    }
    env = allowed_environment({"TMPDIR": str(tmp_path)}, ["NPM_TOKEN"], source)
    assert env == {
        "PATH": os.environ["PATH"],
        "HOME": "/home/x",
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
        "http_proxy": "http://proxy:1",
        "NPM_TOKEN": "wanted",
        "TMPDIR": str(tmp_path),
    }
    process = Process.start(["env"], cwd=tmp_path, env=env, mark="tests/process/1")
    seen = dict(line.split("=", 1) for line in finish(process)[1].decode().splitlines())
    assert seen == {**env, "LONGTASK_MARK": "tests/process/1"}


def test_a_secret_that_is_not_there_is_an_error():
    with pytest.raises(NotFound, match="no 'A_TOKEN', 'B_TOKEN'; set it where the worker is started"):
        allowed_environment({"GIVEN": "x"}, ["A_TOKEN", "B_TOKEN", "GIVEN"], {})


def test_bytes_that_are_no_text_pass_through(tmp_path):
    odd = os.fsdecode(b"\xff\xfe")
    (tmp_path / odd).mkdir()
    process = Process.start(
        'printf "%s" "$ODD" "$0"; ls ..',
        cwd=tmp_path / odd,
        env=allowed_environment({"ODD": odd}),
        mark="tests/process/1",
    )
    assert b"\xff\xfe" in finish(process)[1]
