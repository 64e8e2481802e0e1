"""What programs that look after servers ask: figures, and whether it is healthy and ready."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from longtask.api import health
from longtask.api.access.caller import Caller, Role
from longtask.api.metrics import Installation
from longtask.api.server import Server
from longtask.core.errors import StoreUnavailable
from longtask.engine.loop import Pulse
from longtask.store.contract import WorkerRow
from longtask.telemetry.file import TraceFile
from longtask.telemetry.follower import Reader
from longtask.telemetry.settings import TraceSettings
from tests.api import plans
from tests.api.carrying import carry_to
from tests.api.conftest import client_of


def figures(client) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def figure(found, name: str, **labels: str) -> float:
    return found[name, tuple(sorted(labels.items()))]


def submit(client, plan: dict[str, Any]) -> str:
    answer = client.post("/v1/tasks", json=plan)
    assert answer.status_code < 300, answer.text
    task: str = answer.json()["task"]
    return task


def follow(server: Server) -> None:
    with TraceFile.at(server.parts.config.home) as file:
        reader = Reader(server.parts.store, file, TraceSettings())
        while reader.round():
            pass


def test_an_empty_installation_tells_nothing_but_zeros(client):
    found = figures(client)
    assert figure(found, "longtask_open_steps", state="ready") == 0
    assert figure(found, "longtask_workers") == 0
    assert figure(found, "longtask_retries_total") == 0
    assert figure(found, "longtask_readable", part="store") == figure(found, "longtask_readable", part="traces") == 1
    assert figure(found, "longtask_sse_clients") == 0


def test_steps_are_told_by_state_and_waits_by_reason_and_age(server: Server, client):
    task = submit(client, plans.asking())
    submit(client, plans.running())
    carry_to(server.parts, task, "waiting_user")
    follow(server)
    found = figures(client)
    assert figure(found, "longtask_waiting_steps", reason="user") == 1
    assert figure(found, "longtask_waiting_oldest_seconds", reason="user") >= 0
    assert figure(found, "longtask_open_steps", state="waiting") == 1
    assert figure(found, "longtask_tasks_submitted_total") == 2


def test_what_nobody_claims_is_told_by_pool_and_age(server: Server, client):
    submit(client, plans.running())
    found = figures(client)
    assert figure(found, "longtask_queue_tasks", pool="default") == 1
    assert figure(found, "longtask_queue_oldest_seconds", pool="default") >= 0
    assert figure(found, "longtask_open_tasks", state="active") == 1
    assert figure(found, "longtask_open_steps", state="blocked") >= 2


def test_what_has_happened_is_counted(server: Server, client):
    task = submit(client, plans.running())
    carry_to(server.parts, task, "completed")
    follow(server)
    found = figures(client)
    assert figure(found, "longtask_tasks_ended_total", state="completed") == 1
    assert figure(found, "longtask_events_total", event="longtask.completed") == 1
    claims = figure(found, "longtask_claim_latency_seconds_count")
    assert claims == figure(found, "longtask_claim_latency_seconds_bucket", le="+Inf") == 3
    assert figure(found, "longtask_attempt_seconds_count", kind="run", outcome="completed") == 2
    assert figure(found, "longtask_trace_lag_seconds") == 0


def test_whoever_sees_some_workspaces_only_sees_no_figures(server: Server):
    caller = Caller("ann", frozenset({Role.VIEWER}), frozenset({"w"}))
    from longtask.api import metrics

    endpoint = metrics.router(server).routes[0].endpoint  # type: ignore[attr-defined]
    with pytest.raises(Exception, match="sees all workspaces"):
        endpoint(caller)


def test_figures_are_asked_once_however_often_they_are_scraped(server: Server, client, monkeypatch):
    asked = 0
    real = Installation.collect

    def collect(self):
        nonlocal asked
        asked += 1
        return real(self)

    monkeypatch.setattr(Installation, "collect", collect)
    for _ in range(5):
        client.get("/metrics")
    assert asked == 1


def test_a_store_that_is_gone_costs_its_own_figures_only(server: Server, client, monkeypatch):
    def gone(*_, **__):
        raise StoreUnavailable("no connection")

    monkeypatch.setattr(server.parts.store, "open_counts", gone)
    found = figures(client)
    assert figure(found, "longtask_readable", part="store") == 0
    assert figure(found, "longtask_sse_clients") == 0


# --- health -------------------------------------------------------------------------------------------------------


def test_a_process_that_answers_is_healthy(client):
    assert client.get("/healthz").json()["status"] == "ok"


def test_a_server_without_a_worker_is_ready_and_tells_that_nobody_works(server: Server, client):
    submit(client, plans.running())
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["ready"]) == (200, True)
    assert answer.json()["work"]["workers"] == 0
    assert answer.json()["work"]["pools_unserved"] == 1


def test_a_monitor_learns_that_work_does_not_move(server: Server, client, monkeypatch):
    submit(client, plans.running())
    assert client.get("/readyz?work=required").status_code == 200  # it has not waited for long
    monkeypatch.setattr(health, "WAIT_MAX_MS", -1)
    answer = client.get("/readyz?work=required")
    assert answer.status_code == 503
    assert "pool that nobody serves" in answer.json()["checks"]["work"]
    store = server.parts.store
    store.worker_seen(WorkerRow("w", "here", 1, ("default",), 4, store.now()))
    monkeypatch.setattr(health, "BELIEVED_S", 0.0)
    with client_of(server) as another:
        assert another.get("/readyz?work=required").status_code == 200


def test_a_worker_in_this_process_must_make_progress(server: Server, client):
    server.pulse = lambda: Pulse(1, 0, 0)
    assert client.get("/readyz").json()["checks"]["worker"] == "ok"
    server.pulse = lambda: Pulse(1, 100_000, 0, "the disk of /secret is full")
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "secret" not in answer.text


def test_a_server_that_is_about_to_end_is_not_ready(server: Server, client):
    server.hub.ended = True
    assert client.get("/readyz").status_code == 503


def test_a_store_that_fails_is_told_without_its_message(server: Server, client, monkeypatch):
    def gone(*_):
        raise StoreUnavailable("no connection to db.example with hunter22")

    monkeypatch.setattr(server.parts.store, "workers", gone)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "hunter22" not in answer.text


def test_a_store_that_hangs_makes_it_unready_and_costs_one_thread(server: Server, client, monkeypatch):
    let_go = threading.Event()
    asked = []

    def hang(*_):
        asked.append(1)
        let_go.wait(60)
        return []

    monkeypatch.setattr(server.parts.store, "workers", hang)
    monkeypatch.setattr(health, "ANSWER_S", 0.05)
    try:
        assert [client.get("/readyz").status_code for _ in range(4)] == [503] * 4
        assert client.get("/healthz").status_code == 200
        assert len(asked) == 1
    finally:
        let_go.set()


# --- traces -------------------------------------------------------------------------------------------------------


def test_the_trace_of_a_task_is_there_over_http(server: Server, client):
    task = submit(client, plans.running())
    carry_to(server.parts, task, "completed")
    found = client.get(f"/v1/tasks/{task}/trace").json()
    assert found["trace_id"] == task.replace("-", "")
    names = [span["name"] for span in found["spans"]]
    assert names[0] == "task work"
    assert {"stage do", "step a", "attempt a.1", "step b"} <= set(names)
    assert all(span["ended_at"] for span in found["spans"])
    few = client.get(f"/v1/tasks/{task}/trace?limit=2").json()
    assert (len(few["spans"]), few["cut"]) == (2, True)
    assert client.get("/v1/tasks/nothing-7/trace").status_code == 404
