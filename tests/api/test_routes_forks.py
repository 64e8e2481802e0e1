"""Forks over HTTP: named before they are made, made once, seen by whoever may see the task."""

from __future__ import annotations

import asyncio

from longtask import AsyncClient, Client
from longtask.core.errors import Refused
from tests.api import plans
from tests.api.carrying import carry_to
from tests.api.live import serving
from tests.api.test_routes_tasks import PROBLEM, submit


def ended(client, server) -> str:
    id = submit(client, plans.running())
    carry_to(server.parts, id, "completed")
    return id


def test_what_a_fork_would_do_is_named_and_nothing_is_done(client, server):
    id = ended(client, server)
    seen = client.get(f"/v1/tasks/{id}/fork", params={"from": "b"}).json()
    assert (seen["kept"], seen["again"], seen["begins"]) == (["a"], ["b", "report"], [])
    assert len(client.get("/v1/tasks").json()["items"]) == 1


def test_a_fork_is_made_and_told_where_it_is(client, server):
    id = ended(client, server)
    answer = client.post(f"/v1/tasks/{id}/fork", json={"from": "b"})
    made = answer.json()
    assert (answer.status_code, answer.headers["location"]) == (201, f"/v1/tasks/{made['task']}")
    assert (made["handle"], made["forked_from"], made["step"]) == ("work-2", id, "b")
    shown = client.get(f"/v1/tasks/{made['task']}").json()
    assert [(step["key"], step["state"]) for step in shown["steps"]] == [
        ("a", "completed"),
        ("b", "ready"),
        ("report", "blocked"),
    ]
    assert shown["forked_from"]["task"] == id
    carry_to(server.parts, made["task"], "completed")
    assert client.get(f"/v1/tasks/{made['task']}/artifacts/report.md").status_code == 200


def test_a_fork_may_begin_paused(client, server):
    made = client.post(f"/v1/tasks/{ended(client, server)}/fork", json={"from": "b", "paused": True}).json()
    assert made["status"] == "paused"
    client.post(f"/v1/tasks/{made['task']}/resume")
    carry_to(server.parts, made["task"], "completed")


def test_a_request_that_is_sent_again_makes_no_second_fork(client, server):
    id = ended(client, server)
    headers = {"Idempotency-Key": "once"}
    first, again = (client.post(f"/v1/tasks/{id}/fork", json={"from": "b"}, headers=headers) for _ in range(2))
    assert first.json() == again.json()
    keyed = [client.post(f"/v1/tasks/{id}/fork", json={"from": "a", "key": "k"}).json()["task"] for _ in range(2)]
    assert keyed[0] == keyed[1] != first.json()["task"]
    assert len(client.get("/v1/tasks").json()["items"]) == 3


def test_what_cannot_be_is_a_problem(client, server):
    id = ended(client, server)
    unknown = client.post(f"/v1/tasks/{id}/fork", json={"from": "bb"})
    assert (unknown.status_code, unknown.json()["type"]) == (404, PROBLEM + "not-found")
    assert client.post(f"/v1/tasks/{id}/fork", json={}).status_code == 422
    refused = client.get(f"/v1/tasks/{id}/steps/b/foreseen", params={"act": "retry"})
    assert (refused.status_code, refused.json()["type"]) == (409, PROBLEM + "refused")


def test_what_a_retry_brings_back_and_a_rejection_skips_is_named(client, server):
    failed = submit(client, plans.failing())
    carry_to(server.parts, failed, "failed")
    seen = client.get(f"/v1/tasks/{failed}/steps/bad/foreseen", params={"act": "retry"}).json()
    assert (seen["again"], seen["begins"]) == (["bad"], ["after"])
    plan = plans.asking()
    plan["steps"] = [
        {"id": "ok", "when_failed": "stop", "approval": {"ask": "Fine?"}},
        {"id": "after", "run": "true", "needs": ["ok"]},
    ]
    asked = submit(client, plan)
    carry_to(server.parts, asked, "waiting_user")
    seen = client.get(f"/v1/tasks/{asked}/steps/ok/foreseen", params={"act": "reject"}).json()
    assert (seen["skipped"], seen["revised"], seen["asks"]) == (["after"], False, False)


def test_clients_foresee_and_fork(client, server):
    id = ended(client, server)
    with serving(server) as live:
        with Client(f"http://{live.host}") as blocking:
            assert blocking.foresee(id, "a", "fork")["again"] == ["a", "b", "report"]
            made = blocking.fork(id, "a", key="k")
            assert blocking.fork(id, "a", key="k")["task"] == made["task"]
            try:
                blocking.fork(id, "b", key="k")
            except Refused as refused:
                assert "belongs to task" in str(refused)

        async def awaited() -> str:
            async with AsyncClient(f"http://{live.host}") as later:
                return (await later.fork(id, "a", key="k"))["task"]

        assert asyncio.run(awaited()) == made["task"]
