"""Which turn a request gets."""

from __future__ import annotations

import concurrent.futures

import pytest

from longtask.core.errors import NotFound
from tests.modelserver.conftest import PATHS

THREE = {"turns": [{"text": "one"}, {"text": "two"}, {"text": "three"}]}
WIRES = list(PATHS)


def text_of(answer) -> str:
    found = answer.json()
    if "content" in found:
        return found["content"][0]["text"]
    if "output" in found:
        return found["output"][0]["content"][0]["text"]
    return found["choices"][0]["message"]["content"]


@pytest.mark.parametrize("wire", WIRES)
def test_a_repeated_request_gets_the_same_turn(play, wire):
    one = play(THREE)
    assert text_of(one.ask(wire, "hi")) == "one"
    assert text_of(one.ask(wire, "hi")) == "one"
    assert text_of(one.ask(wire, "hi", "one", "go on", "two", "go on")) == "three"
    assert one.state["routes"][0]["told"] == {"1": 2, "3": 1}


def test_a_sequence_tells_each_turn_once(play):
    one = play({**THREE, "mode": "sequence", "beyond": "no more"})
    assert [text_of(one.ask("chat", "hi")) for _ in range(4)] == ["one", "two", "three", "no more"]


def test_a_turn_beyond_the_script_is_an_error_and_told(play):
    one = play(THREE)
    answer = one.ask("anthropic", "a", "1", "b", "2", "c", "3", "d")
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].endswith("turn 4 was asked for; the script has 3")
    assert one.state["problems"] == ["request 1: turn 4 was asked for; the script has 3"]


def test_requests_without_tools_get_the_aux_answer_and_take_no_turn(play):
    one = play({**THREE, "mode": "sequence", "aux": "a title"})
    assert text_of(one.ask("chat", "name this")) == "a title"
    assert text_of(one.ask("chat", "do it", tools={"bash": ["command"]})) == "one"


def test_routes_keep_their_own_place(play):
    one = play(
        {
            "routes": [
                {"match": "parser", "turns": [{"text": "parser one"}], "mode": "sequence", "beyond": "parser done"},
                {"model": "small-*", "turns": [{"text": "small"}]},
                {"match": "printer", "turns": [{"text": "printer one"}]},
            ]
        }
    )
    assert text_of(one.ask("responses", "write the printer")) == "printer one"
    assert text_of(one.ask("responses", "write the parser")) == "parser one"
    assert text_of(one.ask("responses", "write the parser")) == "parser done"
    answer = one.ask("responses", "write the rest")
    assert answer.status_code == 400
    assert "no route of script" in answer.json()["error"]["message"]


def test_what_the_model_says_in_one_go_counts_once(play):
    one = play(THREE)
    history = [
        {"role": "user", "content": "go"},
        {"type": "reasoning", "summary": []},
        {"role": "assistant", "content": [{"type": "output_text", "text": "I run"}]},
        {"type": "function_call", "name": "a", "arguments": "{}", "call_id": "1"},
        {"type": "custom_tool_call", "name": "b", "input": "", "call_id": "2"},
        {"type": "function_call_output", "call_id": "1", "output": ""},
    ]
    answer = one.client.post(one.url + PATHS["responses"], json={"model": "m", "input": history})
    assert text_of(answer) == "two"


def test_a_response_may_go_on_from_one_that_is_named(play):
    one = play(THREE)
    url = one.url + PATHS["responses"]
    first = one.client.post(url, json={"model": "m", "input": "go"}).json()
    second = one.client.post(url, json={"model": "m", "input": "on", "previous_response_id": first["id"]})
    assert text_of(second) == "two"
    other = one.client.post(url, json={"model": "m", "input": "on", "previous_response_id": "resp_elsewhere"})
    assert other.status_code == 400


def test_what_claude_code_writes_itself_is_no_reply(play):
    one = play(THREE)
    assert text_of(one.ask("anthropic", "go", "No response requested.", "go on")) == "one"


def test_many_scripts_are_played_side_by_side(play):
    plays = [play({"turns": [{"text": f"{n} one"}, {"text": f"{n} two"}], "mode": "sequence"}) for n in range(6)]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        first = list(pool.map(lambda one: text_of(one.ask("chat")), plays))
        second = list(pool.map(lambda one: text_of(one.ask("chat", stream=False)), plays))
    assert first == [f"{n} one" for n in range(6)]
    assert second == [f"{n} two" for n in range(6)]
    assert [len(one.requests()) for one in plays] == [2] * 6


def test_a_script_that_was_not_loaded_is_refused(server, client):
    answer = client.post(server.url_of("nobody") + "/v1/messages", json={})
    assert answer.status_code == 404
    assert "no script 'nobody'" in answer.json()["error"]["message"]
    with pytest.raises(NotFound):
        server.requests("nobody")
