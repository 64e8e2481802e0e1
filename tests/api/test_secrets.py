"""Planted keys do not come out of any channel: every row of the database, every file, every answer is searched.

The keys are made up.  What stands in a file that is worked on is the work itself, and is left as it is.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longtask import redaction
from longtask.api.server import Server
from longtask.redaction import redact
from longtask.store.contract import Ref, Store
from longtask.store.postgres.store import PostgresStore
from longtask.telemetry.logs import formatter
from tests import raw
from tests.api.carrying import carry_to
from tests.redaction.test_redaction import CHANCE, KEYS

VALUE = "obviously-fake-value-0123"  # of a secret that the plan names
NAMED = "another-fake-value-4567"  # of a variable that the installation names
URL = "postgresql://ann:fake-pass-word@db.example/x"
NEEDLES = [VALUE, NAMED, "fake-pass-word", CHANCE[:16], "FAKEFAKEFAKE1234", "MIIEfake"]


@pytest.fixture(autouse=True)
def planted(tmp_path_factory, monkeypatch) -> Iterator[Path]:
    """A file with all keys, outside of whatever is searched; and the values in the worker's environment."""
    monkeypatch.setenv("FAKE_TOKEN", VALUE)
    monkeypatch.setenv("MINE", NAMED)
    monkeypatch.setenv("LONGTASK_REDACT", "MINE")
    _forget()
    file = tmp_path_factory.mktemp("planted") / "keys.txt"
    file.write_text("\n".join([*KEYS.values(), URL, VALUE, NAMED, ""]))
    yield file
    _forget()


def _forget() -> None:
    redaction._values.cache_clear()
    redaction._whole.cache_clear()


def plan(keys: Path) -> dict[str, Any]:
    one = f"sed -n 2p {keys}"
    slowly = f"python3 -c \"import os; [os.write(1, bytes([b])) for b in open('{keys}', 'rb').read()]\""
    script = {"recording": 1, "runs": [{"step": "agent", "turns": [
        {"text": "Looking.", "tools": [{"tool": "shell", "command": f"cat {keys}"}]},
        {"text": "Done.", "outputs": {"found": "it"}},
    ]}]}  # fmt: skip
    (keys.parent / "recording.json").write_text(json.dumps(script))
    agent = {"prompt": "Look.", "runtime": "recorded", "recording": str(keys.parent / "recording.json")}
    return {
        "longtask": 1,
        "name": "leaky",
        "secrets": ["FAKE_TOKEN"],
        "steps": [
            {"id": "prints", "run": f"cat {keys}; cat {keys} >&2"},
            {"id": "drips", "run": slowly},
            {"id": "fails", "run": f"cat {keys}; exit 1", "when_failed": "continue"},
            {"id": "results", "run": f'echo "value=$({one})" >> $LONGTASK_OUTPUT', "outputs": {"value": "string"}},
            {"id": "counts", "run": f'echo "1/2 $({one})"; echo "2/2 $({one})"', "progress": "n/m"},
            {"id": "agent", "agent": agent, "outputs": {"found": "string"}},
            {"id": "asks", "needs": ["results"], "approval": {"ask": "Is ${{ steps.results.outputs.value }} right?"}},
            {"id": "waits", "wait": {"signal": "go"}, "needs": ["asks"]},
            {"id": "report", "artifact": {"report": {"name": "report.md"}}, "needs": ["waits"]},
        ],
    }


def text_of(store: Store, folder: Path) -> dict[str, str]:
    """Everything that is kept, by where it lies."""
    found: dict[str, str] = {}
    if isinstance(store, PostgresStore):
        sql = "select tablename from pg_tables where schemaname = current_schema()"
        for (table,) in raw.rows(store, sql):
            cells = raw.rows(store, f"select * from {table}")
            found[table] = "\n".join(
                cell.decode(errors="replace") if isinstance(cell, bytes) else str(cell) for row in cells for cell in row
            )
    for file in folder.rglob("*"):
        if file.is_file():
            found[str(file.relative_to(folder))] = file.read_bytes().decode(errors="replace")
    return found


def leaks(text: str) -> list[str]:
    return [needle for needle in NEEDLES if needle in text]


def test_what_is_planted_is_found_if_nothing_takes_it_out(planted):
    assert leaks(planted.read_text()) == NEEDLES
    assert set(leaks(redact(planted.read_text()))) <= {VALUE}, "which may be a secret only where a plan names it"


def test_no_channel_tells_a_secret(client, server: Server, planted, tmp_path):
    submitted = client.post("/v1/tasks", json=plan(planted))
    assert submitted.status_code == 201, submitted.text
    task = submitted.json()["task"]
    secret = KEYS["github"]
    carry_to(server.parts, task, "waiting_user")
    asked = client.get(f"/v1/tasks/{task}/steps/asks/approval")
    decided = client.post(
        f"/v1/tasks/{task}/steps/asks/approval",
        json={"answer": "approve", "text": f"with {secret} and {URL}"},
        headers={"If-Match": asked.headers["etag"]},
    )
    assert decided.status_code == 200, decided.text
    signal = {"task": task, "payload": {"keys": list(KEYS.values()), URL: {"deep": [NAMED]}}}
    assert client.post("/v1/signals/go", json=signal).status_code == 200
    carry_to(server.parts, task, "completed")

    answers = {}
    steps = ("prints", "drips", "fails", "agent", "counts", "results")
    for path in (
        "", "/graph", "/events", "/plan", "/artifacts?all=1", "/steps", "/approvals", "/why", "/trace", "/steps/waits",
        *[f"/steps/{step}{end}" for step in steps for end in ("", "/attempts", "/attempts/1/output", "/turns")],
    ):  # fmt: skip
        answers[path] = client.get(f"/v1/tasks/{task}{path}").text
    for one in client.get(f"/v1/tasks/{task}/artifacts?all=1").json()["items"]:
        answers[one["name"]] = client.get(f"/v1/tasks/{task}/artifacts/{one['name']}").text
    assert "***" in answers["/steps/prints/attempts/1/output"] and "***" in answers["/steps/drips/attempts/1/output"]
    assert "***" in answers["/steps/results"] and "***" in answers["/events"]
    assert any(name.startswith("transcript/") and "***" in text for name, text in answers.items())
    assert {where: leaks(text) for where, text in answers.items() if leaks(text)} == {}
    assert "***" in server.parts.store.inbox(task, 0, 9)[0].payload["keys"]

    journal = [row.body for row in server.parts.store.journal(Ref(task, "agent"), 1)]
    assert leaks(json.dumps(journal)), "an agent sees what is there, and so does whoever plays its journal again"
    assert VALUE not in json.dumps(journal), "but for the value of a secret"
    kept = text_of(server.parts.store, tmp_path)
    told = {where: leaks(text) for where, text in kept.items() if leaks(text)}
    shown = {where for where in told if where != "run_journal" and not where.startswith("longtask.db")}
    assert shown == set()
    if told.keys() & {"longtask.db", "longtask.db-wal"}:  # of an SQLite file all tables but the journal of runs
        store = server.parts.store
        names = [name for (name,) in raw.rows(store, "select name from sqlite_schema where type = 'table'")]
        tables = {name: str(raw.rows(store, f"select * from {name}")) for name in names}
        assert {name for name, text in tables.items() if leaks(text)} == {"run_journal"}


def test_a_cancelled_task_does_not_tell_what_stands_in_the_reason(client, server, planted):
    task = client.post("/v1/tasks", json=plan(planted)).json()["task"]
    client.post(f"/v1/tasks/{task}/cancel", json={"reason": f"leaked {KEYS['slack']} and {NAMED}"})
    told = client.get(f"/v1/tasks/{task}/events").text
    assert "leaked *** and ***" in told and leaks(told) == []


def test_a_problem_does_not_repeat_a_secret(client):
    for answer in (
        client.get(f"/v1/tasks/{KEYS['github']}"),
        client.get(f"/v1/tasks/{NAMED}"),
        client.get("/v1/tasks", params={"limit": KEYS["github"]}),
        client.post(
            "/v1/tasks", json={"longtask": 1, "name": KEYS["github"], "steps": [{"id": KEYS["aws"], "run": 1}]}
        ),
        client.post("/v1/signals/go", json={"task": KEYS["github"], "payload": {}}),
    ):
        assert answer.status_code >= 400 and leaks(answer.text) == [], answer.text


def test_the_comments_of_a_plan_are_kept_without_secrets(client):
    text = f"longtask: 1\nname: said  # {KEYS['github']}\nsteps:\n  - id: a\n    run: 'true'\n"
    answer = client.post("/v1/tasks", content=text, headers={"content-type": "application/yaml"})
    kept = client.get(f"/v1/tasks/{answer.json()['task']}/plan").text
    assert kept == text.replace(KEYS["github"], "***")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_log_line_does_not_tell_a_secret(form):
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(formatter({"LONGTASK_LOG_FORMAT": form}))
    log = logging.Logger("planted")
    log.addHandler(handler)
    try:
        raise ValueError(f"{KEYS['github']} {KEYS['pem']}")
    except ValueError:
        log.exception("step.failed task=%s url=%s named=%s", KEYS["jwt"], URL, NAMED)
    assert leaks(out.getvalue()) == [] and out.getvalue().count("***") >= 4
