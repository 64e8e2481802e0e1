"""cargo test: each target runs by itself and tells how many tests it has when it begins."""

from __future__ import annotations

import re

from longtask.steps.reading.contract import Failing, Progress, counted

_BEGINS = re.compile(r"^running (\d{1,9}) tests?$")
_RESULT = re.compile(
    r"^test result: (?:ok|FAILED)\. (\d{1,9}) passed; (\d{1,9}) failed; (\d{1,9}) ignored; (\d{1,9}) measured;"
)
_DOTS = re.compile(r"^([.iF]+)(?: (\d{1,9})/(\d{1,9}))?$")  # -q
_FIRST_DOTS = re.compile(r"^([.iF]+)(?= |$)")
_QUIET = " --- FAILED"
_PANICS = " - should panic"


class Cargo:
    begins: tuple[str, ...] = ("running ",)
    ends: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.sure = self.running = False
        self.failing = Failing()
        self._total = 0  # of the targets that have begun
        self._ended = {"passed": 0, "failed": 0, "other": 0}  # targets
        self._counts = dict(self._ended)  # of the target that runs
        self._listing = False
        self._reporting = False  # what comes was printed by tests

    def line(self, text: str) -> None:
        listing, self._listing = self._listing, False
        if match := _BEGINS.match(text):
            self._total += int(match[1])
            self.sure = self.running = True
            self._reporting = False
        elif not self.running:
            return
        elif match := _RESULT.match(text):
            for word, number in zip(("passed", "failed", "other", "other"), match.groups(), strict=True):
                self._ended[word] += int(number)
            self._counts = dict.fromkeys(self._counts, 0)
            self.running = False
        elif text == "failures:":
            self._reporting = self._listing = True
        elif listing and text.startswith("    "):
            self._failed(text)
            self._listing = True
        elif not self._reporting:
            self._test(text)

    def progress(self, beginning: str) -> Progress | None:
        if not self.sure:
            return None
        counts = {word: number + self._counts[word] for word, number in self._ended.items()}
        if self.running and not self._reporting and (match := _FIRST_DOTS.match(beginning)):
            _count(counts, match[1])
        done, passed, failed = sum(counts.values()), counts["passed"], counts["failed"]
        return Progress(min(done, self._total), self._total, counted(passed, failed), passed, failed)

    def _test(self, text: str) -> None:
        if match := _DOTS.match(text):
            _count(self._counts, match[1])
        elif text.endswith(_QUIET):
            self._failed(text.removesuffix(_QUIET))
            self._counts["failed"] += 1
        elif text.startswith("test "):
            name, dots, verdict = text[5:].rpartition(" ... ")
            if dots and verdict == "FAILED":
                self._failed(name)
                self._counts["failed"] += 1
            elif dots:
                self._counts["passed" if verdict == "ok" else "other"] += 1

    def _failed(self, name: str) -> None:
        self.failing.note(name.strip().removesuffix(_PANICS))


def _count(counts: dict[str, int], letters: str) -> None:
    for letter in letters:
        counts["passed" if letter == "." else "failed" if letter == "F" else "other"] += 1
