"""The wires, in the shapes that their providers document: whole and as streams, which must say the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.modelserver.conftest import PATHS, events

WIRES = list(PATHS)
TOOLS = {"Bash": ["command"], "Write": ["file_path", "content"]}
SCRIPT = {
    "turns": [
        {
            "reasoning": "I think about it",
            "text": "I run two things",
            "calls": [{"shell": "make test"}, {"write": {"path": "a", "content": "ä\n"}}],
            "usage": {"tokens_in": 1000, "tokens_out": 30, "tokens_cached": 900},
        },
        {"text": "cut off", "stop": "length"},
        {"text": "no", "stop": "refusal"},
    ]
}


def whole_anthropic(stream: list[Any]) -> Any:
    """What a client makes of the events."""
    message: Any = None
    for event in stream:
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
                parts: list[str] = []
            case "content_block_delta":
                delta, block = event["delta"], message["content"][event["index"]]
                match delta["type"]:
                    case "text_delta":
                        block["text"] += delta["text"]
                    case "thinking_delta":
                        block["thinking"] += delta["thinking"]
                    case "signature_delta":
                        block["signature"] = delta["signature"]
                    case "input_json_delta":
                        parts.append(delta["partial_json"])
            case "content_block_stop":
                if parts:
                    message["content"][event["index"]]["input"] = json.loads("".join(parts))
            case "message_delta":
                message.update(event["delta"], usage=event["usage"])
    assert stream[-1]["type"] == "message_stop"
    return message


def whole_responses(stream: list[Any]) -> Any:
    assert [event["sequence_number"] for event in stream] == list(range(len(stream)))
    assert [event["type"] for event in stream[:2]] == ["response.created", "response.in_progress"]
    items = [event["item"] for event in stream if event["type"] == "response.output_item.done"]
    begun = [event["item"]["id"] for event in stream if event["type"] == "response.output_item.added"]
    assert begun == [item["id"] for item in items]
    said = "".join(event["delta"] for event in stream if event["type"] == "response.output_text.delta")
    assert said == "".join(part["text"] for item in items for part in item.get("content", ()))
    args = "".join(event["delta"] for event in stream if event["type"] == "response.function_call_arguments.delta")
    assert args == "".join(item.get("arguments", "") for item in items)
    thought = "".join(event["delta"] for event in stream if event["type"] == "response.reasoning_summary_text.delta")
    assert thought == "".join(part["text"] for item in items for part in item.get("summary", ()))
    last = stream[-1]
    assert last["type"] == f"response.{last['response']['status']}"
    assert last["response"]["output"] == items
    return last["response"]


def whole_chat(stream: list[Any]) -> Any:
    assert stream.pop() == "[DONE]"
    usage = stream.pop()
    assert usage["choices"] == []
    message: dict[str, Any] = {"content": None}
    for chunk in stream:
        delta = chunk["choices"][0]["delta"]
        for name in ("content", "reasoning_content"):
            if name in delta:
                message[name] = (message.get(name) or "") + delta[name]
        for call in delta.get("tool_calls", ()):
            calls = message.setdefault("tool_calls", [])
            if call["index"] == len(calls):
                calls.append(call)
            else:
                calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    finish = stream[-1]["choices"][0]["finish_reason"]
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage["usage"]}


WHOLE = {"anthropic": whole_anthropic, "responses": whole_responses, "chat": whole_chat}


def gist(wire: str, document: Any) -> dict[str, Any]:
    """What every wire must tell alike."""
    match wire:
        case "anthropic":
            blocks = document["content"]
            usage = document["usage"]
            return {
                "reasoning": next((one["thinking"] for one in blocks if one["type"] == "thinking"), None),
                "text": next(one["text"] for one in blocks if one["type"] == "text"),
                "calls": [(one["name"], one["input"]) for one in blocks if one["type"] == "tool_use"],
                "tokens": (
                    usage["input_tokens"] + usage["cache_read_input_tokens"],
                    usage["output_tokens"],
                    usage["cache_read_input_tokens"],
                ),
                "end": document["stop_reason"],
            }
        case "responses":
            items = document["output"]
            usage = document["usage"]
            return {
                "reasoning": next((one["summary"][0]["text"] for one in items if one["type"] == "reasoning"), None),
                "text": next(one["content"][0]["text"] for one in items if one["type"] == "message"),
                "calls": [(one["name"], json.loads(one["arguments"])) for one in items if "arguments" in one],
                "tokens": (
                    usage["input_tokens"],
                    usage["output_tokens"],
                    usage["input_tokens_details"]["cached_tokens"],
                ),
                "end": (document["incomplete_details"] or {}).get("reason", document["status"]),
            }
    choice, usage = document["choices"][0], document["usage"]
    message = choice["message"]
    functions = [call["function"] for call in message.get("tool_calls", ())]
    return {
        "reasoning": message.get("reasoning_content"),
        "text": message["content"],
        "calls": [(one["name"], json.loads(one["arguments"])) for one in functions],
        "tokens": (
            usage["prompt_tokens"],
            usage["completion_tokens"],
            usage["prompt_tokens_details"]["cached_tokens"],
        ),
        "end": choice["finish_reason"],
    }


def asked(one: Any, wire: str, turn: int, stream: bool) -> dict[str, Any]:
    history = ["go", *(word for n in range(turn - 1) for word in (f"said {n}", "go on"))]
    answer = one.ask(wire, *history, stream=stream, tools=TOOLS)
    assert answer.status_code == 200, answer.text
    return gist(wire, WHOLE[wire](events(answer.text)) if stream else answer.json())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_turn_is_told_with_all_that_it_says(play, wire, stream):
    ends = {"anthropic": "tool_use", "responses": "completed", "chat": "tool_calls"}
    assert asked(play(SCRIPT), wire, 1, stream) == {
        "reasoning": "I think about it",
        "text": "I run two things",
        "calls": [("Bash", {"command": "make test"}), ("Write", {"file_path": "a", "content": "ä\n"})],
        "tokens": (1000, 30, 900),
        "end": ends[wire],
    }


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("wire", WIRES)
def test_an_early_end_has_the_wires_own_word(play, wire, stream):
    words = {
        "anthropic": ("max_tokens", "refusal"),
        "responses": ("max_output_tokens", "content_filter"),
        "chat": ("length", "content_filter"),
    }
    one = play(SCRIPT)
    assert (asked(one, wire, 2, stream)["end"], asked(one, wire, 3, stream)["end"]) == words[wire]


def test_ids_are_never_the_same_twice(play):
    one = play(SCRIPT)
    answers = [one.ask("anthropic", tools=TOOLS).json() for _ in range(3)]
    assert len({answer["id"] for answer in answers}) == 3
    assert len({block["id"] for answer in answers for block in answer["content"] if "id" in block}) == 6


def test_free_text_goes_to_a_tool_that_takes_it(play):
    one = play({"turns": [{"calls": [{"edit": {"path": "a", "old": "x", "new": "y"}}]}]})
    tools = [
        {"type": "function", "name": "exec_command", "parameters": {"properties": {"cmd": {}}, "required": ["cmd"]}},
        {"type": "custom", "name": "apply_patch"},
    ]
    for stream in (False, True):
        body = {"model": "m", "input": "go", "tools": tools, "stream": stream}
        answer = one.client.post(one.url + PATHS["responses"], json=body)
        document = whole_responses(events(answer.text)) if stream else answer.json()
        call = document["output"][0]
        assert (call["type"], call["name"]) == ("custom_tool_call", "apply_patch")
        assert call["input"].startswith("*** Begin Patch\n*** Update File: a\n")


def test_tools_in_the_input_and_in_namespaces_count(play):
    one = play({"turns": [{"calls": [{"shell": "ls"}]}]})
    inner = {"type": "namespace", "name": "all", "tools": [{"type": "custom", "name": "exec"}]}
    items = [{"type": "additional_tools", "tools": [inner]}, {"role": "user", "content": "go"}]
    answer = one.client.post(one.url + PATHS["responses"], json={"model": "m", "input": items})
    assert answer.json()["output"][0]["input"] == 'text(await tools.exec_command({"cmd": "ls"}));'


@pytest.mark.parametrize(
    ("wire", "wanted"),
    [
        ("chat", {"response_format": {"type": "json_schema"}}),
        ("responses", {"text": {"format": {"type": "json_schema"}}}),
        ("anthropic", {"output_config": {"format": {"type": "json_schema"}}}),
    ],
)
def test_a_structured_answer_follows_the_requests_format(play, wire, wanted):
    one = play({"turns": [{"output": {"answer": 42}}]})
    said = {"input": "go"} if wire == "responses" else {"messages": [{"role": "user", "content": "go"}]}
    answer = one.client.post(one.url + PATHS[wire], json={"model": "m", **said, **wanted})
    assert gist(wire, answer.json())["text"] == '{"answer": 42}'


def test_usage_ends_a_chat_stream_only_where_it_is_wanted(play):
    one = play({"turns": [{"text": "hi"}]})
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "go"}]}
    stream = events(one.client.post(one.url + PATHS["chat"], json=body).text)
    assert stream.pop() == "[DONE]"
    assert all(chunk["choices"] for chunk in stream)


def test_models_tokens_and_the_first_look_are_answered(play):
    one = play({"turns": [{"text": "hi"}]})
    assert one.client.head(one.url + "/").status_code == 200
    listed = one.client.get(one.url + "/v1/models").json()
    assert (listed["object"], listed["has_more"], listed["data"][0]["id"]) == ("list", False, "scripted")
    assert one.client.get(one.url + "/v1/models/some-model").json()["id"] == "some-model"
    counted = one.client.post(one.url + "/v1/messages/count_tokens", json={"messages": []}).json()
    assert counted["input_tokens"] > 0
    assert one.client.get(one.url + "/v1/nothing").status_code == 404
    assert one.client.post(one.url + "/v1/embeddings", json={}).status_code == 404
    assert one.state["routes"][0]["told"] == {}
