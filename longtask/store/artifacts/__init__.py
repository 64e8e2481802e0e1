"""Bytes by the hash of their content: whole or not at all, checked when read, apart for each workspace.

`ArtifactStore` is the one contract.  Where the bytes lie is a `Place`: a folder (folder.py), which may lie on a shared
disk, or an S3-compatible bucket (bucket.py).  Their names are the same in both:

    ROOT/<workspace>/ab/cdef...      named by their SHA-256

- Bytes are there whole or not at all; what is put is on the disk, or acknowledged by the bucket, when `put` returns.
- Bytes count only once a fact names them; so they are put before, outside any lock, and putting them again is free.
- What is read is checked against its name.
- Workspaces never see each other's bytes, though they be equal.
- Row before bytes, both ways: `put` registers its digest in the store's ledger before the bytes become visible, and a
  collector condemns the row before it takes the bytes away.  So no bytes lie about that no row knows, and bytes that
  are being collected are waited for, not put in vain.
- Each database that keeps bytes at a place leaves its identity there; nothing is collected where there are several.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Protocol

from longtask.core.errors import StoreError
from longtask.store.artifacts.folder import NEW, Folder, told
from longtask.store.contract import BLOB_CONDEMNED_MS

BLOCK_BYTES = 1 << 20
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Stored:
    """What is known of bytes that were put."""

    digest: str
    size_bytes: int
    media_type: str


class Place(Protocol):
    """Where bytes lie.  Every method may raise StoreError, which says what to do."""

    def workbench(self, workspace_id: str) -> Path:
        """A local folder, made if need be, where bytes are written before they are kept."""

    def keep(self, workspace_id: str, digest: str, file: Path) -> None:
        """Takes a flushed file of the workbench.  Durable when it returns; the file may be gone then."""

    def has(self, workspace_id: str, digest: str) -> bool: ...
    def path(self, workspace_id: str, digest: str) -> Path:
        """A local file with the bytes; those that came over a network were checked.  Raises NotFound."""

    def open(self, workspace_id: str, digest: str) -> BinaryIO:
        """A file of which every byte was compared with the digest.  Raises NotFound, StoreError (damaged)."""

    def drop(self, workspace_id: str, digest: str) -> None:
        """Fine if the bytes are gone."""

    def digests(self, workspace_id: str) -> Iterator[str]: ...
    def sweep(self, older_than_s: float) -> int: ...
    def claim(self, owner: str) -> None:
        """Notes for ever that this database keeps bytes here."""

    def owners(self) -> set[str]: ...


class Ledger(Protocol):
    """What of the store's contract is needed here."""

    def identity(self) -> str: ...
    def use_blob(self, workspace_id: str, digest: str, size_bytes: int) -> bool: ...


class ArtifactStore:
    """`place`: a path stands for a folder.  Without a `ledger` nothing is ever collected."""

    def __init__(self, place: Place | str | Path, ledger: Ledger | None = None) -> None:
        self.place = Folder(place) if isinstance(place, str | Path) else place
        self._ledger = ledger
        self._owner: str | None = None  # once it stands at the place

    def put(self, workspace_id: str, content: bytes | BinaryIO, media_type: str = "application/octet-stream") -> Stored:
        """Durable when it returns.  Raises StoreError."""
        with _written(self.place.workbench(workspace_id), content) as (file, digest, size_bytes):
            self._register(workspace_id, digest, size_bytes)
            self.place.keep(workspace_id, digest, file)
        return Stored(digest, size_bytes, media_type)

    def _register(self, workspace_id: str, digest: str, size_bytes: int) -> None:
        """Waits while the same bytes are being collected: once they are gone, they are put anew."""
        if self._ledger is None:
            return
        if self._owner is None:
            owner = self._ledger.identity()
            self.place.claim(owner)
            self._owner = owner
        until = time.monotonic() + 2 * BLOB_CONDEMNED_MS / 1000
        while not self._ledger.use_blob(workspace_id, digest, size_bytes):
            if time.monotonic() > until:
                raise StoreError(f"artifact {digest!r} is being collected and that does not end; run 'longtask doctor'")
            time.sleep(POLL_S)

    def path(self, workspace_id: str, digest: str) -> Path:
        """A local file with the bytes, to be read only; it may go when the artifact does.  Raises NotFound."""
        return self.place.path(workspace_id, digest)

    def has(self, workspace_id: str, digest: str) -> bool:
        return self.place.has(workspace_id, digest)

    def open(self, workspace_id: str, digest: str) -> BinaryIO:
        """A file of which every byte was compared with the digest.  Raises NotFound, StoreError (damaged)."""
        return self.place.open(workspace_id, digest)

    def read(self, workspace_id: str, digest: str) -> bytes:
        """All bytes at once."""
        with self.open(workspace_id, digest) as file:
            return file.read()

    def shared(self) -> bool:
        """Another database keeps bytes here too: what this one does not need any more may be needed by that one."""
        return self._ledger is None or bool(self.place.owners() - {self._ledger.identity()})

    def drop(self, workspace_id: str, digest: str) -> None:
        """For collection: the row in `blob` is condemned first.  Fine if the bytes are gone."""
        self.place.drop(workspace_id, digest)

    def sweep(self, older_than_s: float) -> int:
        """Deletes what a crash left half written, if it is as old as that, and what a cache need not hold any more;
        answers how many files."""
        return self.place.sweep(older_than_s)

    def digests(self, workspace_id: str) -> Iterator[str]:
        """Of everything that is there, in no order."""
        return self.place.digests(workspace_id)


@contextmanager
def _written(bench: Path, content: bytes | BinaryIO) -> Iterator[tuple[Path, str, int]]:
    """(file, digest, size in bytes): flushed, read-only, and gone afterwards if nobody took it."""
    source = BytesIO(content) if isinstance(content, bytes) else content
    try:
        handle, name = tempfile.mkstemp(prefix=NEW, dir=bench)
    except OSError as error:
        raise told(error, bench) from error
    temporary = Path(name)
    try:
        try:
            with os.fdopen(handle, "wb") as file:
                digest, size_bytes = _copy(source, file)
                file.flush()
                os.fchmod(handle, 0o400)
                os.fsync(handle)
        except OSError as error:
            raise told(error, bench) from error
        yield temporary, digest, size_bytes
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _copy(source: BinaryIO, target: BinaryIO) -> tuple[str, int]:
    """(digest, size in bytes)."""
    digest = hashlib.sha256()
    size_bytes = 0
    while block := source.read(BLOCK_BYTES):
        digest.update(block)
        target.write(block)
        size_bytes += len(block)
    return digest.hexdigest(), size_bytes
