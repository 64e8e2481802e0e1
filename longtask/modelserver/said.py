"""What is answered, before a wire gives it its form: a turn of the script, in the tools that the request offers."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from longtask.modelserver.asked import Asked
from longtask.modelserver.calls import call_of, output_tool
from longtask.modelserver.script import Turn, Usage


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`args`: a text for a tool that takes free text."""

    name: str
    args: Mapping[str, Any] | str

    @property
    def json(self) -> str:
        return json.dumps(self.args)


@dataclass(frozen=True, slots=True)
class Said:
    """`stop`: "length", "refusal", or None for an end of its own accord."""

    text: str | None
    reasoning: str | None
    calls: tuple[ToolCall, ...]
    usage: Usage
    stop: str | None = None


def answer(turn: Turn, asked: Asked) -> Said:
    """Raises calls.NoTool."""
    calls = [ToolCall(*call_of(call, asked.tools)) for call in turn.calls]
    text = turn.text
    if turn.output is not None:
        tool = None if asked.as_json else output_tool(turn.output, asked.tools)
        if tool is not None:
            calls.append(ToolCall(tool, turn.output))
        elif asked.as_json or text is None:  # words before it would be no JSON
            text = json.dumps(turn.output)
        else:
            text = f"{text}\n\n{json.dumps(turn.output)}"
    return Said(text, turn.reasoning, tuple(calls), turn.usage, turn.stop)


def fresh(prefix: str) -> str:
    """An id as the provider makes them: never the same twice, since agents keep them apart by it."""
    return f"{prefix}_{secrets.token_hex(12)}"


def pieces(text: str, count: int = 3) -> list[str]:
    """A text as a stream brings it."""
    size = max(-(-len(text) // count), 1)
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]
