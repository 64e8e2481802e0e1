"""A real engine on virtual time, and what its journal comes to as spans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from longtask.telemetry.file import MEMORY, TraceFile
from longtask.telemetry.follower import Reader
from longtask.telemetry.settings import TraceSettings
from longtask.telemetry.source import Span
from tests.engine.world import World


class Seen:
    """A trace file in memory, or at `path`, that follows a world."""

    def __init__(self, world: World, path: str | Path = MEMORY, **settings) -> None:
        self.world = world
        self.file = TraceFile(path)
        self.reader = Reader(world.store, self.file, TraceSettings(**settings))

    def follow(self, page: int = 500) -> Seen:
        while self.reader.round(page):
            pass
        return self

    def spans(self, task: int = -1) -> list[Span]:
        return self.file.spans(self.world.tasks[task], 10_000)

    def named(self, name: str) -> Span:
        found = [span for span in self.spans() if span.name == name]
        assert len(found) == 1, f"{name!r}: {[span.name for span in self.spans()]}"
        return found[0]

    def lines(self) -> list[str]:
        """Each span under its parent, with its outcome."""
        spans = {span.id: span for span in self.spans()}

        def path(span: Span) -> str:
            above = spans.get(span.parent)
            return (path(above) + " / " if above else "") + span.name

        return [path(span) for span in spans.values()]

    def count(self, name: str, *labels: str) -> float:
        return self.file.counters(self.reader.database).get((name, labels), 0)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.store.close()


@pytest.fixture
def seen(world: World) -> Iterator[Seen]:
    made = Seen(world)
    yield made
    made.file.close()
