"""OpenAI Responses: what Codex speaks."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from longtask.core.model import JsonMap
from longtask.modelserver.asked import Asked, Tool, Unreadable, entries, runs, texts, tool_of
from longtask.modelserver.said import Said, ToolCall, fresh, pieces
from longtask.modelserver.wires import openai
from longtask.modelserver.wires.contract import Event, Failure

SPOKEN = ("reasoning", "function_call", "custom_tool_call", "local_shell_call")
STOPS = {"length": "max_output_tokens", "refusal": "content_filter"}
_ID = re.compile(r"resp_([0-9]+)_")


class Responses:
    name = "responses"

    def read(self, body: Mapping[str, Any]) -> Asked:
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else entries(body, "input")
        tools = [tool for source in (body, *items) for tool in _tools(source)]
        wanted = body.get("text")
        wanted = wanted.get("format") if isinstance(wanted, Mapping) else None
        return Asked(
            model=str(body.get("model", "")),
            stream=bool(body.get("stream")),
            tools={tool.name: tool for tool in tools},
            user="\n".join(texts(one.get("content")) for one in items if one.get("role") == "user"),
            replies=_before(body) + runs(one.get("role") == "assistant" or one.get("type") in SPOKEN for one in items),
            as_json=isinstance(wanted, Mapping) and wanted.get("type") in ("json_schema", "json_object"),
        )

    def document(self, said: Said, asked: Asked) -> JsonMap:
        output: list[JsonMap] = []
        if said.reasoning is not None:
            summary = [{"type": "summary_text", "text": said.reasoning}]
            output.append({"type": "reasoning", "id": fresh("rs"), "summary": summary})
        if said.text is not None:
            content = [{"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}]
            message = {"type": "message", "id": fresh("msg"), "role": "assistant", "status": "completed"}
            output.append({**message, "content": content})
        output += [_call(call) for call in said.calls]
        usage = said.usage
        return {
            "id": fresh(f"resp_{asked.replies + 1}"),
            "object": "response",
            "created_at": int(time.time()),
            "status": "incomplete" if said.stop else "completed",
            "model": asked.model,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": {"reason": STOPS[said.stop]} if said.stop else None,
            "instructions": None,
            "metadata": {},
            "usage": {
                "input_tokens": usage.tokens_in,
                "input_tokens_details": {"cached_tokens": usage.tokens_cached},
                "output_tokens": usage.tokens_out,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage.tokens_in + usage.tokens_out,
            },
        }

    def events(self, document: JsonMap, asked: Asked) -> Iterator[Event]:
        begun = {**document, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        last = f"response.{document['status']}"
        told = (
            ("response.created", {"response": begun}),
            ("response.in_progress", {"response": begun}),
            *(part for index, item in enumerate(document["output"]) for part in _item(index, item)),
            (last, {"response": document}),
        )
        for number, (kind, more) in zip(count(), told, strict=False):
            yield Event(kind, {"type": kind, "sequence_number": number, **more})

    def failure(self, status: int, message: str, resets_at: int | None = None) -> Failure:
        return openai.failure(status, message, resets_at)

    def broken(self, document: JsonMap, status: int, message: str) -> Event:
        found = {"code": openai.error(status, message)["code"] or "server_error", "message": message}
        kind = "response.failed"
        return Event(kind, {"type": kind, "response": {**document, "status": "failed", "output": [], "error": found}})


def _before(body: Mapping[str, Any]) -> int:
    """Replies of the history that the request leaves out, since it names the response that it goes on from."""
    named = body.get("previous_response_id")
    if not named:
        return 0
    found = _ID.match(str(named))
    if found is None:
        raise Unreadable(f"previous response {str(named)[:60]!r} is none of this server's")
    return int(found[1])


def _tools(source: Mapping[str, Any]) -> Iterator[Tool]:
    """Those in namespaces too.  For its newer models Codex sends tools as an item of the input."""
    for tool in source.get("tools") or ():
        if not isinstance(tool, Mapping):
            raise Unreadable("a tool is to be an object")
        if "tools" in tool:
            yield from _tools(tool)
        elif tool.get("type") == "custom":
            yield Tool(str(tool.get("name")), None)
        else:
            yield tool_of(tool.get("name", tool.get("type")), tool.get("parameters"))


def _call(call: ToolCall) -> JsonMap:
    shared = {"call_id": fresh("call"), "name": call.name, "status": "completed"}
    if isinstance(call.args, str):
        return {"type": "custom_tool_call", "id": fresh("ctc"), **shared, "input": call.args}
    return {"type": "function_call", "id": fresh("fc"), **shared, "arguments": call.json}


def _item(index: int, item: JsonMap) -> Iterator[tuple[str, JsonMap]]:
    at = {"item_id": item["id"], "output_index": index}
    yield "response.output_item.added", {"output_index": index, "item": _empty(item)}
    match item["type"]:
        case "message":
            part = item["content"][0]
            at = {**at, "content_index": 0}
            yield "response.content_part.added", {**at, "part": {**part, "text": ""}}
            for piece in pieces(part["text"]):
                yield "response.output_text.delta", {**at, "delta": piece, "logprobs": []}
            yield "response.output_text.done", {**at, "text": part["text"], "logprobs": []}
            yield "response.content_part.done", {**at, "part": part}
        case "reasoning":
            part = item["summary"][0]
            at = {**at, "summary_index": 0}
            yield "response.reasoning_summary_part.added", {**at, "part": {**part, "text": ""}}
            for piece in pieces(part["text"]):
                yield "response.reasoning_summary_text.delta", {**at, "delta": piece}
            yield "response.reasoning_summary_text.done", {**at, "text": part["text"]}
            yield "response.reasoning_summary_part.done", {**at, "part": part}
        case "function_call":
            for piece in pieces(item["arguments"]):
                yield "response.function_call_arguments.delta", {**at, "delta": piece}
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield "response.function_call_arguments.done", {**at, **done}
        case "custom_tool_call":
            for piece in pieces(item["input"]):
                yield "response.custom_tool_call_input.delta", {**at, "delta": piece}
            yield "response.custom_tool_call_input.done", {**at, "input": item["input"]}
    yield "response.output_item.done", {"output_index": index, "item": item}


def _empty(item: JsonMap) -> JsonMap:
    """An item as it begins."""
    blank: JsonMap = {"content": [], "summary": [], "arguments": "", "input": "", "status": "in_progress"}
    return {name: blank.get(name, value) for name, value in item.items()}
