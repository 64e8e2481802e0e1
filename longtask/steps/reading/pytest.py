"""pytest, at any verbosity, with and without xdist.  Under `-q` the number of tests is not told: it is in per cent."""

from __future__ import annotations

import hashlib
import re

from longtask.steps.failure import without_noise
from longtask.steps.reading.contract import Failing, Progress, counted

LETTERS_MIN = 4
REASONS_MAX = 500
DASHES_MAX = 20  # ` - ` in a name with its reason

_BEGINS = re.compile(r"^=+ test session starts =+$")
_COLLECTED = re.compile(r"^(?:collecting \.\.\. *)?collected (\d+) items?(?: / (.*))?")
_SELECTED = re.compile(r"(\d+) selected")
_WORKERS = re.compile(r"^\d+ workers? \[(\d+) items?\]|^gw\d+ \[(\d+)\]")
# Letters of outcomes, perhaps after the name of a file; then how far it is.
_LETTERS = re.compile(r"^(?:[^\s:]+\.\w+ )?([.FEsxXR]+)\s*(?:\[ *(\d+)(%|/ *(\d+))\]|[\d.]+m?s)?\s*$")
_FIRST_LETTERS = re.compile(r"^(?:[^\s:]+\.\w+ )?([.FEsxXR]+)(?= |$)")
_VERBOSE = re.compile(
    r"^(?:\[gw\d+\] (?:\[ *(?P<first>\d+)%\] )?)?(?:(?P<name>(?>\S+?::).+?) )?"
    r"(?P<word>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b"
    r"(?: (?P<later>\S+::.+?)| \(.*\))?\s*(?:\[ *(?P<number>\d+)(?P<sign>%|/ *(?P<total>\d+))\])?\s*$"
)
_SUMMARY = "short test summary info"
_SECTION = re.compile(rf"^=+ (FAILURES|ERRORS|{_SUMMARY}|warnings summary|PASSES|XFAILURES) =+$")
_NAMED = re.compile(r"^(FAILED|ERROR|SUBFAIL\S*) (\S.*)$")
_ENDED = re.compile(r"^=* ?((?:\d+ [a-z]+(?: [a-z]+)?(?:, )?)+|no tests ran) in ([\d.]+)s(?: \([\d:,a-z ]+\))? ?=*$")
_PART = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)")
_KIND = re.compile(r"[\w.]+?(?=\.\.\.|[^\w.]|\.?$)")
_WORDS = {"PASSED": ".", "FAILED": "F", "ERROR": "E"}


class Pytest:
    begins: tuple[str, ...] = ("=", "collect", "[gw", *"0123456789", "gw", "no tests ran")
    ends: tuple[str, ...] = ("]", " PASSED", " FAILED", " ERROR")

    def __init__(self) -> None:
        self.sure = self.running = False
        self.failing = Failing()
        self._begin()

    def _begin(self) -> None:
        self._total: int | None = None
        self._percent: int | None = None
        self._counts = {"passed": 0, "failed": 0, "other": 0}
        self._section: str | None = None  # the tests are over, the rest is about failures
        self._reasons: set[str] = set()
        self._ended: Progress | None = None

    def line(self, text: str) -> None:
        if match := _ENDED.match(text):
            self._ended = _end(match, self._total)
            self.sure, self.running = True, False
        elif match := _SECTION.match(text):
            self._section = match[1]
            self.sure = self.running = True
        elif _BEGINS.match(text):
            self.sure = self.running = True
        elif match := _COLLECTED.match(text):
            self._begin()  # perhaps a second run in the same output
            self.sure = self.running = True
            selected = _SELECTED.search(match[2] or "")
            self._total = int(selected[1] if selected else match[1])
        elif match := _WORKERS.match(text):
            self._total = int(match[1] or match[2])
        elif self._section is not None:
            self._reported(text)
        elif (match := _LETTERS.match(text)) and (match[2] or self._believable(match, text)):
            _count(self._counts, match[1])
            self._told(match[2], match[3], match[4])
            if match[3] == "%":
                self.sure = self.running = True
        elif match := _VERBOSE.match(text):
            self._verbose(match)

    def progress(self, beginning: str) -> Progress | None:
        if self._ended is not None:
            return self._ended
        counts, percent, total = dict(self._counts), self._percent, self._total
        if self._section is None and (match := _FIRST_LETTERS.match(beginning)) and self._believable(match, beginning):
            _count(counts, match[1])
        done = sum(counts.values())
        if not done and total is None:
            return None
        told = counted(counts["passed"], counts["failed"])
        if total is None and percent is not None:
            return Progress(percent, 100, told, counts["passed"], counts["failed"])
        if total is not None:
            done = min(done, total)  # a test whose clean-up fails is written twice
        return Progress(done, total, told, counts["passed"], counts["failed"])

    def _verbose(self, match: re.Match[str]) -> None:
        word, name = match["word"], match["name"] or match["later"]
        _count(self._counts, _WORDS.get(word, "s"))
        sign = "%" if match["first"] else match["sign"]
        self._told(match["first"] or match["number"], sign, match["total"])
        if name is not None:
            self.sure = self.sure or sign is not None
            if word in ("FAILED", "ERROR"):
                self.failing.note(name)

    def _reported(self, text: str) -> None:
        """What keeps a file from being collected is mended one thing after the other: the whole reason counts."""
        if self._section != _SUMMARY:
            if text.startswith("E   ") and len(self._reasons) < REASONS_MAX:
                self._reasons.add(without_noise(text[4:]))
        elif match := _NAMED.match(text):
            name, reason = _parted(match[2])
            kind = found[0] if (found := _KIND.match(reason)) else ""
            if match[1] == "ERROR" and "::" not in name:
                why = hashlib.sha256("\n".join(sorted(self._reasons)).encode()).hexdigest()
                kind = f"{without_noise(reason)}\n{why}"
            self.failing.note(name, kind)

    def _believable(self, match: re.Match[str], text: str) -> bool:
        """Are these outcomes?  Before the number of tests is told, `...` may be somebody's words."""
        return self._total is not None or (match[1] == text and len(text) >= LETTERS_MIN) or any(self._counts.values())

    def _told(self, number: str | None, sign: str | None, total: str | None) -> None:
        if number is None:
            return
        if sign == "%":
            self._percent = int(number)
        elif total is not None:  # console_output_style = count
            self._total = int(total)


def _parted(text: str) -> tuple[str, str]:
    """A test and why it failed, `test_a.py::test[c - d] - TypeError: no`."""
    parts = text.split(" - ", DASHES_MAX)
    for end in range(1, len(parts)):
        name = " - ".join(parts[:end])
        if name.count("[") <= name.count("]"):
            return name, " - ".join(parts[end:])
    return (text, "") if text.endswith("]") else (parts[0], " - ".join(parts[1:]))


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
