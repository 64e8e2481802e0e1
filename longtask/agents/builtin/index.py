"""Full-text search over the text files of a worktree, by SQLite's FTS5.

The index is a file in the attempt's TMPDIR, never in the worktree.  It is made with the first search; each further one
looks at what has changed since, by size and time of change.  Files are cut into pieces of some lines each; names in
code also count by their parts (`parseArgs`, `parse_args`).  The same worktree gives the same answer.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from longtask.agents.tools import Param, Tool, Toolbox, ToolError
from longtask.core.model import JsonMap

PIECE_LINES = 40
FILE_BYTES_MAX = 1_000_000  # larger ones are made by machines
FILES_MAX = 50_000
WORDS_MAX = 16
FOUND_MAX = 15
SHOWN_LINES = 6  # of a piece: around its first line with one of the words
LINE_CHARS_MAX = 200
_WORD = re.compile(r"\w+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

SCHEMA = """
create table if not exists file (path text primary key, mtime_ns integer, size integer, first integer, last integer);
create index if not exists file_last on file (last);
create virtual table if not exists piece using fts5 (path unindexed, line unindexed, body, parts);
"""


class CodeIndex:
    """Opened with its first use."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(tempfile.gettempdir())
        self._db: sqlite3.Connection | None = None

    def find(self, root: Path, paths: Iterable[str], query: str) -> list[tuple[str, int, str]]:
        """(path, line of the piece, its text), best first.  `paths`: all files, relative to `root`."""
        words = _WORD.findall(query)[:WORDS_MAX]
        if not words:
            return []
        db = self._refreshed(root, paths)
        for joint in (" AND ", " OR "):  # all of the words in one piece, else any
            wanted = joint.join(f'"{word}"' for word in words)
            rows = db.execute(
                "select path, line, body from piece where piece match ? order by rank, path, line limit ?",
                (wanted, FOUND_MAX),
            ).fetchall()
            if rows:
                return rows
        return []

    def close(self) -> None:
        if self._db is not None:
            self._db.close()

    def _refreshed(self, root: Path, paths: Iterable[str]) -> sqlite3.Connection:
        db = self._db
        if db is None:
            db = self._db = sqlite3.connect(self._folder / "code-index.db", isolation_level=None)
            db.execute("pragma synchronous = off")  # a lost index is made again
            db.executescript(SCHEMA)
        known = {path: (mtime_ns, size) for path, mtime_ns, size in db.execute("select path, mtime_ns, size from file")}
        with _transaction(db):
            for number, path in enumerate(paths):
                if number == FILES_MAX:
                    break
                seen = _state(root / path)
                if seen is None or known.pop(path, None) == seen:
                    continue
                _forget(db, path)
                (last,) = db.execute("select coalesce(max(last), 0) from file").fetchone()
                pieces = [(last + n, *piece) for n, piece in enumerate(_pieces(root, path), 1)]
                db.executemany("insert into piece (rowid, path, line, body, parts) values (?, ?, ?, ?, ?)", pieces)
                row = (path, *seen, last + 1, last + len(pieces))
                db.execute("insert into file (path, mtime_ns, size, first, last) values (?, ?, ?, ?, ?)", row)
            for path in known:
                _forget(db, path)
        return db


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection) -> Any:
    db.execute("begin")
    try:
        yield
    except BaseException:
        db.execute("rollback")
        raise
    db.execute("commit")


def _forget(db: sqlite3.Connection, path: str) -> None:
    found = db.execute("delete from file where path = ? returning first, last", (path,)).fetchone()
    if found is not None:
        db.execute("delete from piece where rowid between ? and ?", found)


def _state(full: Path) -> tuple[int, int] | None:
    """None: nothing to be searched."""
    try:
        found = full.lstat()
    except OSError:
        return None
    ordinary = full.is_file() and not full.is_symlink() and found.st_size <= FILE_BYTES_MAX
    return (found.st_mtime_ns, found.st_size) if ordinary else None


def _pieces(root: Path, path: str) -> Iterable[tuple[str, int, str, str]]:
    try:
        content = (root / path).read_bytes()
    except OSError:
        return
    if b"\0" in content[:8192]:
        return
    lines = content.decode(errors="replace").splitlines()
    for first in range(0, len(lines), PIECE_LINES):
        body = "\n".join(lines[first : first + PIECE_LINES])
        parts = {part for word in _WORD.findall(body) for part in _parts(word)}
        yield path, first + 1, body, f"{' '.join(_WORD.findall(path))} {' '.join(sorted(parts))}"


def _parts(word: str) -> list[str]:
    parts = [part for piece in word.split("_") for part in _HUMP.split(piece) if part]
    return parts if len(parts) > 1 else []


def find_tool(index: CodeIndex) -> Tool:
    def find(box: Toolbox, args: Mapping[str, Any]) -> JsonMap:
        words = {word.lower() for word in _WORD.findall(args["query"])}
        if not words:
            raise ToolError("find: the query holds no word")
        found = [_shown(*piece, words) for piece in index.find(box.root, _paths(box), args["query"])]
        return {"text": "\n\n".join(found) or "(nothing found)", "failed": False, "matches": len(found)}

    about = (
        "Find the places that are about some words, best first, by a full-text index over code and prose. "
        "Use `search` for an exact text or a pattern."
    )
    return Tool("find", about, {"query": Param(str, "words, such as: parse date timezone")}, find, comes_with="search")


def _paths(box: Toolbox) -> Iterable[str]:
    """What git knows or would take; without git, all files."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]
    try:
        done = subprocess.run(command, cwd=box.root, env=dict(box.env), capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return box.files()
    return sorted(os.fsdecode(name) for name in done.stdout.split(b"\0") if name)


def _shown(path: str, line: int, body: str, words: set[str]) -> str:
    lines = body.splitlines()
    hit = next((n for n, text in enumerate(lines) if any(word in text.lower() for word in words)), 0)
    first = max(hit - 1, 0)
    shown = [f"{line + n}\t{lines[n][:LINE_CHARS_MAX]}" for n in range(first, min(first + SHOWN_LINES, len(lines)))]
    return "\n".join([f"{path}:{line + hit}", *shown])
