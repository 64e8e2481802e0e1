"""What GitHub and GitLab say of a commit becomes `ci.completed`; the samples are written after their documentation."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import pytest

from longtask.api.callbacks.forges import Completed, PassedOver, of_github, of_gitlab
from longtask.api.callbacks.secrets import HookSecrets
from longtask.core.errors import BadPlan
from longtask.core.graph import Graph, Planned
from longtask.core.model import Kind, StepSpec, StepState, TaskOptions
from longtask.store.contract import Ref
from tests.api.carrying import carry
from tests.api.conftest import client_of

SHA = "a8f5f167f44f4964e6c998dee827110c1d1e4b0a"
SECRET = "fake-hook-secret"
SIGNING = "whsec_" + base64.b64encode(b"fake-signing-secret-of-32-bytes!").decode()
REPOSITORY = {"id": 1, "full_name": "octo/shop", "html_url": "https://github.com/octo/shop"}
CHECK_RUN: dict[str, Any] = {
    "action": "completed",
    "check_run": {
        "id": 4, "name": "build", "head_sha": SHA, "status": "completed", "conclusion": "success",
        "html_url": "https://github.com/octo/shop/runs/4", "details_url": "https://ci.example/4",
        "check_suite": {"id": 5, "head_branch": "main", "head_sha": SHA},
        "app": {"id": 15368, "slug": "github-actions"},
    },
    "repository": REPOSITORY,
    "sender": {"login": "ann"},
}  # fmt: skip
CHECK_SUITE = {
    "action": "completed",
    "check_suite": {
        "id": 5, "head_branch": "main", "head_sha": SHA, "status": "completed", "conclusion": "failure",
        "app": {"id": 15368, "slug": "github-actions"},
    },
    "repository": REPOSITORY,
}  # fmt: skip
WORKFLOW_RUN = {
    "action": "completed",
    "workflow_run": {
        "id": 30, "name": "CI", "head_branch": "main", "head_sha": SHA, "run_number": 7, "run_attempt": 2,
        "event": "push", "status": "completed", "conclusion": "timed_out",
        "html_url": "https://github.com/octo/shop/actions/runs/30",
    },
    "workflow": {"id": 3, "name": "CI"},
    "repository": REPOSITORY,
}  # fmt: skip
PIPELINE: dict[str, Any] = {
    "object_kind": "pipeline",
    "object_attributes": {
        "id": 31, "iid": 3, "name": "Pipeline for main", "ref": "main", "tag": False, "sha": SHA, "source": "push",
        "status": "success", "detailed_status": "passed", "url": "https://gitlab.example/octo/shop/-/pipelines/31",
    },
    "project": {"id": 1, "path_with_namespace": "octo/shop", "web_url": "https://gitlab.example/octo/shop"},
    "builds": [{"id": 380, "name": "test", "status": "success"}],
}  # fmt: skip
JOB = {
    "object_kind": "build", "ref": "main", "sha": SHA, "build_id": 380, "build_name": "test", "build_stage": "test",
    "build_status": "failed", "build_allow_failure": False, "pipeline_id": 31, "project_id": 1,
    "project_name": "octo / shop", "repository": {"name": "shop", "homepage": "https://gitlab.example/octo/shop"},
    "project": {"path_with_namespace": "octo/shop"},
}  # fmt: skip


# --- what they say ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "value", "payload"),
    [
        ("check_run", CHECK_RUN, {
            "conclusion": "success", "said": "success", "kind": "check_run", "name": "build", "id": 4, "branch": "main",
            "url": "https://github.com/octo/shop/runs/4",
        }),
        ("check_suite", CHECK_SUITE, {
            "conclusion": "failure", "said": "failure", "kind": "check_suite", "name": "github-actions", "id": 5,
            "branch": "main",
        }),
        ("workflow_run", WORKFLOW_RUN, {
            "conclusion": "failure", "said": "timed_out", "kind": "workflow_run", "name": "CI", "id": 30, "attempt": 2,
            "branch": "main", "url": "https://github.com/octo/shop/actions/runs/30",
        }),
    ],
)  # fmt: skip
def test_an_end_at_github_is_told_by_commit_and_conclusion(event, value, payload):
    whole = {"sha": SHA, "source": "github", "repository": "octo/shop", **payload}
    assert of_github(event, value) == Completed(whole)


@pytest.mark.parametrize(
    ("value", "payload"),
    [
        (PIPELINE, {
            "conclusion": "success", "said": "success", "kind": "pipeline", "name": "Pipeline for main", "id": 31,
            "url": "https://gitlab.example/octo/shop/-/pipelines/31",
        }),
        (JOB, {
            "conclusion": "failure", "said": "failed", "kind": "job", "name": "test", "id": 380, "pipeline": 31,
            "url": "https://gitlab.example/octo/shop",
        }),
    ],
)  # fmt: skip
def test_an_end_at_gitlab_is_told_in_the_same_words(value, payload):
    whole = {"sha": SHA, "source": "gitlab", "repository": "octo/shop", "branch": "main", **payload}
    assert of_gitlab(value) == Completed(whole)


@pytest.mark.parametrize(
    ("said", "conclusion"),
    [
        ("success", "success"), ("neutral", "success"), ("skipped", "skipped"), ("failure", "failure"),
        ("timed_out", "failure"), ("startup_failure", "failure"), ("action_required", "failure"),
        ("cancelled", "cancelled"), ("stale", "cancelled"),
    ],
)  # fmt: skip
def test_every_conclusion_of_github_has_a_meaning(said, conclusion):
    told = of_github("check_suite", {**CHECK_SUITE, "check_suite": {"head_sha": SHA, "conclusion": said}})
    assert isinstance(told, Completed) and told.payload["conclusion"] == conclusion


@pytest.mark.parametrize("status", "created waiting_for_resource preparing pending running manual scheduled".split())
def test_a_pipeline_that_goes_on_is_no_end(status):
    value = {**PIPELINE, "object_attributes": {**PIPELINE["object_attributes"], "status": status}}
    assert of_gitlab(value) == PassedOver(f"status {status!r} is no end")


@pytest.mark.parametrize(
    "action", ["created", "rerequested", "requested_action", "in_progress", None, 7, ["completed"]]
)
def test_what_is_not_completed_is_passed_over(action):
    assert isinstance(of_github("check_run", {**CHECK_RUN, "action": action}), PassedOver)


@pytest.mark.parametrize("value", [{}, {"action": "completed"}, {"action": "completed", "check_run": [1]}])
def test_what_is_not_as_documented_is_passed_over(value):
    assert isinstance(of_github("check_run", value), PassedOver)
    assert isinstance(of_gitlab(value), PassedOver)


@pytest.mark.parametrize("sha", [None, "", "abc", "../etc", "A" * 40, 7, ["a"] * 40, f"{SHA}\n"])
def test_a_commit_that_is_none_is_passed_over(sha):
    value = {**CHECK_RUN, "check_run": {**CHECK_RUN["check_run"], "head_sha": sha}}
    assert isinstance(of_github("check_run", value), PassedOver)


def test_what_a_forge_says_is_kept_short_and_keepable():
    value = {**CHECK_RUN, "check_run": {**CHECK_RUN["check_run"], "name": "x\0\ud800" * 1_000, "html_url": {"a": 1}}}
    told = of_github("check_run", value)
    assert isinstance(told, Completed) and len(told.payload["name"]) == 400
    assert "\0" not in told.payload["name"] and told.payload["name"].encode() and "url" not in told.payload


# --- whose it is --------------------------------------------------------------------------------------------------


@pytest.fixture
def hooks(make, monkeypatch):
    """A client of a server that knows secrets: of all, and of the workspace `w-own`."""
    names = "github=GH, github:w-own=GH_OWN, gitlab=GL, gitlab-signing:w-signed=GL_SIGNING"
    monkeypatch.setenv("LONGTASK_HOOK_SECRETS", names)
    monkeypatch.setenv("GH", f"{SECRET} fake-older-secret")
    monkeypatch.setenv("GH_OWN", "fake-own-secret")
    monkeypatch.setenv("GL", SECRET)
    monkeypatch.setenv("GL_SIGNING", SIGNING)
    server = make()
    with client_of(server) as client:
        client.server = server  # type: ignore[attr-defined]
        yield client


def github(client, value, secret=SECRET, path="/w-1", event="check_run", delivery="guid-1", **headers):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    signature = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    sent = {
        "content-type": "application/json", "x-github-event": event, "x-github-delivery": delivery,
        "x-hub-signature-256": signature, **headers,
    }  # fmt: skip
    return client.post(f"/v1/callbacks/github{path}", content=body, headers=sent)


def gitlab(client, value, path="/w-1", **headers):
    sent = {"content-type": "application/json", "x-gitlab-event": "Pipeline Hook", **headers}
    return client.post(f"/v1/callbacks/gitlab{path}", content=json.dumps(value).encode(), headers=sent)


def waiting(client, workspace_id="w-1", **match) -> str:
    """A task whose step waits for CI."""
    spec = StepSpec(Kind.WAIT, {"signal": "ci.completed", "match": match or {"sha": SHA}})
    graph = Graph("t", TaskOptions(), (spec,), (Planned("ci", Kind.WAIT, 1, 0, ()),))
    return client.server.parts.desk.submit(graph, workspace_id=workspace_id).id


def state(client, task) -> StepState:
    return client.server.parts.store.get_step(Ref(task, "ci")).state


def inbox(client, task):
    return client.server.parts.store.inbox(task, 0, 9)


def test_a_wait_for_ci_ends_with_what_github_says_of_its_commit(hooks):
    task, other = waiting(hooks), waiting(hooks, sha="b" * 40)
    carry(hooks.server.parts, lambda: {state(hooks, task), state(hooks, other)} == {StepState.WAITING})
    answer = github(hooks, CHECK_RUN)
    assert answer.status_code == 202 and answer.json()["taken"] and answer.json()["tasks"] == 2
    carry(hooks.server.parts, lambda: state(hooks, task) is StepState.COMPLETED)
    result = hooks.server.parts.store.get_step(Ref(task, "ci")).result
    assert (result["conclusion"], result["name"]) == ("success", "build")
    assert state(hooks, other) is StepState.WAITING


def test_a_delivery_of_github_counts_once(hooks):
    task = waiting(hooks)
    assert [github(hooks, CHECK_RUN).json()["new"] for _ in range(3)] == [True, False, False]
    github(hooks, CHECK_RUN, delivery="guid-2")
    assert [signal.delivery for signal in inbox(hooks, task)] == ["github:guid-1", "github:guid-2"]


@pytest.mark.parametrize(
    "headers",
    [
        {"x-hub-signature-256": ""},
        {"x-hub-signature-256": "sha256=" + "0" * 64},
        {"x-hub-signature-256": "sha1=" + "0" * 40},
        {"x-hub-signature-256": "sha256=nonsense"},
    ],
)
def test_what_is_not_signed_is_refused_and_leaves_nothing(hooks, headers):
    task = waiting(hooks)
    answer = github(hooks, CHECK_RUN, **headers)
    assert answer.status_code == 401 and answer.json()["type"].endswith(":bad-signature")
    assert inbox(hooks, task) == []


def test_the_signature_is_of_the_body_as_it_came(hooks):
    spaced = json.dumps(CHECK_RUN, indent=7).encode()
    assert github(hooks, spaced).status_code == 202
    signed = hmac.new(SECRET.encode(), json.dumps(CHECK_RUN).encode(), hashlib.sha256).hexdigest()
    assert github(hooks, spaced, **{"x-hub-signature-256": f"sha256={signed}"}).status_code == 401


def test_an_older_secret_is_good_while_a_forge_is_moved_to_the_new_one(hooks):
    assert github(hooks, CHECK_RUN, secret="fake-older-secret").status_code == 202


def test_a_workspace_with_a_secret_of_its_own_is_told_things_by_that_alone(hooks):
    assert github(hooks, CHECK_RUN, path="/w-own").status_code == 401
    assert github(hooks, CHECK_RUN, path="/w-own", secret="fake-own-secret").status_code == 202
    assert github(hooks, CHECK_RUN, secret="fake-own-secret").status_code == 401


def test_without_a_workspace_every_one_is_told(hooks):
    tasks = [waiting(hooks, "w-1"), waiting(hooks, "w-2")]
    assert github(hooks, CHECK_RUN, path="").json()["tasks"] == 2
    assert all(inbox(hooks, task) for task in tasks)


def test_another_workspace_is_not_told(hooks):
    task = waiting(hooks, "w-2")
    assert github(hooks, CHECK_RUN).json()["tasks"] == 0
    assert inbox(hooks, task) == []


@pytest.mark.parametrize("event", ["ping", "push", "pull_request", "", "check_run_x"])
def test_an_event_that_nothing_is_made_of_is_heard(hooks, event):
    answer = github(hooks, {"zen": "Keep it logically awesome."}, event=event)
    assert answer.status_code == 202 and not answer.json()["taken"]


def test_a_delivery_without_an_id_is_refused(hooks):
    assert github(hooks, CHECK_RUN, delivery="").status_code == 400
    assert github(hooks, CHECK_RUN, delivery="a b").status_code == 400


@pytest.mark.parametrize("body", [b"", b"[1]", b"nonsense", b"payload=%7B%7D", b"\xff\xfe"])
def test_a_body_that_is_no_object_is_refused(hooks, body):
    answer = github(hooks, body, **{"content-type": "application/octet-stream"})
    assert answer.status_code == 422 and answer.json()["type"].endswith(":bad-json")


def test_a_forge_without_a_secret_is_not_listened_to(client):
    for forge in ("github", "gitlab"):
        answer = client.post(f"/v1/callbacks/{forge}/w-1", json={})
        assert answer.status_code == 404 and "LONGTASK_HOOK_SECRETS" in answer.json()["detail"]


def test_gitlab_shows_its_token(hooks):
    task = waiting(hooks)
    assert gitlab(hooks, PIPELINE, **{"x-gitlab-token": SECRET, "idempotency-key": "k-1"}).json()["taken"]
    assert gitlab(hooks, PIPELINE, **{"x-gitlab-token": SECRET, "idempotency-key": "k-1"}).status_code == 202
    assert [signal.payload["kind"] for signal in inbox(hooks, task)] == ["pipeline"]
    for token in ({"x-gitlab-token": "fake"}, {}):
        assert gitlab(hooks, JOB, **{"idempotency-key": "k-2", **token}).status_code == 401
    assert len(inbox(hooks, task)) == 1


def signed(value, secret=SIGNING, at=None, id_="msg-1"):
    at = str(int(time.time()) if at is None else at)
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mark = hmac.new(key, f"{id_}.{at}.".encode() + json.dumps(value).encode(), hashlib.sha256).digest()
    return {
        "webhook-id": id_,
        "webhook-timestamp": at,
        "webhook-signature": "v1," + base64.b64encode(mark).decode(),
    }


def test_gitlab_signs_with_its_signing_token(hooks):
    task = waiting(hooks, "w-signed")
    assert gitlab(hooks, PIPELINE, "/w-signed", **signed(PIPELINE)).json()["taken"]
    assert [signal.delivery for signal in inbox(hooks, task)] == ["gitlab:msg-1"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-gitlab-token": SECRET, "idempotency-key": "k"},
        signed(JOB),
        signed(PIPELINE, at=int(time.time()) - 3_600),
        signed(PIPELINE, secret="whsec_" + base64.b64encode(b"another").decode()),
        {**signed(PIPELINE), "webhook-signature": "v1,nonsense"},
        {**signed(PIPELINE), "webhook-signature": "nonsense"},
        {**signed(PIPELINE), "webhook-timestamp": "soon"},
        {**signed(PIPELINE), "webhook-timestamp": "9" * 30},
    ],
)
def test_where_a_signing_token_is_known_nothing_less_is_taken(hooks, headers):
    task = waiting(hooks, "w-signed")
    assert gitlab(hooks, PIPELINE, "/w-signed", **headers).status_code == 401
    assert inbox(hooks, task) == []


def test_settings_that_cannot_be_read_are_refused_without_being_repeated():
    for text in ("github", "github=hunter2-secret!", "gitea=X", "github:=X"):
        with pytest.raises(BadPlan, match="entry 1") as told:
            HookSecrets.read(text)
        assert "hunter2" not in str(told.value)
    assert HookSecrets.read(None).of("github", "w") == []
