"""What is known of one test runner's output.

A tool is handed whole lines, one after the other, without colours and blanks at their ends, never an empty one; and
the beginning of a line that is still being written, since a row of dots is a line only when its tests are over.  Which
chunks the bytes came in makes no difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

NAMES_MAX = 1_000
NAME_LENGTH_MAX = 300


@dataclass(frozen=True, slots=True)
class Progress:
    done: int
    total: int | None  # None: not known (yet)
    text: str
    passed: int | None = None  # None: this program does not say
    failed: int | None = None


class Failing(dict[str, str]):
    """Names of failed tests in the order in which they came, each with the kind of its failure ("": not known)."""

    def note(self, name: str, kind: str = "") -> None:
        name = name.strip()[:NAME_LENGTH_MAX]
        if name and (name in self or len(self) < NAMES_MAX):
            self[name] = kind or self.get(name, "")


class Tool(Protocol):
    begins: tuple[str, ...]  # lines that neither begin nor end so tell it nothing, unless it is at work
    ends: tuple[str, ...]
    sure: bool  # what came is this tool's, without a doubt
    running: bool  # it has begun and not told its end: until then all lines are its own

    @property
    def failing(self) -> Failing: ...
    def line(self, text: str) -> None: ...

    def progress(self, beginning: str) -> Progress | None:
        """None: nothing is known.  `beginning`: of a line that is not at its end."""


def counted(passed: int, failed: int) -> str:
    return ", ".join(f"{number} {word}" for number, word in ((passed, "passed"), (failed, "failed")) if number)
