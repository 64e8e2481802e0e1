"""Any program that writes how far it is: the last `n/m` with n ≤ m."""

from __future__ import annotations

import re

from longtask.steps.reading.contract import Failing, Progress

TEXT_LENGTH_MAX = 120
# `12/40`, `[12/40]`, `12 of 40`; but no dates, paths, versions.
_COUNT = re.compile(r"(?<![\w./-])(\d{1,9})(?: ?/ ?| of )(\d{1,9})(?=[^\w./-]|[.](?!\w)|\Z)")


class Counts:
    begins: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    sure = running = False

    def __init__(self) -> None:
        self.failing = Failing()
        self._last: Progress | None = None

    def line(self, text: str) -> None:
        self._last = _found(text, len(text)) or self._last

    def progress(self, beginning: str) -> Progress | None:
        return _found(beginning, len(beginning) - 1) or self._last  # at its very end, half a number may stand


def _found(text: str, end: int) -> Progress | None:
    found = None
    for match in _COUNT.finditer(text):
        done, total = int(match[1]), int(match[2])
        if 0 < total >= done and match.end() <= end:
            found = Progress(done, total, text.strip()[:TEXT_LENGTH_MAX])
    return found
