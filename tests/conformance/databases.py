"""Which databases the contract is tested on.  PostgreSQL joins here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from longtask.store.contract import Store
from longtask.store.sqlite import SqliteStore


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


DATABASES: dict[str, Callable[..., Store]] = {"sqlite-memory": sqlite_memory, "sqlite-file": sqlite_file}
