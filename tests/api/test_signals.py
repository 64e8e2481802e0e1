"""Signals over HTTP: to a task, and to a whole workspace."""

from __future__ import annotations

import pytest

from longtask.core.graph import Graph, Planned
from longtask.core.model import Kind, StepSpec, TaskOptions
from tests.api import plans
from tests.api.carrying import carry_to


@pytest.fixture
def waiting(server, client) -> str:
    task = client.post("/v1/tasks", json=plans.waiting()).json()["task"]
    carry_to(server.parts, task, "waiting_event")
    return task


def test_a_signal_wakes_what_waits_for_it(client, waiting):
    answer = client.post("/v1/signals/deploy.done", json={"task": waiting, "payload": {"version": 7}})
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["number"], told["woken"], told["task"]) == (1, ["go"], waiting)


def test_a_signal_that_nothing_waits_for_is_kept(server, client, waiting):
    told = client.post("/v1/signals/other", json={"task": waiting}).json()
    assert (told["number"], told["woken"]) == (1, [])
    assert [signal.name for signal in server.parts.store.inbox(waiting, 0, 9)] == ["other"]


def test_a_delivery_counts_once(server, client, waiting):
    for version in (1, 2):
        body = {"task": waiting, "payload": {"version": version}, "delivery": "d-1"}
        assert client.post("/v1/signals/deploy.done", json=body).json()["number"] == 1
    for _ in range(2):
        body = {"task": waiting, "payload": {}}
        answer = client.post("/v1/signals/deploy.done", json=body, headers={"Idempotency-Key": "k-1"})
        assert answer.json()["number"] == 2
    assert [signal.delivery for signal in server.parts.store.inbox(waiting, 0, 9)] == ["d-1", "k-1"]
    assert server.parts.store.inbox(waiting, 0, 1)[0].payload == {"version": 1}


def test_a_signal_to_a_workspace_reaches_all_its_open_tasks(server, client):
    spec = StepSpec(Kind.WAIT, {"signal": "x", "match": {}})
    ids = [
        server.parts.desk.submit(
            Graph("t", TaskOptions(), (spec,), (Planned("a", Kind.WAIT, 1, 0, ()),)), workspace_id=workspace
        ).id
        for workspace in ("w-1", "w-2", "w-1")
    ]
    answer = client.post("/v1/signals/x", json={"workspace": "w-1", "payload": {"a": 1}, "delivery": "d-1"})
    assert answer.status_code == 202
    assert answer.json() == {"workspace": "w-1", "delivery": "d-1", "new": True, "tasks": 2}
    store = server.parts.store
    assert [[s.payload for s in store.inbox(id_, 0, 9)] for id_ in ids] == [[{"a": 1}], [], [{"a": 1}]]
    again = client.post("/v1/signals/x", json={"workspace": "w-1", "payload": {"a": 2}, "delivery": "d-1"}).json()
    assert (again["new"], again["tasks"]) == (False, 0)


@pytest.mark.parametrize("body", [{}, {"task": "x", "workspace": "y"}])
def test_a_signal_names_a_task_or_a_workspace(client, body):
    answer = client.post("/v1/signals/x", json=body)
    assert answer.status_code == 422 and "either 'task' or 'workspace'" in answer.json()["detail"]


def test_a_signal_to_a_task_that_is_not_there_is_404(client):
    assert client.post("/v1/signals/x", json={"task": "nothing-7"}).status_code == 404


def test_a_signal_to_a_task_that_has_ended_is_refused(client, waiting):
    client.post(f"/v1/tasks/{waiting}/cancel")
    assert client.post("/v1/signals/x", json={"task": waiting}).status_code in (200, 409)


@pytest.mark.parametrize("name", ["a b", "%00", "-x", "x" * 81])
def test_a_name_that_no_plan_can_wait_for_is_refused(client, waiting, name):
    assert client.post(f"/v1/signals/{name}", json={"task": waiting}).status_code in (400, 422)


def test_a_payload_that_is_too_large_is_refused_with_the_limit(client, waiting):
    answer = client.post("/v1/signals/x", json={"task": waiting, "payload": {"a": "x" * 70_000}})
    assert answer.status_code == 422 and "64,000" in answer.json()["detail"]
