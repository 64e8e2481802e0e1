"""A task with something of everything, worked off by the real program, and installations to bring it to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from longtask import boot
from longtask.boot.archives import make_exporter, make_importer
from longtask.config import Config
from tests import postgres
from tests.cli.conftest import make_repository
from tests.cli.shell import Shell

KINDS = ("sqlite", "postgresql")
KEY = "ghp_" + "0aZ9" * 9  # looks like one, and is none
PLAN = """
longtask: 1
name: kept
goal: "To be kept."
workspace: {repo: .}
steps:
  - {id: edit, run: "echo two >> a.txt; echo said; echo also >&2", commit: true}
  - id: big
    run: 'python3 -c "print(\\"x\\" * 9000)" > t; printf "text=%s" "$(cat t)" >> "$LONGTASK_OUTPUT"; rm t'
    outputs: {text: string}
  - {id: think, agent: {prompt: "Look.", runtime: recorded, recording: recording.yaml}, needs: [edit]}
  - {id: bad, run: "echo no; exit 3", when_failed: continue}
  - {id: patch, needs: [think], artifact: {patch: {name: change.patch}}}
"""
RECORDING = f"""
recording: 1
runs:
  - step: think
    turns:
      - {{tools: [{{tool: shell, command: "printf {KEY[:8]}; printf {KEY[8:]}"}}], usage: {{price: 0.5}}}}
      - {{text: "Done with it.", usage: {{tokens_in: 700, tokens_out: 150, price: 0.5}}}}
"""


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Addresses of databases that are this session's alone, by their kind."""
    made: list[str] = []

    def fresh(kind: str) -> str:
        if kind == "sqlite":
            return str(tmp_path_factory.mktemp("database") / "longtask.db")
        made.append(postgres.empty_url())
        return made[-1]

    yield fresh
    for url in made:
        postgres.give_back(url)


@pytest.fixture(scope="session", params=KINDS)
def origin(request, databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[boot.Parts]:
    """Where the task has ended."""
    folder = tmp_path_factory.mktemp("origin")
    shell = Shell(folder / "home", make_repository(folder / "repo"), {"LONGTASK_DATABASE": databases(request.param)})
    shell.plan(PLAN)
    (shell.cwd / "recording.yaml").write_text(RECORDING)
    shell("run", "--foreground", "--dirty", "ignore")
    parts = boot.open_parts(Config(shell.home, shell.env["LONGTASK_DATABASE"]))
    yield parts
    parts.store.close()
    shell.sweep()


@pytest.fixture(scope="session")
def archive(origin: boot.Parts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("archive") / "kept.longtask.tar.gz"
    make_exporter(origin).write(origin.store.get_task("@last").id, file)
    return file


@pytest.fixture(params=KINDS)
def elsewhere(request, databases, tmp_path: Path) -> Iterator[boot.Parts]:
    """Another installation, in which nothing is."""
    parts = boot.open_parts(Config(tmp_path / "elsewhere", databases(request.param)))
    yield parts
    parts.store.close()


@pytest.fixture
def bring(elsewhere: boot.Parts):
    return lambda file, who="bob": make_importer(elsewhere).read(file, who)
