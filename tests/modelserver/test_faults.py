"""Every fault, on every wire, as the other side of the connection sees it; and that the turn comes afterwards."""

from __future__ import annotations

import socket
import time
from datetime import datetime

import httpx
import pytest

from longtask.modelserver.server import ModelServer
from tests.cli.shell import until
from tests.modelserver.conftest import PATHS, events

WIRES = list(PATHS)
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
every = pytest.mark.parametrize("wire", WIRES)


def with_faults(*faults):
    return {"turns": [{"text": "at last it is said", "faults": list(faults)}]}


@every
@both
def test_an_error_comes_so_often_and_then_the_turn(play, wire, stream):
    one = play(with_faults({"status": 529, "times": 2}, {"status": 401, "message": "who are you"}))
    answers = [one.ask(wire, stream=stream) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [529, 529, 401, 200]
    assert answers[2].json()["error"]["message"] == "who are you"
    assert [request.ended for request in one.requests()] == ["error", "error", "error", "whole"]
    assert one.state["routes"][0] | {"match": None} == {
        "match": None, "mode": "history", "turns": 1, "next": None, "told": {"1": 1}, "faults": {"1": 3},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("status", "anthropic", "openai"),
    [
        (400, "invalid_request_error", "invalid_request_error"),
        (401, "authentication_error", "invalid_request_error"),
        (429, "rate_limit_error", "requests"),
        (500, "api_error", "server_error"),
        (529, "overloaded_error", "server_error"),
    ],
)
def test_an_error_has_the_form_of_its_wire(play, status, anthropic, openai):
    one = play(with_faults({"status": status, "times": "always"}))
    told = one.ask("anthropic").json()
    assert (told["type"], told["error"]["type"]) == ("error", anthropic)
    for wire in ("responses", "chat"):
        error = one.ask(wire).json()["error"]
        assert (error["type"], set(error)) == (openai, {"type", "code", "param", "message"})


@every
def test_a_limit_says_when_it_is_lifted(play, wire):
    one = play(with_faults({"status": 429, "retry_after": "1500ms", "resets_in": "1h", "times": "always"}))
    answer = one.ask(wire)
    assert (answer.headers["retry-after"], answer.headers["retry-after-ms"]) == ("2", "1500")
    if wire == "anthropic":
        at = int(answer.headers["anthropic-ratelimit-unified-reset"])
        told = datetime.fromisoformat(answer.headers["anthropic-ratelimit-requests-reset"])
        assert (answer.headers["anthropic-ratelimit-unified-status"], told.timestamp()) == ("rejected", at)
    else:
        error = answer.json()["error"]
        at = error["resets_at"]
        assert error["type"] == "usage_limit_reached"
    assert 3590 < at - time.time() < 3610


@every
def test_a_cut_ends_the_connection_after_so_many_events(play, wire):
    one = play(with_faults({"cut": 0}, {"cut": 2}))
    for wanted in (0, 2):
        got = ""
        with (
            pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"),
            one.client.stream("POST", one.url + PATHS[wire], json=_body(wire, stream=True)) as answer,
        ):
            for part in answer.iter_text():
                got += part
        assert len(events(got)) == wanted
    assert one.ask(wire, stream=True).status_code == 200
    assert [request.ended for request in one.requests()] == ["cut", "cut", "whole"]


@every
def test_a_cut_leaves_half_of_an_answer_in_one_piece(play, wire):
    one = play(with_faults({"cut": 2}))
    with pytest.raises(httpx.RemoteProtocolError, match="peer closed connection without sending complete message body"):
        one.ask(wire)
    assert one.ask(wire).status_code == 200


@both
@every
def test_a_hang_sends_not_even_a_head_and_ends_in_its_time(play, wire, stream):
    one = play(with_faults({"hang": "50ms"}))
    with pytest.raises(httpx.RemoteProtocolError, match="Server disconnected without sending a response"):
        one.ask(wire, stream=stream)
    assert one.ask(wire, stream=stream).status_code == 200
    assert [request.ended for request in one.requests()] == ["hang", "whole"]


def test_a_hang_without_an_end_lasts_until_the_other_side_goes(play):
    one = play(with_faults({"hang": "always"}))
    with pytest.raises(httpx.ReadTimeout):
        one.client.post(one.url + PATHS["chat"], json=_body("chat"), timeout=0.1)
    until(lambda: one.requests()[0].ended == "gone")


@every
def test_a_stall_falls_silent_inside_the_stream(play, wire):
    one = play(with_faults({"stall": "always", "after": 2}))
    got = ""
    with (
        pytest.raises(httpx.ReadTimeout),
        one.client.stream("POST", one.url + PATHS[wire], json=_body(wire, stream=True), timeout=0.3) as answer,
    ):
        for part in answer.iter_text():
            got += part
    assert len(events(got)) == 2
    until(lambda: one.requests()[0].ended == "gone")


def test_a_stall_ends_in_its_time(play):
    one = play(with_faults({"stall": "50ms"}))
    with pytest.raises(httpx.RemoteProtocolError):
        one.ask("anthropic", stream=True)
    assert one.requests()[0].ended == "stall"


@every
def test_a_malformed_event_is_no_json_and_the_rest_comes(play, wire):
    one = play(with_faults({"malformed": 2}))
    found = events(one.ask(wire, stream=True).text)
    assert [type(event) for event in found[:3]] == [dict, str, dict]
    assert events(one.ask(wire, stream=True).text)[1] != found[1]


@every
def test_a_malformed_answer_in_one_piece_is_whole_for_http(play, wire):
    one = play(with_faults({"malformed": 1}))
    answer = one.ask(wire)
    assert answer.status_code == 200
    with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
        answer.json()


def test_an_error_may_come_inside_the_stream(play):
    one = play(with_faults({"status": 529, "after": 2, "message": "too much", "times": "always"}))
    last = {wire: events(one.ask(wire, stream=True).text)[2] for wire in WIRES}
    assert last["anthropic"] == {"type": "error", "error": {"type": "overloaded_error", "message": "too much"}}
    assert last["responses"]["type"] == "response.failed"
    assert last["responses"]["response"]["error"] == {"code": "server_error", "message": "too much"}
    assert last["chat"]["error"]["message"] == "too much"
    assert one.ask("chat").status_code == 529  # there is no stream to put it into


def test_faults_of_a_turn_do_not_touch_the_others(play):
    one = play({"turns": [{"text": "one"}, {"text": "two", "faults": {"status": 500}}, {"text": "three"}]})
    assert one.ask("chat", "a").status_code == 200
    assert one.ask("chat", "a", "one", "b", "two", "c").status_code == 200
    assert [one.ask("chat", "a", "one", "b").status_code for _ in range(2)] == [500, 200]


def test_a_sequence_stays_at_its_turn_while_the_turn_fails(play):
    turns = [{"text": "one", "faults": {"status": 500, "times": 2}}, {"text": "two"}]
    one = play({"mode": "sequence", "turns": turns})
    assert [one.ask("chat").status_code for _ in range(4)] == [500, 500, 200, 200]
    assert one.state["routes"][0]["told"] == {"1": 1, "2": 1}


def test_delay_and_pace_take_their_time(play):
    one = play({"turns": [{"text": "hi", "delay": "40ms", "pace": "20ms"}]})
    begun = time.monotonic()
    count = len(events(one.ask("anthropic", stream=True).text))
    assert time.monotonic() - begun >= 0.04 + 0.02 * count


def test_a_server_that_ends_lets_nobody_wait(play, server):
    one = play(with_faults({"hang": "always"}))
    with ModelServer({"turns": [{"text": "hi", "faults": {"hang": "always"}}]}) as other:
        line = socket.create_connection(("127.0.0.1", int(other.url.rpartition(":")[2])), timeout=20)
        content = b'{"model": "m", "messages": [{"role": "user", "content": "go"}]}'
        head = f"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(content)}\r\n\r\n"
        line.sendall(head.encode() + content)
        until(other.requests)
    with line:
        assert line.recv(1) == b""
    assert one.requests() == []


def _body(wire, stream=False):
    said = {"input": "go"} if wire == "responses" else {"messages": [{"role": "user", "content": "go"}]}
    return {"model": "m", "stream": stream, **said}
