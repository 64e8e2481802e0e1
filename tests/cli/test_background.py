"""The background worker: one, however many commands start it at once; another one when it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.cli.shell import Shell, until

WAIT = """
longtask: 1
name: wait
stages:
  - name: one
    steps:
      - {id: counted, run: "echo begun; while ! test -e $GO; do sleep 0.05; done", env: {GO: %s}}
"""
ONE = '{"longtask": 1, "name": "p", "steps": [{"id": "a", "approval": {"ask": "well?"}}]}'
INSIDE = {"LONGTASK_STEP": "x"}  # no worker is started from inside a step


SOON = {"LONGTASK_LEASE": "2s"}  # a dead worker's step is taken over


def begun(shell: Shell) -> bool:
    return "begun" in shell.here("logs", "@last", "counted", code=None).out


def test_commands_that_start_at_once_start_one_worker(shell: Shell):
    shell.plan(ONE)
    calls = [shell.start("run", "--detach") for _ in range(3)]
    for started in calls:
        out, _ = started.communicate()
        assert started.returncode == 0, out
    assert len(shell.workers()) == 1
    log = (shell.home / "logs" / "worker.log").read_text()
    assert log.count("worker.started") == 1
    (pid,) = shell.workers()
    assert os.getsid(pid) == pid and Path(f"/proc/{pid}/cwd").resolve() == shell.home.resolve()
    assert b"10m" in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_killed_worker_is_seen_and_the_next_command_starts_another(shell: Shell):
    go = shell.home / "go"
    shell.plan(WAIT % go)
    shell.env.update(SOON)
    shell("run", "--detach")
    until(lambda: begun(shell))
    (killed,) = shell.workers()
    os.kill(killed, signal.SIGKILL)
    until(lambda: not shell.workers())
    for command in ("ls", "show"):
        assert "nothing works on it now" in shell.here(command).err
    assert "no worker is alive" in shell.here("why").out
    go.touch()
    shell("signal", "@last", "anything")
    assert shell.workers() and shell.workers() != [killed]
    shell.here("watch")
    assert shell.here("show", "--json").json["steps"][0]["attempt"] == 2


def test_whoever_watches_its_run_brings_a_killed_worker_back(shell: Shell):
    go = shell.home / "go"
    shell.plan(WAIT % go)
    shell.env.update(SOON)
    running = shell.start("run")
    until(lambda: begun(shell))
    os.kill(shell.workers()[0], signal.SIGKILL)
    go.touch()
    out, _ = running.communicate()
    assert running.returncode == 0 and b"another one goes on" in out, out


def test_whoever_watches_is_told_of_a_pool_that_nobody_serves(shell: Shell):
    shell.plan('{"longtask": 1, "name": "p", "steps": [{"id": "a", "run": "true", "pool": "gpu"}]}')
    watching = shell.start("run")
    assert watching.stdout is not None
    for line in watching.stdout:
        if b"nobody serves pool 'gpu', for which a step waits; start one: " in line:
            break
    else:
        raise AssertionError("it ended without a word")
    shell("worker", "--pool", "gpu", "--idle-exit", "1s")
    out, _ = watching.communicate(timeout=60)
    assert watching.returncode == 0 and b"nobody serves" not in out, "it is told once"


def test_a_worker_ends_when_it_is_idle_but_not_before_a_deadline_has_passed(shell: Shell):
    shell.plan('{"longtask": 1, "name": "t", "steps": [{"id": "timer", "wait": {"timer": "2s"}}]}')
    shell.here("run", "--detach", env=INSIDE)
    done = shell("worker", "--idle-exit", "500ms")
    assert "worker.started" in done.err and "worker.ended" in done.err
    assert shell.here("show", "--json").json["status"] == "completed"


def test_sigterm_drains(shell: Shell):
    shell.plan(WAIT % (shell.home / "go"))
    shell.here("run", "--detach", env=INSIDE)
    worker = shell.start("worker")
    until(lambda: begun(shell))
    worker.send_signal(signal.SIGTERM)
    out, _ = worker.communicate()
    assert worker.returncode == 0 and b"worker.ended" in out
    step = shell.here("show", "--json").json["steps"][0]
    assert (step["state"], step["attempt"]) == ("ready", 1)
    assert not shell.processes()


def test_a_worker_that_cannot_start_says_why(shell: Shell):
    shell.plan(ONE)
    shell.here("run", "--detach", env=INSIDE)
    code = "import sys; from longtask.cli.app import call; sys.executable = 'false'; call(['signal', '@last', 'x'])"
    broken = subprocess.run(
        [sys.executable, "-c", code], env=shell.environment(), cwd=shell.cwd, capture_output=True, text=True
    )
    assert "the background worker did not start" in broken.stderr
    assert "worker.log" in broken.stderr and "longtask worker" in broken.stderr


def test_a_lease_or_a_pool_that_makes_no_sense_is_refused(shell: Shell):
    assert "at least 1s" in shell.here("worker", "--lease", "10ms", code=2).err
    assert "has no unit" in shell.here("worker", "--idle-exit", "10", code=2).err


def test_the_database_is_no_argument_of_the_background_worker(shell: Shell, tmp_path: Path):
    """Arguments are for all users of the machine to read, and a URL may hold a password."""
    database = tmp_path / "elsewhere" / "tasks.db"
    database.parent.mkdir()
    shell.plan(ONE)
    shell("run", "--detach", "--database", f"sqlite:///{database}")
    (pid,) = shell.workers()
    assert b"tasks.db" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    (row,) = shell.here("fleet", "--json", "--database", str(database)).json["workers"]
    assert row["pid"] == pid


def test_a_worker_that_lacks_a_key_of_a_model_is_told_of(shell: Shell):
    plan = '{"longtask": 1, "name": "one", "steps": [{"id": "a", "run": "true"}]}'
    shell.plan(plan)
    assert "background worker" not in shell("run").err
    told = shell("run", env={"OPENAI_API_KEY": "fake-key"}).err
    assert "was started without OPENAI_API_KEY" in told and "fake-key" not in told
