"""OpenAI Chat Completions: what opencode and most gateways speak."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from longtask.core.model import JsonMap
from longtask.modelserver.asked import Asked, entries, runs, texts, tool_of
from longtask.modelserver.said import Said, fresh, pieces
from longtask.modelserver.wires import openai
from longtask.modelserver.wires.contract import Event, Failure

STOPS = {"length": "length", "refusal": "content_filter"}
DONE = Event("", "[DONE]")


class ChatCompletions:
    name = "chat"

    def read(self, body: Mapping[str, Any]) -> Asked:
        messages = entries(body, "messages")
        functions = [tool["function"] for tool in entries(body, "tools") if isinstance(tool.get("function"), Mapping)]
        tools = [tool_of(function.get("name"), function.get("parameters")) for function in functions]
        wanted, options = body.get("response_format"), body.get("stream_options")
        return Asked(
            model=str(body.get("model", "")),
            stream=bool(body.get("stream")),
            tools={tool.name: tool for tool in tools},
            user="\n".join(texts(one.get("content")) for one in messages if one.get("role") == "user"),
            replies=runs(one.get("role") == "assistant" for one in messages),
            as_json=isinstance(wanted, Mapping) and wanted.get("type") in ("json_schema", "json_object"),
            counted=isinstance(options, Mapping) and bool(options.get("include_usage")),
        )

    def document(self, said: Said, asked: Asked) -> JsonMap:
        message: dict[str, Any] = {"role": "assistant", "content": said.text, "refusal": None}
        if said.reasoning is not None:
            message["reasoning_content"] = said.reasoning
        if said.calls:
            message["tool_calls"] = [
                {"id": fresh("call"), "type": "function", "function": {"name": call.name, "arguments": call.json}}
                for call in said.calls
            ]
        finish = STOPS[said.stop] if said.stop else "tool_calls" if said.calls else "stop"
        usage = said.usage
        return {
            "id": fresh("chatcmpl"),
            "object": "chat.completion",
            "created": int(time.time()),
            "model": asked.model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
            "usage": {
                "prompt_tokens": usage.tokens_in,
                "completion_tokens": usage.tokens_out,
                "total_tokens": usage.tokens_in + usage.tokens_out,
                "prompt_tokens_details": {"cached_tokens": usage.tokens_cached},
            },
        }

    def events(self, document: JsonMap, asked: Asked) -> Iterator[Event]:
        shared = {name: document[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
        choice = document["choices"][0]

        def chunk(delta: JsonMap, finish: str | None = None) -> Event:
            only = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
            return Event("", {**shared, "choices": [only]})

        yield chunk({"role": "assistant", "content": ""})
        for delta in _deltas(choice["message"]):
            yield chunk(delta)
        yield chunk({}, choice["finish_reason"])
        if asked.counted:
            yield Event("", {**shared, "choices": [], "usage": document["usage"]})
        yield DONE

    def failure(self, status: int, message: str, resets_at: int | None = None) -> Failure:
        return openai.failure(status, message, resets_at)

    def broken(self, document: JsonMap, status: int, message: str) -> Event:
        return Event("", {"error": openai.error(status, message)})


def _deltas(message: JsonMap) -> Iterator[JsonMap]:
    for name in ("reasoning_content", "content"):
        if message.get(name) is not None:
            yield from ({name: piece} for piece in pieces(message[name]))
    for index, call in enumerate(message.get("tool_calls", ())):
        begun = {**call, "function": {**call["function"], "arguments": ""}}
        yield {"tool_calls": [{"index": index, **begun}]}
        for piece in pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
