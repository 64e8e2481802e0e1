"""An example in a small repository of its own, with a home of its own; whatever it starts is ended with the test."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.cli.shell import Shell

EXAMPLES = Path(__file__).parents[2] / "examples"
AUTHOR = ("-c", "user.name=ann", "-c", "user.email=ann@example.com")
Place = Callable[[str, Mapping[str, str]], Shell]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Makes the repository of these files, and lays the example's plan and recording into it, uncommitted."""
    made: list[Shell] = []

    def make(example: str, files: Mapping[str, str]) -> Shell:
        repo = tmp_path / "repo"
        for name, text in files.items():
            (repo / name).parent.mkdir(parents=True, exist_ok=True)
            (repo / name).write_text(text)
        for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*AUTHOR, "commit", "-q", "-m", "begin"]):
            subprocess.run(["git", *words], cwd=repo, check=True)
        for file in (EXAMPLES / example).glob("*.yaml"):
            shutil.copy(file, repo)
        made.append(Shell(tmp_path / "home", repo))
        return made[-1]

    yield make
    for shell in made:
        shell.sweep()


def git(shell: Shell, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=shell.cwd, check=True, capture_output=True, text=True)
    return done.stdout.strip()
