"""Attributes of an agent's run, its model calls and its tool calls, by the names of OpenTelemetry's conventions for
generative AI (status "development": names may still change, so they stand here only)."""

from __future__ import annotations

import json
from typing import Any

from longtask.redaction import redact
from longtask.telemetry.source import Call

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
MODEL = "gen_ai.request.model"
CONVERSATION = "gen_ai.conversation.id"
AGENT_NAME, AGENT_VERSION = "gen_ai.agent.name", "gen_ai.agent.version"
TOOL_NAME, TOOL_TYPE, TOOL_CALL = "gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.tool.call.id"
TOKENS_IN, TOKENS_OUT = "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"
ERROR_TYPE = "error.type"
OUTPUT, TOOL_RESULT = "gen_ai.output.messages", "gen_ai.tool.call.result"
MICROS = "longtask.cost.micros"  # the conventions know no money

CONTENT_CHARS_MAX = 4_000


def invoke_agent(runtime: str, conversation: str) -> tuple[str, dict[str, Any]]:
    """Name and attributes.  `runtime`: name and version, as a claim has them."""
    name, _, version = runtime.partition(" ")
    attributes = {OPERATION: "invoke_agent", AGENT_NAME: name, CONVERSATION: conversation}
    if version:
        attributes[AGENT_VERSION] = version
    return f"invoke_agent {name}", attributes


def chat(call: Call, runtime: str, conversation: str) -> tuple[str, dict[str, Any]]:
    provider, colon, model = call.name.partition(":")  # some name a model as `provider:model`
    attributes: dict[str, Any] = {
        OPERATION: "chat",
        PROVIDER: provider if colon else runtime.partition(" ")[0],
        MODEL: model if colon else call.name,
        CONVERSATION: conversation,
    }
    if call.done_at:
        attributes |= {TOKENS_IN: call.tokens_in, TOKENS_OUT: call.tokens_out}
        if call.micros is not None:
            attributes[MICROS] = call.micros
    return f"chat {attributes[MODEL]}", attributes


def execute_tool(call: Call, conversation: str) -> tuple[str, dict[str, Any]]:
    attributes = {
        OPERATION: "execute_tool",
        TOOL_NAME: call.name,
        TOOL_TYPE: "function",
        TOOL_CALL: f"{conversation}/{call.n}",
        CONVERSATION: conversation,
    }
    return f"execute_tool {call.name}", attributes


def content(call: Call) -> dict[str, Any]:
    """What was answered, cut and redacted; only where a setting asks for it."""
    if not isinstance(call.body, dict):
        return {}
    text = redact(str(call.body.get("text", "")))[:CONTENT_CHARS_MAX]
    if call.kind == "tool":
        return {TOOL_RESULT: text}
    parts: list[dict[str, Any]] = [{"type": "text", "content": text}]
    for asked in call.body.get("calls", ()):
        words = redact(json.dumps(asked.get("args"), ensure_ascii=False))[:CONTENT_CHARS_MAX]
        parts.append({"type": "tool_call", "name": asked.get("tool"), "arguments": words})
    return {OUTPUT: json.dumps([{"role": "assistant", "parts": parts}], ensure_ascii=False)}
