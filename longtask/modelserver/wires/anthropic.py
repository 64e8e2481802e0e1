"""Anthropic Messages: what Claude Code speaks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from longtask.core.model import JsonMap
from longtask.modelserver.asked import Asked, entries, runs, texts, tool_of
from longtask.modelserver.said import Said, fresh, pieces
from longtask.modelserver.wires.contract import Event, Failure

ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
STOPS = {"length": "max_tokens", "refusal": "refusal"}
# Claude Code writes this itself, in the model's name, after a run that was killed while the model spoke.
NOT_SPOKEN = "No response requested."


class Messages:
    name = "anthropic"

    def read(self, body: Mapping[str, Any]) -> Asked:
        messages = entries(body, "messages")
        tools = [tool_of(tool["name"], tool.get("input_schema")) for tool in entries(body, "tools") if "name" in tool]
        wanted = body.get("output_format") or (body.get("output_config") or {}).get("format")
        return Asked(
            model=str(body.get("model", "")),
            stream=bool(body.get("stream")),
            tools={tool.name: tool for tool in tools},
            user="\n".join(texts(one.get("content")) for one in messages if one.get("role") == "user"),
            replies=runs(_spoken(one) for one in messages),
            as_json=wanted is not None,
        )

    def document(self, said: Said, asked: Asked) -> JsonMap:
        content: list[JsonMap] = []
        if said.reasoning is not None:
            content.append({"type": "thinking", "thinking": said.reasoning, "signature": "c2NyaXB0ZWQ="})
        if said.text is not None:
            content.append({"type": "text", "text": said.text})
        for call in said.calls:
            content.append({"type": "tool_use", "id": fresh("toolu"), "name": call.name, "input": call.args})
        return {
            "id": fresh("msg"),
            "type": "message",
            "role": "assistant",
            "model": asked.model,
            "content": content,
            "stop_reason": STOPS[said.stop] if said.stop else "tool_use" if said.calls else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": said.usage.tokens_in - said.usage.tokens_cached,
                "output_tokens": said.usage.tokens_out,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": said.usage.tokens_cached,
            },
        }

    def events(self, document: JsonMap, asked: Asked) -> Iterator[Event]:
        usage = document["usage"]
        begun = {**document, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
        yield _event("message_start", message=begun)
        for index, block in enumerate(document["content"]):
            empty, deltas = _grown(block)
            yield _event("content_block_start", index=index, content_block=empty)
            for delta in deltas:
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        end = {"stop_reason": document["stop_reason"], "stop_sequence": None}
        yield _event("message_delta", delta=end, usage=usage)
        yield _event("message_stop")

    def failure(self, status: int, message: str, resets_at: int | None = None) -> Failure:
        body = {**_error(status, message), "request_id": fresh("req")}
        if resets_at is None:
            return Failure(body)
        return Failure(
            body,
            {
                "anthropic-ratelimit-requests-reset": datetime.fromtimestamp(resets_at, UTC).isoformat(),
                "anthropic-ratelimit-unified-status": "rejected",
                "anthropic-ratelimit-unified-reset": str(resets_at),
            },
        )

    def broken(self, document: JsonMap, status: int, message: str) -> Event:
        return Event("error", _error(status, message))


def _spoken(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "assistant" and texts(message.get("content")).strip() != NOT_SPOKEN


def _error(status: int, message: str) -> JsonMap:
    return {"type": "error", "error": {"type": ERRORS.get(status, "api_error"), "message": message}}


def _event(kind: str, **more: Any) -> Event:
    return Event(kind, {"type": kind, **more})


def _grown(block: JsonMap) -> tuple[JsonMap, list[JsonMap]]:
    """A block as it begins, and what it grows by."""
    if block["type"] == "tool_use":
        parts = pieces(json.dumps(block["input"]))
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]
    if block["type"] == "thinking":
        thought = [{"type": "thinking_delta", "thinking": part} for part in pieces(block["thinking"])]
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*thought, signed]
    return {**block, "text": ""}, [{"type": "text_delta", "text": part} for part in pieces(block["text"])]
