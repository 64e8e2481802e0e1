"""What a turn of the model is in the run journal: {text, calls, usage, response}.

`text` and `calls` are for people; `response` is the whole of it as the SDK writes and reads it.  A run sees only what
was read back from the row.

What stands for a request in its fingerprint is what the talk has gained since the turn before: each row vouches for its
own part.  Neither instructions nor the wording of tools are in it: they may name the day, and change with a release.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agents import ModelResponse, Usage
from agents.items import TResponseInputItem, TResponseOutputItem
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails
from pydantic import TypeAdapter

from longtask.agents.journal import Answer
from longtask.agents.prices import micros
from longtask.core.model import Json, JsonMap

OUTPUT = TypeAdapter(list[TResponseOutputItem])


def answer_of(model: str, response: ModelResponse) -> Answer:
    usage = response.usage
    body = {
        "text": "".join(text_of(item) for item in response.output),
        "calls": [
            {"tool": item.name, "args": args_of(item.arguments)}
            for item in response.output
            if isinstance(item, ResponseFunctionToolCall)
        ],
        "usage": {name: count for name, count in parts_of(usage).items() if count},
        "response": {
            "id": response.response_id,
            "output": OUTPUT.dump_python(response.output, mode="json", exclude_unset=True),
            "tokens": [usage.requests, usage.input_tokens, usage.output_tokens],
        },
    }
    return Answer(body, usage.input_tokens, usage.output_tokens, price_of(model, usage))


def response_of(body: JsonMap) -> ModelResponse:
    kept, parts = body["response"], body["usage"]
    requests, tokens_in, tokens_out = kept["tokens"]
    usage = Usage(
        requests=requests,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        total_tokens=tokens_in + tokens_out,
        input_tokens_details=InputTokensDetails(
            cached_tokens=parts.get("cache_read", 0), cache_write_tokens=parts.get("cache_write", 0)
        ),
        output_tokens_details=OutputTokensDetails(reasoning_tokens=parts.get("reasoning_tokens", 0)),
    )
    return ModelResponse(output=OUTPUT.validate_python(kept["output"]), usage=usage, response_id=kept["id"])


def gained(talk: Sequence[TResponseInputItem]) -> list[Json]:
    """What has come since the model's last turn: words of users, results of tools."""
    since: list[Json] = []
    for item in reversed(talk):
        one: dict[str, Any] = dict(item)
        if "output" in one:
            since.append({"result": one["output"]})
        elif one.get("role") in ("user", "system", "developer"):
            since.append({one["role"]: one.get("content")})
        else:
            break
    return since[::-1]


def parts_of(usage: Usage) -> dict[str, int]:
    details = usage.input_tokens_details
    return {
        "cache_read": getattr(details, "cached_tokens", 0) or 0,
        "cache_write": getattr(details, "cache_write_tokens", 0) or 0,
        "reasoning_tokens": getattr(usage.output_tokens_details, "reasoning_tokens", 0) or 0,
    }


def price_of(model: str, usage: Usage) -> int | None:
    parts = parts_of(usage)
    return micros(model, usage.input_tokens, usage.output_tokens, parts["cache_read"], parts["cache_write"])


def args_of(arguments: str) -> Json:
    """As an object if it is one, else as the model wrote it."""
    try:
        args: Json = json.loads(arguments or "{}")
        json.dumps(args, allow_nan=False)
    except ValueError:
        return arguments
    return args


def text_of(item: Any) -> str:
    if not isinstance(item, ResponseOutputMessage):
        return ""
    return "".join(part.text for part in item.content if isinstance(part, ResponseOutputText))
