"""Vitest, where no terminal is: file after file, or test after test; how many there are is told at the end."""

from __future__ import annotations

import re

from longtask.steps.reading.contract import Failing, Progress, counted

_BEGINS = re.compile(r"^ *RUN +v\d")
# ` ❯ a.test.js (5 tests | 2 failed | 1 skipped) 30ms`
_FILE = re.compile(r"^ [✓❯×↓] \S.*? \((\d{1,9}) tests?((?: \| \d{1,9} [a-z]+)*)\)")
_TEST = re.compile(r"^ ([✓×↓□]) \S.* > ")
_PART = re.compile(r"(\d{1,9}) (failed|passed|skipped|todo)\b")
_FAILED = re.compile(r"^ *FAIL +(\S.*)$")
_BROKEN = re.compile(r"^(.*\S) \[ .* \]$")  # a file that was not loaded
_WORDS = {"✓": "passed", "×": "failed"}


class Vitest:
    begins: tuple[str, ...] = (" RUN ",)
    ends: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.sure = self.running = False
        self.failing = Failing()
        self._begin()

    def _begin(self) -> None:
        self._counts = {"passed": 0, "failed": 0, "other": 0}
        self._ended: Progress | None = None

    def line(self, text: str) -> None:
        if _BEGINS.match(text):
            self._begin()
            self.sure = self.running = True
        elif not self.running:
            return
        elif match := _FAILED.match(text):
            broken = _BROKEN.match(match[1])
            self.failing.note(broken[1] if broken else match[1])
        elif text.startswith("      Tests "):
            self._sum(text)
        elif text.startswith("   Duration "):
            self.running = False
        elif match := _FILE.match(text):
            numbers = {word: int(number) for number, word in _PART.findall(match[2])}
            failed = numbers.pop("failed", 0)
            other = sum(numbers.values())
            self._counts["passed"] += max(0, int(match[1]) - failed - other)
            self._counts["failed"] += failed
            self._counts["other"] += other
        elif match := _TEST.match(text):
            self._counts[_WORDS.get(match[1], "other")] += 1

    def progress(self, beginning: str) -> Progress | None:
        done, passed, failed = sum(self._counts.values()), self._counts["passed"], self._counts["failed"]
        if self._ended is not None or not done:
            return self._ended
        return Progress(done, None, counted(passed, failed), passed, failed)

    def _sum(self, text: str) -> None:
        numbers = {word: int(number) for number, word in _PART.findall(text)}
        total, passed, failed = sum(numbers.values()), numbers.get("passed", 0), numbers.get("failed", 0)
        self._ended = Progress(total, total, counted(passed, failed), passed, failed)
