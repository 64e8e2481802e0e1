"""A user's repository, made by the real git as users have it, and the workspace on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from longtask.workspace import Workspace
from longtask.workspace.hub import hub_id

ROOT = Path(__file__).parents[2]

TASK = "01890a5d-ac96-774b-bcce-b302099a8057"

USER = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


class Repo:
    """The user's side: a folder with a repository in it."""

    def __init__(self, path: Path, *init: str) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        if init != ("clone",):
            self.git("init", "--quiet", "--initial-branch=main", *init)

    def git(
        self,
        *words: str,
        cwd: Path | None = None,
        stdin: bytes = b"",
        fails: bool = False,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | USER | dict(env)
        place = cwd or self.path
        done = subprocess.run(["git", *words], cwd=place, env=env, input=stdin, capture_output=True, check=False)
        assert (done.returncode != 0) == fails, done.stderr.decode()
        return os.fsdecode(done.stdout).strip()

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def commit(self, message: str = "work", **files: str) -> str:
        for name, content in files.items():
            self.write(name, content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")


class Child:
    """Another process of ours, which runs `program` and is led line by line."""

    def __init__(self, program: str, *words: str) -> None:
        command = [sys.executable, "-c", program, *words]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()

    def tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def let_go(self) -> None:
        """Whatever still reads from us comes to an end."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self) -> str:
        out = self.process.communicate()[0]
        assert self.process.returncode == 0
        return out.decode().strip()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(scope="session")
def first_commit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Repo(tmp_path_factory.mktemp("first"), "--template=")
    made.commit("first", a="one\ntwo\nthree\n", b="b\n")
    return made.path


@pytest.fixture
def repo(tmp_path: Path, first_commit: Path) -> Repo:
    shutil.copytree(first_commit, tmp_path / "repo")
    made = Repo(tmp_path / "repo", "clone")
    made.git("status")  # the copies are new files to its index
    return made


@pytest.fixture
def make_repo(tmp_path: Path) -> Callable[..., Repo]:
    return lambda name, *init: Repo(tmp_path / name, *init)


@pytest.fixture(scope="session")
def first_hub(tmp_path_factory: pytest.TempPathFactory, first_commit: Path) -> Path:
    made = Workspace.open(tmp_path_factory.mktemp("hub"), first_commit)
    made.base()
    return made.hub.path


@pytest.fixture
def workspace(home: Path, repo: Repo, first_hub: Path) -> Workspace:
    """Opened before, when the repository had its first commit."""
    shutil.copytree(first_hub, home / "hubs" / f"{hub_id(repo.path / '.git')}.git")
    return Workspace.open(home, repo.path)


@pytest.fixture
def base(workspace: Workspace) -> str:
    return workspace.base().commit


Work = Callable[..., str]


@pytest.fixture
def work(workspace: Workspace) -> Work:
    """work(step, base, name="content", gone=None ...): one attempt that writes and deletes files, and delivers."""

    def attempt(step: str, base: str, **files: str | None) -> str:
        wt = workspace.checkout(TASK, step, 1, base)
        for name, content in files.items():
            if content is None:
                (wt.path / name).unlink()
            else:
                (wt.path / name).write_text(content)
        made = workspace.commit(wt, f"{step}\n")
        assert made is not None
        return made

    return attempt
