"""A worker whose disk is full for a while: no file of its process can grow, then can again.

`prlimit` on the living process is the full disk: SQLite is refused the write, as it is by a quota.
"""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from longtask.core.events import StepClaimed, StepCompleted, StepReleased
from tests.cli.shell import Shell, until
from tests.cli.test_drain import INSIDE, facts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="optional: another process's limits are set on Linux")

PLAN = """
longtask: 1
name: outage
stages:
  - name: one
    steps:
      - {id: long, run: "echo $$ > PID; while ! test -e GO; do sleep 0.05; done"}
      - {id: next, needs: [long], run: "true"}
"""


def fill(worker: subprocess.Popen[bytes]) -> None:
    _, hard = resource.prlimit(worker.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (1, hard))


def clear(worker: subprocess.Popen[bytes]) -> None:
    _, hard = resource.prlimit(worker.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (hard, hard))


def begin(shell: Shell, folder: Path, *words: str) -> tuple[subprocess.Popen[bytes], Path, Path]:
    """A worker, the file for whose sake its step waits, and the step's pid."""
    go, pid = folder / "go", folder / "pid"
    shell.plan(PLAN.replace("GO", str(go)).replace("PID", str(pid)))
    shell.here("run", "--detach", env=INSIDE)
    with (folder / "log").open("wb") as log:
        command = [sys.executable, "-m", "longtask.cli.main", "worker", *words]
        worker = subprocess.Popen(
            command,
            cwd=shell.cwd,
            env=shell.environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.PIPE,
        )
    until(lambda: pid.exists() and pid.read_text().strip())
    return worker, go, pid


def lives(pid: Path) -> bool:
    return Path(f"/proc/{pid.read_text().strip()}").exists()


def seen_at(shell: Shell) -> int:
    return max(row["seen_at"] for row in shell.here("fleet", "--json").json["workers"])


def read_until(worker: subprocess.Popen[bytes], word: str) -> str:
    said = ""
    assert worker.stderr is not None
    while word not in said:
        line = worker.stderr.readline().decode()
        assert line, f"it ended before {word!r}: {said}"
        said += line
    return said


def test_a_full_disk_is_waited_for_and_what_runs_goes_on(shell: Shell, tmp_path: Path):
    worker, go, pid = begin(shell, tmp_path)
    fill(worker)
    go.touch()  # it ends: that cannot be recorded
    said = read_until(worker, "store.unavailable")
    assert "the disk is full" in said and "patience_s=60" in said
    until(lambda: not lives(pid))
    assert facts(shell, StepCompleted) == {}
    clear(worker)
    said = read_until(worker, "store.back")
    assert said.count("store.unavailable") == 0, "one line at the beginning, one at the end"
    until(lambda: shell.here("show", "--json").json["status"] == "completed")
    assert facts(shell, StepCompleted).keys() == {("long", 1), ("next", 1)}
    worker.send_signal(signal.SIGTERM)
    out = worker.communicate()[1].decode()
    assert worker.returncode == 0 and "Traceback" not in said + out


def test_what_runs_is_dead_when_its_lease_is_surely_over_and_goes_on_later(shell: Shell, tmp_path: Path):
    worker, go, pid = begin(shell, tmp_path, "--lease", "1s")
    assert lives(pid)
    fill(worker)
    until(lambda: not lives(pid))  # its lease could not be prolonged, though nobody else could take it
    assert worker.poll() is None
    assert facts(shell, StepReleased) == {}
    clear(worker)
    until(lambda: ("long", 2) in facts(shell, StepClaimed))
    go.touch()
    until(lambda: shell.here("show", "--json").json["status"] == "completed")
    worker.send_signal(signal.SIGTERM)
    assert b"Traceback" not in worker.communicate()[1]
    assert worker.returncode == 0
