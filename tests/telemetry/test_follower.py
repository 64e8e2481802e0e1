"""The thread that follows: one for each home, beside the work, whatever happens to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from longtask.core.errors import StoreError
from longtask.core.model import Done
from longtask.telemetry import follower as module
from longtask.telemetry.file import TraceFile
from longtask.telemetry.follower import Follower, Reader
from longtask.telemetry.settings import TraceSettings
from tests.cli.shell import until
from tests.engine.world import World, step

FAST = {"IDLE_S": 0.01, "LOCK_EVERY_S": 0.01, "AGAIN_S": 0.01}


@pytest.fixture(autouse=True)
def fast(monkeypatch) -> None:
    for name, value in FAST.items():
        monkeypatch.setattr(module, name, value)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "longtask.db")
    yield made
    made.store.close()


@pytest.fixture
def follow(world: World, tmp_path: Path) -> Iterator[Callable[..., Follower]]:
    made: list[Follower] = []

    def begin(**more) -> Follower:
        made.append(Follower(world.store, tmp_path, TraceSettings(), first_s=0.001, share=1.0, **more))
        return made[-1]

    yield begin
    for one in made:
        one.close()
        assert not one._thread.is_alive()


def ended(home: Path, task_id: str) -> bool:
    with TraceFile.at(home) as file:
        return any(span.kind == "task" and span.ended_at for span in file.spans(task_id, 10))


def test_it_follows_and_ends_at_once(world: World, follow, tmp_path: Path):
    follow()
    task = world.submit(step("a"))
    world.run()
    until(lambda: ended(tmp_path, task.id))


def test_of_two_one_follows_and_the_other_goes_on_when_it_is_gone(world: World, follow, tmp_path: Path):
    first = follow()
    until(lambda: first._reader)
    second = follow()
    first.close()
    task = world.submit(step("a"))
    world.run()
    until(lambda: ended(tmp_path, task.id))
    assert second._reader is not None


def test_trouble_is_told_once_and_does_not_end_it(world: World, follow, tmp_path: Path, monkeypatch, caplog):
    asked = threading.Event()
    real, left = Reader.round, [5]

    def broken(self, *more):
        if left[0]:
            left[0] -= 1
            raise StoreError("the disk is full")
        asked.set()
        return real(self, *more)

    monkeypatch.setattr(Reader, "round", broken)
    follow()
    task = world.submit(step("a"))
    world.run()
    until(lambda: asked.is_set() and ended(tmp_path, task.id))
    assert [record.getMessage() for record in caplog.records] == ["trace.error: the disk is full"]


def test_what_sends_is_begun_by_whoever_follows_and_ended_with_it(world: World, follow):
    told: list[str] = []

    def send():
        told.append("begun")
        return lambda: told.append("ended")

    first = follow(send=send)
    until(lambda: told)
    second = follow(send=send)
    second.close()
    assert told == ["begun"]
    first.close()
    assert told == ["begun", "ended"]


def test_a_new_file_on_an_old_database_begins_with_what_is_new(world: World, tmp_path: Path):
    world.submit(step("a"))
    world.run()
    world.now += module.YOUNG_MS
    with TraceFile.at(tmp_path) as file:
        reader = Reader(world.store, file, TraceSettings())
        assert reader.round() == 0
        new = world.submit(step("a"), name="new")
        world.run()
        assert reader.round() > 0
        assert file.spans(new.id, 10)
        assert not file.spans(world.tasks[0], 10)


def test_a_task_whose_beginning_was_not_read_is_read_from_its_journal(world: World, tmp_path: Path):
    world.submit(step("a"), acts={"a": ["hang"]})
    world.settle()
    world.now += module.YOUNG_MS
    with TraceFile.at(tmp_path) as file:
        reader = Reader(world.store, file, TraceSettings())
        reader.round()
        world.end("a", Done())
        world.run()
        reader.round()
        assert [span.name for span in file.spans(world.tasks[0], 10)] == ["task t", "stage s1", "step a", "attempt a.1"]


def test_of_what_is_too_old_only_the_counters_are_kept(world: World, tmp_path: Path):
    world.submit(step("a"))
    world.run()
    world.now += 1_000
    with TraceFile.at(tmp_path) as file:
        reader = Reader(world.store, file, TraceSettings(keep_ms=500))
        while reader.round():
            pass
        assert not file.spans(world.tasks[0], 10)
        assert file.counters(reader.database)["longtask_tasks_submitted", ()] == 1


def test_of_two_readers_of_one_page_one_counts_it(world: World, tmp_path: Path, monkeypatch):
    world.submit(step("a"))
    world.run()
    feed = world.store.feed
    with TraceFile.at(tmp_path) as file, TraceFile.at(tmp_path) as other:
        reader, faster = (Reader(world.store, opened, TraceSettings()) for opened in (file, other))

        def overtaken(*page):
            monkeypatch.setattr(world.store, "feed", feed)
            while faster.round():
                pass
            return feed(*page)

        monkeypatch.setattr(world.store, "feed", overtaken)
        while reader.round():
            pass
        assert file.counters(reader.database)["longtask_tasks_submitted", ()] == 1
