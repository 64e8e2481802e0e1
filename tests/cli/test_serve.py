"""`longtask server` and `longtask up`, as processes with a socket."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from longtask.api.settings import is_loopback
from tests.cli.shell import DEADLINE_S, LONGTASK, Shell, until

ASKING_JSON = {
    "longtask": 1,
    "name": "ask",
    "steps": [{"id": "work", "run": "true"}, {"id": "ok", "needs": ["work"], "approval": {"ask": "Fine?"}}],
}


@contextmanager
def started(shell: Shell, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], dict]]:
    """The process, and what it has told when it was ready."""
    process = subprocess.Popen(
        [LONGTASK, *words, "--port", "0", "--json"],
        cwd=shell.cwd,
        env=shell.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=DEADLINE_S)


def children_of(pid: int) -> list[int]:
    """Processes that answer for this one."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and b"--serve-fd" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def lives(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_up_carries_a_task_to_its_end_over_http_alone(shell: Shell):
    with started(shell, "up", "--no-browser") as (process, told):
        assert told["type"] == "server.started" and told["pid"] == process.pid and told["worker"]
        with httpx.Client(base_url=told["url"], timeout=DEADLINE_S) as client:
            path = client.post("/v1/tasks", json=ASKING_JSON).headers["location"]
            until(lambda: client.get(path).json()["status"] == "waiting_user")
            [asked] = client.get("/v1/approvals").json()["items"]
            answer = client.post(
                f"{path}/steps/ok/approval", json={"answer": "approve"}, headers={"If-Match": f'"{asked["version"]}"'}
            )
            assert answer.status_code == 200
            until(lambda: client.get(path).json()["status"] == "completed")
            process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    assert shell("show", "@last", "--json").json["status"] == "completed"


def test_a_server_alone_answers_and_carries_nothing_out(shell: Shell):
    with started(shell, "server") as (process, told):
        assert told["worker"] is None
        with httpx.Client(base_url=told["url"], timeout=DEADLINE_S) as client:
            path = client.post("/v1/tasks", json=ASKING_JSON).headers["location"]
            assert client.get("/v1/fleet").json()["workers"] == []
            assert client.get(path).json()["status"] == "queued"
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 0


def test_sigterm_gives_back_what_runs_and_another_worker_goes_on(shell: Shell):
    plan = {"longtask": 1, "name": "long", "steps": [{"id": "a", "run": "test -e go || sleep 600"}]}
    with started(shell, "up", "--no-browser") as (process, told):
        with httpx.Client(base_url=told["url"], timeout=DEADLINE_S) as client:
            path = client.post("/v1/tasks", json=plan).headers["location"]
            until(lambda: client.get(path).json()["steps"][0]["state"] == "running")
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    step = shell("show", "@last", "--json").json["steps"][0]
    assert step["state"] == "ready" and step["attempt"] == 1
    assert shell("fleet", "--json").json["workers"] == []


def test_sigterm_ends_open_streams_and_does_not_wait_for_idle_connections(shell: Shell):
    with started(shell, "up", "--no-browser") as (process, told):
        host, port = told["url"].removeprefix("http://").split(":")
        with (
            httpx.Client(base_url=told["url"], timeout=DEADLINE_S) as client,
            socket.create_connection((host, int(port))),
        ):
            client.get("/v1/tasks")
            with client.stream("GET", "/v1/stream") as stream:
                lines = stream.iter_lines()
                next(lines)
                process.send_signal(signal.SIGTERM)
                for _ in lines:
                    pass
            assert process.wait(DEADLINE_S) == 0


def test_processes_share_one_address_and_end_with_the_command(shell: Shell):
    with started(shell, "server", "--processes", "2") as (process, told):
        pids = children_of(process.pid)
        assert len(pids) == 2 and told["pid"] == process.pid
        with httpx.Client(base_url=told["url"], timeout=DEADLINE_S) as client:
            path = client.post("/v1/tasks", json=ASKING_JSON).headers["location"]
            assert client.get(path).json()["status"] == "queued"
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    assert not any(map(lives, pids))


def test_a_process_that_is_killed_is_replaced(shell: Shell):
    with started(shell, "up", "--no-browser", "--processes", "1") as (process, told):
        [pid] = serving = children_of(process.pid)
        os.kill(pid, signal.SIGKILL)
        until(lambda: children_of(process.pid) not in ([], serving))
        with httpx.Client(base_url=told["url"], timeout=DEADLINE_S) as client:
            path = client.post("/v1/tasks", json=ASKING_JSON).headers["location"]  # the socket was open all the time
            until(lambda: client.get(path).json()["status"] == "waiting_user")


def test_processes_do_not_outlive_a_command_that_is_killed(shell: Shell):
    with started(shell, "server", "--processes", "2") as (process, _):
        pids = children_of(process.pid)
        process.kill()
        until(lambda: not any(map(lives, pids)))


def test_on_another_address_it_does_not_start_without_a_token(shell: Shell):
    for command in ("server", "up"):
        done = shell(command, "--host", "0.0.0.0", "--port", "0", "--json", code=1)
        assert "token" in done.json["message"]


def test_a_port_that_is_taken_is_told(shell: Shell):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = shell("server", "--port", port, "--json", code=1)
    assert port in done.json["message"] and "--port" in done.json["message"]


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("example.com", False),
    ],
)
def test_this_machine_alone_is_known_by_its_addresses(host, local):
    assert is_loopback(host) == local
