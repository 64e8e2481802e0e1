"""go test, plain, `-v` and `-json`.  Plain it tells of packages only, and never how many there are.

A test is named after its package, which is told when the package has ended.
"""

from __future__ import annotations

import json
import re
from typing import Any

from longtask.steps.reading.contract import NAMES_MAX, Failing, Progress, counted

_TEST = re.compile(r"^ *--- (PASS|FAIL|SKIP): (\S+) \([\d.]+s\)$")
_LATE = re.compile(r"--- FAIL: (\S+) \([\d.]+s\)$")  # behind what a test has printed without an end of line
_PACKAGE = re.compile(r"^(ok  |FAIL)\t(\S+)(?:\t[\d.]+s| \[[a-z ]+\]|\t\(cached\))")
_WORDS = {"PASS": "passed", "FAIL": "failed", "SKIP": "other"}


class Go:
    begins: tuple[str, ...] = ("=== RUN ", "--- ", "ok  \t", "FAIL\t", '{"')
    ends: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.sure = self.running = False
        self._failing = Failing()
        self._open: list[str] = []  # failed tests of a package that has not ended
        self._tests = {"passed": 0, "failed": 0, "other": 0}
        self._packages = {"passed": 0, "failed": 0}
        self._verbose = False  # each test is told

    @property
    def failing(self) -> Failing:
        found = Failing(self._failing)
        for name in self._open:
            found.note(name)
        return found

    def line(self, text: str) -> None:
        if text.startswith("=== RUN "):
            self.sure = self.running = self._verbose = True
        elif match := _TEST.match(text):
            self._test(match[1], match[2])
            self.sure = self.running = True
        elif match := _PACKAGE.match(text):
            self._end(match[2], failed=match[1] == "FAIL")
        elif text.startswith('{"') and '"Action":' in text:
            self._event(text)
        elif self.running and (match := _LATE.search(text)):
            self._test("FAIL", match[1])

    def progress(self, beginning: str) -> Progress | None:
        if not self.sure:
            return None
        if self._verbose:
            passed, failed = self._tests["passed"], self._tests["failed"]
            return Progress(sum(self._tests.values()), None, counted(passed, failed), passed, failed)
        packages = self._packages
        told = counted(packages["passed"], packages["failed"])
        return Progress(sum(packages.values()), None, f"packages: {told}" if told else "")

    def _test(self, word: str, name: str) -> None:
        self._tests[_WORDS[word]] += 1
        if word == "FAIL" and len(self._open) < NAMES_MAX:
            self._open.append(name)

    def _end(self, package: str, *, failed: bool) -> None:
        self.sure, self.running = True, False
        self._packages["failed" if failed else "passed"] += 1
        for name in self._open:
            self._failing.note(f"{package} {name}")
        if failed and not self._open:  # it was not built, or died outside of its tests
            self._failing.note(package)
        self._open = []

    def _event(self, text: str) -> None:
        try:
            event: Any = json.loads(text)
        except (ValueError, RecursionError):
            return
        if not isinstance(event, dict) or not isinstance(event.get("Package"), str):
            return
        action, package, test = event.get("Action"), event["Package"], event.get("Test")
        if action not in ("pass", "fail", "skip"):
            return
        self.sure = self._verbose = True
        if test is not None:
            self._tests[_WORDS[action.upper()]] += 1
            if action == "fail":
                self._failing.note(f"{package} {test}")
        elif action != "skip":
            self._packages["failed" if action == "fail" else "passed"] += 1
            if action == "fail" and not any(name.startswith(f"{package} ") for name in self._failing):
                self._failing.note(package)
