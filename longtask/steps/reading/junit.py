"""Reports in JUnit's XML, as Surefire, Gradle and many others write them: how many tests passed, and which failed.

- A report counts if it was written since the command began: what the repository holds shows nothing.
- Links are not followed, folders and files are counted, and a document type is refused: it is there for entities, and
  those are how a small file becomes a large one, or reads another.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from xml.parsers import expat

from longtask.core.errors import NotFound
from longtask.steps.reading.contract import Failing, Progress, counted

FILES_MAX = 5_000
BYTES_MAX = 32_000_000  # of all of them
ENTRIES_MAX = 100_000  # that are looked at
DEPTH_MAX = 60
READ_BYTES = 256 * 1024
_HIDDEN = frozenset({".git", "node_modules"})


class Reports:
    def __init__(self) -> None:
        self.failing = Failing()
        self.files = 0
        self._bytes_left = BYTES_MAX
        self._counts = {"passed": 0, "failed": 0, "other": 0}
        self._case: str | None = None
        self._end = "passed"

    @property
    def progress(self) -> Progress:
        done, passed, failed = sum(self._counts.values()), self._counts["passed"], self._counts["failed"]
        return Progress(done, done, counted(passed, failed), passed, failed)

    def add(self, path: str) -> None:
        """Raises ValueError, OSError."""
        parser = expat.ParserCreate()
        parser.StartElementHandler = self._begin_element
        parser.EndElementHandler = self._end_element
        parser.StartDoctypeDeclHandler = _refuse
        self.files += 1
        self._case = None
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("is no ordinary file")
            try:
                while content := file.read(READ_BYTES):
                    self._bytes_left -= len(content)
                    if self._bytes_left < 0:
                        raise ValueError(f"the reports are larger than {BYTES_MAX:,} bytes")
                    parser.Parse(content, False)
                parser.Parse(b"", True)
            except (expat.ExpatError, LookupError) as error:  # the latter: an encoding that nobody knows
                raise ValueError(f"is no XML: {error}") from None

    def _begin_element(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "testcase":
            name, of = attributes.get("name", ""), attributes.get("classname", "")
            self._case, self._end = f"{of}.{name}" if of else name, "passed"
        elif self._case is not None and tag in ("failure", "error"):
            self._end = "failed"
            self.failing.note(self._case, attributes.get("type", ""))
        elif self._case is not None and tag == "skipped" and self._end == "passed":
            self._end = "other"

    def _end_element(self, tag: str) -> None:
        if tag == "testcase" and self._case is not None:
            self._counts[self._end] += 1
            self._case = None


def _refuse(*_: object) -> None:
    raise ValueError("has a document type, which no report needs")


def read(folder: Path, patterns: Sequence[str], since_ns: int) -> Reports:
    """What was written since then (as files' times have it).  Raises NotFound if nothing was, ValueError for a report
    that cannot be read."""
    reports = Reports()
    for path in sorted(set(_matching(folder, patterns))):
        try:
            if os.stat(path, follow_symlinks=False).st_mtime_ns < since_ns:
                continue
            if reports.files == FILES_MAX:
                raise ValueError(f"there are more than {FILES_MAX:,} reports")
            reports.add(path)
        except OSError as error:
            raise ValueError(f"report '{os.path.relpath(path, folder)}': {(error.strerror or '?').lower()}") from error
        except ValueError as error:
            raise ValueError(f"report '{os.path.relpath(path, folder)}': {error}") from error
    if not reports.files:
        listed = ", ".join(f"'{pattern}'" for pattern in patterns)
        raise NotFound(f"no report was written at {listed}")
    return reports


def _matching(folder: Path, patterns: Sequence[str]) -> Iterator[str]:
    left = [ENTRIES_MAX]
    for pattern in patterns:
        yield from _below(str(folder), [part for part in pattern.split("/") if part not in ("", ".")], left)


def _below(folder: str, parts: list[str], left: list[int], depth: int = 0) -> Iterator[str]:
    """Files whose path fits the parts; `**` stands for any number of folders."""
    if depth > DEPTH_MAX:
        return
    first, *others = parts
    if first == "**" and others:
        yield from _below(folder, others, left, depth + 1)
    try:
        with os.scandir(folder) as found:
            entries = [entry for entry in found if not entry.is_symlink()]
    except OSError:  # not there, or it may not be read
        return
    left[0] -= len(entries) + 1
    if left[0] < 0:
        raise ValueError(f"more than {ENTRIES_MAX:,} files were looked at; name the folder of the reports")
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if first == "**":
                yield from _below(entry.path, parts, left, depth + 1) if entry.name not in _HIDDEN else ()
            elif others and fnmatchcase(entry.name, first):
                yield from _below(entry.path, others, left, depth + 1)
        elif not others and fnmatchcase(entry.name, "*" if first == "**" else first):
            yield entry.path
