"""unittest, also as Django runs it.  How many tests there are is told at the end only."""

from __future__ import annotations

import re

from longtask.steps.reading.contract import Failing, Progress, counted

_NAMED = re.compile(r"^(?:FAIL|ERROR): (\S.*)$")
_RULE = re.compile(r"^={70}$")
_DOTS = re.compile(r"^[.FEsxu]+$")
_RAN = re.compile(r"^Ran (\d{1,9}) tests? in [\d.]+s$")
_VERDICT = re.compile(
    r"^(?:OK|FAILED|NO TESTS RAN)(?: \(([a-z]+(?: [a-z]+)?=\d{1,9}(?:, [a-z]+(?: [a-z]+)?=\d{1,9})*)\))?$"
)
_WORDS = {"ok": ".", "FAIL": "F", "ERROR": "E", "expected failure": "x", "unexpected success": "F"}


class Unittest:
    begins: tuple[str, ...] = ("=====", "FAIL: ", "ERROR: ", "Ran ", "OK", "FAILED (", "NO TESTS RAN")
    ends: tuple[str, ...] = ()
    running = False  # nothing tells that it begins

    def __init__(self) -> None:
        self.sure = False
        self.failing = Failing()
        self._counts = {"passed": 0, "failed": 0, "other": 0}  # of the run that goes on
        self._ran: int | None = None  # tests of a run whose verdict is not told yet
        self._before: Progress | None = None  # runs that have ended
        self._ruled = False  # the line before was a rule
        self._reporting = False  # the tests are over, the rest is about failures

    def line(self, text: str) -> None:
        ruled, self._ruled = self._ruled, text[0] == "=" and _RULE.match(text) is not None
        if ruled and (match := _NAMED.match(text)):
            self.failing.note(match[1])
            self._reporting = True
        elif match := _RAN.match(text):
            self._ran, self.sure = int(match[1]), True
        elif self._ran is not None and (match := _VERDICT.match(text)):
            self._end(self._ran, match[1] or "")
        elif self._reporting:
            return
        elif _DOTS.match(text):
            _count(self._counts, text)
        elif (parts := text.rpartition(" ... "))[1]:
            letter = "s" if parts[2].startswith("skipped ") else _WORDS.get(parts[2], "")
            _count(self._counts, letter)

    def progress(self, beginning: str) -> Progress | None:
        if self._before is not None:  # dots may now be anybody's
            return self._before
        counts = dict(self._counts)
        if not self._reporting and _DOTS.match(beginning):
            _count(counts, beginning)
        if not any(counts.values()):
            return None
        passed, failed = counts["passed"], counts["failed"]
        return Progress(sum(counts.values()), None, counted(passed, failed), passed, failed)

    def _end(self, ran: int, parts: str) -> None:
        """A test that fails in two sub-tests is told twice, one whose class cannot be set up never ran: no test too
        many is said to have passed."""
        numbers = {
            word: int(number) for word, _, number in (part.partition("=") for part in parts.split(", ")) if number
        }
        failed = sum(numbers.get(word, 0) for word in ("failures", "errors", "unexpected successes"))
        passed = max(0, ran - sum(numbers.values()))
        if self._before is not None:
            ran += self._before.done
            passed += self._before.passed or 0
            failed += self._before.failed or 0
        self._before = Progress(ran, ran, counted(passed, failed), passed, failed)
        self._counts = dict.fromkeys(self._counts, 0)
        self._ran = None
        self._reporting = False


def _count(counts: dict[str, int], letters: str) -> None:
    for letter in letters:
        counts["passed" if letter == "." else "failed" if letter in "FEu" else "other"] += 1
