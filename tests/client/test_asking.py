"""What can be asked of a server, and what it refuses."""

from __future__ import annotations

import hashlib
import http.server
import json
import logging
import socket
import threading

import pytest

from longtask.api.access.policy import Policy
from longtask.api.access.tokens import Tokens
from longtask.client import v1
from longtask.client.course import Limits
from longtask.client.problems import Answered, Changed, NotAllowed
from longtask.client.servers import Logins
from longtask.core.errors import BadPlan, NotFound, Refused, StoreUnavailable
from tests.api import plans
from tests.api.carrying import carry_to
from tests.api.live import serving
from tests.cli.conftest import make_repository


def test_a_task_is_submitted_looked_at_and_carried_to_its_end(client, server):
    assert client.check_plan(plans.running())["steps"] == 3
    told = client.submit(plans.running(), name="other")
    assert told["handle"] == "other-1"
    id = told["task"]
    carry_to(server.parts, id, "completed")
    assert client.task("@last")["status"] == client.task("other-1")["status"] == "completed"
    assert [step["key"] for step in client.steps(id)] == ["a", "b", "report"]
    assert client.step(id, "b")["needs"] == ["a"]
    assert client.graph(id)["edges"] == [["a", "b"]]
    assert json.loads(client.plan(id)) == plans.running()
    assert [one["outcome"] for one in client.attempts(id, "a")] == ["completed"]
    assert "".join(chunk["text"] for chunk in client.output(id, "a", 1)) == "onetwo"
    assert client.why(id)[0]["what"]
    types = [event["type"] for event in client.journal(id)]
    assert types[0] == "longtask.started" and types[-1] == "longtask.completed"
    assert [event["type"] for event in client.journal(id, after=2)] == types[-len(list(client.journal(id, after=2))) :]
    assert client.whoami()["name"] == "ann"
    assert client.fleet()["workers"] == [] == client.workspaces()  # who carried it has gone
    assert client.trace(id)["task"] == id


def test_a_list_is_told_whole_page_by_page(client, monkeypatch):
    made = [client.submit(plans.asking(f"n{n}"))["task"] for n in range(5)]
    monkeypatch.setattr("longtask.client.v1.PAGE", 2)
    assert [task["id"] for task in client.tasks()] == made[::-1]
    assert [task["id"] for task in client.tasks(limit=3)] == made[:1:-1]
    assert [task["id"] for task in client.tasks(before=3)] == made[1::-1]
    assert [task["name"] for task in client.tasks(name="n3")] == ["n3"]
    assert list(client.tasks(status=["failed", "completed"])) == []


def test_what_has_happened_until_now_ends_though_the_task_goes_on(client):
    id = client.submit(plans.asking())["task"]
    first = list(client.journal(id))
    assert first and list(client.journal(id, after=first[-1]["seq"])) == []


def test_a_task_is_paused_resumed_and_cancelled(client, server):
    id = client.submit(plans.waiting())["task"]
    assert client.pause(id, now=True)["status"] == "paused"
    assert client.resume(id)["status"] != "paused"
    assert client.resume(id, tokens=5)["task"] == id
    assert client.signal(id, "deploy.done", {"version": 7}, delivery="d-1")["number"] == 1
    assert client.signal(id, "deploy.done", {"version": 7}, delivery="d-1")["number"] == 1
    assert client.signal_workspace("other", "deploy.done")["tasks"] == 0
    assert client.cancel(id, reason="wrong")["status"] == "cancelling"


def test_a_step_is_retried_cancelled_and_skipped(client, server):
    id = client.submit(plans.failing())["task"]
    carry_to(server.parts, id, "failed")
    assert client.retry(id, "bad")["step"] == "bad"
    assert client.skip(client.submit(plans.asking())["task"], "ok")["step"] == "ok"
    assert client.cancel_step(client.submit(plans.asking())["task"], "ok")["step"] == "ok"


def test_code_that_has_changed_is_told_and_fetched(client, server, tmp_path):
    repository = make_repository(tmp_path / "repo")
    known = client.register_workspace(str(repository))
    steps = [{"id": "edit", "run": "echo two >> a.txt", "commit": True}]
    plan = {"longtask": 1, "name": "code", "workspace": {"repo": known["id"]}, "steps": steps}
    id = client.submit(plan, base="main")["task"]
    carry_to(server.parts, id, "completed")
    assert client.changes(id)["files"] == [{"path": "a.txt", "insertions": 1, "deletions": 0}]
    assert b"+two" in client.diff(id, "edit")
    commit = client.step(id, "edit")["commit"]
    assert client.diff(id, since=commit) == b"" and client.changes(id, since=commit)["files"] == []
    assert [file["path"] for file in client.files(id, "*.txt")] == ["a.txt"]
    assert (client.file(id, "a.txt", at="base"), client.file(id, "a.txt")) == (b"one\n", b"one\ntwo\n")
    with pytest.raises(NotFound):
        client.file(id, "b.txt")
    assert list(client.turns(id, "edit")) == []


def test_an_artifact_is_read_whole_or_in_part(client, server):
    id = client.submit(plans.running())["task"]
    carry_to(server.parts, id, "completed")
    [one] = client.artifacts(id)
    whole = client.artifact(id, one["name"])
    assert hashlib.sha256(whole).hexdigest() == one["digest"]
    assert client.artifact(id, one["name"], digest=one["digest"], first=3, count=4) == whole[3:7]
    assert client.artifact(id, one["name"], first=5) == whole[5:]
    with pytest.raises(BadPlan):
        client.artifact(id, one["name"], first=len(whole))


def test_a_person_decides_about_what_was_seen(client, server):
    id = client.submit(plans.asking())["task"]
    carry_to(server.parts, id, "waiting_user")
    [seen] = client.approvals()
    assert seen == client.approval(id, "ok") == client.task_approvals(id)[0]
    with pytest.raises(BadPlan, match="say in 'text' what is wrong"):
        client.reject(seen, "")
    stale = {**seen, "version": "1.0000"}
    with pytest.raises(Changed) as refused:
        client.approve(stale)
    assert refused.value.current == seen
    assert client.approve(seen, "looked")["answer"] == "approve"
    with pytest.raises(Refused, match="somebody has answered"):
        client.approve(seen)


# --- the installation ---------------------------------------------------------------------------------------------


def test_workspaces_are_registered_and_looked_at(client, tmp_path):
    repository = make_repository(tmp_path / "repo")
    made = client.register_workspace(str(repository))
    assert client.workspace(made["id"]) == made == client.workspaces()[0]
    assert made["repository"] == str(repository) and made["hub"] and made["url"] is None
    url = client.register_workspace(url=f"file://{repository}")
    assert url["url"] == url["repository"] == f"file://{repository}" and url["id"] != made["id"]
    id = client.submit(with_code("."), workspace=made["id"])["task"]
    assert client.submit(with_code("repo"), folder=str(tmp_path))["task"]
    assert client.submit(with_code(f"file://{repository}"))["task"]
    assert client.task(id)["base"]
    with pytest.raises(BadPlan, match="either 'repository' or 'url'"):
        client.register_workspace()
    with pytest.raises(BadPlan, match="comes with 'machine'"):
        client.register_workspace("/x", host="laptop")
    with pytest.raises(Refused, match="LONGTASK_HUB"):
        client.register_workspace("/x", host="laptop", machine="0" * 32)
    with pytest.raises(NotFound):
        client.workspace("0" * 16)


def with_code(repo: str):
    steps = [{"id": "edit", "run": "echo two >> a.txt", "commit": True}]
    return {"longtask": 1, "name": "code", "workspace": {"repo": repo, "base": "main"}, "steps": steps}


def test_tokens_are_made_rotated_revoked_and_audited(client):
    made = client.create_token("bea", ["operator"], workspaces=["web"], expires_ms=60_000)
    assert made["token"].startswith("lt_") and made["good"]
    changed = client.rotate_token("bea", grace_ms=0)
    assert changed["token"] != made["token"]
    assert client.revoke_token(made["id"])["good"] is False
    assert [(one["name"], one["good"], "token" in one) for one in client.tokens()] == [("bea", False, False)]
    with pytest.raises(NotFound, match="no token 'nobody'"):
        client.revoke_token("nobody")
    rows = list(client.audit(who="ann"))
    assert [row["action"].rpartition("/")[2] for row in rows] == ["revoke", "revoke", "rotate", "tokens"]
    assert rows[0]["outcome"] == "not-found" and len(list(client.audit(limit=1))) == 1


def test_webhooks_are_added_enabled_replayed_and_removed(client):
    made = client.add_webhook("https://hooks.example.com/x", types=["step.*"])
    assert made["secret"].startswith("whsec_")
    assert client.webhook(made["id"]) == next(client.webhooks()) == client.enable_webhook(made["id"])
    assert client.replay_webhook(made["id"], 0)["state"] == "active"
    assert client.remove_webhook(made["id"])["id"] == made["id"]
    assert list(client.webhooks()) == []
    with pytest.raises(NotFound):
        client.remove_webhook(made["id"])


def test_a_link_is_made_for_what_a_step_asks(client, server):
    id = client.submit(plans.asking())["task"]
    carry_to(server.parts, id, "waiting_user")
    made = client.make_link(id, "ok", who="bea", lasts_ms=60_000)
    assert made["url"].startswith("http") and made["who"] == "bea" and made["task"] == id
    with pytest.raises(Refused):
        client.make_link(client.submit(plans.running())["task"], "a")


# --- refusals -----------------------------------------------------------------------------------------------------


def test_a_refusal_is_an_error_of_the_tree_with_the_servers_own_words(client):
    with pytest.raises(NotFound, match="no task 'nothing'; list them") as missing:
        client.task("nothing")
    cause = missing.value.__cause__
    assert isinstance(cause, Answered) and (cause.status, cause.slug) == (404, "not-found")
    id = client.submit(plans.asking())["task"]
    with pytest.raises(NotFound, match="did you mean 'ok'"):
        client.step(id, "okk")
    client.cancel(id)
    with pytest.raises(Refused):
        client.resume(id)
    with pytest.raises(BadPlan, match=r"limit|answer|tokens"):
        client.resume(id, tokens=-1)


def test_everything_that_is_wrong_with_a_plan_is_told_by_its_place(client):
    with pytest.raises(BadPlan) as bad:
        client.submit("longtask: 1\nname: x\nsteps:\n  - {id: A, run: 'true'}\n  - {id: b, needs: c, run: ''}\n")
    assert {problem.line for problem in bad.value.problems} == {4, 5}
    assert str(bad.value).startswith("plan:4:")
    assert list(client.tasks()) == []


def test_what_is_no_server_of_longtask_is_told_so(connect, tmp_path):
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302 if "tasks" in self.path else 200)
            self.send_header("Location", "http://elsewhere.example/")
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        try:
            client = connect(f"http://127.0.0.1:{other.server_port}")
            with pytest.raises(Exception, match="is no JSON"):
                client.whoami()
            with pytest.raises(Exception, match="sends elsewhere"):
                client.task("x")
            with pytest.raises(Exception, match="no stream"):
                next(client.stream_all())
        finally:
            other.shutdown()
            thread.join()


def test_a_server_that_is_not_there_is_waited_for_and_then_told(connect, live):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = connect(
        f"http://127.0.0.1:{port}", limits=Limits(wait_min_s=0.01, patience_s=0.05, stream_patience_s=0.05)
    )
    for ask in (client.whoami, lambda: next(client.stream("x"))):
        with pytest.raises(StoreUnavailable, match=r"does not answer .*longtask up"):
            ask()


# --- tokens -------------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(make):
    server = make(policy=Policy(tokens=True))
    token = Tokens(server.parts.store).create("bea", ["viewer"], by="root")[1]
    with serving(server) as live:
        yield f"http://{live.host}", token


def test_a_token_is_given_or_found_and_who_has_none_is_refused(connect, guarded, monkeypatch):
    url, token = guarded
    with pytest.raises(NotAllowed, match="this server asks for a token"):
        connect(url).whoami()
    with pytest.raises(NotAllowed, match="not known here"):
        connect(url, "lt_" + "x" * 43).whoami()
    assert connect(url, token).whoami()["name"] == "bea"
    with pytest.raises(NotAllowed, match="lacks the role 'operator'"):
        connect(url, token).submit(plans.asking())
    Logins().keep(url, token, "bea")
    assert connect(url).whoami()["name"] == "bea"
    monkeypatch.setenv("LONGTASK_TOKEN", "lt_" + "y" * 43)
    with pytest.raises(NotAllowed):
        connect(url).whoami()
    monkeypatch.setenv("LONGTASK_TOKEN", token)
    monkeypatch.setenv("LONGTASK_SERVER", url)
    assert connect().whoami()["name"] == "bea"


def test_a_token_is_in_no_log_and_no_picture_of_a_client(connect, guarded, caplog):
    url, token = guarded
    caplog.set_level(logging.DEBUG)
    client = connect(url, token)
    client.whoami()
    with pytest.raises(NotAllowed) as refused:
        client.cancel("x")
    told = [repr(client), str(vars(getattr(client, "_client", client))), repr(refused.value.__cause__), caplog.text]
    assert caplog.text and not any(token in text for text in told)


@pytest.mark.parametrize("token", ["two words", "lt_ä", "lt_\n1"])
def test_what_cannot_be_a_token_is_refused_and_not_shown(connect, token):
    with pytest.raises(BadPlan) as bad:
        connect("http://127.0.0.1:1", token)
    assert token not in str(bad.value)


def test_an_older_server_is_not_asked_for_what_it_does_not_know():
    assert json.loads(v1.fork("x", "a").body or b"") == {"from": "a"}
    assert json.loads(v1.fork("x", "a", paused=True).body or b"") == {"from": "a", "paused": True}
