"""Folders that end with their attempt, and that a killed worker does not leave behind for ever.

    TMPDIR/longtask-<chance>/.lock      held by the process that works below it, for as long as it lives
    TMPDIR/longtask-<chance>/<chance>   of one attempt

Whoever makes its own folder first takes away those whose lock nobody holds any more.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

PREFIX = "longtask-"
LOCK = ".lock"


def make_scratch() -> Path:
    """An empty folder, for its owner alone."""
    return Path(tempfile.mkdtemp(dir=_own(tempfile.gettempdir(), os.getpid())))


@cache
def _own(folder: str, pid: int) -> Path:
    sweep(Path(folder))
    own = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder))
    lock = os.open(own / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)  # kept open to the end of the process
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.rename(own / "lock", own / LOCK)  # seen by others only now that it is held
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return own


def sweep(folder: Path) -> None:
    """Takes away what killed workers of this user have left."""
    for left in folder.glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError):
            lock = os.open(left, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left.parent, ignore_errors=True)
            finally:
                os.close(lock)
