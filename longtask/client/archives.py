"""Archives, fetched into a file as artifacts are, and sent from one; without sockets.

An archive has the same bytes whenever it is made of the same state of a task, so a download that was cut goes on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from longtask.client.fetching import Fetching
from longtask.client.request import path
from longtask.core.errors import Refused

TYPE = "application/gzip"
ARCHIVES = path("archives")
BLOCK_BYTES = 1 << 18


class FetchingArchive(Fetching):
    made = True

    def __init__(self, task: str, file: Path) -> None:
        super().__init__(task, "archive", file, None)

    @property
    def path(self) -> str:
        return path("tasks", self._task, "archive")

    @property
    def _what(self) -> str:
        return f"the archive of task {self._task!r}"


def blocks(file: str | os.PathLike[str]) -> Iterator[bytes]:
    """Raises Refused."""
    try:
        with open(file, "rb") as content:
            while block := content.read(BLOCK_BYTES):
                yield block
    except OSError as error:
        raise Refused(f"file {os.fspath(file)!r} cannot be read: {error.strerror}") from None
