"""A worker and its database may start in either order."""

import os
import socket
import subprocess
import sys

from longtask.config import DATABASE
from tests.postgres import QUICK, Server

WAIT_S = 60


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_a_worker_waits_for_a_server_that_is_not_up_yet(tmp_path):
    folder = tmp_path / "server"
    folder.mkdir()
    server = Server(folder, dict(QUICK), port=free_port())
    command = [sys.executable, "-m", "longtask.cli.main", "worker", "--idle-exit", "1s"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, DATABASE: server.url}
    ) as worker:
        try:
            assert worker.stderr is not None
            first = worker.stderr.readline()
            assert "store.unavailable patience_s=60" in first and "Connection refused" in first
            server.start()
            rest = worker.stderr.read()
            assert worker.wait(WAIT_S) == 0
            assert "worker.started" in rest and "store.unavailable" not in rest, "it is told once"
        finally:
            worker.kill()
            server.remove()
