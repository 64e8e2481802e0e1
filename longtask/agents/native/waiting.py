"""Until a program has written to its session's file what its stream has shown: the stream is a little ahead."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

WRITTEN_S = 2.0  # mostly it is there within milliseconds
EVERY_S = 0.01
TAIL_BYTES = 4 * 1024 * 1024


def until_written(file: Callable[[], Path | None], text: str) -> bool:
    """False: it is not there after a while, and the session is kept as it is."""
    wanted = text.encode()

    def written() -> bool:
        found = file()
        return found is not None and wanted in _tail(found)

    return until(written, WRITTEN_S)


def until(there: Callable[[], bool], within_s: float) -> bool:
    """Looks again and again, since the program tells nobody when it writes.  False: not within that time."""
    end = time.monotonic() + within_s
    while not there():
        if time.monotonic() >= end:
            return False
        time.sleep(EVERY_S)
    return True


def _tail(file: Path) -> bytes:
    with file.open("rb") as content:
        content.seek(max(0, os.fstat(content.fileno()).st_size - TAIL_BYTES))
        return content.read()
