"""What people see of an agent that is a program of its own: its words, its tools, how many there were."""

from __future__ import annotations

from longtask.agents.journal import Line

SHOWN_CHARS_MAX = 2_000


class Shown:
    def __init__(self, line: Line) -> None:
        self._line = line
        self._calls = 0

    def words(self, text: str) -> None:
        if text.strip():
            self._out(f"» {_cut(text.strip())}\n")

    def call(self, tool: str, about: str) -> None:
        """Before it runs."""
        self._out(f"$ {_cut(about)}\n" if tool == "shell" else f"{tool} {_cut(about)}\n")

    def ended(self, tool: str, text: str, failed: bool) -> None:
        self._calls += 1
        if failed:
            self._out(f"{_cut(text.strip())}\n")
        self._line.send("progress", done=self._calls, total=0, text=tool)

    def note(self, text: str) -> None:
        self._line.send("note", text=f"{text}\n")

    def _out(self, text: str) -> None:
        self._line.send("output", stream="out", text=text)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"
