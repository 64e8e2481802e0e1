"""Work that is done elsewhere: what is sent, what of it is tried again, and what becomes of the answer."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any, cast

import pytest

from longtask.core.errors import Refused
from longtask.core.model import Done, Failed, Kind, Parked, StepSpec, Stopped, WaitingFor
from longtask.plan import expressions
from longtask.steps.call import SENDS_MAX, SIGNAL, CallExecutor, key_of
from longtask.steps.contract import Assignment
from longtask.steps.posting import Allowed
from tests.cli.shell import until
from tests.receiver import receiving

KEY = "t-1/deploy/2"
CALLBACK = "https://longtask.example/v1/callbacks/calls/abc.def"
LOOPBACK = Allowed.read(["127.0.0.1"], "X")
DEADLINE_S = 30


class Line:
    """What a handle may ask of its worker."""

    def __init__(self) -> None:
        self.said = b""

    def output(self, stream: str, body: bytes) -> None:
        self.said += body

    def now(self) -> int:
        return 1_000_000


def reached(task_id: str, step: str, run: int) -> str:
    assert key_of(task_id, step, run) == KEY
    return CALLBACK


def executor(allowed: Allowed = LOOPBACK) -> CallExecutor:
    return CallExecutor(expressions.render, reached, allowed, delay_ms=1)


def assignment(cause=None, scope=None, **body) -> Assignment:
    spec = StepSpec(Kind.CALL, body)
    return Assignment(
        "t-1", "demo", "deploy", 3, 2, spec, None, "w", None, scope=scope or {"task": {"head": "4f2a"}}, cause=cause
    )


def outcome(handle):
    return until(handle.poll, DEADLINE_S)


def called(*answers, cause=None, allowed=LOOPBACK, line=None, **body):
    """(outcome, what the other side has got)"""
    with receiving(*answers) as there:
        handle = executor(allowed).start(
            assignment(cause, url=there.url + "/run", **body), cast(Any, line or Line()), None
        )
        return outcome(handle), there.got


def test_a_call_tells_its_key_and_where_to_answer_and_then_waits():
    found, (got,) = called(202, timeout_ms=60_000)
    assert isinstance(found, Parked) and found.waiting_for is WaitingFor.EVENT
    assert (found.question["name"], found.question["match"], found.due_at) == (SIGNAL, {"key": KEY}, 1_060_000)
    assert got.json == {"task": "t-1", "step": "deploy", "run": 2, "key": KEY, "callback": CALLBACK}
    assert (got.headers["idempotency-key"], got.headers["longtask-callback"]) == (KEY, CALLBACK)


def test_without_a_timeout_it_waits_for_ever():
    found, _ = called(200)
    assert isinstance(found, Parked) and found.due_at == 0


def test_a_body_is_a_template_that_keeps_the_types_of_values():
    body = {"ref": "${{ task.head }}", "to": ["${{ callback.url }}", "${{ callback.key }}"], "n": 3, "none": None}
    _, (got,) = called(200, body=body, headers={"X-Ref": "r-${{ task.head }}"})
    assert got.json == {"ref": "4f2a", "to": [CALLBACK, KEY], "n": 3, "none": None}
    assert got.headers["x-ref"] == "r-4f2a"


@pytest.mark.parametrize("body", [None, [], "text", 0, {}])
def test_any_json_can_be_sent(body):
    _, (got,) = called(200, body=body)
    assert got.json == body


def test_a_secret_is_sent_and_told_nowhere(monkeypatch):
    monkeypatch.setenv("DEPLOY_AUTH", "Bearer fake-key-12345")
    line = Line()
    echo: Any = (400, {}, f"no such token: Bearer fake-key-12345 at {CALLBACK}".encode())
    found, (got,) = called(echo, line=line, secret_headers={"Authorization": "DEPLOY_AUTH"})
    assert got.headers["authorization"] == "Bearer fake-key-12345"
    assert isinstance(found, Failed) and "answer 400: no such token: *** at ***" in found.reason
    assert b"fake-key" not in line.said


def test_a_secret_that_the_worker_does_not_have_is_named_and_nothing_is_sent(monkeypatch):
    monkeypatch.delenv("DEPLOY_AUTH", raising=False)
    found, got = called(200, secret_headers={"Authorization": "DEPLOY_AUTH"})
    assert isinstance(found, Failed) and not found.retryable and "'DEPLOY_AUTH'" in found.reason
    assert got == []


def test_a_send_that_did_not_go_through_is_tried_again_with_the_same_key():
    line = Line()
    found, got = called(503, (429, {"Retry-After": "0"}, b"slow down"), 200, line=line)
    assert isinstance(found, Parked)
    assert [one.headers["idempotency-key"] for one in got] == [KEY] * 3
    assert len({one.body for one in got}) == 1
    assert line.said.count(b"\n") == 3 and b"answer 429: slow down" in line.said


def test_after_some_sends_it_has_failed_and_may_be_retried():
    found, got = called((500, {}, b"  broken \n here"))
    assert isinstance(found, Failed) and found.retryable and found.reason.endswith("answer 500: broken here")
    assert len(got) == SENDS_MAX


def test_nobody_there_is_tried_again_too():
    with receiving() as there:
        url = there.url
    handle = executor().start(assignment(url=url), cast(Any, Line()), None)
    found = outcome(handle)
    assert isinstance(found, Failed) and found.retryable and "refused" in found.reason


@pytest.mark.parametrize(
    ("answer", "said"),
    [(400, "answer 400"), (404, "answer 404"), ((302, {"Location": "http://127.0.0.1/"}, b""), "not followed")],
)
def test_a_refusal_is_final(answer, said):
    found, got = called(answer)
    assert isinstance(found, Failed) and not found.retryable and said in found.reason
    assert len(got) == 1


def test_an_address_inside_is_refused_unless_it_is_allowed():
    found, got = called(200, allowed=Allowed())
    assert isinstance(found, Failed) and not found.retryable and "LONGTASK_ALLOW_PRIVATE" in found.reason
    assert got == []


def test_without_an_address_for_the_callback_nothing_is_sent():
    def nowhere(*_):
        raise Refused("set LONGTASK_PUBLIC_URL")

    made = CallExecutor(expressions.render, nowhere, LOOPBACK)
    found = outcome(made.start(assignment(url="http://127.0.0.1:1/"), cast(Any, Line()), None))
    assert found == Failed("set LONGTASK_PUBLIC_URL", retryable=False)


def test_the_body_of_the_callback_is_the_result():
    cause = {"signal": SIGNAL, "number": 4, "payload": {"key": KEY, "body": {"version": 7}}}
    found, got = called(200, cause=cause)
    assert found == Done({"version": 7}) and got == []


def test_a_callback_can_say_that_it_failed():
    cause = {"signal": SIGNAL, "number": 4, "payload": {"key": KEY, "failed": "no capacity"}}
    found, got = called(200, cause=cause)
    assert found == Failed("the callback says that it failed: no capacity") and got == []


def test_at_the_deadline_the_inbox_is_looked_at_once_more_and_nothing_is_sent():
    found, got = called(200, cause={"deadline": True})
    assert isinstance(found, Parked) and found.question["late"] and found.due_at == 1_000_000
    assert got == []


def test_a_stop_lets_the_send_that_is_under_way_come_to_its_end():
    """Else nobody would know whether the call was taken."""
    with receiving() as there:
        made = executor()
        handles: SimpleQueue[Any] = SimpleQueue()

        def answer(_):
            handles.get(timeout=DEADLINE_S).stop("drain", 20_000)
            return 202

        there.answer = answer
        handle = made.start(assignment(url=there.url), cast(Any, Line()), None)
        handles.put(handle)
        assert isinstance(outcome(handle), Parked)


def test_a_stop_between_two_sends_ends_it():
    with receiving(503) as there:
        slow = CallExecutor(expressions.render, reached, LOOPBACK, delay_ms=60_000)
        handle = slow.start(assignment(url=there.url), cast(Any, Line()), None)
        there.wait()
        handle.stop("cancel", 10_000)
        assert outcome(handle) == Stopped()


def test_a_kill_cuts_the_send():
    with receiving() as there:
        handles: SimpleQueue[Any] = SimpleQueue()
        over = threading.Event()

        def answer(_):
            handles.get(timeout=DEADLINE_S).kill()
            over.wait(DEADLINE_S)
            return 202

        there.answer = answer
        handle = executor().start(assignment(url=there.url), cast(Any, Line()), None)
        handles.put(handle)
        assert outcome(handle) == Stopped()
        over.set()


def test_what_is_too_large_or_no_json_is_not_sent():
    found, got = called(200, body="x" * 1_000_001)
    assert isinstance(found, Failed) and "the limit is 1,000,000" in found.reason and got == []
    found, got = called(200, body={"n": float("nan")})
    assert isinstance(found, Failed) and not found.retryable and got == []
