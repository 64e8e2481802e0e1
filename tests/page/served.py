"""A server as a process of its own, on a port that stays its own, so that a page may see it end and come again."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.cli.shell import DEADLINE_S, LONGTASK, Shell, until


@dataclass
class Served:
    """`up`: server and worker in one process."""

    shell: Shell
    port: int
    words: tuple[str, ...] = ("up", "--no-browser")
    process: subprocess.Popen[bytes] | None = None
    api: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.api = httpx.Client(base_url=self.url, timeout=DEADLINE_S)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it answers."""
        log = self.shell.home.parent / f"server-{self.port}.log"
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [LONGTASK, *self.words, "--port", str(self.port), "--json"],
                cwd=self.shell.cwd,
                env=self.shell.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        assert self.process.stdout is not None
        assert json.loads(self.process.stdout.readline() or "{}"), log.read_text()

    def end(self, number: int = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.communicate(timeout=DEADLINE_S)
            self.process = None

    def submit(self, plan: dict[str, Any]) -> str:
        """The task's id."""
        answer = self.api.post("/v1/tasks", json=plan)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["task"])

    def status(self, task: str) -> str:
        return str(self.api.get(f"/v1/tasks/{task}").json()["status"])

    def reaches(self, task: str, status: str, deadline_s: float = DEADLINE_S) -> None:
        until(lambda: self.status(task) == status, deadline_s)


@contextmanager
def serving(shell: Shell) -> Iterator[Served]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    served = Served(shell, port)
    served.start()
    try:
        yield served
    finally:
        served.end()
        served.api.close()
        shell.sweep()


def shell_in(folder: Path) -> Shell:
    folder.mkdir(parents=True, exist_ok=True)
    return Shell(folder / "home", folder, {"LONGTASK_SERVER": "", "XDG_CONFIG_HOME": str(folder / "config")})
