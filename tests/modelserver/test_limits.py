"""Whom the server answers, what it keeps and for how long, and what may be asked about a script."""

from __future__ import annotations

import gzip
import json

import httpx
import pytest

from longtask.core.errors import BadPlan, Refused
from longtask.modelserver import app, playback
from longtask.modelserver.playback import Request
from longtask.modelserver.server import ModelServer, environment
from tests.modelserver.conftest import PATHS

HI = {"turns": [{"text": "hi", "calls": [{"shell": "ls"}]}]}
ASKED = {"model": "m", "messages": [{"role": "user", "content": "go"}]}


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "models.example.com"},
        {"host": "127.0.0.1.example.com:80"},
        {"host": "["},
        {"origin": "https://example.com"},
        {"origin": "null"},
    ],
)
def test_a_request_that_comes_by_another_name_is_refused(play, headers):
    one = play(HI)
    for method, path in (("POST", one.url + PATHS["chat"]), ("PUT", f"{one.server.url}/_script/{one.name}")):
        answer = one.client.request(method, path, json=ASKED, headers=headers)
        assert answer.status_code == 403
    assert one.requests() == []


@pytest.mark.parametrize("host", ["localhost:1", "[::1]:80", "127.0.0.1"])
def test_loopback_has_many_names(play, host):
    one = play(HI)
    assert one.client.post(one.url + "/v1/models/count_tokens", json={}, headers={"host": host}).status_code == 200


def test_it_listens_on_loopback_alone(server):
    assert server.url.startswith("http://127.0.0.1:")


def test_keys_are_not_kept(play):
    one = play({"turns": [{"text": "hi"}]})
    key = "sk-ant-" + "x1" * 20
    named = {"x-api-key": key, "authorization": f"Bearer {key}", "x-other": f"with {key}", "x-plain": "seen"}
    one.client.post(one.url + PATHS["chat"], json=ASKED, headers=named)
    kept = one.requests()[0].document()
    assert key not in json.dumps(kept)
    assert kept["headers"]["x-plain"] == "seen"
    assert not {"x-api-key", "authorization"} & set(kept["headers"])


def test_a_body_that_is_too_long_is_refused(play, monkeypatch):
    one = play(HI)
    monkeypatch.setattr(app, "BODY_BYTES_MAX", 1_000)
    long = json.dumps({**ASKED, "more": "x" * 2_000}).encode()
    packed = gzip.compress(long)
    assert len(packed) < 1_000
    url = one.url + PATHS["chat"]
    assert one.client.post(url, content=long).status_code == 413
    assert one.client.post(url, content=packed, headers={"content-encoding": "gzip"}).status_code == 413


def test_a_packed_body_is_read(play):
    one = play({"turns": [{"text": "hi"}]})
    url, packed = one.url + PATHS["chat"], gzip.compress(json.dumps(ASKED).encode())
    assert one.client.post(url, content=packed, headers={"content-encoding": "gzip"}).status_code == 200
    assert one.client.post(url, content=packed[:20], headers={"content-encoding": "gzip"}).status_code == 400
    assert one.client.post(url, content=packed, headers={"content-encoding": "zstd"}).status_code == 415


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"messages": 1}', b'{"messages": [1]}', b'{"messages": [], "tools": 5}']
)
def test_a_body_that_is_none_is_an_error_of_the_wire(play, content):
    one = play(HI)
    answer = one.client.post(one.url + PATHS["anthropic"], content=content)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert len(one.state["problems"]) == 1


def test_a_turn_without_a_fitting_tool_says_which_turn_and_what_is_offered(play):
    one = play(HI)
    answer = one.ask("responses", tools={"look": ["at"]})
    assert answer.json()["error"]["message"].endswith("turn 1: no tool that could shell; the request offers: look")


def test_records_are_bounded_and_counts_are_not(play, monkeypatch):
    monkeypatch.setattr(playback, "REQUESTS_KEPT", 3)
    monkeypatch.setattr(playback, "BODY_BYTES_KEPT", 250)
    one = play({"turns": [{"text": "hi"}]})
    for n in range(5):
        one.ask("chat", f"{n} " + "x" * 60)
    kept = one.requests()
    assert [request.number for request in kept] == [3, 4, 5]
    assert kept[0].body is None
    assert kept[-1].body["messages"][0]["content"].startswith("4 ")
    assert (one.state["requests"], one.state["routes"][0]["told"]) == (5, {"1": 5})


def test_what_was_asked_and_where_it_is_may_be_asked(play):
    one = play({"turns": [{"text": "hi"}]})
    one.ask("anthropic", "write it", tools={"Bash": ["command"]})
    found = one.client.get(f"{one.server.url}/_requests/{one.name}").json()
    assert [
        {name: entry[name] for name in ("number", "wire", "model", "stream", "tools", "turn", "status", "ended")}
        for entry in found
    ] == [
        {"number": 1, "wire": "anthropic", "model": "m", "stream": False, "tools": ["Bash"], "turn": 1, "status": 200,
         "ended": "whole"}
    ]  # fmt: skip
    assert found[0]["body"]["messages"][0]["content"] == "write it"
    state = one.client.get(f"{one.server.url}/_state/{one.name}").json()
    assert state == one.state
    assert one.client.get(f"{one.server.url}/_state/nobody").status_code == 404


def test_a_script_is_put_anew_and_a_bad_one_is_not(play):
    one = play({"turns": [{"text": "hi"}]})
    one.ask("chat")
    url = f"{one.server.url}/_script/{one.name}"
    bad = one.client.put(url, content="turns:\n  - txt: a\n")
    assert bad.status_code == 422
    assert bad.json()["problems"] == ["script:2:5: unknown key 'txt' in turns[0]; did you mean 'text'?"]
    assert one.state["requests"] == 1
    assert one.client.put(url, content="turns: [{text: other}]").status_code == 200
    assert one.state["requests"] == 0
    assert one.ask("chat").json()["choices"][0]["message"]["content"] == "other"


def test_there_is_an_end_to_scripts(monkeypatch):
    monkeypatch.setattr(app, "SCRIPTS_MAX", 2)
    server = ModelServer(HI)
    server.load("one", HI)
    server.load("one", HI)
    with pytest.raises(BadPlan, match="as many as one server plays"):
        server.load("two", HI)


def test_a_port_that_is_taken_is_told(server):
    with pytest.raises(Refused, match="choose another with --port"):
        ModelServer(HI, port=int(server.url.rpartition(":")[2])).start()


def test_a_watcher_hears_of_each_answer():
    heard: list[Request] = []
    with ModelServer(HI, watch=heard.append) as server, httpx.Client() as client:
        client.post(server.url + PATHS["chat"], json=ASKED)
    assert [(request.number, request.problem) for request in heard] == [
        (1, "turn 1: no tool that could shell; the request offers: none")
    ]


def test_agents_are_told_addresses_and_no_key():
    told = environment("http://127.0.0.1:1/s/a")
    assert told["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1/s/a"
    assert told["OPENAI_BASE_URL"] == "http://127.0.0.1:1/s/a/v1"
    assert told["ANTHROPIC_API_KEY"] == told["OPENAI_API_KEY"] == "not-a-key"
