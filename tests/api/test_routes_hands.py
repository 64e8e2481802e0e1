"""Changing the work of a task over HTTP: steps added, edited, taken and done by hand."""

from __future__ import annotations

from tests.api import plans
from tests.api.carrying import carry_to
from tests.api.test_routes_tasks import PROBLEM, submit


def test_steps_are_added_and_run(client, server):
    id = submit(client, plans.running())
    more = {"stage": "tell", "steps": [{"id": "docs", "run": "true", "needs": ["b"]}, {"id": "more", "run": "true"}]}
    answer = client.post(f"/v1/tasks/{id}/steps", json=more)
    assert (answer.status_code, answer.json()["steps"]) == (200, ["docs", "more"])
    carry_to(server.parts, id, "completed")
    assert client.get(f"/v1/tasks/{id}/steps/docs").json()["stage"] == 2


def test_a_whole_plan_is_added_and_its_stages_become_needs(client, server):
    id = submit(client, plans.running())
    first: dict[str, object] = {"id": "c"}
    stages = [{"name": "x", "steps": [first]}, {"name": "y", "steps": [{"id": "d", "run": "true"}]}]
    more = {"stages": stages, "after": "b", "defaults": {"timeout": "7m"}}
    answer = client.post(f"/v1/tasks/{id}/steps", json=more)
    assert (answer.status_code, answer.json()["type"]) == (422, PROBLEM + "bad-plan")
    first["run"] = "true"
    assert client.post(f"/v1/tasks/{id}/steps", json={**more, "steps": [{"id": "e", "run": "true"}]}).status_code == 422
    assert client.post(f"/v1/tasks/{id}/steps", json=more).json()["steps"] == ["c", "d"]
    assert (client.get(f"/v1/tasks/{id}/steps/c").json()["needs"]) == ["b"]
    detail = client.get(f"/v1/tasks/{id}/steps/d", params={"words": True}).json()
    assert (detail["needs"], detail["words"]["timeout"]) == (["c"], "7m")
    carry_to(server.parts, id, "completed")


def test_a_whole_plan_is_added_as_it_is(client):
    id = submit(client, plans.running())
    whole = {"longtask": 1, "name": "more", "goal": "more of it", "steps": [{"id": "c", "run": "true"}]}
    assert client.post(f"/v1/tasks/{id}/steps", json=whole).json()["steps"] == ["c"]
    answer = client.post(f"/v1/tasks/{id}/steps", json={**whole, "nam": "x"})
    assert (answer.status_code, "nam" in answer.text) == (422, True)


def test_everything_that_is_wrong_with_added_steps_is_told_and_nothing_is_added(client):
    id = submit(client, plans.running())
    answer = client.post(
        f"/v1/tasks/{id}/steps", json={"steps": [{"id": "a", "run": "x"}, {"id": "c", "run": "x", "needs": ["z"]}]}
    )
    assert (answer.status_code, answer.json()["type"]) == (422, PROBLEM + "bad-plan")
    assert len(answer.json()["problems"]) == 2
    assert client.post(f"/v1/tasks/{id}/steps", json={"steps": [{"id": "c", "runn": "x"}]}).status_code == 422
    assert len(client.get(f"/v1/tasks/{id}/steps").json()["items"]) == 3
    assert client.post(f"/v1/tasks/{id}/cancel").status_code == 200
    assert client.post(f"/v1/tasks/{id}/steps", json={"steps": [{"id": "c", "run": "x"}]}).status_code == 409


def test_a_failed_step_is_edited_and_taken_up_again(client, server):
    id = submit(client, plans.failing())
    carry_to(server.parts, id, "failed")
    assert client.post(f"/v1/tasks/{id}/steps/bad/edit", json={"words": {"run": "true"}}).status_code == 409
    answer = client.post(f"/v1/tasks/{id}/steps/bad/edit", json={"words": {"run": "true"}, "retry": True})
    assert (answer.status_code, answer.json()["step"]) == (200, "bad")
    carry_to(server.parts, id, "completed")
    assert client.post(f"/v1/tasks/{id}/steps/bad/edit", json={"words": {"needs": []}}).status_code == 422


def test_a_step_is_taken_given_back_and_done_by_hand(client, server):
    id = submit(client, plans.failing())
    carry_to(server.parts, id, "failed")
    step = f"/v1/tasks/{id}/steps/bad"
    taken = client.post(f"{step}/take", json={"hours": 1})
    assert taken.status_code == 200
    seen = client.get(step).json()
    assert seen["taken_by"]
    assert client.post(f"{step}/take", json={"hours": 9}).json() == taken.json(), "it is the caller's already"
    assert client.get(step).json() == seen, "and its time stays what it was"
    assert client.post(f"{step}/give-back").status_code == 200
    assert client.get(step).json()["taken_by"] is None
    assert client.post(f"{step}/done", json={"outputs": {"n": 1}}).status_code == 200
    carry_to(server.parts, id, "completed")
    assert client.get(step).json()["result"] == {"n": 1}
    assert client.post(f"{step}/give-back").status_code == 409


def test_what_a_step_is_to_do_is_told_in_the_words_of_an_edit(client, server):
    id = submit(client, plans.failing())
    carry_to(server.parts, id, "failed")
    step = f"/v1/tasks/{id}/steps/bad"
    words = {"run": "exit 0", "timeout": "1h30m", "retry": 2}
    assert "words" not in client.get(step).json()
    assert client.get(step, params={"words": True}).json()["words"].keys() == words.keys()
    assert client.post(f"{step}/edit", json={"words": words, "retry": True}).status_code == 200
    assert client.get(step, params={"words": True}).json()["words"] == words
