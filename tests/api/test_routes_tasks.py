"""Tasks over HTTP: submitting, listing, looking, acting."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from longtask.cli.app import call
from longtask.views import listing
from tests.api import plans
from tests.api.carrying import carry_to
from tests.cli.conftest import make_repository

PROBLEM = "urn:longtask:problem:"


def submit(client, plan, **query):
    answer = client.post("/v1/tasks", json=plan, params=query)
    assert answer.status_code == 201, answer.text
    return answer.json()["task"]


def test_without_tasks_the_list_is_empty(client):
    assert client.get("/v1/tasks").json() == {"items": [], "next": None}


def test_a_submitted_plan_is_a_task_at_the_address_that_was_answered(client):
    answer = client.post("/v1/tasks", json=plans.asking())
    assert answer.status_code == 201
    told = answer.json()
    assert told.keys() == {"task", "handle", "status"} and told["handle"] == "ask-1"
    assert answer.headers["location"] == f"/v1/tasks/{told['task']}"
    assert client.get(answer.headers["location"]).json()["id"] == told["task"]


def test_a_plan_may_be_yaml_and_is_kept_as_it_came(client):
    text = "# for people\nlongtask: 1\nname: typed\nsteps:\n  - id: a\n    run: 'true'\n"
    answer = client.post("/v1/tasks", content=text, headers={"content-type": "application/yaml"})
    assert answer.status_code == 201
    assert client.get(f"/v1/tasks/{answer.json()['task']}/plan").text == text


def test_everything_that_is_wrong_with_a_plan_is_told_by_its_place_and_nothing_is_begun(client):
    text = '{"longtask": 1, "name": "x",\n"steps": [{"id": "A", "run": "true"},\n{"id": "b", "needs": "c", "run": ""}]}'
    answer = client.post("/v1/tasks", content=text, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["type"] == PROBLEM + "bad-plan" and told["status"] == 422
    assert {problem["line"] for problem in told["problems"]} == {2, 3}
    assert client.get("/v1/tasks").json()["items"] == []


def test_a_plan_is_checked_without_being_submitted(client):
    assert client.post("/v1/plans/check", json=plans.running()).json() == {
        "ok": True, "name": "work", "steps": 3, "stages": ["do", "tell"], "notes": [],
    }  # fmt: skip
    assert client.get("/v1/tasks").json()["items"] == []


def test_options_stand_beside_the_plan(client):
    found = client.get(f"/v1/tasks/{submit(client, plans.asking(), name='other')}").json()
    assert found["handle"] == "other-1"
    again = [submit(client, plans.asking(), key="k") for _ in range(2)]
    assert again[0] == again[1]
    answer = client.post("/v1/tasks", json=plans.running(), params={"key": "k"})
    assert (answer.status_code, answer.json()["type"]) == (409, PROBLEM + "refused")


def test_the_list_is_newest_first_and_goes_on_at_its_cursor(client):
    made = [submit(client, plans.asking(f"n{n}")) for n in range(5)]
    pages, cursor = [], None
    while True:
        page = client.get("/v1/tasks", params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        pages.append([item["id"] for item in page["items"]])
        cursor = page["next"]
        if cursor is None:
            break
    assert [id for page in pages for id in page] == made[::-1]


def test_the_list_can_be_asked_for_some_only(client, server):
    ended, other = submit(client, plans.asking("one")), submit(client, plans.asking("two"))
    client.post(f"/v1/tasks/{ended}/cancel")
    carry_to(server.parts, ended, "cancelled")

    def ids(**query):
        return [item["id"] for item in client.get("/v1/tasks", params=query).json()["items"]]

    assert ids(open=True) == [other]
    assert ids(status="cancelled") == [ended]
    assert ids(status=["cancelled", "waiting_user", "queued"]) == [other, ended]
    assert ids(name="two") == [other]
    assert ids(by="nobody") == [] and ids(workspace="0123456789abcdef") == []


def test_the_list_tells_the_stage_that_runs_and_who_is_waited_for(client, server):
    plan = plans.asking("two", ask="Fine?\nAll of it?", who=["bob"])
    plan["stages"] = [
        {"name": "begin", "steps": [{"id": "a", "run": "true"}]},
        {"name": "look", "steps": plan.pop("steps")},
    ]
    waiting, done = submit(client, plan), submit(client, plans.running())
    carry_to(server.parts, waiting, "waiting_user")
    carry_to(server.parts, done, "completed")
    [ended, asks] = client.get("/v1/tasks").json()["items"]
    assert (ended["stage"], ended["asks"], ended["cost_micros"], ended["tokens"]) == (None, None, 0, 0)
    assert asks["stage"] == "look"
    since = asks["asks"].pop("since")
    assert asks["created_at"] <= since and asks["asks"] == {"step": "ok", "text": "Fine?", "who": ["bob"]}


def test_of_many_that_ask_the_list_tells_each_what_it_asks(client, server):
    made = [submit(client, plans.asking(f"n{n}", ask=f"Is {n} fine?")) for n in range(listing.FEW + 2)]
    for id in made:
        carry_to(server.parts, id, "waiting_user")
    items = client.get("/v1/tasks").json()["items"]
    assert [one["asks"]["text"] for one in items] == [f"Is {n} fine?" for n in reversed(range(len(made)))]


def test_a_task_is_found_by_prefix_handle_and_last_and_else_is_a_problem(client):
    id = submit(client, plans.asking())
    for name in (id, id[:13], "ask-1", "@last"):
        assert client.get(f"/v1/tasks/{name}").json()["id"] == id
    for name in ("nothing", "%00", "%ED%A0%80"):
        answer = client.get(f"/v1/tasks/{name}")
        assert (answer.status_code, answer.json()["type"]) == (404, PROBLEM + "not-found")


def test_a_task_is_told_as_the_command_line_tells_it(client, server, capsys, monkeypatch):
    id = submit(client, plans.running())
    carry_to(server.parts, id, "completed")
    config = server.parts.config
    monkeypatch.setenv("LONGTASK_HOME", str(config.home))

    def said(*words):
        assert call(["--json", "--database", config.database, *words]) == 0
        return capsys.readouterr().out

    assert client.get(f"/v1/tasks/{id}").json() == json.loads(said("show", id))
    assert client.get("/v1/tasks").json()["items"] == json.loads(said("ls"))
    artifacts = client.get(f"/v1/tasks/{id}/artifacts", params={"all": True}).json()["items"]
    assert artifacts == json.loads(said("artifacts", id))
    events = client.get(f"/v1/tasks/{id}/events", params={"limit": 1000}).json()
    assert events["items"] == [json.loads(line) for line in said("events", id).splitlines()]
    assert events["next"] is None
    output = client.get(f"/v1/tasks/{id}/steps/a/attempts/1/output").json()
    assert output["items"] == [json.loads(line) for line in said("logs", id, "a").splitlines()]
    assert output["next"] is None
    told = client.get(f"/v1/tasks/{id}/why").json()["items"]
    assert told == json.loads(said("why", id))


def test_of_a_large_task_a_part_is_shown_and_the_rest_is_counted(client):
    id = submit(client, plans.running())
    found = client.get(f"/v1/tasks/{id}", params={"steps": 0}).json()
    assert (found["steps"], found["steps_left_out"]) == ([], 3)


def test_the_graph_shows_needs_without_the_hidden_ends_of_stages(client):
    found = client.get(f"/v1/tasks/{submit(client, plans.running())}/graph").json()
    assert found["edges"] == [["a", "b"]]
    assert [(step["key"], step["stage"]) for step in found["steps"]] == [("a", 1), ("b", 1), ("report", 2)]


def test_pause_and_resume(client):
    id = submit(client, plans.waiting())
    assert client.post(f"/v1/tasks/{id}/pause").json()["status"] == "paused"
    assert client.post(f"/v1/tasks/{id}/pause", json={"now": True}).status_code == 200
    assert client.post(f"/v1/tasks/{id}/resume").json()["status"] != "paused"
    answer = client.post(f"/v1/tasks/{id}/resume", json={"tokens": 10, "cost_usd": 1.5})
    assert answer.status_code == 200


def test_what_is_refused_now_is_a_conflict(client, server):
    id = submit(client, plans.asking())
    client.post(f"/v1/tasks/{id}/cancel", json={"reason": "wrong"})
    carry_to(server.parts, id, "cancelled")
    for verb in ("pause", "resume", "cancel"):
        answer = client.post(f"/v1/tasks/{id}/{verb}")
        assert (answer.status_code, answer.json()["type"]) == (409, PROBLEM + "refused"), answer.text


def test_a_word_that_is_not_known_is_refused(client):
    id = submit(client, plans.asking())
    answer = client.post(f"/v1/tasks/{id}/pause", json={"noww": True})
    assert (answer.status_code, answer.json()["type"]) == (422, PROBLEM + "bad-value")
    assert "noww" in answer.json()["detail"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b'{"a": NaN}', b"[" * 100_000, b'"\\ud800"', b'{"now": "\\u0000"}', b"1e999"]
)
def test_what_cannot_be_read_is_a_problem_and_no_crash(client, content):
    id = submit(client, plans.asking())
    for path in ("/v1/tasks", f"/v1/tasks/{id}/cancel"):
        answer = client.post(path, content=content, headers={"content-type": "application/json"})
        if content or path == "/v1/tasks":
            assert answer.status_code in (400, 422), (path, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"


def test_text_that_no_database_keeps_is_refused(client):
    id = submit(client, plans.asking())
    for reason in ("\\u0000", "\\ud800"):
        answer = client.post(
            f"/v1/tasks/{id}/cancel",
            content=f'{{"reason": "{reason}"}}',
            headers={"content-type": "application/json"},
        )
        assert answer.status_code == 422, answer.text


def test_a_plan_that_is_too_large_is_refused_before_it_is_read(client):
    answer = client.post("/v1/tasks", content=b" " * 4_000_001, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["type"]) == (413, PROBLEM + "too-large")


def test_a_plan_of_another_media_type_is_refused(client):
    answer = client.post("/v1/tasks", content=b"<plan/>", headers={"content-type": "application/xml"})
    assert (answer.status_code, answer.json()["type"]) == (415, PROBLEM + "media-type")


def test_an_address_that_is_not_there_is_a_problem(client):
    answer = client.get("/v1/nothing")
    assert (answer.status_code, answer.json()["type"]) == (404, PROBLEM + "not-found")
    assert client.put("/v1/tasks").json()["type"] == PROBLEM + "method-not-allowed"


# with a repository


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


def with_code(repository: Path | str, **more):
    steps = [{"id": "edit", "run": "echo two >> a.txt", "commit": True}]
    return {"longtask": 1, "name": "code", "workspace": {"repo": str(repository), **more}, "steps": steps}


def test_from_this_machine_a_plan_names_a_repository_by_its_path_and_everybody_by_its_id(client, server, repository):
    id = submit(client, with_code(repository))
    carry_to(server.parts, id, "completed")
    [known] = client.get("/v1/workspaces").json()["items"]
    assert known["repository"] == str(repository) and known["host"] is None
    assert client.get(f"/v1/workspaces/{known['id']}").json() == known
    again = submit(client, with_code(known["id"], base="main"))
    commit = subprocess.run(["git", "rev-parse", "main"], cwd=repository, capture_output=True, text=True).stdout.strip()
    assert client.get(f"/v1/tasks/{again}").json()["base"] == commit

    changes = client.get(f"/v1/tasks/{id}/diff").json()
    assert changes["files"] == [{"path": "a.txt", "insertions": 1, "deletions": 0}]
    assert client.get(f"/v1/tasks/{id}/diff", params={"step": "edit"}).json()["files"] == changes["files"]
    patch = client.get(f"/v1/tasks/{id}/patch")
    assert "+two" in patch.text and patch.headers["content-type"].startswith("text/x-diff")


def test_a_repository_can_be_registered_before_any_task_begins_from_it(client, repository):
    answer = client.post("/v1/workspaces", json={"repository": str(repository)})
    assert answer.status_code == 201
    assert client.get(answer.headers["location"]).json() == answer.json()
    assert client.get(f"/v1/tasks/{submit(client, with_code(answer.json()['id']))}").json()["base"]
    for folder in ("repo", "/no/such/place"):
        assert client.post("/v1/workspaces", json={"repository": folder}).status_code == 404


def test_a_repository_is_no_path_from_a_folder_that_is_not_there(client, repository):
    for repo in (".", "repo", "0123456789abcdef", "/no/such/place"):
        answer = client.post("/v1/tasks", json=with_code(repo))
        assert answer.status_code in (404, 422), answer.text
    assert client.get("/v1/tasks").json()["items"] == []


def test_a_task_without_code_has_no_diff(client):
    answer = client.get(f"/v1/tasks/{submit(client, plans.asking())}/diff")
    assert (answer.status_code, answer.json()["type"]) == (409, PROBLEM + "refused")
