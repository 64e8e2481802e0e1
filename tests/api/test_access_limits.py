"""Bodies, headers, rates, streams: refused in time, with bounded memory, and the server lives."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtask import boot
from longtask.api.access.limits import Buckets, Streams, network_of, too_deep
from longtask.api.access.listening import Hurried
from longtask.api.access.policy import Policy
from longtask.api.access.tokens import Tokens
from longtask.api.server import Server, make_server
from longtask.api.settings import Settings
from longtask.config import Config
from tests.api.live import Live, serving
from tests.api.plans import running

BODY_MAX = 100_000
POLICY = Policy(
    body_bytes_max=BODY_MAX, bodies_bytes_max=3 * BODY_MAX, body_s=0.3, json_depth_max=50, streams_max=3,
    streams_of_caller_max=2,
)  # fmt: skip


class Hasty(Hurried):
    headers_s = 0.3


@pytest.fixture(scope="module")
def parts(tmp_path_factory) -> Iterator[boot.Parts]:
    folder = tmp_path_factory.mktemp("limits")
    made = boot.open_parts(Config(folder / "home", str(folder / "longtask.db")))
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def server(parts) -> Server:
    return make_server(parts, Settings(policy=POLICY))


@pytest.fixture(scope="module")
def live(server) -> Iterator[Live]:
    with serving(server, http=Hasty) as made:
        yield made


def lives(live: Live) -> bool:
    return live.ask("GET /v1/tasks").status == 200


# --- bodies ---------------------------------------------------------------------------------------------------------

JSON = "Content-Type: application/json"


def test_a_body_of_the_largest_size_is_read(live):
    text = json.dumps(running())
    assert live.ask("POST /v1/tasks", JSON, body=text.ljust(BODY_MAX).encode()).status == 201


def test_a_larger_one_is_refused_by_its_length_before_it_is_read(live):
    answer = live.raw(
        f"POST /v1/tasks HTTP/1.1\r\nHost: {live.host}\r\n{JSON}\r\nContent-Length: {BODY_MAX + 1}\r\n\r\n".encode()
    )
    assert (answer.status, answer.slug) == (413, "too-large")
    assert "100,000" in answer.detail and lives(live)


@pytest.mark.parametrize("kind", [JSON, "Content-Type: application/octet-stream", "X-None: 1"])
def test_a_body_whose_length_is_not_told_is_counted_as_it_comes(live, kind):
    head = f"POST /v1/tasks HTTP/1.1\r\nHost: {live.host}\r\n{kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = live.raw(head.encode(), then=b"1000\r\n" + b" " * 0x1000 + b"\r\n")
    assert answer.status in (0, 413, 415, 422)  # or it has not been looked at, and the connection is closed
    if kind == JSON:
        assert answer.status in (0, 413)
    assert lives(live)


@pytest.mark.parametrize("lengths", [("5", "6"), ("-1",), ("+5",), ("5x",), ("0x5",), ("5, 5",), ("9" * 30,)])
def test_a_length_that_is_none_is_refused(live, lengths):
    lines = "".join(f"Content-Length: {length}\r\n" for length in lengths)
    answer = live.raw(f"POST /v1/tasks HTTP/1.1\r\nHost: {live.host}\r\n{JSON}\r\n{lines}\r\n{{}}   ".encode())
    assert answer.status in (0, 400, 408, 413, 422) and lives(live)


def test_a_second_request_cannot_be_hidden_in_a_body(live):
    """Length and chunks at once: whichever a proxy in front believes, this server answers once, or refuses."""
    inner = f"GET /v1/audit HTTP/1.1\r\nHost: {live.host}\r\n\r\n"
    both = "Content-Length: 5\r\nTransfer-Encoding: chunked"
    head = f"POST /v1/tasks HTTP/1.1\r\nHost: {live.host}\r\n{JSON}\r\n{both}\r\n\r\n"
    answer = live.raw((head + "0\r\n\r\n" + inner).encode())
    assert answer.status in (0, 400, 422) and lives(live)


def test_a_body_that_does_not_come_is_not_waited_for_for_ever(live):
    began = time.monotonic()
    answer = live.raw(
        f"POST /v1/tasks HTTP/1.1\r\nHost: {live.host}\r\n{JSON}\r\nContent-Length: 100\r\n\r\n{{".encode()
    )
    assert (answer.status, answer.slug) == (408, "slow")
    assert time.monotonic() - began < 5 and lives(live)


def test_many_large_bodies_at_once_do_not_fill_the_memory(live, server):
    held = []
    head = f"POST /v1/tasks HTTP/1.1\r\nHost: {live.host}\r\n{JSON}\r\nContent-Length: {BODY_MAX}\r\n\r\n".encode()
    for _ in range(5):
        line = socket.create_connection(("127.0.0.1", live.port), timeout=10)
        line.sendall(head + b" " * (BODY_MAX - 1))
        held.append(line)
    first = [line.recv(20).split(b" ")[1] for line in held]
    assert set(first) <= {b"408", b"503"} and b"503" in first
    for line in held:
        line.close()
    assert lives(live) and server.access.reading_bytes == 0


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 60_000, b'{"plan":' * 10_000, b'{"a":' + b"[" * 51 + b"]" * 51 + b"}", b"[{" * 26,
        b'["\\"", ' + b"[" * 60, b'["]]]]", ' + b"[" * 60, b"[" * 60 + b"]" * 60,
    ],
)  # fmt: skip
def test_json_nested_without_end_is_refused(live, body):
    answer = live.ask("POST /v1/tasks", JSON, body=body)
    assert (answer.status, answer.slug) == (400, "bad-request")
    assert "nested more than 50 deep" in answer.detail and lives(live)


def test_json_that_only_looks_nested_is_read(live):
    plan = running(command="echo '" + "[{" * 300 + "'")
    assert live.post("/v1/tasks", plan).status == 201


@pytest.mark.parametrize(
    "body", [b'{"a": "\xff"}', b"\xfe\xff\x00{\x00}", '{"a": 1}'.encode("utf-16"), b'{"a": "\x00"}']
)
def test_what_is_no_utf8_is_refused(live, body):
    answer = live.ask("POST /v1/tasks", JSON, body=body)
    assert (answer.status, answer.slug) == (400, "bad-request") and "UTF-8" in answer.detail


@given(st.recursive(st.none() | st.text(alphabet='[]{}"\\a'), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_the_depth_of_json_is_what_its_parser_finds(value):
    body = json.dumps(value).encode()
    depth = _depth(value)
    assert not too_deep(body, depth)
    assert depth == 0 or too_deep(body, depth - 1)


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


# --- headers and addresses ------------------------------------------------------------------------------------------


def test_too_many_headers_are_refused(live):
    answer = live.ask("GET /v1/tasks", *[f"X-{n}: 1" for n in range(120)])
    assert (answer.status, answer.slug) == (431, "headers") and lives(live)


def test_too_large_headers_are_refused(live):
    assert live.ask("GET /v1/tasks", "X-Long: " + "x" * 40_000).status == 431
    assert live.ask("GET /v1/tasks", "X-Long: " + "x" * 400_000).status in (0, 400, 431) and lives(live)


def test_headers_without_end_are_refused_in_time(live):
    answer = live.raw(
        f"GET /v1/tasks HTTP/1.1\r\nHost: {live.host}\r\n".encode(), then=b"X-More: " + b"x" * 100 + b"\r\n"
    )
    assert answer.status in (0, 400, 408, 431) and lives(live)


def test_an_address_that_is_too_long_is_refused(live):
    answer = live.ask("GET /v1/tasks?name=" + "x" * 10_000)
    assert (answer.status, answer.slug) == (414, "target") and lives(live)


def test_whoever_says_nothing_or_speaks_slowly_is_hung_up_on(live):
    for said in (b"", b"G", b"GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\n"):
        began = time.monotonic()
        assert live.raw(said).status == 408
        assert time.monotonic() - began < 5
    assert lives(live)


def test_whoever_speaks_slowly_after_a_first_request_is_hung_up_on_too(live):
    with socket.create_connection(("127.0.0.1", live.port), timeout=10) as line:
        line.sendall(f"GET /v1/tasks HTTP/1.1\r\nHost: {live.host}\r\n\r\n".encode())
        got = b""
        while b'"next"' not in got:
            got += line.recv(65_536)
        line.sendall(b"GET /v1")
        while piece := line.recv(65_536):
            got += piece
        assert b"408" in got


# --- rates ----------------------------------------------------------------------------------------------------------


def test_a_bucket_grants_its_burst_and_then_its_rate():
    buckets = Buckets(per_s=2, burst=3)
    assert [buckets.take("a", 0.0) for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take("b", 0.0) == 0, "another's is another's"
    assert buckets.take("a", 0.4) > 0
    assert buckets.take("a", 0.5) == 0
    assert [buckets.take("a", 100.0) for _ in range(4)][-1] == 0.5, "no more than the burst is saved"


def test_a_look_takes_nothing():
    buckets = Buckets(per_s=1, burst=1)
    assert [buckets.take("a", 0.0, count=0) for _ in range(3)] == [0, 0, 0]
    assert buckets.take("a", 0.0) == 0
    assert buckets.take("a", 0.0, count=0) == 1


def test_the_memory_of_buckets_is_bounded():
    buckets = Buckets(per_s=1, burst=5, kept_max=100)
    buckets.take("first", 0.0, count=5)
    for n in range(99):
        buckets.take(str(n), 0.0)
    assert len(buckets) == 100 and buckets.take("first", 0.0) > 0
    buckets.take("one more", 0.0)
    assert len(buckets) == 100


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False), ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True), ("fe80::1%eth0", "fe80::1%eth1", True), ("x" * 99, "x" * 98, True),
    ],
)  # fmt: skip
def test_addresses_that_one_caller_has_many_of_count_as_one(one, other, same):
    assert (network_of(one) == network_of(other)) == same


def test_a_caller_who_asks_too_often_is_told_when_to_come_again(parts):
    with serving(make_server(parts, Settings(policy=Policy(caller_per_s=0.5, caller_burst=3)))) as live:
        answers = [live.ask("GET /v1/tasks") for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    assert answers[-1].slug == "too-many-requests" and int(answers[-1].headers["retry-after"]) in (1, 2, 3)


# --- streams --------------------------------------------------------------------------------------------------------


def stream(live: Live, *headers: str) -> tuple[socket.socket, int]:
    line = socket.create_connection(("127.0.0.1", live.port), timeout=10)
    lines = ["GET /v1/stream HTTP/1.1", f"Host: {live.host}", "Accept: text/event-stream", *headers, "", ""]
    line.sendall("\r\n".join(lines).encode())
    return line, int(line.recv(4_096).split(b" ")[1])


def test_streams_are_counted_and_those_that_end_are_not(live, server):
    lines = [stream(live) for _ in range(4)]
    assert [status for _, status in lines] == [200, 200, 200, 429]
    for line, _ in lines:
        line.close()
    until = time.monotonic() + 10
    while server.access.streams.count and time.monotonic() < until:
        assert lives(live)
    assert server.access.streams.count == 0
    line, status = stream(live)
    assert status == 200
    line.close()


def test_one_caller_cannot_have_all_streams():
    streams = Streams(every_max=3, caller_max=2)
    assert [streams.enter("a"), streams.enter("a")] == [None, None]
    assert "limit for one token" in (streams.enter("a") or "")
    assert streams.enter("b") is None
    assert "its limit" in (streams.enter("b") or "")
    streams.leave("a")
    assert streams.enter("b") is None
    for who in ("b", "b", "a"):
        streams.leave(who)
    assert streams.count == 0 and not streams._open


def test_a_stream_ends_when_its_token_is_revoked(parts, monkeypatch):
    monkeypatch.setattr("longtask.api.access.guard.STREAM_LOOK_S", 0.0)
    tokens = Tokens(parts.store)
    _, text = tokens.create("watcher", ["viewer", "operator"], by="root")
    with serving(make_server(parts, Settings(policy=Policy(tokens=True)))) as live:
        bearer = f"Authorization: Bearer {text}"
        line, status = stream(live, bearer)
        assert status == 200
        tokens.revoke("watcher")
        _, other = tokens.create("other", ["operator"], by="root")
        got = b""
        while True:
            assert live.post("/v1/tasks", running(), f"Authorization: Bearer {other}").status == 201
            line.settimeout(0.3)
            try:
                if not (piece := line.recv(65_536)):
                    break
                got += piece
                if piece.endswith(b"0\r\n\r\n"):
                    break
            except TimeoutError:
                continue
        line.close()
