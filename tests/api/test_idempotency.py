"""A POST with a key that is sent again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from longtask.api.idempotency import digest_of
from longtask.store.callers import RequestBegin, RequestKey
from tests.api import plans
from tests.api.conftest import client_of
from tests.raw import rows

URN = "urn:longtask:problem:"


def post(client, key, path="/v1/tasks", plan=None, **more):
    return client.post(path, json=plan or plans.asking(), headers={"Idempotency-Key": key}, **more)


def test_the_same_request_is_answered_the_same_and_carried_out_once(client):
    first, again = post(client, "k-1"), post(client, "k-1")
    assert (first.status_code, first.content) == (again.status_code, again.content)
    assert first.headers["location"] == again.headers["location"]
    assert "idempotency-replayed" not in first.headers and again.headers["idempotency-replayed"] == "true"
    assert len(client.get("/v1/tasks").json()["items"]) == 1


def test_another_server_on_the_same_database_gives_the_same_answer(client, make):
    first = post(client, "k-1")
    with client_of(make()) as other:
        assert post(other, "k-1").content == first.content


def test_a_refusal_is_the_answer_too(client):
    path = "/v1/tasks/nothing/pause"
    answers = [client.post(path, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert [a.status_code for a in answers] == [404, 404]
    assert answers[1].headers["idempotency-replayed"] == "true"
    assert answers[1].headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("more", [{"plan": plans.asking("other")}, {"params": {"name": "other"}}])
def test_the_key_of_another_request_is_refused(client, more):
    assert post(client, "k").status_code == 201
    answer = post(client, "k", **more)
    assert (answer.status_code, answer.json()["type"]) == (422, URN + "key-reused")


def test_at_another_address_the_same_key_is_another_request(client):
    task = post(client, "k").json()["task"]
    answer = client.post(f"/v1/tasks/{task}/pause", headers={"Idempotency-Key": "k"})
    assert answer.json()["status"] == "paused"


def test_while_the_first_is_carried_out_the_second_is_a_conflict(client, server):
    request = client.build_request("POST", "/v1/tasks", json=plans.asking())
    digest = digest_of({name.lower(): value for name, value in request.headers.raw}, b"", request.content)
    begun = RequestBegin(RequestKey("ann", "k", "/v1/tasks"), digest, "another server")
    assert server.parts.store.begin_requests([begun]) == [None]
    answer = post(client, "k")
    assert (answer.status_code, answer.json()["type"]) == (409, URN + "in-flight")
    assert answer.headers["retry-after"] == "1"
    assert client.get("/v1/tasks").json()["items"] == []


def test_many_at_once_make_one_task(client):
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: post(client, "k"), range(16)))
    assert {a.status_code for a in answers} <= {201, 409}
    assert len({a.json()["task"] for a in answers if a.status_code == 201}) == 1
    assert len(client.get("/v1/tasks").json()["items"]) == 1


def test_a_task_is_made_once_though_the_server_died_before_its_answer_was_kept(client, server):
    first = post(client, "k").json()
    rows(server.parts.store, "delete from request returning 1")
    assert post(client, "k").json() == first
    assert len(client.get("/v1/tasks").json()["items"]) == 1


def test_a_key_is_visible_ascii_of_bounded_length(client):
    for key in ("", "a" * 256, "a b"):
        answer = post(client, key)
        assert (answer.status_code, answer.json()["type"]) == (400, URN + "bad-key")


def test_what_looks_needs_no_key(client):
    assert client.get("/v1/tasks", headers={"Idempotency-Key": "k"}).status_code == 200


def test_an_answer_with_a_secret_is_kept_nowhere_and_what_it_made_is_made_once(client, server):
    made = {"name": "ben", "roles": ["viewer"]}
    first, again = (client.post("/v1/tokens", json=made, headers={"Idempotency-Key": "k"}) for _ in range(2))
    assert first.status_code == 201
    assert (again.status_code, again.json()["type"]) == (409, URN + "told-once")
    assert len(client.get("/v1/tokens").json()["items"]) == 1
    kept = rows(server.parts.store, "select answer from request")
    assert first.json()["token"] not in str(kept)
