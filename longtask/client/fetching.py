"""An artifact that is fetched into a file, across broken connections and calls, without sockets.

The first answer says by its ETag which bytes it is about: their SHA-256.  They are gathered in a file beside the target
that is named after it; from then on just these bytes are asked for, from where that file ends, though another artifact
of the same name comes meanwhile.  When all of them are there and fit their hash, the file takes the target's place:
whole, or not at all.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from longtask.client.v1 import artifact_path
from longtask.core.errors import LongTaskError, NotFound, Refused

BLOCK_BYTES = 1 << 20
DIGEST = re.compile(r'(?:W/)?"([0-9a-f]{64})"')
RANGE = re.compile(r"bytes ([0-9]+)-[0-9]+/([0-9]+)")


class Fetching:
    """For each connection: send `path` with `headers`, call `connected`, and if it says so `take` what comes; `ended`
    says whether all of it is there.  `close` in any case.  `made`: the server makes it first, which takes its time."""

    made = False

    def __init__(self, task: str, name: str, file: Path, digest: str | None) -> None:
        self._task, self._name, self._file, self._digest = task, name, file, digest
        self._part: BinaryIO | None = None
        self._hash = hashlib.sha256()
        self._size: int | None = None
        self._have = 0

    @property
    def path(self) -> str:
        return artifact_path(self._task, self._name, self._digest)

    @property
    def _what(self) -> str:
        return f"artifact {self._name!r}"

    @property
    def headers(self) -> dict[str, str]:
        # What comes packed has other lengths and places than what is kept.
        whole = {"Accept-Encoding": "identity"}
        return {**whole, "Range": f"bytes={self._have}-"} if self._have else whole

    def connected(self, status: int, headers: Mapping[str, str]) -> bool:
        """A good answer has begun; False: leave it, and ask anew for what is missing.  Raises LongTaskError."""
        found = DIGEST.fullmatch(headers.get("etag", ""))
        if found is None:
            raise LongTaskError(f"{self._what}: the answer does not say which bytes it is about")
        if self._part is None:
            self._digest = found[1]
            self._open(found[1])
            if self._have:
                return False
        elif found[1] != self._digest:
            raise NotFound(f"{self._what} has changed: {found[1]} is there, not {self._digest}")
        if status == 206:
            place = RANGE.fullmatch(headers.get("content-range", ""))
            if place is None or int(place[1]) != self._have:
                raise LongTaskError(f"{self._what}: bytes from {self._have} were asked for, others came")
            self._size = int(place[2])
        else:
            self._begin_anew()
            length = headers.get("content-length", "")
            self._size = int(length) if length.isdigit() else None
        return True

    def take(self, content: bytes) -> None:
        assert self._part is not None
        self._hash.update(content)
        try:
            self._part.write(content)
        except OSError as error:
            raise self._unwritable(error) from None
        self._have += len(content)

    def ended(self) -> bool:
        """The answer has come to its end.  True: the file is in its place.  Raises LongTaskError if the bytes are
        others."""
        if self._part is None or (self._size is not None and self._have < self._size):
            return False
        return self._finish()

    def refused_range(self) -> bool:
        """Nothing lies behind what is there (HTTP 416): it is whole, or worth nothing.  True: the file is in place."""
        return self._part is not None and self._finish()

    def close(self) -> None:
        """What has come stays, for the next call."""
        if self._part is not None:
            self._part.close()

    def _finish(self) -> bool:
        assert self._part is not None
        if self._hash.hexdigest() != self._digest:
            self._begin_anew()
            self.close()
            self._gathered.unlink(missing_ok=True)
            raise LongTaskError(f"{self._what}: what came is not what its hash says; fetch it again")
        try:
            self._part.flush()
            os.fsync(self._part.fileno())
            self._part.close()
            os.replace(self._gathered, self._file)
        except OSError as error:
            raise self._unwritable(error) from None
        return True

    @property
    def _gathered(self) -> Path:
        return self._file.with_name(f".{self._file.name[:100]}.{(self._digest or '')[:16]}.part")

    def _open(self, digest: str) -> None:
        try:
            self._part = open(self._gathered, "a+b")  # noqa: SIM115  `close` closes it
            fcntl.flock(self._part, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._part.seek(0)
            while block := self._part.read(BLOCK_BYTES):
                self._hash.update(block)
                self._have += len(block)
        except BlockingIOError:
            raise Refused(f"file {str(self._file)!r}: another call fetches it just now") from None
        except OSError as error:
            raise self._unwritable(error) from None

    def _begin_anew(self) -> None:
        assert self._part is not None
        self._part.truncate(0)
        self._hash, self._have = hashlib.sha256(), 0

    def _unwritable(self, error: OSError) -> Refused:
        return Refused(f"file {str(self._file)!r} cannot be written: {error.strerror}; name another one")
