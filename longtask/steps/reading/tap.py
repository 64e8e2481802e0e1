"""TAP, versions 12 to 14: of perl's tests and `prove -v`, node's, bats', and whatever else speaks it.

The outermost tests count.  Of a group that fails, the innermost tests that failed are named, behind its name.
"""

from __future__ import annotations

import re

from longtask.steps.reading.contract import NAMES_MAX, Failing, Progress, counted

_RESULT = re.compile(r"^( *)(not ok|ok)\b *(\d{1,9})? *(?:- )?(.*)$")
_PLAN = re.compile(r"^1\.\.(\d{1,9})(?: *#.*)?$")
_DIRECTIVE = re.compile(r" # ?(skip|todo)\b.*$", re.IGNORECASE)
_TIME = re.compile(r" # time=.*$")
_SCRIPT = re.compile(r"^(\S+) \.{2,}$")  # of `prove -v`
_SUMMED = re.compile(r"^(\S+) +\(Wstat: (?:0 .* Failed: [1-9]|[1-9])\d*\b.*\)$")


class Tap:
    begins: tuple[str, ...] = ("TAP version ", "1..", "ok ", "not ok ", "    ok ", "    not ok ")
    ends: tuple[str, ...] = (" ..", *(f"{digit})" for digit in range(10)))

    def __init__(self) -> None:
        self.sure = self.running = False
        self.failing = Failing()
        self._counts = {"passed": 0, "failed": 0, "other": 0}
        self._total: int | None = None
        self._ahead = 0  # tests that the plan tells and that have not come; below 0: that came without a plan
        self._inner: list[tuple[int, str]] = []  # failed ones of a group that has not ended, with their indents
        self._script = ""

    def line(self, text: str) -> None:
        if text.startswith("TAP version "):
            self.sure = self.running = True
        elif match := _PLAN.match(text):
            self._total = (self._total or 0) + int(match[1])
            self._ahead += int(match[1])
            self.sure = True
            self.running = self._ahead > 0
        elif text.lstrip(" ").startswith(("ok", "not ok")) and (match := _RESULT.match(text)):
            self._result(len(match[1]), match[2] == "ok", match[3], match[4])
        elif match := _SCRIPT.match(text):
            self._script = f"{match[1]} > "
            self._ahead, self._inner = 0, []
        elif self.sure and (match := _SUMMED.match(text)):
            self._summed(match[1])

    def progress(self, beginning: str) -> Progress | None:
        done, passed, failed = sum(self._counts.values()), self._counts["passed"], self._counts["failed"]
        if not done:
            return None
        total = None if self._total is None or self._total < done else self._total
        return Progress(done, total, counted(passed, failed), passed, failed)

    def _summed(self, script: str) -> None:
        """A script that failed: none of its tests need have."""
        if not any(name.startswith(f"{script} > ") for name in self.failing):
            self.failing.note(script)

    def _result(self, indent: int, ok: bool, number: str | None, text: str) -> None:
        directive = _DIRECTIVE.search(text)
        name = _TIME.sub("", text[: directive.start()] if directive else text).strip() or f"test {number or '?'}"
        if number is None and not text:
            return  # `ok` alone is anybody's word
        todo = directive is not None and directive[1].lower() == "todo"
        inner = [name for depth, name in self._inner if depth > indent]
        self._inner = [(depth, name) for depth, name in self._inner if depth <= indent]
        failed = [f"{name} > {one}" for one in inner] or [name] if not ok and not todo else []
        if indent:
            self._inner += [(indent, one) for one in failed[: NAMES_MAX - len(self._inner)]]
            return
        for one in failed:
            self.failing.note(self._script + one)
        self._counts["failed" if failed else "other" if directive else "passed"] += 1
        self._ahead -= 1
        if self._ahead <= 0:
            self.running = False
