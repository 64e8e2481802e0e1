"""Where a workload runs: databases by name, on SQLite files in a folder or on a PostgreSQL server of our own.

A bed makes, copies, works on and measures them, and replays recorded statements, the same way on both.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from bench import postgres_probe, probe, tasks
from bench.postgres import Server, server
from bench.probe import Recorder, Statement
from longtask import boot
from longtask.config import Config
from longtask.core.graph import Graph
from longtask.core.model import Task
from longtask.store.postgres.store import PostgresStore

Trace = Callable[[str, Any], None]
Fault = Callable[[str], None]
OUT = Path(__file__).parent / "out"


class Bed(ABC):
    prefix: ClassVar[str]  # of the workloads' names

    def __init__(self, at: Path) -> None:
        self.at = at

    @abstractmethod
    def target(self, name: str) -> str:
        """What `tasks.parts_at` opens: a folder, or a URL."""

    @abstractmethod
    def parts_at(self, name: str, trace: Trace | None = None, fault: Fault | None = None) -> boot.Parts: ...

    @abstractmethod
    def fresh(self, name: str) -> None: ...

    @abstractmethod
    def settle(self, name: str) -> int:
        """Has the database written in one piece; its bytes.  Nobody may be connected."""

    @abstractmethod
    def copied(self, name: str, to: str) -> str:
        """The same database again as `to`, which it returns."""

    @abstractmethod
    def recorded(self, name: str, slots: int) -> list[Statement]:
        """The statements of a run, ungrouped; the run is done on the database itself."""

    @abstractmethod
    def replayed(self, name: str, statements: Sequence[Statement]) -> float:
        """The seconds that the database itself took for them."""

    def submitted(self, name: str, *graphs: Graph, fault: Fault | None = None) -> list[Task]:
        """A fresh database in which these tasks wait for a worker."""
        self.fresh(name)
        parts = self.parts_at(name, fault=fault)
        made = [parts.desk.submit(graph) for graph in graphs]
        parts.store.close()
        self.settle(name)
        return made

    def worked_off(self, name: str, slots: int, trace: Trace | None = None) -> float:
        """Works all tasks off; the seconds that it took."""
        parts = self.parts_at(name, trace)
        return tasks.work(parts, lambda: tasks.all_ended(parts), slots)


class SqliteBed(Bed):
    prefix = ""

    def target(self, name: str) -> str:
        return str(self.at / name)

    def parts_at(self, name: str, trace: Trace | None = None, fault: Fault | None = None) -> boot.Parts:
        return tasks.parts_at(self.at / name, trace, fault)

    def fresh(self, name: str) -> None:
        shutil.rmtree(self.at / name, ignore_errors=True)
        (self.at / name).mkdir(parents=True)

    def settle(self, name: str) -> int:
        return tasks.settle(self.at / name)

    def copied(self, name: str, to: str) -> str:
        tasks.copied(self.at / name, self.at / to)
        return to

    def recorded(self, name: str, slots: int) -> list[Statement]:
        recorder = Recorder()
        self.worked_off(name, slots, recorder)
        return list(probe.ungrouped(recorder.statements))

    def replayed(self, name: str, statements: Sequence[Statement]) -> float:
        return probe.replayed(self.at / name / tasks.DATABASE, statements)


class PostgresBed(Bed):
    prefix = "pg_"

    def __init__(self, at: Path, server: Server) -> None:
        super().__init__(at)
        self.server = server

    def target(self, name: str) -> str:
        return self.server.url(name)

    def parts_at(self, name: str, trace: Trace | None = None, fault: Fault | None = None) -> boot.Parts:
        config = Config(self.at / "home", self.target(name))
        return boot.parts_on(config, PostgresStore(config.database, trace=trace, fault=fault))

    def fresh(self, name: str) -> None:
        self.server.fresh(name)

    def settle(self, name: str) -> int:
        with self.server.line() as line:
            line.execute("checkpoint")
        return self.server.size(name)

    def copied(self, name: str, to: str) -> str:
        self.server.copy(name, to)
        return to

    def recorded(self, name: str, slots: int) -> list[Statement]:
        recorder = Recorder()
        self.worked_off(name, slots, recorder)
        return list(postgres_probe.ungrouped(recorder.statements))

    def replayed(self, name: str, statements: Sequence[Statement]) -> float:
        return postgres_probe.replayed(self.target(name), statements)


@contextmanager
def folder() -> Iterator[Path]:
    """Beside the sources, not in /tmp, which may be memory."""
    OUT.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=OUT) as made:
        yield Path(made)


@contextmanager
def sqlite() -> Iterator[Bed]:
    with folder() as at:
        yield SqliteBed(at)


@contextmanager
def postgres() -> Iterator[Bed]:
    """Raises NoServer."""
    with folder() as at, server(at) as running:
        yield PostgresBed(at, running)
