"""Links that answer one question: looking changes nothing, one decision uses them up, only what was asked counts."""

from __future__ import annotations

import re

import pytest

from longtask.api.access.policy import Policy
from longtask.core.model import StepState
from longtask.store.contract import Ref
from tests.api import plans
from tests.api.carrying import carry_to
from tests.api.conftest import client_of

FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"accept": "application/json"}
DAY = 86_400_000


@pytest.fixture
def asked(server, client) -> str:
    task = client.post("/v1/tasks", json=plans.asking(ask="Fine <b>or</b> not?")).json()["task"]
    carry_to(server.parts, task, "waiting_user")
    return task


def link(client, task, step="ok", **body):
    answer = client.post(f"/v1/tasks/{task}/steps/{step}/links", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def path(made) -> str:
    return re.sub(r"^https?://[^/]+", "", made["url"])


def state(server, task):
    return server.parts.store.get_step(Ref(task, "ok")).state


def test_a_link_is_made_for_what_is_asked_now(server, client, asked):
    made = link(client, asked)
    assert (made["task"], made["step"], made["ask"], made["who"]) == (asked, "ok", 1, "ann")
    assert made["expires_at"] - server.parts.store.now() > 2.9 * DAY
    assert made["url"].startswith("http://127.0.0.1:8700/v1/callbacks/links/")
    assert made["digest"] == server.parts.store.get_step(Ref(asked, "ok")).question["digest"]


def test_looking_changes_nothing_however_often(server, client, asked):
    made = link(client, asked)
    for _ in range(3):
        page = client.get(path(made))
        assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    assert state(server, asked) is StepState.WAITING
    assert client.post(path(made), json={"answer": "approve"}, headers=JSON).status_code == 200


def test_the_page_shows_the_question_and_runs_nothing_of_it(client, asked):
    page = client.get(path(link(client, asked)))
    assert "Fine &lt;b&gt;or&lt;/b&gt; not?" in page.text and "<b>" not in page.text
    assert 'method="post"' in page.text and "<script" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert page.headers["cache-control"] == "no-store" and page.headers["referrer-policy"] == "same-origin"


def test_a_program_is_shown_a_document(client, asked):
    shown = client.get(path(link(client, asked)), headers=JSON).json()
    assert (shown["text"], shown["answers"], shown["step"]) == ("Fine <b>or</b> not?", ["approve", "reject"], "ok")


def test_a_decision_counts_in_the_name_of_the_link_and_uses_it_up(server, client, asked):
    made = link(client, asked, who="bob")
    answer = client.post(path(made), json={"answer": "approve", "text": "fine"}, headers=JSON)
    assert answer.status_code == 200 and answer.json()["by"] == "bob"
    carry_to(server.parts, asked, "completed")
    assert server.parts.store.get_step(Ref(asked, "ok")).result == {"decision": "approve", "by": "bob", "text": "fine"}
    for word in ("approve", "reject"):
        again = client.post(path(made), json={"answer": word, "text": "x"}, headers=JSON)
        assert again.status_code == 410 and again.json()["type"].endswith(":link-used")
    page = client.get(path(made))
    assert page.status_code == 410 and "answered" in page.text


def test_a_form_decides_too(server, client, asked):
    made = link(client, asked)
    answer = client.post(path(made), content="answer=reject&text=not+yet", headers=FORM)
    assert answer.status_code == 200 and "Recorded: reject" in answer.text
    carry_to(server.parts, asked, "failed", "waiting_user")


def test_a_link_takes_the_place_of_a_token_and_the_audit_says_who(client, make, asked):
    made = link(client, asked, who="bob")
    asking = make(policy=Policy(tokens=True))
    with client_of(asking) as stranger:
        assert stranger.get(f"/v1/tasks/{asked}").status_code == 401
        assert stranger.post(f"/v1/tasks/{asked}/steps/ok/links", json={}).status_code == 401
        assert stranger.get(path(made)).status_code == 200
        assert stranger.post(path(made), content="answer=approve", headers=FORM).status_code == 200
    store = asking.parts.store
    assert store.link(made["id"]).answer == "approve"
    rows = store.audit(task_id=None, who="bob", before="", limit=9)
    assert [(row.action, row.status, row.token) for row in rows] == [("POST /v1/callbacks/links/{token}", 200, None)]


def test_a_rejection_takes_a_reason_and_the_link_stays_good(server, client, asked):
    made = link(client, asked)
    answer = client.post(path(made), json={"answer": "reject"}, headers=JSON)
    assert answer.status_code == 422 and answer.json()["type"].endswith(":reason-needed")
    assert state(server, asked) is StepState.WAITING
    assert client.post(path(made), json={"answer": "reject", "text": "no"}, headers=JSON).status_code == 200


@pytest.mark.parametrize("body", [{"answer": "edit"}, {"answer": ""}, {}, {"answer": 7}])
def test_an_answer_that_does_not_fit_is_refused(server, client, asked, body):
    assert client.post(path(link(client, asked)), json=body, headers=JSON).status_code == 422
    assert state(server, asked) is StepState.WAITING


def test_a_link_is_good_for_nothing_once_somebody_else_has_decided(server, client, asked):
    made = link(client, asked)
    server.parts.desk.answer(Ref(asked, "ok"), "approve", "carl")
    answer = client.post(path(made), json={"answer": "reject", "text": "x"}, headers=JSON)
    assert answer.status_code == 409 and "has changed since" in answer.json()["detail"]
    assert client.get(path(made)).status_code == 409


def test_a_link_is_good_for_nothing_once_something_else_is_asked(server, client):
    plan = {
        "longtask": 1, "name": "rev",
        "steps": [{"id": "ok", "approval": {"ask": "Fine?", "on_reject": {"revise": {"run": "true"}}}}],
    }  # fmt: skip
    task = client.post("/v1/tasks", json=plan).json()["task"]
    carry_to(server.parts, task, "waiting_user")
    made = link(client, task)
    server.parts.desk.answer(Ref(task, "ok"), "reject", "carl", text="again")
    from tests.api.carrying import carry

    carry(server.parts, lambda: server.parts.store.get_step(Ref(task, "ok")).ask == 2)
    answer = client.post(path(made), json={"answer": "approve"}, headers=JSON)
    assert answer.status_code == 409 and "something else is asked now" in answer.json()["detail"]
    assert state(server, task) is StepState.WAITING


def test_a_link_expires(server, client, asked):
    store = server.parts.store
    made = link(client, asked, lasts_ms=60_000)
    now = store.now
    store.now = lambda: now() + 60_001
    try:
        answer = client.post(path(made), json={"answer": "approve"}, headers=JSON)
        assert answer.status_code == 410 and answer.json()["type"].endswith(":link-expired")
    finally:
        store.now = now
    assert state(server, asked) is StepState.WAITING


def test_a_link_cannot_be_made_up_or_changed(client, asked):
    good = path(link(client, asked))
    head, _, token = good.rpartition("/")
    for made_up in (token[:-1], token + "A", token.replace(".", ""), "x", "x.y", token.partition(".")[0] + ".x"):
        for answer in (client.get(f"{head}/{made_up}"), client.post(f"{head}/{made_up}", json={"answer": "approve"})):
            assert answer.status_code == 404, made_up


def test_a_call_s_address_is_no_link(server, client, asked):
    from longtask.core.seal import seal

    store = server.parts.store
    token = seal(store.signing_key("callback"), "callback", [asked, "ok", 1])
    assert client.get(f"/v1/callbacks/links/{token}").status_code == 404


def test_a_link_is_made_in_no_name_that_is_not_asked(server, client):
    plan = plans.asking(who=["carl"])
    task = client.post("/v1/tasks", json=plan).json()["task"]
    carry_to(server.parts, task, "waiting_user")
    assert client.post(f"/v1/tasks/{task}/steps/ok/links", json={}).status_code == 409
    made = link(client, task, who="carl")
    assert client.post(path(made), json={"answer": "approve"}, headers=JSON).json()["by"] == "carl"


def test_a_step_that_asks_nothing_has_no_link(client, server):
    task = client.post("/v1/tasks", json=plans.waiting()).json()["task"]
    assert client.post(f"/v1/tasks/{task}/steps/go/links", json={}).status_code == 409
    assert client.post(f"/v1/tasks/{task}/steps/nope/links", json={}).status_code == 404


@pytest.mark.parametrize("body", [{"lasts_ms": 0}, {"lasts_ms": 40 * DAY}, {"for": "x"}])
def test_a_link_lasts_a_minute_at_least_and_thirty_days_at_most(client, asked, body):
    assert client.post(f"/v1/tasks/{asked}/steps/ok/links", json=body).status_code == 422
