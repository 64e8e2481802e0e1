"""One program's output, read by all tools beside each other.

- While one of them is at work, its lines are nobody else's: what a test prints is no other runner's summary.
- `word` is the plan's `progress`: whose progress is told, and believed from its first line.  None: of the tool that was
  at work last, once it is sure.
- Of what `make test` starts one after the other, all names of failed tests are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from longtask.steps.reading.cargo import Cargo
from longtask.steps.reading.contract import Failing, Progress, Tool
from longtask.steps.reading.counts import Counts
from longtask.steps.reading.go import Go
from longtask.steps.reading.gradle import Gradle
from longtask.steps.reading.jest import Jest
from longtask.steps.reading.lines import Lines
from longtask.steps.reading.maven import Maven
from longtask.steps.reading.pytest import Pytest
from longtask.steps.reading.tap import Tap
from longtask.steps.reading.unittest import Unittest
from longtask.steps.reading.vitest import Vitest

TOOLS: Final[dict[str, Callable[[], Tool]]] = {
    "pytest": Pytest,
    "unittest": Unittest,
    "jest": Jest,
    "vitest": Vitest,
    "cargo": Cargo,
    "go": Go,
    "maven": Maven,
    "gradle": Gradle,
    "tap": Tap,
}
COUNTS = "n/m"


class Reader:
    def __init__(self, word: str | None = None) -> None:
        """Raises KeyError for a word that is not known."""
        tools = {name: make() for name, make in TOOLS.items()}
        self._named: Tool | None = None if word is None else Counts() if word == COUNTS else tools[word]
        self._others = [tool for tool in tools.values() if tool is not self._named]
        self._begins = tuple({word for tool in self._others for word in tool.begins})
        self._ends = tuple({word for tool in self._others for word in tool.ends})
        self._told = self._named
        self._running: Tool | None = None
        self._sure: list[Tool] = []
        self._lines = Lines()
        self._newest: Progress | None = None  # that was told

    def feed(self, content: bytes) -> Progress | None:
        """None: nothing new."""
        for line in self._lines.feed(content):
            self._line(line)
        now = self.progress
        if now is None or now == self._newest:
            return None
        self._newest = now
        return now

    @property
    def progress(self) -> Progress | None:
        """As of now; None: nothing is known."""
        return None if self._told is None else self._told.progress(self._lines.beginning)

    @property
    def failing(self) -> Failing:
        """Of all tools that are sure, and of the one that the plan names."""
        found = Failing()
        for tool in self._sure if self._named is None else (self._named, *self._sure):
            for name, kind in tool.failing.items():
                found.note(name, kind)
        return found

    def _line(self, line: str) -> None:
        if self._named is not None:
            self._named.line(line)
            if self._named.running:
                return
        if self._running is None and not (line.startswith(self._begins) or line.endswith(self._ends)):
            return  # as most lines are
        for tool in self._others if self._running is None else [self._running]:
            if tool is not self._running and not (line.startswith(tool.begins) or line.endswith(tool.ends)):
                continue
            tool.line(line)
            if tool.sure:
                self._believe(tool)
            if tool.running:
                self._running = tool
                return
        self._running = None

    def _believe(self, tool: Tool) -> None:
        if tool not in self._sure:
            self._sure.append(tool)
            if self._named is None:
                self._told = tool
        elif self._named is None and tool.running:
            self._told = tool
