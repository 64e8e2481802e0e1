"""An agent's run over HTTP, while it goes on."""

from __future__ import annotations

import json

import pytest

from longtask.store.contract import JournalRow, Ref
from tests.api.carrying import carry_to
from tests.api.test_routes_tasks import submit
from tests.conformance.play import claim

KEY = "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyzAB"


@pytest.fixture
def agent(client, tmp_path):
    """The id of a task whose only step is an agent."""
    script = {"recording": 1, "runs": [{"step": "look", "turns": [
        {"text": "Looking.", "tools": [{"tool": "shell", "command": "echo seen"}]},
        {"text": "Done.", "outputs": {"found": "it"}},
    ]}]}  # fmt: skip
    (tmp_path / "recording.json").write_text(json.dumps(script))
    given = {"prompt": "Look.", "runtime": "recorded", "recording": str(tmp_path / "recording.json")}
    steps = [{"id": "look", "agent": given, "outputs": {"found": "string"}}]
    return submit(client, {"longtask": 1, "name": "agent", "steps": steps})


def test_calls_are_told_as_they_come(client, server, agent):
    store, address = server.parts.store, f"/v1/tasks/{agent}/steps/look/turns"
    assert client.get(address).json() == {"items": [], "next": None}
    ref = claim(store, agent, "look")
    run = store.get_step(ref).run
    body = {
        "text": "I look.",
        "calls": [{"tool": "shell", "args": {"command": f"echo {KEY}"}}],
        "$session": "aside",
    }
    assert store.journal_done(ref, 1, run, JournalRow(1, "turn", "m", "f1", 1, body, 7, 3, None))
    assert store.journal_started(ref, 1, run, JournalRow(2, "tool", "shell", "f2", 1))
    told = client.get(address).json()
    assert told["next"] == "2" and [(one["n"], one["kind"], one["name"]) for one in told["items"]] == [
        (1, "turn", "m"), (2, "tool", "shell"),
    ]  # fmt: skip
    turn, tool = told["items"]
    assert (turn["tokens_in"], turn["tokens_out"], turn["micros"]) == (7, 3, None)
    assert turn["body"]["text"] == "I look." and KEY not in json.dumps(turn) and "$session" not in turn["body"]
    assert tool["body"] is None and tool["done_at"] is None and tool["started_at"]

    assert store.journal_done(ref, 1, run, JournalRow(2, "tool", "shell", "f2", 1, {"text": "seen"}))
    again = client.get(address, params={"cursor": 1}).json()
    assert [one["body"] for one in again["items"]] == [{"text": "seen"}]
    assert client.get(address, params={"limit": 1}).json()["next"] == "1"


def test_afterwards_they_are_what_the_transcript_holds(client, server, agent):
    carry_to(server.parts, agent, "completed")
    told = client.get(f"/v1/tasks/{agent}/steps/look/turns").json()
    kept = client.get(f"/v1/tasks/{agent}/artifacts/transcript/look.1.jsonl").text.splitlines()[1:]
    assert told["next"] is None
    keys = ("n", "kind", "name", "attempt", "tokens_in", "tokens_out", "micros", "body")
    assert [{key: one[key] for key in keys} for one in told["items"]] == [json.loads(line) for line in kept]
    assert len(store_rows(server, agent)) == len(told["items"]) > 2


def store_rows(server, task):
    ref = Ref(task, "look")
    return server.parts.store.journal(ref, server.parts.store.get_step(ref).run)


def test_a_step_that_is_no_agent_has_none(client, server, agent):
    id = submit(client, {"longtask": 1, "name": "plain", "steps": [{"id": "a", "run": "true"}]})
    carry_to(server.parts, id, "completed")
    assert client.get(f"/v1/tasks/{id}/steps/a/turns").json() == {"items": [], "next": None}
    assert client.get(f"/v1/tasks/{id}/steps/b/turns").status_code == 404
