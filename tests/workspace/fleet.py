"""Machines of a fleet: each has a home of its own, and all share one hub."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longtask.core.model import Done, JsonMap, Kind, Outcome, StepSpec
from longtask.steps.contract import Assignment
from longtask.steps.places import Places
from longtask.workspace import Workspace
from tests.workspace.conftest import TASK, USER, Repo


@dataclass
class Line:
    """What a place asks of its attempt's desk."""

    checkpoints: list[tuple[int, str | None]] = field(default_factory=list)

    def checkpoint(self, position: int, tree: str | None) -> bool:
        self.checkpoints.append((position, tree))
        return True

    def output(self, stream: str, body: bytes) -> None: ...
    def stopping(self) -> bool:
        return False

    def put_artifact(self, name: str, body: bytes, media_type: str) -> JsonMap:
        return {"name": name}


@dataclass
class Machine:
    """`user` is its HOME, `home` its LONGTASK_HOME."""

    root: Path
    hub: str
    line: Line = field(default_factory=Line)

    @property
    def home(self) -> Path:
        return self.root / "longtask"

    def open(self, repo: Repo) -> Workspace:
        return Workspace.open(self.home, repo.path, self.hub)

    def at(self, workspace_id: str) -> Workspace:
        return Workspace.at(self.home, workspace_id, self.hub)

    @property
    def places(self) -> Places:
        return Places(self.home, self.hub)

    def begin(self, places: Places, a: Assignment) -> Path:
        desk: Any = self.line
        return places.prepare(a, desk)

    def keep(self, places: Places, a: Assignment, place: Path) -> Done:
        desk: Any = self.line
        outcome: Outcome = places.keep(a, place, Done(), desk)
        assert isinstance(outcome, Done)
        return outcome

    def work(self, workspace_id: str, step: str, base: str, **files: str) -> str:
        """One attempt from its beginning to its delivery."""
        a = assignment(workspace_id, base, step)
        places = self.places
        place = self.begin(places, a)
        for name, content in files.items():
            (place / name).write_text(content)
        commit = self.keep(places, a, place).commit
        assert commit is not None
        return commit


def assignment(workspace_id: str, base: str, step: str = "s", attempt: int = 1, **more: Any) -> Assignment:
    spec = StepSpec(Kind.AGENT, commits=True)
    return Assignment(TASK, "t", step, attempt, 1, spec, base, workspace_id, None, **more)


def row(n: int, tree: str) -> JsonMap:
    return {"n": n, "kind": "tool", "name": "write", "fingerprint": "", "body": {"tree": tree}, "done": True}


def refs_of(folder: Path, under: str = "refs") -> dict[str, str]:
    """As the shared hub has them, asked by a git that is not ours."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | USER
    words = ["git", "-c", "safe.directory=*", "for-each-ref", "--format=%(refname) %(objectname)", under]
    out = subprocess.run(words, cwd=folder, env=env, check=True, capture_output=True, text=True).stdout
    return dict(line.split(" ") for line in out.splitlines())


def git_there(folder: Path, *words: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | USER
    done = subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def silent_server() -> Iterator[int]:
    """Takes connections and says nothing; the value is its port."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]
