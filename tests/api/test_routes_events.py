"""Events over HTTP, a page at a time; and who works."""

from __future__ import annotations

from typing import Any

from tests.api import plans
from tests.api.carrying import carry_to
from tests.api.test_routes_tasks import PROBLEM, submit


def test_of_a_journal_only_some_types_are_told_when_asked_for(client, server):
    id = submit(client, plans.running())
    carry_to(server.parts, id, "completed")

    def told(**query):
        return [
            one["type"]
            for one in client.get(f"/v1/tasks/{id}/events", params={"limit": 1_000, **query}).json()["items"]
        ]

    wanted = ["step.started", "longtask.completed"]
    assert told(type=wanted) == [one for one in told() if one in wanted] != []
    assert told(type="nothing") == []


def test_a_journal_is_told_in_pages_that_lose_and_repeat_nothing(client, server):
    id = submit(client, plans.running())
    assert client.get(f"/v1/tasks/{id}/events").json()["next"] is not None  # more will come
    carry_to(server.parts, id, "completed")
    told: list[dict[str, Any]] = []
    cursor: str | None = "0"
    while cursor is not None:
        page = client.get(f"/v1/tasks/{id}/events", params={"limit": 2, "cursor": cursor}).json()
        told += page["items"]
        cursor = page["next"]
    assert told == client.get(f"/v1/tasks/{id}/events", params={"limit": 1000}).json()["items"]
    assert told[0]["type"] == "longtask.started" and told[-1]["type"] == "longtask.completed"


def test_events_of_all_tasks_are_told_and_those_of_one_in_their_order(client, server):
    ids = [submit(client, plans.asking(name)) for name in ("one", "two")]
    told, cursor = [], ""
    while True:
        page = client.get("/v1/events", params={"limit": 1, "cursor": cursor}).json()
        if page["next"] == cursor:
            break
        told += page["items"]
        cursor = page["next"]
    for id in ids:
        mine = [event for event in told if event["source"] == f"/tasks/{id}"]
        assert mine == client.get(f"/v1/tasks/{id}/events").json()["items"]
    assert client.get("/v1/events", params={"cursor": cursor}).json() == {"items": [], "next": cursor}


def test_a_cursor_of_nobodys_is_a_problem(client):
    for cursor in ("x", "1.2.3", "-1", "9" * 30):
        answer = client.get("/v1/events", params={"cursor": cursor})
        assert (answer.status_code, answer.json()["type"]) == (422, PROBLEM + "bad-value"), cursor


def test_the_fleet_is_told_as_the_command_line_tells_it(client, server):
    id = submit(client, plans.waiting())
    carry_to(server.parts, id, "waiting_event")
    found = client.get("/v1/fleet").json()
    assert found.keys() == {"workers", "pools"}
