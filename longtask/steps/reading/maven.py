"""Maven's Surefire and Failsafe, class after class.  How many tests there are is never told before they have run."""

from __future__ import annotations

import re

from longtask.steps.reading.contract import Failing, Progress, counted

_LEVEL = r"^\[(?:INFO|WARNING|ERROR)\] "
_BEGINS = re.compile(_LEVEL + r" ?T E S T S$")
_RUN = re.compile(
    _LEVEL + r"Tests run: (\d{1,9}), Failures: (\d{1,9}), Errors: (\d{1,9}), Skipped: (\d{1,9})(, Time elapsed: )?"
)
_TIMED = re.compile(r" (?:-- )? ?Time elapsed: ")


class Maven:
    begins: tuple[str, ...] = ("[INFO] ", "[WARNING] ", "[ERROR] ")
    ends: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.sure = self.running = False
        self.failing = Failing()
        self._counts = {"passed": 0, "failed": 0, "other": 0}

    def line(self, text: str) -> None:
        if not text.startswith("["):
            return
        if _BEGINS.match(text):
            self.sure = self.running = True
        elif match := _RUN.match(text):
            self.sure = True
            if match[5] is None:  # of the whole module
                self.running = False
                return
            run, failures, errors, skipped = (int(match[n]) for n in range(1, 5))
            self._counts["passed"] += max(0, run - failures - errors - skipped)
            self._counts["failed"] += failures + errors
            self._counts["other"] += skipped
        elif text.endswith(("<<< FAILURE!", "<<< ERROR!")) and (match := _TIMED.search(text)):
            self.failing.note(text[: match.start()].removeprefix("[ERROR] "))

    def progress(self, beginning: str) -> Progress | None:
        done, passed, failed = sum(self._counts.values()), self._counts["passed"], self._counts["failed"]
        return Progress(done, None, counted(passed, failed), passed, failed) if self.sure and done else None
