"""The session files of an agent's own program: kept with the rows of its run, so that another machine can go on.

A file is cut into blocks, each an artifact by its digest: of a file that only grows, all blocks but the last are there
already.  Which file is made of which blocks stands in the body of the row that they were kept with, under `SESSION`:
{cwd, files: {path: [digest …]}}.  The newest such row of a run counts.  The upkeep reads these rows, too: blocks that a
step names which has not ended are not taken away (`store/upkeep.py`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from longtask.core.errors import Refused
from longtask.core.model import JsonMap

SESSION = "$session"  # a key of a row's body
BLOCK_BYTES = 256 * 1024
BYTES_MAX = 512 * 1024 * 1024  # of one run: an agent that has written more keeps something else than its session
BLOCK_TYPE = "application/octet-stream"
LINES = ".jsonl"  # a file of lines, written line by line: the beginning of one is no line

Put = Callable[[str, bytes, str], JsonMap]
Read = Callable[[str], bytes]


class Keeper:
    """Of one attempt.  `keep` and `restore` may take their time; one thread at a time."""

    def __init__(self, folder: Path, put: Put, read: Read) -> None:
        self.folder = folder
        self._put = put
        self._read = read
        self._known: set[str] = set()  # digests that this attempt has put

    def keep(self, paths: Sequence[str], cwd: Path) -> JsonMap:
        """Files and what lies in folders, relative to the session's folder; what is not there is left out.

        Raises Refused for a path that leads elsewhere and for too much."""
        files = {}
        left = BYTES_MAX
        for name, path in self._files(paths):
            digests = []
            for block in _blocks(path):
                left -= len(block)
                if left < 0:
                    raise Refused(f"the agent's session has more than {BYTES_MAX} bytes and is not kept")
                digests.append(self._store(block))
            files[name] = digests
        return {"cwd": os.fspath(cwd), "files": files}

    def restore(self, kept: JsonMap) -> None:
        for name, digests in kept["files"].items():
            path = self._inside(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                for digest in digests:
                    file.write(self._read(digest))
                    self._known.add(digest)

    def _files(self, paths: Iterable[str]) -> Iterator[tuple[str, Path]]:
        for given in paths:
            path = self._inside(given)
            found = sorted(path.rglob("*")) if path.is_dir() else [path]
            yield from (
                (file.relative_to(self.folder).as_posix(), file)
                for file in found
                if file.is_file() and not file.is_symlink()
            )

    def _inside(self, name: str) -> Path:
        path = self.folder / name
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise Refused(f"'{name}' lies outside of the session's folder")
        return path

    def _store(self, block: bytes) -> str:
        digest = hashlib.sha256(block).hexdigest()
        if digest not in self._known:
            digest = str(self._put("session", block, BLOCK_TYPE)["digest"])
            self._known.add(digest)
        return digest


def newest(rows: Iterable[JsonMap]) -> JsonMap | None:
    """What the newest row with a session has kept."""
    found: JsonMap | None = None
    for row in rows:
        body = row.get("body")
        if isinstance(body, Mapping) and body.get(SESSION):
            found = body[SESSION]
    return found


def without(body: JsonMap | None) -> JsonMap | None:
    """The body of a row as a child and a reader see it."""
    return None if body is None else {key: value for key, value in body.items() if key != SESSION}


def _blocks(path: Path) -> Iterator[bytes]:
    """What is there now; it may grow meanwhile."""
    left = path.stat().st_size
    with path.open("rb") as file:
        while left > 0 and (block := file.read(min(BLOCK_BYTES, left))):
            left -= len(block)
            if left <= 0 and path.suffix == LINES:
                block = block[: block.rfind(b"\n") + 1]
            if block:
                yield block
