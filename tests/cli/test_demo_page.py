"""The server beside the demo, as a process."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.cli.shell import DEADLINE_S, Shell, until

DEMO = """
import sys
from pathlib import Path
from longtask.cli.demo_page import server_beside
with server_beside(sys.argv[1], Path(sys.argv[2])) as url:
    print(url, flush=True)
    sys.stdin.read()
"""


def begun(shell: Shell) -> subprocess.Popen[str]:
    """A demo that has its server."""
    database = str(shell.cwd.parent / "demo.db")
    process = subprocess.Popen(
        [sys.executable, "-c", DEMO, database, str(shell.cwd.parent)],
        env=shell.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline().startswith("http://127.0.0.1:")
    return process


def test_the_server_ends_with_the_demo(shell: Shell):
    demo = begun(shell)
    demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 0 and not shell.processes()


def test_the_server_of_a_demo_that_was_killed_ends_by_itself(shell: Shell):
    demo = begun(shell)
    demo.send_signal(signal.SIGKILL)
    demo.communicate(timeout=DEADLINE_S)
    until(lambda: not shell.processes())
