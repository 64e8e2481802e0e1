"""What is asked most often is answered past the framework, and as the framework answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from starlette.testclient import TestClient

from longtask.api.access.policy import Policy
from longtask.api.access.tokens import Tokens
from longtask.api.routes import tasks
from longtask.api.server import Server
from tests.api import plans
from tests.api.conftest import client_of

LONG = {"attended": "true"}  # what holds without it; who sends a query is answered by the route
JSON = {"content-type": "application/json"}


@pytest.fixture
def bearer(make: Callable[..., Server]) -> Iterator[tuple[TestClient, Callable[[str], dict[str, str]]]]:
    """A client of a server that asks for tokens, and headers with one of a role."""
    server = make(policy=Policy(tokens=True))

    def with_role(role: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {Tokens(server.parts.store).create('ann', [role], by='root')[1]}"}

    with client_of(server) as client:
        yield client, with_role


def told(answer) -> tuple:
    headers = {name: value for name, value in answer.headers.items() if name not in ("location", "content-length")}
    document = answer.json()
    for own in ("task", "handle"):
        document.pop(own, None)
    return answer.status_code, headers, document


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b'{"longtask": 1, "name": "x", "steps": [{"id": "a", "run": "true"}]}', JSON, 201),
        (b"longtask: 1\nname: x\nsteps: [{id: a, run: 'true'}]\n", {"content-type": "application/yaml"}, 201),
        (b'{"longtask": 1, "name": "x", "steps": [{"id": "A", "needs": "b"}]}', JSON, 422),
        (b'{"longtask": 1', JSON, 422),
        (b"", JSON, 422),
        (b'{"longtask": 1, "name": "\0"}', JSON, 400),
        (b"\xff", {"content-type": "application/yaml"}, 422),
        (b"GIF89a", {"content-type": "image/gif"}, 415),
        (b"a: " + 5_000_000 * b"b", {"content-type": "application/yaml"}, 413),
    ],
)
def test_a_submit_is_answered_as_by_its_route(client, content, headers, status):
    short, long = (client.post("/v1/tasks", content=content, headers=headers, params=query) for query in ({}, LONG))
    assert told(short) == told(long) and short.status_code == status


def test_who_may_not_submit_may_not_on_the_short_way(bearer):
    client, with_role = bearer
    for headers, status in (({}, 401), (with_role("viewer"), 403), (with_role("operator"), 201)):
        short, long = (
            client.post("/v1/tasks", json=plans.asking(), headers=headers, params=query) for query in ({}, LONG)
        )
        assert told(short) == told(long) and short.status_code == status


def test_the_key_and_the_audit_know_of_it(client, server):
    key = {"Idempotency-Key": "k"}
    first, again = (client.post("/v1/tasks", json=plans.asking(), headers=key) for _ in range(2))
    assert again.json() == first.json() and again.headers["idempotency-replayed"] == "true"
    assert client.post("/v1/tasks", json=plans.running(), headers=key).status_code == 422
    rows = server.parts.store.audit(task_id=first.json()["task"], who=None, before="", limit=9)
    assert [(row.action, row.status) for row in rows] == 2 * [("POST /v1/tasks", 201)]


def test_every_short_way_is_a_route_too(client, server):
    described = client.get("/openapi.json").json()["paths"]
    for method, path in tasks.short_ways(server):
        assert method.lower() in described[path]
