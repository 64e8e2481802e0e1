"""What no library would send, and what no caller should: each gets a clear answer, and nobody else notices.

The server is a process of its own (`tests.api.hasty`).  After each fault it must serve a usual request as before; many
repetitions must not make it grow.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.api.hasty import CONNECTIONS_MAX, PATIENCE_S, STREAMS_MAX, Apart, hasty
from tests.api.live import WAIT_S, Answer
from tests.api.plans import asking
from tests.cli.shell import until

JSON = "Content-Type: application/json"
USUAL_S = 20.0  # far above what a request takes on a busy machine, and below what a server that hangs would take
GROWTH_MAX = 8_000_000  # bytes, by some hundred repetitions; what the allocator keeps is a few of them
MEDIA_TYPE = "application/problem+json"


@pytest.fixture(scope="module")
def live(tmp_path_factory) -> Iterator[Apart]:
    with hasty(tmp_path_factory.mktemp("faults")) as made:
        assert made.post("/v1/tasks", asking()).status == 201
        yield made
        assert "Traceback" not in made.log.read_text()


@pytest.fixture(autouse=True)
def serves(live) -> Iterator[None]:
    """Others are served meanwhile and afterwards, in their usual time."""
    yield
    served(live)


def served(live: Apart) -> None:
    began = time.monotonic()
    assert live.ask("GET /v1/tasks").status == 200
    assert time.monotonic() - began < USUAL_S


def refused(answer: Answer, status: int, slug: str) -> None:
    assert (answer.status, answer.headers.get("content-type")) == (status, MEDIA_TYPE), answer
    assert answer.slug == slug and answer.detail


def head(live: Apart, request: str = "GET /v1/tasks", *more: str, version: str = "1.1") -> bytes:
    return "\r\n".join([f"{request} HTTP/{version}", f"Host: {live.host}", *more, "", ""]).encode("latin-1")


@contextmanager
def line(live: Apart, sent: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", live.port), timeout=WAIT_S) as made:
        made.sendall(sent)
        yield made


def heard(made: socket.socket) -> bytes:
    """To the end of the connection."""
    got = b""
    try:
        while piece := made.recv(65_536):
            got += piece
    except ConnectionResetError:
        pass
    return got


def drip(made: socket.socket, content: bytes, every_s: float) -> bytes:
    """A byte now and then until the server has said something; that, to the end."""
    made.settimeout(every_s)
    for byte in content:
        try:
            made.sendall(bytes([byte]))
            if first := made.recv(1):
                made.settimeout(WAIT_S)
                return first + heard(made)
        except TimeoutError:
            continue
        except (BrokenPipeError, ConnectionResetError):
            break
    raise AssertionError("it listened to the end, or said nothing")


# --- slow ones ------------------------------------------------------------------------------------------------------


def test_headers_that_drip_are_not_waited_for(live):
    with line(live) as slow:
        began = time.monotonic()
        got = drip(slow, head(live, "GET /v1/tasks", *[f"X-{n}: {n}" for n in range(50)]), PATIENCE_S / 10)
        assert got.startswith(b"HTTP/1.1 408") and b"urn:longtask:problem:slow" in got
        assert time.monotonic() - began < PATIENCE_S + USUAL_S


@pytest.mark.parametrize("kind", [JSON, "Content-Type: application/yaml"])
def test_a_body_that_drips_is_not_waited_for(live, kind):
    with line(live, head(live, "POST /v1/tasks", kind, "Content-Length: 5000")) as slow:
        got = drip(slow, b" " * 5_000, PATIENCE_S / 10)
        assert got.startswith(b"HTTP/1.1 408") and b"urn:longtask:problem:slow" in got


def test_many_slow_ones_at_once_keep_nobody_waiting(live):
    with ExitStack() as open_ones:
        for n in range(CONNECTIONS_MAX // 2):
            sent = head(live)[: 5 + n] if n % 2 else head(live, "POST /v1/tasks", JSON, "Content-Length: 9") + b"{"
            open_ones.enter_context(line(live, sent))
        served(live)


def test_an_answer_that_nobody_reads_is_given_up(live):
    sockets = live.sockets
    with line(live) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        deaf.sendall(head(live, "GET /openapi.json") * 30)
        served(live)
    until(lambda: live.sockets <= sockets)


def test_a_stream_that_nobody_reads_keeps_no_other_waiting(live):
    with line(live, head(live, "GET /v1/stream")) as deaf, line(live, head(live, "GET /v1/stream")) as reader:
        id_ = live.post("/v1/tasks", asking("seen")).headers["location"].rpartition("/")[2]
        got = b""
        while id_.encode() not in got:
            got += reader.recv(65_536)
        assert deaf.fileno() >= 0
        for n in range(300):
            assert live.post(f"/v1/tasks/{id_}/{'resume' if n % 2 else 'pause'}", {}).status == 200
        while got.count(b"longtask.paused") < 150:
            got += reader.recv(65_536)


# --- connections that lead nowhere ------------------------------------------------------------------------------------


def test_whoever_only_connects_is_told_and_let_go(live):
    with line(live) as silent:
        got = heard(silent)
        assert got.startswith(b"HTTP/1.1 408")


def test_a_half_closed_connection_is_let_go(live):
    sockets = live.sockets
    for sent in (b"", head(live)[:30], head(live, "POST /v1/tasks", JSON, "Content-Length: 9") + b"{"):
        with line(live, sent) as half:
            half.shutdown(socket.SHUT_WR)
            heard(half)
    until(lambda: live.sockets <= sockets)


def test_whoever_vanishes_in_the_middle_of_a_request_leaves_nothing(live):
    sockets = live.sockets
    for _ in range(50):
        with line(live, head(live, "POST /v1/tasks", JSON, "Content-Length: 1000") + b"{") as gone:
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not an end
    until(lambda: live.sockets <= sockets)


def test_one_connection_too_many_is_told_so_and_there_is_room_again(live):
    sockets = live.sockets
    with ExitStack() as open_ones:
        lines = [open_ones.enter_context(line(live)) for _ in range(CONNECTIONS_MAX + 20)]
        got = heard(lines[-1])
        assert got.startswith(b"HTTP/1.1 503") and b"urn:longtask:problem:busy" in got and b"retry-after: 1" in got
        until(lambda: live.ask("GET /v1/tasks").status == 200)  # as soon as those that say nothing are let go
    until(lambda: live.sockets <= sockets)


def test_one_stream_too_many_is_told_so(live):
    with ExitStack() as open_ones:
        for _ in range(STREAMS_MAX):
            stream = open_ones.enter_context(line(live, head(live, "GET /v1/stream")))
            assert stream.recv(4_096).startswith(b"HTTP/1.1 200")
        refused(live.ask("GET /v1/stream"), 429, "too-many-requests")
    until(lambda: _stream_begins(live))


def _stream_begins(live: Apart) -> bool:
    with line(live, head(live, "GET /v1/stream")) as stream:
        return stream.recv(4_096).startswith(b"HTTP/1.1 200")


# --- what is no request -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        b"\0" * 100 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 100 + b"\r\n\r\n",  # who speaks TLS
        b"GET /v1/tasks\r\n\r\n",
        b"GET  /v1/tasks HTTP/1.1\r\n\r\n",
        b"GET /v1/t\xe4sks HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/tasks\0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/tasks HTTP/1.1\r\nHost localhost\r\n\r\n",
        b"GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\nX-Nul: a\0b\r\n\r\n",
        b"GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\nX Space: a\r\n\r\n",
        b"GET /v1/tasks HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /v1/tasks HTTP/1.1\r\n\r\n",
        b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1, 2\r\n\r\n",
        b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_what_is_no_http_is_told_so(live, sent):
    refused(live.raw(sent), 400, "bad-request")


def test_whoever_speaks_http_2_at_once_is_told_so(live):
    refused(live.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 400, "bad-request")


def test_a_transfer_encoding_that_nobody_knows_is_told_so(live):
    refused(live.raw(head(live, "POST /v1/tasks", JSON, "Transfer-Encoding: gzip, chunked")), 501, "http")


@pytest.mark.parametrize(
    "chunks", [b"x\r\n", b"-5\r\n{}\r\n", b"5\r\nabc", b"2;" + b"x" * 50_000, b"2\r\n{}X\r\n0\r\n\r\n"]
)
def test_a_body_in_bad_chunks_is_told_so(live, chunks):
    answer = live.raw(head(live, "POST /v1/tasks", JSON, "Transfer-Encoding: chunked") + chunks + b"\r\n" * 2)
    assert answer.status in (400, 408, 431) and answer.slug in ("bad-request", "slow", "headers")


@pytest.mark.parametrize(
    "path", ["/v1/tasks/%ff%fe", "/v1/tasks/%00", "/v1/tasks/%2e%2e%2f", "/%c0%af", "/v1/tasks/\x7f"]
)
def test_an_address_in_no_text_names_nothing(live, path):
    answer = live.ask(f"GET {path}")
    assert answer.status in (400, 404, 422) and answer.headers["content-type"] == MEDIA_TYPE and answer.slug


@pytest.mark.parametrize(
    "header", ["Idempotency-Key", "If-Match", "Last-Event-ID", "Authorization", "Origin", "X-Other"]
)
def test_a_header_in_no_text_breaks_nothing(live, header):
    for path in ("GET /v1/tasks", "POST /v1/tasks", "GET /v1/stream"):
        with line(live, head(live, path, JSON, "Content-Length: 2", f"{header}: \xff\xfe\xe4") + b"{}") as made:
            got = made.recv(65_536)
            assert re.match(rb"HTTP/1.1 (200|400|401|403|422) ", got), got


# --- too much -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [[f"X-{n}: 1" for n in range(101)], ["X-Long: " + "x" * 40_000]])
def test_many_or_long_headers_are_told(live, more):
    refused(live.ask("GET /v1/tasks", *more), 431, "headers")


@pytest.mark.parametrize("then", [b"X-More: " + b"x" * 1_000 + b"\r\n", b"x" * 1_000])
def test_headers_without_end_are_told(live, then):
    refused(live.raw(head(live)[:-2], then=then), 431, "headers")


def test_an_address_without_end_is_told(live):
    refused(live.raw(b"GET /", then=b"x" * 1_000), 431, "headers")


# --- JSON -----------------------------------------------------------------------------------------------------------

BODIES = {
    "nothing": b"",
    "no JSON": b"{",
    "half a text": b'{"a": "',
    "a number": b"1",
    "null": b"null",
    "NaN": b'{"a": NaN}',
    "Infinity": b'{"a": [-Infinity, Infinity]}',
    "a number of many digits": b'{"a": ' + b"9" * 20_000 + b"}",
    "a number out of range": b'{"a": 1e999999999}',
    "a key twice": b'{"a": 1, "a": 2}',
    "half a surrogate": b'{"a": "\\ud800"}',
    "NUL, escaped": b'{"a": "\\u0000"}',
    "a mark of byte order": b'\xef\xbb\xbf{"a": 1}',
    "many keys": b"{" + b",".join(b'"k%d":0' % n for n in range(10_000)) + b"}",
}
FROM_JSON = [
    "/v1/tasks",
    "/v1/tasks/@last/cancel",
    "/v1/tasks/@last/steps/ok/approval",
    "/v1/signals/s",
    "/v1/webhooks",
]


@pytest.mark.parametrize("path", FROM_JSON)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_strange_json_is_told_what_is_wrong_with_it(live, path, body):
    answer = live.ask(f"POST {path}", JSON, body=body)
    assert answer.status in (200, 202, 400, 404, 409, 422, 428), answer
    if answer.status >= 400:
        assert answer.headers["content-type"] == MEDIA_TYPE and answer.slug and answer.json["title"]


@pytest.mark.parametrize("path", FROM_JSON)
@pytest.mark.parametrize(
    ("body", "told"),
    [(b"[" * 60_000, "nested"), (b'{"a":' * 200 + b"1" + b"}" * 200, "nested"), (b'{"a": "\xff"}', "UTF-8")],
)
def test_deep_json_and_no_text_are_refused_before_anybody_parses_them(live, path, body, told):
    answer = live.ask(f"POST {path}", JSON, body=body)
    refused(answer, 400, "bad-request")
    assert told in answer.detail


# --- old and hurried clients ------------------------------------------------------------------------------------------


def test_http_1_0_is_answered_and_its_connection_closed(live):
    with line(live, head(live, version="1.0")) as old:
        got = heard(old)
    assert got.startswith(b"HTTP/1.1 200") and json.loads(got.partition(b"\r\n\r\n")[2])["items"]


def test_a_stream_over_http_1_0_comes_without_chunks(live):
    with line(live, head(live, "GET /v1/stream", version="1.0")) as old:
        got = b""
        while b"event: snapshot\n" not in got:
            got += old.recv(65_536)
    assert b"chunked" not in got and b"\r\n" not in got.partition(b"\r\n\r\n")[2]


def test_pipelined_requests_are_answered_in_their_order(live):
    bodies = [json.dumps(asking(f"pipe-{n}")).encode() for n in range(30)]
    sent = b"".join(head(live, "POST /v1/tasks", JSON, f"Content-Length: {len(b)}") + b for b in bodies)
    with line(live, sent + head(live, "GET /v1/tasks?limit=1", "Connection: close")) as made:
        got = heard(made)
    made_in_order = re.findall(rb"location: /v1/tasks/(\S+)", got)
    assert made_in_order == sorted(set(made_in_order)) and len(made_in_order) == len(bodies)
    assert got.count(b"HTTP/1.1 201") == len(bodies) and b'"name":"pipe-29"' in got.rpartition(b"HTTP/1.1 200")[2]


# --- memory ---------------------------------------------------------------------------------------------------------


def deep(live: Apart) -> None:
    live.ask("POST /v1/tasks", JSON, body=b"[" * 150_000)


def large(live: Apart) -> None:
    live.raw(
        head(live, "POST /v1/tasks", JSON, "Transfer-Encoding: chunked"), then=b"4000\r\n" + b" " * 0x4000 + b"\r\n"
    )


def flood(live: Apart) -> None:
    live.raw(head(live)[:-2], then=b"X-More: " + b"x" * 1_000 + b"\r\n")


def garbage(live: Apart) -> None:
    live.raw(b"\0" * 1_000 + b"\r\n\r\n")


def vanish(live: Apart) -> None:
    with line(live, head(live, "POST /v1/tasks", JSON, "Content-Length: 100000") + b" " * 90_000):
        pass


def leave(live: Apart) -> None:
    with line(live, head(live, "GET /v1/stream")) as stream:
        stream.recv(1)


@pytest.mark.parametrize("fault", [deep, large, flood, garbage, vanish, leave])
def test_memory_does_not_grow_with_faults(live, fault: Callable[[Apart], None]):
    sockets = live.sockets
    for _ in range(50):
        fault(live)
    before = live.memory_bytes
    for _ in range(200):
        fault(live)
    assert live.memory_bytes - before < GROWTH_MAX
    until(lambda: live.sockets <= sockets)
