"""What people are asked over HTTP, and what they answer."""

from __future__ import annotations

import threading

import pytest

from longtask.api.routes import approvals
from longtask.store.contract import Ref
from tests.api import plans
from tests.api.carrying import carry, carry_to
from tests.api.test_routes_tasks import PROBLEM, repository, submit, with_code  # noqa: F401


@pytest.fixture
def asked(client, server):
    """The address of a question that waits."""
    id = submit(client, plans.asking())
    carry_to(server.parts, id, "waiting_user")
    return f"/v1/tasks/{id}/steps/ok/approval"


def decide(client, path, etag=None, answer="approve", **more):
    headers = {} if etag is None else {"If-Match": etag}
    return client.post(path, json={"answer": answer, **more}, headers=headers)


def test_what_is_asked_is_listed_and_shown(client, asked):
    [one] = client.get("/v1/approvals").json()["items"]
    shown = client.get(asked)
    assert shown.json() == one
    assert one["text"] == "Fine?" and one["answers"] == ["approve", "reject", "edit", "respond"]
    assert shown.headers["etag"] == f'"{one["version"]}"'
    assert client.get(f"/v1/tasks/{one['task']}/approvals").json()["items"] == [one]


def test_who_has_seen_it_need_not_be_sent_it_again(client, asked):
    etag = client.get(asked).headers["etag"]
    answer = client.get(asked, headers={"If-None-Match": etag})
    assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)


def test_a_decision_names_what_was_seen_and_the_task_goes_on(client, server, asked):
    answer = decide(client, asked, client.get(asked).headers["etag"], text="looked at it")
    assert answer.status_code == 200
    told = answer.json()
    assert (told["step"], told["answer"], told["by"]) == ("ok", "approve", "ann")
    carry_to(server.parts, told["task"], "completed")
    result = client.get(f"/v1/tasks/{told['task']}/steps/ok").json()["result"]
    assert result == {"decision": "approve", "by": "ann", "text": "looked at it"}


@pytest.mark.parametrize("etag", [None, "", "*"])
def test_a_decision_that_does_not_say_what_was_seen_is_refused(client, asked, etag):
    answer = decide(client, asked, etag)
    assert (answer.status_code, answer.json()["type"]) == (428, PROBLEM + "if-match-required")
    assert client.get(asked).status_code == 200


def test_a_decision_about_what_is_not_asked_any_more_is_told_what_is(client, server):
    """The reviewer asks for a revision; then the same step asks anew."""
    revise = {"rounds_max": 2, "run": "true"}
    id = submit(client, plans.asking(on_reject={"revise": revise}))
    path = f"/v1/tasks/{id}/steps/ok/approval"
    carry_to(server.parts, id, "waiting_user")
    first = client.get(path).headers["etag"]
    assert decide(client, path, first, "reject", text="once more").status_code == 200
    carry_to(server.parts, id, "waiting_user")
    stale = decide(client, path, first)
    assert (stale.status_code, stale.json()["type"]) == (412, PROBLEM + "changed")
    assert stale.json()["current"] == client.get(path).json()
    assert stale.headers["etag"] == client.get(path).headers["etag"] != first
    assert decide(client, path, stale.headers["etag"]).status_code == 200


def test_the_first_decision_counts_and_the_second_is_told_so(client, asked):
    etag = client.get(asked).headers["etag"]
    assert decide(client, asked, etag).status_code == 200
    second = decide(client, asked, etag, "reject", text="no")
    assert (second.status_code, second.json()["type"]) == (409, PROBLEM + "refused")
    assert client.get(asked).status_code == 404


def test_a_decision_that_is_sent_again_with_its_key_is_answered_the_same(client, asked):
    headers = {"If-Match": client.get(asked).headers["etag"], "Idempotency-Key": "d-1"}
    answers = [client.post(asked, json={"answer": "approve"}, headers=headers) for _ in range(2)]
    assert answers[0].status_code == 200 and answers[0].content == answers[1].content


def test_a_rejection_takes_a_reason(client, asked):
    etag = client.get(asked).headers["etag"]
    answer = decide(client, asked, etag, "reject")
    assert (answer.status_code, answer.json()["type"]) == (422, PROBLEM + "reason-needed")
    assert decide(client, asked, etag, "reject", text="too early").status_code == 200


def test_a_word_that_does_not_answer_the_question_is_refused(client, asked):
    answer = decide(client, asked, client.get(asked).headers["etag"], "perhaps")
    assert (answer.status_code, answer.json()["type"]) == (409, PROBLEM + "refused")
    assert "approve | reject" in answer.json()["detail"]


def test_only_who_is_asked_decides(client, server):
    id = submit(client, plans.asking(who=["ben"]))
    carry_to(server.parts, id, "waiting_user")
    path = f"/v1/tasks/{id}/steps/ok/approval"
    assert client.get("/v1/approvals").json()["items"] == []
    [one] = client.get("/v1/approvals", params={"mine": False}).json()["items"]
    assert one["who"] == ["ben"]
    answer = decide(client, path, client.get(path).headers["etag"])
    assert (answer.status_code, answer.json()["type"]) == (409, PROBLEM + "refused")


def test_questions_of_the_machine_are_answered_in_the_same_way(client, server):
    plan = plans.failing()
    plan["steps"][0]["when_failed"] = "ask"
    id = submit(client, plan)
    carry_to(server.parts, id, "waiting_user")
    path = f"/v1/tasks/{id}/steps/bad/approval"
    shown = client.get(path)
    assert shown.json()["kind"] == "failed" and "again" in shown.json()["answers"]
    assert client.post(f"/v1/tasks/{id}/steps/bad/retry").status_code == 409
    assert decide(client, path, shown.headers["etag"], "accept").status_code == 200
    carry_to(server.parts, id, "completed")


def test_what_is_shown_is_what_was_frozen(client, server, repository):  # noqa: F811
    plan = with_code(repository)
    plan["steps"].append({"id": "ok", "needs": ["edit"], "approval": {"ask": "Good?", "show": ["diff"]}})
    id = submit(client, plan)
    carry_to(server.parts, id, "waiting_user")
    shown = client.get(f"/v1/tasks/{id}/steps/ok/approval").json()["question"]["show"]["diff"]
    changes = client.get(f"/v1/tasks/{id}/diff", params={"step": "ok"}).json()
    assert (changes["base"], changes["head"]) == (shown["base"], shown["head"])
    assert [file["path"] for file in changes["files"]] == shown["paths"] == ["a.txt"]


@pytest.fixture
def moved(client, server, repository):  # noqa: F811
    """The address of a question that is bound to the code, which has moved since."""
    plan = with_code(repository)
    plan["steps"] = [
        {"id": "ok", "approval": {"ask": "Good?", "show": ["diff"], "bind": "head"}},
        {"id": "go", "wait": {"signal": "go"}},
        {**plan["steps"][0], "needs": ["go"]},
    ]
    id = submit(client, plan)
    carry_to(server.parts, id, "waiting_user")
    client.post("/v1/signals/go", json={"task": id})
    carry(server.parts, lambda: server.parts.store.get_step(Ref(id, "edit")).state == "completed")
    return f"/v1/tasks/{id}/steps/ok/approval"


def test_a_decision_on_code_that_has_moved_is_refused_and_told_what_is_asked_instead(
    client, server, moved, monkeypatch
):
    monkeypatch.setattr(approvals, "ANEW_S", 60.0)
    seen = client.get(moved)
    id = seen.json()["task"]
    worker = threading.Thread(
        target=carry, args=(server.parts, lambda: server.parts.store.get_step(Ref(id, "ok")).ask == 2)
    )
    worker.start()
    answer = decide(client, moved, seen.headers["etag"])
    worker.join()
    now = client.get(moved)
    assert (answer.status_code, answer.json()["type"]) == (412, PROBLEM + "changed")
    assert answer.json()["current"] == now.json() and answer.headers["etag"] == now.headers["etag"]
    assert now.json()["question"]["head"] == client.get(f"/v1/tasks/{id}").json()["head"]
    assert now.json()["question"]["head"] != seen.json()["question"]["head"]
    since = client.get(f"/v1/tasks/{id}/patch", params={"step": "ok", "since": seen.json()["question"]["head"]})
    assert "+two" in since.text
    assert decide(client, moved, now.headers["etag"]).status_code == 200
    carry_to(server.parts, id, "completed")


def test_a_decision_on_code_that_has_moved_is_refused_though_no_worker_asks_anew(client, moved, monkeypatch):
    monkeypatch.setattr(approvals, "ANEW_S", 0.0)
    answer = decide(client, moved, client.get(moved).headers["etag"])
    assert (answer.status_code, answer.json()["type"]) == (412, PROBLEM + "changed")
    assert "current" not in answer.json() and "asked anew" in answer.json()["detail"]
    assert client.get(moved).status_code == 404
