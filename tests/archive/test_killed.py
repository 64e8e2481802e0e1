"""Killed anywhere while it is brought, a task is there whole or not at all; the same file brings the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from longtask import boot
from longtask.archive.importing import Imported
from longtask.boot.archives import make_importer
from longtask.config import Config
from longtask.core.errors import NotFound
from tests.archive.test_round_trip import whole
from tests.conformance.databases import DATABASES, Clock
from tests.conformance.test_blocks import Crash, FaultAt


class Fault(FaultAt):
    """`then` is called at each point."""

    def __init__(self) -> None:
        super().__init__()
        self.then: Callable[[str], None] = lambda point: None

    def __call__(self, point: str) -> None:
        self.then(point)
        super().__call__(point)


KINDS = {"sqlite": "sqlite-file", "postgresql": "postgresql"}


@pytest.fixture(params=sorted(KINDS))
def faulty(request, tmp_path: Path) -> Iterator[tuple[boot.Parts, Fault]]:
    """An installation whose database dies where it is told to."""
    fault, clock = Fault(), Clock()
    store = DATABASES[KINDS[request.param]](tmp_path, clock, fault=fault)
    parts = boot.open_parts(Config(tmp_path / "home", str(tmp_path / "unused.db")))
    parts.store.close()
    yield replace(parts, store=store, artifacts=boot.open_artifacts(parts.config, store)), fault
    store.close()


@pytest.mark.parametrize("origin", ["sqlite"], indirect=True)
@pytest.mark.parametrize("point", ["begin", "locked", "written", "commit", "committed"])
def test_killed_around_its_rows(origin, archive, faulty, point):
    parts, fault = faulty
    id = origin.store.get_task("@last").id
    parts.store.identity()
    fault.point = point
    with pytest.raises(Crash):
        make_importer(parts).read(archive, "bob")
    if point == "committed":
        assert parts.store.get_task(id).id == id
        assert parts.store.output_of_task(id, ("", 0, 0), 9) == []
    else:
        with pytest.raises(NotFound):
            parts.store.get_task(id)
    assert make_importer(parts).read(archive, "bob").again == (point == "committed")
    assert whole(parts.store, id) == whole(origin.store, id)
    workspace = origin.store.get_task(id).workspace_id
    assert boot.GitMerger(parts.config.home).workspace(workspace).head(id) == origin.store.get_task(id).head


@pytest.mark.parametrize("origin", ["sqlite"], indirect=True)
def test_of_two_at_once_one_brings_it_and_the_other_says_so(origin, archive, faulty):
    parts, fault = faulty
    parts.store.identity()
    first: list[Imported] = []

    def overtake() -> None:
        first.append(make_importer(parts).read(archive, "carl"))

    def at(point: str) -> None:
        if point == "begin" and not threads:
            threads.append(Thread(target=overtake))
            threads[0].start()
            threads[0].join()

    threads: list[Thread] = []
    fault.then = at
    assert make_importer(parts).read(archive, "bob").again
    assert not first[0].again
    [note] = parts.store.inbox(first[0].task.id, 0, 9)
    assert note.sender == "carl"
