"""Jest, where no terminal is: file after file; how many tests there are is told at the end."""

from __future__ import annotations

import re

from longtask.steps.reading.contract import Failing, Progress, counted

_FILE = re.compile(r"\.[cm]?[jt]sx?$")
_PART = re.compile(r"(\d{1,9}) (failed|passed|skipped|todo|total)\b")
_TITLE = re.compile(r"^ {2}● (\S.*)$")
_BROKEN = "Test suite failed to run"


class Jest:
    begins: tuple[str, ...] = ("PASS ", "FAIL ", " PASS ", " FAIL ")
    ends: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.sure = self.running = False
        self.failing = Failing()
        self._files = {"passed": 0, "failed": 0}
        self._file: str | None = None  # that failed, and is told of
        self._ended: Progress | None = None

    def line(self, text: str) -> None:
        if text.lstrip().startswith(("PASS ", "FAIL ")):
            self._heard(text)
        elif not self.sure:
            return
        elif self._file is not None and (match := _TITLE.match(text)):
            if match[1] == _BROKEN:
                self.failing.note(self._file)
            elif match[1] != "Console":
                self.failing.note(f"{self._file} › {match[1]}")
        elif text.startswith("Tests: "):
            self._sum(text)
        elif text.startswith("Time: "):
            self.running = False

    def progress(self, beginning: str) -> Progress | None:
        if not self.sure or self._ended is not None:
            return self._ended
        told = counted(self._files["passed"], self._files["failed"])
        return Progress(sum(self._files.values()), None, f"files: {told}" if told else "")

    def _heard(self, text: str) -> None:
        word, *_, file = text.partition(" (")[0].split()  # perhaps a project's name before it, and its time behind it
        if not _FILE.search(file):
            return
        if not self.running:
            self._ended, self._files = None, {"passed": 0, "failed": 0}
        self.sure = self.running = True
        self._file = file.removeprefix("./") if word == "FAIL" else None
        self._files["failed" if word == "FAIL" else "passed"] += 1

    def _sum(self, text: str) -> None:
        numbers = {word: int(number) for number, word in _PART.findall(text)}
        passed, failed, total = (numbers.get(word, 0) for word in ("passed", "failed", "total"))
        self._ended = Progress(total, total, counted(passed, failed), passed, failed)
        self._file = None
