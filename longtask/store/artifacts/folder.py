"""Artifacts in a folder.

    ROOT/<workspace>/ab/cdef...      read-only files, for their owner alone

A file is written beside its place, flushed, renamed, and the folder flushed.  On a shared disk this holds as well: a
rename is seen by all at once, and two that keep the same bytes leave one file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from longtask.core.errors import NotFound, StoreError, StoreUnavailable

DIGEST = re.compile(r"[0-9a-f]{64}")
NEW = ".new-"  # begins the name of a file that is being written; after a crash nobody looks at it again
OWNERS = ".owners"  # a folder of empty files, named by the databases that keep bytes here
NO_WORKSPACE = "none"  # name of what tasks without a repository have


def workspace_name(workspace_id: str) -> str:
    """A workspace's id may hold any character, so it is not a path; this is, and no two workspaces share one."""
    if not workspace_id:
        return NO_WORKSPACE
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", workspace_id) and workspace_id != NO_WORKSPACE:
        return workspace_id
    return "~" + hashlib.sha256(workspace_id.encode("utf-8", "surrogateescape")).hexdigest()[:40]


def name_of(workspace_id: str, digest: str) -> str:
    """Raises NotFound if it is no digest."""
    if not DIGEST.fullmatch(digest):
        raise NotFound(f"artifact {digest!r}: a digest is 64 characters of 0-9 and a-f")
    return f"{workspace_name(workspace_id)}/{digest[:2]}/{digest[2:]}"


def nothing(workspace_id: str, digest: str) -> NotFound:
    return NotFound(f"no artifact {digest!r} in workspace {workspace_id!r}")


class Folder:
    """`artifacts.Place`."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(os.path.abspath(root))

    def workbench(self, workspace_id: str) -> Path:
        bench = self.root / workspace_name(workspace_id)
        try:
            make(bench)
        except OSError as error:
            raise told(error, bench) from error
        return bench

    def keep(self, workspace_id: str, digest: str, file: Path) -> None:
        place = self.root / name_of(workspace_id, digest)
        try:
            make(place.parent)
            os.replace(file, place)  # the same bytes may be there, or come from two at once: any of them will do
            flush(place.parent)
        except OSError as error:
            raise told(error, place.parent) from error

    def path(self, workspace_id: str, digest: str) -> Path:
        place = self.root / name_of(workspace_id, digest)
        if not place.is_file():
            raise nothing(workspace_id, digest)
        return place

    def has(self, workspace_id: str, digest: str) -> bool:
        return (self.root / name_of(workspace_id, digest)).is_file()

    def open(self, workspace_id: str, digest: str) -> BinaryIO:
        place = self.path(workspace_id, digest)
        try:
            file = place.open("rb")
        except FileNotFoundError:
            raise nothing(workspace_id, digest) from None
        except OSError as error:
            raise told(error, place) from error
        try:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
        except OSError as error:
            file.close()
            raise told(error, place) from error
        if found != digest:
            file.close()
            raise StoreError(
                f"artifact {digest!r} is damaged: its bytes have the hash {found!r}; restore {str(place)!r} from a "
                "backup, or delete it and run again what made it"
            )
        return file

    def drop(self, workspace_id: str, digest: str) -> None:
        place = self.root / name_of(workspace_id, digest)
        try:
            place.unlink(missing_ok=True)
        except OSError as error:
            raise told(error, place) from error

    def sweep(self, older_than_s: float) -> int:
        swept = 0
        for file in self.root.glob(f"*/{NEW}*"):
            with suppress(FileNotFoundError):
                if time.time() - file.stat().st_mtime > older_than_s:
                    file.unlink()
                    swept += 1
        return swept

    def digests(self, workspace_id: str) -> Iterator[str]:
        for place in (self.root / workspace_name(workspace_id)).glob("[0-9a-f][0-9a-f]/*"):
            yield place.parent.name + place.name

    def claim(self, owner: str) -> None:
        mark = self.root / OWNERS / owner
        try:
            make(mark.parent)
            mark.touch(mode=0o600)
            flush(mark.parent)
        except OSError as error:
            raise told(error, mark.parent) from error

    def owners(self) -> set[str]:
        return {mark.name for mark in (self.root / OWNERS).glob("*")}

    def trim(self, bytes_max: int, unused_s: float) -> int:
        """As a cache: deletes the files used longest ago until the rest has at most so many bytes; none that was used
        within the last `unused_s`.  Answers how many."""
        found: list[tuple[float, int, Path]] = []
        for file in self.root.glob("*/[0-9a-f][0-9a-f]/*"):
            with suppress(FileNotFoundError):
                known = file.stat()
                found.append((known.st_mtime, known.st_size, file))
        left = sum(size for _, size, _ in found)
        trimmed = 0
        for used, size, file in sorted(found):
            if left <= bytes_max or time.time() - used < unused_s:
                break
            file.unlink(missing_ok=True)
            left -= size
            trimmed += 1
        return trimmed


def make(folder: Path) -> None:
    """For its owner alone, and durable, as are the folders above it."""
    if not folder.is_dir():
        if not folder.parent.is_dir():
            make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        flush(folder.parent)


def flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def told(error: OSError, place: Path) -> StoreError:
    what = f"artifacts in {str(place)!r}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreUnavailable(
            f"{what}: the disk is full ({error.strerror}), nothing was kept; free space and try again"
        )
    return StoreError(f"{what}: {error.strerror}; look at the folder's permissions and disk")
