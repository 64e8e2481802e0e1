"""A process that prunes, killed between any two batches, leaves nothing dangling once another one has pruned."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from longtask import boot
from longtask.config import Config
from longtask.store.upkeep import PRUNED_TABLES
from longtask.workspace.workspace import Workspace
from tests import postgres
from tests.conformance.play import ready, submit
from tests.conformance.test_upkeep import ended_task
from tests.workspace.conftest import Repo

# A header goes, rows go in batches, output goes, references go, the note goes: each followed by the same of the next.
POINTS = [
    "store.begin#1", "store.locked#1", "store.written#1", "store.commit#1", "store.committed#1", "store.written#2",
    "store.committed#2", "store.committed#3", "store.commit#4", "store.single#1", "store.single.committed#1",
    "store.single.committed#2",
]  # fmt: skip


@pytest.fixture(params=["sqlite", "postgresql"])
def parts(request, tmp_path: Path) -> Iterator[boot.Parts]:
    url = str(tmp_path / "x.db") if request.param == "sqlite" else postgres.fresh_url()
    made = boot.open_parts(Config(tmp_path / "home", url))
    yield made
    made.store.close()
    if request.param == "postgresql":
        postgres.drop(url)


def left(parts: boot.Parts, id: str, number: int) -> list[str]:
    """What there is of a task."""
    store = parts.store
    found = [f"note of {one.task_id}" for one in store.half_pruned(0, 99)]
    for table in PRUNED_TABLES:  # to take rows away is the one way to see those that belong to nobody
        found += [table] * len(store.single(f"prune_{table}", {"task_n": number, "limit": 99}))  # type: ignore[attr-defined]
    return found + ["output"] * len(store.output_of_task(id, ("", 0, 0), 99))


@pytest.mark.parametrize("point", POINTS)
def test_killed_between_two_batches_the_next_one_takes_the_rest(parts, tmp_path, point):
    repo = Repo(tmp_path / "repo")
    repo.write("a.txt", "one\n")
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "begin")
    workspace = Workspace.open(parts.config.home, repo.path)
    commit = workspace.base().commit
    ids = [ended_task(parts.store, number, workspace_id=workspace.id) for number in (1, 2)]
    for id in ids:
        workspace.advance(id, commit)
    numbers = [parts.store.get_task(id).number for id in ids]
    stays = submit(parts.store, 3, ready("a"))  # its event is the newest
    name, _, hit = point.partition("#")
    words = [sys.executable, "-m", "tests.crash.pruning", str(parts.config.home), parts.config.database, name, hit]
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    seen = {task.id for task in parts.store.tasks(open_only=False, workspace_id=None, before=0, limit=9)}
    assert stays in seen
    for id in seen.intersection(ids):
        assert parts.store.steps(id, "", 9) and parts.store.output_of_task(id, ("", 0, 0), 9), "whole, or gone"
    for _ in boot.make_upkeep(parts, 0).round():
        pass
    assert [task.id for task in parts.store.tasks(open_only=False, workspace_id=None, before=0, limit=9)] == [stays]
    for id, number in zip(ids, numbers, strict=True):
        assert left(parts, id, number) == []
        assert workspace.head(id) is None
    assert parts.store.steps(stays, "", 9)
