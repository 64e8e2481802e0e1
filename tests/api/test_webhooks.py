"""Webhooks over HTTP, and a server that sends them."""

from __future__ import annotations

import pytest
import standardwebhooks

from tests.api import plans
from tests.api.conftest import client_of
from tests.receiver import receiving


@pytest.fixture
def sending(make, monkeypatch):
    """A client of a server that may send to this machine."""
    from dataclasses import replace

    from longtask.api.server import make_server
    from longtask.api.settings import Settings

    parts = make().parts
    parts = replace(parts, config=replace(parts.config, allow_private=("127.0.0.1",)))
    with client_of(make_server(parts, Settings())) as client:
        yield client


def add(client, **body):
    answer = client.post("/v1/webhooks", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_a_server_sends_what_happens_and_it_verifies(sending):
    with receiving() as there:
        made = add(sending, url=there.url + "/hook", types=["longtask.*"])
        task = sending.post("/v1/tasks", json=plans.waiting()).json()["task"]
        sending.post(f"/v1/tasks/{task}/pause")
        got = there.wait(2)
        assert [one.json["type"] for one in got] == ["longtask.started", "longtask.paused"]
        told = standardwebhooks.Webhook(made["secret"]).verify(got[0].body, got[0].headers)
        assert told["source"] == f"/tasks/{task}"


def test_a_secret_is_told_once(client):
    made = add(client, url="https://hooks.example/x?token=hunter2")
    assert made["secret"].startswith("whsec_")
    for shown in (client.get("/v1/webhooks"), client.get(f"/v1/webhooks/{made['id']}")):
        assert made["secret"] not in shown.text and "hunter2" not in shown.text
    assert client.get("/v1/webhooks").json()["items"][0]["state"] == "active"


def test_a_webhook_is_removed(client):
    made = add(client, url="https://hooks.example/x")
    assert client.delete(f"/v1/webhooks/{made['id']}").json()["id"] == made["id"]
    assert client.get("/v1/webhooks").json()["items"] == []
    for answer in (client.delete(f"/v1/webhooks/{made['id']}"), client.get(f"/v1/webhooks/{made['id']}")):
        assert answer.status_code == 404


def test_what_has_happened_is_sent_again_on_demand(sending):
    with receiving() as there:
        made = add(sending, url=there.url, types=["longtask.started"])
        sending.post("/v1/tasks", json=plans.waiting())
        there.wait(1)
        assert sending.post(f"/v1/webhooks/{made['id']}/replay", json={"since": 0}).status_code == 200
        got = there.wait(2)
        assert got[0].headers["webhook-id"] == got[1].headers["webhook-id"]


def test_one_that_has_failed_goes_on_when_it_is_enabled(sending):
    with receiving(410, 204) as there:
        made = add(sending, url=there.url)
        sending.post("/v1/tasks", json=plans.waiting())
        there.wait(1)
        from time import monotonic, sleep

        end = monotonic() + 20
        while sending.get(f"/v1/webhooks/{made['id']}").json()["state"] != "disabled":
            assert monotonic() < end
            sleep(0.01)
        told = sending.get(f"/v1/webhooks/{made['id']}").json()
        assert "410" in told["reason"]
        assert sending.post(f"/v1/webhooks/{made['id']}/enable").json()["state"] == "active"
        there.wait(2)


@pytest.mark.parametrize(
    "body",
    [
        {}, {"url": "nonsense"}, {"url": "https://u:hunter2@x/"}, {"url": "https://x/", "types": ["nope.*"]},
        {"url": "https://x/", "secret_env": "a b"}, {"url": "https://x/", "secret": "mine"}, {"url": "https://x/\0"},
    ],
)  # fmt: skip
def test_an_endpoint_that_cannot_be_meant_is_refused(client, body):
    answer = client.post("/v1/webhooks", json=body)
    assert answer.status_code == 422 and "hunter2" not in answer.text
    assert client.get("/v1/webhooks").json()["items"] == []
