"""`call` steps against real engines elsewhere: a DBOS program, and Restate's server with a service.

Their environments are those of `bench/peers` (`make bench-peers` makes them); without one its test is skipped.
"""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from longtask import boot
from longtask.api.server import make_server
from longtask.api.settings import Settings
from longtask.config import Config
from longtask.core.model import StepState
from longtask.plan import compile_plan, from_values
from longtask.store.contract import Ref
from tests.api.carrying import carry
from tests.api.live import serving
from tests.cli.shell import until

pytestmark = pytest.mark.slow

ENVIRONMENTS = Path(__file__).parents[2] / ".bench"
HERE = Path(__file__).parent
UP_S_MAX = 60.0
COMMIT = "4f2a91c0ffee"
BODY = {"commit": COMMIT, "answer_to": "${{ callback.url }}"}


def environment(name: str) -> Path:
    """Its folder of programs."""
    programs = ENVIRONMENTS / name / "bin"
    if not (programs / "python").exists():
        pytest.skip(f"no environment of {name} in .bench: make bench-peers makes it")
    return programs


@contextmanager
def running(*command: str | Path, **options) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, text=True, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def answers(url: str) -> None:
    def good() -> bool:
        try:
            return httpx.get(url, timeout=1).status_code < 500
        except httpx.HTTPError:
            return False

    until(good, UP_S_MAX)


@pytest.fixture
def parts(tmp_path) -> Iterator[boot.Parts]:
    """Of a server that listens, and of a worker that may call programs of this machine."""
    config = Config(tmp_path / "home", str(tmp_path / "longtask.db"), allow_private=("127.0.0.1",))
    opened = boot.open_parts(config)
    with serving(make_server(opened, Settings())) as live:
        yield replace(opened, config=replace(config, public_url=f"http://{live.host}"))
    opened.store.close()


def called(parts: boot.Parts, url: str) -> tuple[str, dict]:
    """Carries a task with one call of that address to its end; the task and the step's result."""
    plan = {
        "longtask": 1,
        "name": "out",
        "steps": [{"id": "deploy", "call": {"url": url, "body": BODY, "timeout": "1m"}}],
    }
    task = parts.desk.submit(compile_plan(from_values(plan))).id

    def step():
        return parts.store.get_step(Ref(task, "deploy"))

    carry(parts, lambda: step().state in (StepState.COMPLETED, StepState.FAILED))
    assert step().state is StepState.COMPLETED, step().reason
    return task, step().result


def call_again(url: str, key: str) -> int:
    """As a send whose answer was lost is repeated."""
    answer = httpx.post(
        url, json={"commit": COMMIT, "answer_to": "http://127.0.0.1:9/"}, headers={"idempotency-key": key}
    )
    return answer.status_code


def test_a_dbos_workflow_is_begun_once_and_answers(parts, tmp_path):
    python = environment("dbos") / "python"
    with running(python, HERE / "dbos_program.py", tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}/"
        task, result = called(parts, url)
        assert result == {"short": "4f2a", "by": "dbos"}
        assert call_again(url, f"{task}/deploy/1") == 202
    assert (tmp_path / "ran").read_text() == f"{COMMIT}\n"


def test_a_restate_invocation_is_begun_once_and_answers(parts, tmp_path):
    programs = environment("restate")
    machine = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), "none")
    package = programs.parent / "node_modules" / "@restatedev" / f"restate-server-{sys.platform}-{machine}"
    if not (server := package / "bin" / "restate-server").exists():
        pytest.skip(f"no Restate server for {sys.platform} on {machine}")
    node, ingress, admin, service = (free_port() for _ in range(4))
    config = tmp_path / "restate.toml"
    config.write_text(
        f'node-name = "test"\nbase-dir = "{tmp_path}/data"\nlisten-mode = "tcp"\nbind-ip = "127.0.0.1"\n'
        f'bind-port = {node}\ndisable-telemetry = true\nlog-filter = "error"\n'
        f'[ingress]\nbind-address = "127.0.0.1:{ingress}"\n'
        f'[admin]\nbind-address = "127.0.0.1:{admin}"\ndisable-web-ui = true\n'
    )
    there = {**os.environ, "RAN": str(tmp_path / "ran"), "PYTHONPATH": str(HERE)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    hypercorn = (programs / "hypercorn", "--log-level", "ERROR", "restate_service:app", "-b", f"127.0.0.1:{service}")
    with running(server, "-c", config, "--no-logo", **quiet), running(*hypercorn, env=there, **quiet):
        answers(f"http://127.0.0.1:{admin}/health")
        answers(f"http://127.0.0.1:{ingress}/restate/health")
        answers(f"http://127.0.0.1:{service}/health")
        found = httpx.post(
            f"http://127.0.0.1:{admin}/deployments", json={"uri": f"http://127.0.0.1:{service}"}, timeout=30
        )
        found.raise_for_status()
        url = f"http://127.0.0.1:{ingress}/Elsewhere/deploy/send"
        task, result = called(parts, url)
        assert result == {"short": "4f2a", "by": "restate"}
        assert call_again(url, f"{task}/deploy/1") in (200, 202)
    assert (tmp_path / "ran").read_text() == f"{COMMIT}\n"


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port: int = made.getsockname()[1]
        return port
