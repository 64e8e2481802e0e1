"""Bytes by the hash of their content, in a folder, one tree for each workspace.

    ROOT/<workspace>/ab/cdef...      read-only files, named by their SHA-256

- A file is there whole or not at all: written beside its place, flushed, renamed, and the folder flushed.
- Bytes count only once a fact names them; so they are put before, outside any lock, and putting them again is free.
- What is read is checked against its name.
- Workspaces never see each other's bytes, though they be equal.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from longtask.core.errors import NotFound, StoreError

BLOCK_BYTES = 1 << 20
DIGEST = re.compile(r"[0-9a-f]{64}")
NEW = ".new-"  # begins the name of a file that is being written; after a crash nobody looks at it again
NO_WORKSPACE = "none"  # folder of tasks without a repository


@dataclass(frozen=True, slots=True)
class Stored:
    """What is known of bytes that were put."""

    digest: str
    size_bytes: int
    media_type: str


class ArtifactStore:
    def __init__(self, root: str | Path) -> None:
        self.root = Path(os.path.abspath(root))

    def put(self, workspace_id: str, content: bytes | BinaryIO, media_type: str = "application/octet-stream") -> Stored:
        """Durable when it returns.  Raises StoreError."""
        source = BytesIO(content) if isinstance(content, bytes) else content
        folder = self._folder(workspace_id)
        try:
            _make(folder)
            handle, name = tempfile.mkstemp(prefix=NEW, dir=folder)
        except OSError as error:
            raise _told(error, folder) from error
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                digest, size_bytes = _copy(source, file)
                file.flush()
                os.fchmod(handle, 0o400)
                os.fsync(handle)
            place = folder / digest[:2] / digest[2:]
            _make(place.parent)
            os.replace(temporary, place)  # the same bytes may be there, or come from two at once: any of them will do
            _flush(place.parent)
        except OSError as error:
            raise _told(error, folder) from error
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        return Stored(digest, size_bytes, media_type)

    def path(self, workspace_id: str, digest: str) -> Path:
        """Where the bytes lie.  Raises NotFound."""
        place = self._place(workspace_id, digest)
        if not place.is_file():
            raise NotFound(f"no artifact {digest!r} in workspace {workspace_id!r}")
        return place

    def has(self, workspace_id: str, digest: str) -> bool:
        return self._place(workspace_id, digest).is_file()

    def open(self, workspace_id: str, digest: str) -> BinaryIO:
        """A file of which every byte was compared with the digest.  Raises NotFound, StoreError (damaged)."""
        place = self.path(workspace_id, digest)
        try:
            file = place.open("rb")
        except FileNotFoundError:
            raise NotFound(f"no artifact {digest!r} in workspace {workspace_id!r}") from None
        except OSError as error:
            raise _told(error, place) from error
        try:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
        except OSError as error:
            file.close()
            raise _told(error, place) from error
        if found != digest:
            file.close()
            raise StoreError(
                f"artifact {digest!r} is damaged: its bytes have the hash {found!r}; restore {str(place)!r} from a "
                "backup, or delete it and run again what made it"
            )
        return file

    def read(self, workspace_id: str, digest: str) -> bytes:
        """All bytes at once."""
        with self.open(workspace_id, digest) as file:
            return file.read()

    def drop(self, workspace_id: str, digest: str) -> None:
        """For collection: the row in `blob` is deleted first.  Fine if the bytes are gone."""
        with suppress(FileNotFoundError):
            self._place(workspace_id, digest).unlink()

    def sweep(self, older_than_s: float) -> int:
        """Deletes what a crash left half written, if it is as old as that; answers how many files."""
        swept = 0
        for file in self.root.glob(f"*/{NEW}*"):
            with suppress(FileNotFoundError):
                if time.time() - file.stat().st_mtime > older_than_s:
                    file.unlink()
                    swept += 1
        return swept

    def digests(self, workspace_id: str) -> Iterator[str]:
        """Of everything that is there, in no order."""
        for place in self._folder(workspace_id).glob("[0-9a-f][0-9a-f]/*"):
            yield place.parent.name + place.name

    def _place(self, workspace_id: str, digest: str) -> Path:
        if not DIGEST.fullmatch(digest):
            raise NotFound(f"artifact {digest!r}: a digest is 64 characters of 0-9 and a-f")
        return self._folder(workspace_id) / digest[:2] / digest[2:]

    def _folder(self, workspace_id: str) -> Path:
        """A workspace's id may hold any character, so it is not a path; its folder is."""
        if not workspace_id:
            return self.root / NO_WORKSPACE
        if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", workspace_id) and workspace_id != NO_WORKSPACE:
            return self.root / workspace_id
        return self.root / ("~" + hashlib.sha256(workspace_id.encode("utf-8", "surrogateescape")).hexdigest()[:40])


def _copy(source: BinaryIO, target: BinaryIO) -> tuple[str, int]:
    """(digest, size in bytes)."""
    digest = hashlib.sha256()
    size_bytes = 0
    while block := source.read(BLOCK_BYTES):
        digest.update(block)
        target.write(block)
        size_bytes += len(block)
    return digest.hexdigest(), size_bytes


def _make(folder: Path) -> None:
    """For its owner alone, and durable, as are the folders above it."""
    if not folder.is_dir():
        if not folder.parent.is_dir():
            _make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        _flush(folder.parent)


def _flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _told(error: OSError, place: Path) -> StoreError:
    what = f"artifacts in {str(place)!r}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreError(f"{what}: the disk is full ({error.strerror}), nothing was kept; free space and try again")
    return StoreError(f"{what}: {error.strerror}; look at the folder's permissions and disk")
