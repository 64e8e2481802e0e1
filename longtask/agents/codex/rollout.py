"""A thread's rollout file: what Codex itself goes on from, and so what we take for told.

A line holds what the model was told or has said (`response_item`); the answer of the model is over when the line comes
that says what it has cost (`token_usage_record`).  That is written before Codex asks whether a tool may run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from longtask.agents.native.waiting import until
from longtask.core.model import JsonMap

WAIT_S = 2.0  # mostly it is there within milliseconds
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")


@dataclass(slots=True)
class Turn:
    """An answer of the model.  `read`: bytes of the file, up to its end."""

    texts: list[str] = field(default_factory=list)
    calls: list[JsonMap] = field(default_factory=list)  # {id, tool, args}
    tokens_in: int = 0
    tokens_out: int = 0
    read: int = 0

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


class Rollout:
    """`read`: how far it was told before."""

    def __init__(self, file: Callable[[], Path | None], read: int) -> None:
        self._file = file
        self._read = read
        self._turn = Turn()
        self._open: set[str] = set()  # calls without an answer
        self._ended: set[str] = set()  # turns of Codex

    def turns(self) -> list[Turn]:
        """Those that are over, each once."""
        return [turn for line in self._lines() if (turn := self._feed(line)) is not None]

    def turns_before_call(self) -> list[Turn]:
        """When a call is asked about, the turn that makes it is there, or about to be."""
        return self._until(lambda: bool(self._open))

    def turns_of(self, turn: str) -> list[Turn]:
        """All, when a turn of Codex has ended."""
        return self._until(lambda: turn in self._ended)

    def _until(self, there: Callable[[], bool]) -> list[Turn]:
        found: list[Turn] = []

        def read() -> bool:
            found.extend(self.turns())
            return there()

        until(read, WAIT_S)
        return found

    def _lines(self) -> Iterator[JsonMap]:
        file = self._file()
        if file is None:
            return
        with file.open("rb") as content:
            content.seek(self._read)
            for line in content:
                if not line.endswith(b"\n"):
                    return
                self._read += len(line)
                yield json.loads(line)

    def _feed(self, line: JsonMap) -> Turn | None:
        what = line.get("payload") or {}
        match line.get("type"), what.get("type"):
            case "response_item", "message" if what.get("role") == "assistant":
                self._turn.texts += [str(part["text"]) for part in what.get("content") or () if part.get("text")]
            case "response_item", str(kind) if kind in _CALLS:
                args = what.get("arguments", what.get("input", what.get("action")))
                self._turn.calls.append({"id": what.get("call_id"), "tool": what.get("name") or kind, "args": args})
                self._open.add(str(what.get("call_id")))
            case "response_item", str(kind) if kind.endswith("_output"):
                self._open.discard(str(what.get("call_id")))
            case "token_usage_record", _:
                turn, self._turn = self._turn, Turn()
                usage = what.get("usage") or {}
                turn.tokens_in, turn.tokens_out = (
                    int(usage.get("input_tokens") or 0),
                    int(usage.get("output_tokens") or 0),
                )
                turn.read = self._read
                return turn
            case "event_msg", "task_complete" | "turn_aborted":
                self._ended.add(str(what.get("turn_id")))
        return None
