"""Steps over HTTP: looking, attempts, output, and what people do about one."""

from __future__ import annotations

import threading
from typing import Any

from longtask.core.model import StepState
from longtask.store.contract import Chunk, Ref
from tests.api import plans
from tests.api.carrying import carry, carry_to
from tests.api.test_routes_tasks import PROBLEM, submit
from tests.cli.shell import until


def test_steps_are_listed_by_key_and_without_the_hidden_ends_of_stages(client):
    id = submit(client, plans.running())
    keys: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.get(f"/v1/tasks/{id}/steps", params={"limit": 2, "cursor": cursor}).json()
        keys += [item["key"] for item in page["items"]]
        cursor = page["next"]
    assert keys == ["a", "b", "report"]


def test_a_step_is_shown_with_what_it_needs(client):
    id = submit(client, plans.running())
    found = client.get(f"/v1/tasks/{id}/steps/b").json()
    assert (found["key"], found["task"], found["needs"], found["state"]) == ("b", id, ["a"], "blocked")


def test_a_step_that_is_not_there_is_a_problem_that_names_the_nearest(client):
    id = submit(client, plans.asking())
    for key in ("okk", "%00", "gate.1"):
        answer = client.get(f"/v1/tasks/{id}/steps/{key}")
        assert (answer.status_code, answer.json()["type"]) == (404, PROBLEM + "not-found")
    assert "did you mean 'ok'" in client.get(f"/v1/tasks/{id}/steps/okk").json()["detail"]


def test_attempts_tell_who_made_them_and_what_they_came_to(client, server):
    id = submit(client, plans.failing())
    carry_to(server.parts, id, "failed")
    assert client.post(f"/v1/tasks/{id}/steps/bad/retry").json()["step"] == "bad"
    carry_to(server.parts, id, "failed")
    page = client.get(f"/v1/tasks/{id}/steps/bad/attempts", params={"limit": 1}).json()
    first = page["items"][0]
    assert (first["attempt"], first["outcome"], page["next"]) == (1, "failed", "1")
    assert first["worker"] and first["began_at"] <= first["ended_at"] and "exit code 3" in first["reason"]
    rest = client.get(f"/v1/tasks/{id}/steps/bad/attempts", params={"cursor": page["next"]}).json()
    assert [one["attempt"] for one in rest["items"]] == [2] and rest["next"] is None


def test_output_is_told_in_pages_that_lose_and_repeat_nothing(client, server):
    id = submit(client, plans.running(command="for i in 1 2 3; do echo line $i; sleep 0.3; done"))
    carry_to(server.parts, id, "completed")
    whole = client.get(f"/v1/tasks/{id}/steps/a/attempts/1/output").json()
    parts: list[Any] = []
    cursor: str | None = "0"
    while cursor is not None:
        path = f"/v1/tasks/{id}/steps/a/attempts/1/output"
        page = client.get(path, params={"limit": 1, "cursor": cursor}).json()
        parts += page["items"]
        cursor = page["next"]
    assert parts == whole["items"] and len(parts) > 1
    assert "".join(part["text"] for part in parts) == "line 1\nline 2\nline 3\n"


def test_a_letter_that_is_cut_in_two_is_told_whole_across_pages(client, server):
    id = submit(client, plans.running(command="echo; sleep 600"))
    store = server.parts.store
    ref = Ref(id, "a")

    over: list[bool] = []
    working = threading.Thread(target=carry, args=(server.parts, lambda: bool(over)))  # it looks when nothing runs
    working.start()
    try:
        until(lambda: store.output(ref, 1, 0, 1))
        after = store.output(ref, 1, 0, 10)[-1].n
        assert store.put_output(ref, 1, [Chunk(after + 1, "out", b"gr\xc3"), Chunk(after + 2, "out", b"\xbcn")])
        path = f"/v1/tasks/{id}/steps/a/attempts/1/output"
        first = client.get(path, params={"limit": 1, "cursor": after}).json()
        assert first["items"][0]["text"] == "gr"
        rest = client.get(path, params={"cursor": first["next"]}).json()
        assert rest["items"][0]["text"] == "ün"
        assert rest["next"] == str(after + 2)  # it still runs: more may come
    finally:
        over.append(True)
        assert client.post(f"/v1/tasks/{id}/steps/a/cancel").status_code == 200
        working.join()


def test_an_attempt_that_was_not_made_has_no_output(client):
    id = submit(client, plans.running())
    answer = client.get(f"/v1/tasks/{id}/steps/a/attempts/1/output")
    assert (answer.status_code, answer.json()["type"]) == (404, PROBLEM + "not-found")
    assert client.get(f"/v1/tasks/{id}/steps/a/attempts/0/output").status_code == 422


def test_a_failed_step_can_be_gone_on_without(client, server):
    id = submit(client, plans.failing())
    carry_to(server.parts, id, "failed")
    assert client.post(f"/v1/tasks/{id}/steps/bad/skip").json()["step"] == "bad"
    carry_to(server.parts, id, "completed")
    assert client.get(f"/v1/tasks/{id}/steps/bad").json()["tolerated"] is True


def test_a_step_is_cancelled_alone(client, server):
    id = submit(client, plans.running())
    answer = client.post(f"/v1/tasks/{id}/steps/b/cancel")
    assert answer.status_code == 200
    carry_to(server.parts, id, "failed")
    steps = {step["key"]: step["state"] for step in client.get(f"/v1/tasks/{id}").json()["steps"]}
    assert (steps["a"], steps["b"]) == (str(StepState.COMPLETED), str(StepState.CANCELLED))


def test_what_a_step_is_not_ready_for_is_a_conflict(client):
    id = submit(client, plans.running())
    answer = client.post(f"/v1/tasks/{id}/steps/a/retry")
    assert (answer.status_code, answer.json()["type"]) == (409, PROBLEM + "refused")
