"""How far a program is, read from its output: `pytest`, or any program that writes `n/m`.

A parser is fed bytes as they come, lines cut anywhere, and says so when something has changed. It guesses: it may be
wrong about a program that prints something alike, and never more than a number on a screen depends on it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from longtask.steps.output import plain

LINE_BYTES_MAX = 4096  # a longer line is no progress line, and expressions grow with its square
LETTERS_MIN = 4
TEXT_LENGTH_MAX = 120


@dataclass(frozen=True, slots=True)
class Progress:
    done: int
    total: int | None  # None: not known (yet)
    text: str
    passed: int | None = None  # None: this program does not say
    failed: int | None = None


class Parser(Protocol):
    def feed(self, content: bytes) -> Progress | None:
        """None: nothing new."""


def parser(name: str) -> Parser | None:
    """`pytest` or `n/m`; None for a name that we do not know."""
    return PytestParser() if name == "pytest" else CountParser() if name == "n/m" else None


_HALF_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*)?$")


class _Lines:
    """Whole lines, and the beginning of one that is still being written."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, content: bytes) -> tuple[list[str], str]:
        # A carriage return starts the line anew: a progress bar is as good as a line.
        *lines, rest = re.split(rb"[\r\n]", self._pending + content)
        self._pending = rest[-LINE_BYTES_MAX:]
        beginning = _HALF_ESCAPE.sub(b"", self._pending)
        return [plain(line[:LINE_BYTES_MAX]) for line in lines if line], plain(beginning)


# `12/40`, `[12/40]`, `12 of 40`; but no dates, paths, versions.
_COUNT = re.compile(r"(?<![\w./-])(\d{1,9})(?: ?/ ?| of )(\d{1,9})(?=[^\w./-]|[.](?!\w)|\Z)")


class CountParser:
    """The last `n/m` with n ≤ m."""

    def __init__(self) -> None:
        self._lines = _Lines()
        self._last: Progress | None = None

    def feed(self, content: bytes) -> Progress | None:
        lines, rest = self._lines.feed(content)
        newest = None
        for line in lines:
            newest = self._read(line, len(line)) or newest
        newest = self._read(rest, len(rest) - 1) or newest  # at its very end, half a number may stand
        if newest is None or newest == self._last:
            return None
        self._last = newest
        return newest

    def _read(self, line: str, end: int) -> Progress | None:
        found = None
        for match in _COUNT.finditer(line):
            done, total = int(match[1]), int(match[2])
            if 0 < total >= done and match.end() <= end:
                found = Progress(done, total, line.strip()[:TEXT_LENGTH_MAX])
        return found


_COLLECTED = re.compile(r"^(?:collecting \.\.\. *)?collected (\d+) items?(?: / (.*))?")
_SELECTED = re.compile(r"(\d+) selected")
_WORKERS = re.compile(r"^\d+ workers? \[(\d+) items?\]|^gw\d+ \[(\d+)\]")
# Letters of outcomes, perhaps after the name of a file; then how far it is.
_LETTERS = re.compile(r"^(?:[^\s:]+\.\w+ )?([.FEsxXR]+)\s*(?:\[ *(\d+)(%|/ *(\d+))\]|[\d.]+m?s)?\s*$")
_FIRST_LETTERS = re.compile(r"^(?:[^\s:]+\.\w+ )?([.FEsxXR]+)(?= |$)")
_VERBOSE = re.compile(
    r"^(?:\[gw\d+\] \[ *(\d+)%\] )?(?:(?>\S+?::).+? )?(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b"
    r"(?: \S+::.+?| \(.*\))?\s*(?:\[ *(\d+)(%|/ *(\d+))\])?\s*$"
)
_SECTION = re.compile(r"^=+ (FAILURES|ERRORS|short test summary info|warnings summary|PASSES|XFAILURES) =+$")
_ENDED = re.compile(r"^=* ?((?:\d+ [a-z]+(?: [a-z]+)?(?:, )?)+|no tests ran) in ([\d.]+)s(?: \([\d:,a-z ]+\))? ?=*$")
_PART = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)")


class PytestParser:
    """Any verbosity, with and without xdist. Under `-q` the number of tests is not told: it counts in per cent."""

    def __init__(self) -> None:
        self._lines = _Lines()
        self._last: Progress | None = None
        self._begin()

    def _begin(self) -> None:
        self._total: int | None = None
        self._percent: int | None = None
        self._counts = {"passed": 0, "failed": 0, "other": 0}
        self._reporting = False  # the tests are over, the rest is about failures
        self._ended: Progress | None = None

    def feed(self, content: bytes) -> Progress | None:
        lines, rest = self._lines.feed(content)
        for line in lines:
            self._read(line.rstrip())
        now = self._now(rest)
        if now is None or now == self._last:
            return None
        self._last = now
        return now

    def _now(self, rest: str) -> Progress | None:
        if self._ended is not None:
            return self._ended
        counts, percent = dict(self._counts), self._percent
        if not self._reporting and (match := _FIRST_LETTERS.match(rest)) and self._believable(match, rest):
            _count(counts, match[1])
        done = sum(counts.values())
        total = self._total
        if not done and total is None:
            return None
        text = ", ".join(f"{counts[word]} {word}" for word in ("passed", "failed") if counts[word])
        if total is None and percent is not None:
            return Progress(percent, 100, text, counts["passed"], counts["failed"])
        if total is not None:
            done = min(done, total)  # a test whose clean-up fails is written twice
        return Progress(done, total, text, counts["passed"], counts["failed"])

    def _read(self, line: str) -> None:
        if match := _ENDED.match(line):
            self._ended = _end(match, self._total)
        elif _SECTION.match(line):
            self._reporting = True
        elif match := _COLLECTED.match(line):
            self._begin()  # perhaps a second run in the same output
            selected = _SELECTED.search(match[2] or "")
            self._total = int(selected[1] if selected else match[1])
        elif match := _WORKERS.match(line):
            self._total = int(match[1] or match[2])
        elif self._reporting:
            return
        elif (match := _LETTERS.match(line)) and (match[2] or self._believable(match, line)):
            _count(self._counts, match[1])
            self._told(match[2], match[3], match[4])
        elif match := _VERBOSE.match(line):
            _count(self._counts, {"PASSED": ".", "FAILED": "F", "ERROR": "E"}.get(match[2], "s"))
            self._told(match[1] or match[3], "%" if match[1] else match[4], match[5])

    def _believable(self, match: re.Match[str], line: str) -> bool:
        """Are these outcomes?  Before the number of tests is told, `...` may be somebody's words."""
        return self._total is not None or (match[1] == line and len(line) >= LETTERS_MIN) or any(self._counts.values())

    def _told(self, number: str | None, sign: str | None, total: str | None) -> None:
        if number is None:
            return
        if sign == "%":
            self._percent = int(number)
        elif total is not None:  # console_output_style = count
            self._total = int(total)


def _count(counts: dict[str, int], letters: str) -> None:
    for letter in letters:
        if letter != "R":  # run again: its last letter counts
            counts["passed" if letter == "." else "failed" if letter in "FE" else "other"] += 1


def _end(match: re.Match[str], total: int | None) -> Progress:
    parts: dict[str, int] = {}
    for number, word in _PART.findall(match[1]):
        parts[word] = parts.get(word, 0) + int(number)
    failed = parts.get("failed", 0) + parts.get("error", 0) + parts.get("errors", 0)
    done = sum(parts.values())
    total = done if total is None else total  # a run that was stopped by `-x` is not at its end
    return Progress(min(done, total), total, f"{match[1]} in {match[2]}s", parts.get("passed", 0), failed)
