"""A `call` step against a program elsewhere: it is called, answers when it likes, and the step goes on."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import replace

import pytest

from longtask import boot
from longtask.core.model import StepState
from longtask.core.seal import seal
from longtask.steps.call import PURPOSE
from longtask.store.contract import Ref
from tests.api.carrying import carry
from tests.api.live import serving
from tests.receiver import receiving


@pytest.fixture
def live(server):
    with serving(server) as line:
        yield line


def parts_of(server, live) -> boot.Parts:
    """As a worker beside the server has them."""
    url = f"http://{live.host}"
    config = replace(server.parts.config, public_url=url, allow_private=("127.0.0.1",))
    return replace(server.parts, config=config)


def submit(server, url, **words) -> str:
    from longtask.plan import compile_plan, from_values

    more = words.pop("more", {})
    plan = {"longtask": 1, "name": "out", "steps": [{"id": "there", "call": {"url": url, **words}, **more}]}
    return server.parts.desk.submit(compile_plan(from_values(plan))).id


def step(server, task):
    return server.parts.store.get_step(Ref(task, "there"))


def answer(url: str, value, **headers) -> tuple[int, dict]:
    """As a program elsewhere does it: a POST of JSON."""
    request = urllib.request.Request(
        url, json.dumps(value).encode(), {"content-type": "application/json", **headers}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as got:
            return got.status, json.load(got)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_call_is_made_and_its_callback_is_the_result(server, live):
    with receiving(202) as there:
        body = {"commit": "abc", "answer_to": "${{ callback.url }}", "key": "${{ callback.key }}"}
        task = submit(server, there.url + "/deploy", body=body)
        carry(parts_of(server, live), lambda: step(server, task).state is StepState.WAITING)
        (got,) = there.got
        assert got.json["key"] == f"{task}/there/1" == got.headers["idempotency-key"]
        status, told = answer(got.json["answer_to"], {"version": 7})
        assert (status, told["new"], told["step"], told["run"]) == (200, True, "there", 1)
        carry(parts_of(server, live), lambda: step(server, task).state is StepState.COMPLETED)
        assert step(server, task).result == {"version": 7}
        assert len(there.got) == 1
        assert answer(got.json["answer_to"], {"version": 8}) == (200, {**told, "new": False})
        assert step(server, task).result == {"version": 7}


def test_a_callback_within_the_call_is_kept(server, live):
    with receiving() as there:
        there.answer = lambda got: answer(got.json["callback"], "done")[0]
        task = submit(server, there.url)
        carry(parts_of(server, live), lambda: step(server, task).state is StepState.COMPLETED)
        assert step(server, task).result == "done" and len(there.got) == 1


def test_a_callback_may_say_that_it_failed(server, live):
    with receiving(202) as there:
        task = submit(server, there.url)
        carry(parts_of(server, live), lambda: step(server, task).state is StepState.WAITING)
        url = there.got[0].json["callback"]
        assert answer(url + "/failed", {"reason": "no capacity"})[0] == 200
        carry(parts_of(server, live), lambda: step(server, task).state is StepState.FAILED)
        assert step(server, task).reason == "the callback says that it failed: no capacity"


def test_a_call_that_is_not_answered_in_time_fails_and_a_late_answer_is_told_so(server, live):
    with receiving(202) as there:
        task = submit(server, there.url, timeout="50ms")
        carry(parts_of(server, live), lambda: step(server, task).state is StepState.FAILED)
        assert str(step(server, task).reason).startswith("deadline")
        status, told = answer(there.got[0].json["callback"], 1)
        assert status == 409 and "comes too late" in told["detail"]


def test_a_retry_is_another_call_with_another_key(server, live):
    with receiving(202) as there:
        task = submit(server, there.url, more={"retry": {"max": 1, "delay": "1ms"}})
        carry(parts_of(server, live), lambda: step(server, task).state is StepState.WAITING)
        first = there.got[0].json["callback"]
        answer(first + "/failed", "try again")
        carry(parts_of(server, live), lambda: len(there.got) == 2 and step(server, task).state is StepState.WAITING)
        assert [got.headers["idempotency-key"][-2:] for got in there.got] == ["/1", "/2"]
        assert answer(first, "late")[1]["new"] is False
        assert answer(there.got[1].json["callback"], "second")[0] == 200
        carry(parts_of(server, live), lambda: step(server, task).state is StepState.COMPLETED)


def test_an_address_that_was_not_given_out_is_not_there(server, live):
    url = f"http://{live.host}/v1/callbacks/calls/"
    key = server.parts.store.signing_key(PURPOSE)
    for token in ("x", "a.b", seal(b"k" * 32, PURPOSE, ["t", "s", 1]), seal(key, "link", ["t", "s", 1])):
        assert answer(url + token, {})[0] == 404
    assert answer(url + seal(key, PURPOSE, ["nothing", "s", 1]), {})[0] == 404, "a task whose time is over"


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"a": NaN}', b"x" * 300_000])
def test_a_callback_that_is_no_json_is_refused_and_the_call_waits_on(server, live, body):
    with receiving(202) as there:
        task = submit(server, there.url)
        carry(parts_of(server, live), lambda: step(server, task).state is StepState.WAITING)
        url = there.got[0].json["callback"]
        request = urllib.request.Request(url, body, {"content-type": "text/json"}, method="POST")
        with pytest.raises(urllib.error.HTTPError) as told:
            urllib.request.urlopen(request, timeout=20)
        told.value.close()
        assert told.value.code in (400, 413, 422)
        assert step(server, task).state is StepState.WAITING


def test_without_an_address_of_the_server_the_step_says_what_to_set(server):
    task = submit(server, "https://elsewhere.example/")
    carry(server.parts, lambda: step(server, task).state is StepState.FAILED)
    assert "LONGTASK_PUBLIC_URL" in str(step(server, task).reason)


def test_a_secret_header_is_stored_nowhere(server, live, monkeypatch):
    monkeypatch.setenv("DEPLOY_AUTH", "Bearer fake-key-98765")
    with receiving((401, {}, b"bad token Bearer fake-key-98765")) as there:
        task = submit(server, there.url, secret_headers={"Authorization": "DEPLOY_AUTH"})
        carry(parts_of(server, live), lambda: step(server, task).state is StepState.FAILED)
        assert there.got[0].headers["authorization"] == "Bearer fake-key-98765"
    store = server.parts.store
    told = repr([store.events(task, 0, 100), step(server, task), store.output(Ref(task, "there"), 1, 0, 100)])
    assert "fake-key" not in told and "answer 401" in told
