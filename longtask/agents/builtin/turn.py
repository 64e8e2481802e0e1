"""What a turn of the model is in the run journal: {text, calls, usage, response}, or {too_long} when it did not fit.

`text` and `calls` are for people; `response` is the whole of it as Pydantic AI writes and reads it, with the signatures
that a provider wants to see again.  A run sees only what was read back from the row, so that a replay sees the same.

What stands for a request in its fingerprint is what the talk has gained since the turn before: each row vouches for its
own part.  Neither instants nor the wording of tools and instructions are in it, so that a newer version can go on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_ai import ModelMessagesTypeAdapter
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from longtask.agents.journal import Answer
from longtask.core.model import Json, JsonMap

MICROS = 1_000_000
TOO_LONG = "too_long"


def answer_of(response: ModelResponse) -> Answer:
    usage = response.usage
    parts = {
        "cache_read": usage.cache_read_tokens,
        "cache_write": usage.cache_write_tokens,
        **{name: count for name, count in usage.details.items() if name == "reasoning_tokens"},
    }
    body = {
        "text": "".join(part.content for part in response.parts if isinstance(part, TextPart)),
        "calls": [
            {"tool": part.tool_name, "args": _args(part)} for part in response.parts if isinstance(part, ToolCallPart)
        ],
        "usage": {name: count for name, count in parts.items() if count},
        "response": ModelMessagesTypeAdapter.dump_python([response], mode="json")[0],
    }
    return Answer(body, usage.input_tokens, usage.output_tokens, _micros(response))


def response_of(body: JsonMap) -> ModelResponse:
    (response,) = ModelMessagesTypeAdapter.validate_python([body["response"]])
    assert isinstance(response, ModelResponse)
    return response


def did_not_fit(reason: str) -> Answer:
    return Answer({"text": "", TOO_LONG: reason})


def gained(messages: Sequence[ModelMessage]) -> list[Json]:
    """What has come since the model's last turn."""
    since: list[Json] = []
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            break
        since[:0] = _said(message)
    return since


def _said(message: ModelRequest) -> Iterator[Json]:
    for part in message.parts:
        match part:
            case UserPromptPart(content=content):
                yield {"user": content if isinstance(content, str) else [str(item) for item in content]}
            case ToolReturnPart(tool_name=name, content=str(text), outcome="success" | "failed"):
                yield {"tool": name, "text": text}
            case _:  # the framework's own words: they may be others in its next version
                yield {"part": getattr(part, "tool_name", None)}


def _args(part: ToolCallPart) -> Json:
    """As an object if it is one, else as the model wrote it."""
    try:
        args: Any = json.loads(part.args) if isinstance(part.args, str) else part.args or {}
        json.dumps(args, allow_nan=False)
    except (ValueError, TypeError):
        return str(part.args)
    return args


def _micros(response: ModelResponse) -> int | None:
    """Millionths of a dollar by the price list of the installed version.  None: it has no price for that model."""
    try:
        return round(response.cost().total_price * MICROS)
    except (LookupError, ValueError, AssertionError):
        return None
