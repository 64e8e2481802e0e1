"""Artifacts that a worker elsewhere has fetched: files by their SHA-256, in a folder of its own machine.

A file is there whole, and was compared with its name, or is not there; what was not used for long goes when there is
too much.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from longtask.core.errors import LongTaskError
from longtask.store.artifacts.folder import NEW, Folder, told

BYTES_MAX = 2 << 30
UNUSED_S = 3_600  # a step may have been handed the file's path
TRIM_EVERY_BYTES = 1 << 28
LEFT_S = 86_400  # what a killed process has left half written


class Copies:
    def __init__(self, folder: Path) -> None:
        self._folder = Folder(folder)
        self._come = 0  # bytes, since it was last trimmed
        self._folder.sweep(LEFT_S)
        self._folder.trim(BYTES_MAX, UNUSED_S)

    def has(self, workspace_id: str, digest: str) -> bool:
        """One that is there counts as used."""
        if not self._folder.has(workspace_id, digest):
            return False
        with suppress(OSError):
            os.utime(self._folder.path(workspace_id, digest))
            return True
        return False

    def path(self, workspace_id: str, digest: str) -> Path:
        """Raises NotFound."""
        return self._folder.path(workspace_id, digest)

    def keep(self, workspace_id: str, digest: str, content: Iterable[bytes], size_max: int) -> None:
        """Raises LongTaskError: other bytes than were named, or more; StoreError: the disk."""
        bench = self._folder.workbench(workspace_id)
        try:
            handle, name = tempfile.mkstemp(prefix=NEW, dir=bench)
        except OSError as error:
            raise told(error, bench) from error
        file = Path(name)
        try:
            size = self._write(handle, digest, content, size_max)
            self._folder.keep(workspace_id, digest, file)
        except OSError as error:
            raise told(error, bench) from error
        finally:
            file.unlink(missing_ok=True)
        self._come += size
        if self._come > TRIM_EVERY_BYTES:
            self._come = 0
            self._folder.trim(BYTES_MAX, UNUSED_S)

    def _write(self, handle: int, digest: str, content: Iterable[bytes], size_max: int) -> int:
        found, size = hashlib.sha256(), 0
        with os.fdopen(handle, "wb") as target:
            for piece in content:
                size += len(piece)
                if size > size_max:
                    raise LongTaskError(f"artifact {digest!r}: more came than its {size_max:,} bytes")
                found.update(piece)
                target.write(piece)
            os.fchmod(handle, 0o400)
        if found.hexdigest() != digest:
            raise LongTaskError(f"artifact {digest!r}: what came is not what its hash says")
        return size
