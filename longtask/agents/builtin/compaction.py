"""What is left out of a talk that does not fit: results of tools, oldest first.

The model's own words, the calls that it made and what people said stay; a provider refuses a call without its result,
so a short line stands in place of each.  What is left out is decided by the talk and by `level` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelRequestPart, ToolReturnPart

LEVELS = 4  # of the results: the older half, three quarters, seven eighths, all but the last message's
KEPT_CHARS = 200
LEFT_OUT = "(left out: the talk had become too long; call the tool again if you need it)"


def compacted(messages: Sequence[ModelMessage], level: int, until: int) -> list[ModelMessage]:
    """`level` 0: nothing is left out.  `until`: as many messages there were when the level was set, so that what is
    kept stays the same from request to request, and with it the provider's cache."""
    kept = list(messages)
    if not level:
        return kept
    with_results = [n for n, message in enumerate(kept[:until]) if _has_results(message)][:-1]
    gone = len(with_results) if level >= LEVELS else len(with_results) - (len(with_results) >> level)
    for n in with_results[:gone]:
        message = kept[n]
        assert isinstance(message, ModelRequest)
        kept[n] = replace(message, parts=[_short(part) for part in message.parts])
    return kept


def _has_results(message: ModelMessage) -> bool:
    return isinstance(message, ModelRequest) and any(isinstance(part, ToolReturnPart) for part in message.parts)


def _short(part: ModelRequestPart) -> ModelRequestPart:
    if not isinstance(part, ToolReturnPart) or not isinstance(part.content, str) or len(part.content) <= KEPT_CHARS:
        return part
    text = f"{part.content[:KEPT_CHARS]}…\n{LEFT_OUT}"
    return ToolReturnPart(part.tool_name, text, part.tool_call_id, outcome=part.outcome, timestamp=part.timestamp)
