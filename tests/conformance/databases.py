"""Which databases the contract is tested on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from longtask.store.contract import Store
from longtask.store.postgres.store import PostgresStore
from longtask.store.sqlite import SqliteStore
from tests import postgres


class Clock:
    """The store's time, moved by hand."""

    def __init__(self, at: int = 1_700_000_000_000) -> None:
        self.at = at

    def __call__(self) -> int:
        return self.at

    def forward(self, ms: int) -> None:
        self.at += ms


def sqlite_memory(_folder: Path, clock: Callable[[], int], **more: Any) -> Store:
    return SqliteStore(":memory:", clock, **more)


def sqlite_file(folder: Path, clock: Callable[[], int], **more: Any) -> Store:
    return SqliteStore(folder / "longtask.db", clock, **more)


def postgresql(folder: Path, clock: Callable[[], int], **more: Any) -> Store:
    """Opened again in the same folder, it is the same database."""
    kept = folder / "postgresql.url"
    if not kept.exists():
        kept.write_text(postgres.empty_url())
    return PostgresStore(kept.read_text(), clock, **more)


DATABASES: dict[str, Callable[..., Store]] = {
    "sqlite-memory": sqlite_memory,
    "sqlite-file": sqlite_file,
    "postgresql": postgresql,
}
