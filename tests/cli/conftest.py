"""A repository and a home for each test; whatever was started in it is ended with it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """In a repository with one commit."""
    made = Shell(tmp_path / "home", make_repository(tmp_path / "repo"))
    yield made
    made.sweep()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """The same for all tests of a file, which only look."""
    folder = tmp_path_factory.mktemp("world")
    made = Shell(folder / "home", make_repository(folder / "repo"))
    yield made
    made.sweep()


def make_repository(folder: Path) -> Path:
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    identity = ("-c", "user.name=ann", "-c", "user.email=ann@example.com")
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*identity, "commit", "-q", "-m", "begin"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder
