"""Gradle's `test`: of tests that pass it says nothing, unless `testLogging` asks for it; the reports do (junit.py)."""

from __future__ import annotations

import re

from longtask.steps.reading.contract import Failing, Progress, counted

_ENDED = re.compile(r"^(\d{1,9}) tests? completed(?:, (\d{1,9}) failed)?(?:, (\d{1,9}) skipped)?$")
_WORDS = {"PASSED": "passed", "FAILED": "failed", "SKIPPED": "other"}


class Gradle:
    begins: tuple[str, ...] = ()
    ends: tuple[str, ...] = (" completed", " failed", " skipped", " PASSED", " FAILED", " SKIPPED")
    running = False  # what a test prints stands between the lines of other tests

    def __init__(self) -> None:
        self.sure = False
        self.failing = Failing()
        self._counts = {"passed": 0, "failed": 0, "other": 0}  # of the module that runs
        self._ended = dict(self._counts)
        self._told = False  # how many have passed

    def line(self, text: str) -> None:
        if match := _ENDED.match(text):
            run, failed, skipped = (int(number or 0) for number in match.groups())
            self._ended["passed"] += max(0, run - failed - skipped)
            self._ended["failed"] += failed
            self._ended["other"] += skipped
            self._counts = dict.fromkeys(self._counts, 0)
            self.sure = self._told = True
            return
        name, _, word = text.rpartition(" ")
        if word in _WORDS and " > " in name and not name[0].isspace() and not name.startswith(("> ", ":")):
            self.sure = True
            self._told = self._told or word == "PASSED"
            self._counts[_WORDS[word]] += 1
            if word == "FAILED":
                self.failing.note(name)

    def progress(self, beginning: str) -> Progress | None:
        counts = {word: number + self._counts[word] for word, number in self._ended.items()}
        done, passed, failed = sum(counts.values()), counts["passed"], counts["failed"]
        if not done:
            return None
        return Progress(done, None, counted(passed, failed), passed if self._told else None, failed)
