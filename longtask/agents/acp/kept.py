"""The databases in which an agent keeps its sessions, copied whole while it writes to them.

A copy of SQLite's files, taken as they stand, may be of two moments; so SQLite itself copies, page by page, as of one.
Pages keep their places: what has not changed is not kept twice (`steps/session.py`).
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path

KEPT = "kept"
BUSY_S = 10.0


def keep(folder: Path, databases: Sequence[str]) -> list[str]:
    """What is to be kept with a row; empty as long as there is nothing."""
    kept = []
    for name in databases:
        if (folder / name).exists():
            copy = folder / KEPT / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            _copy(folder / name, copy)
            kept.append(f"{KEPT}/{name}")
    return kept


def put_back(folder: Path, databases: Sequence[str]) -> bool:
    """False: there was nothing."""
    found = False
    for name in databases:
        if (folder / KEPT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / KEPT / name, folder / name)
            found = True
    return found


def _copy(database: Path, copy: Path) -> None:
    with (
        contextlib.closing(sqlite3.connect(database, timeout=BUSY_S)) as source,
        contextlib.closing(sqlite3.connect(copy)) as target,
    ):
        target.execute("pragma synchronous = off")
        source.backup(target)
        target.execute("pragma journal_mode = delete")  # all of it in the one file
