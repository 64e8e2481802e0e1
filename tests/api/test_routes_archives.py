"""Archives over HTTP."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from longtask import boot
from longtask.api.access.policy import Policy
from longtask.api.access.tokens import Tokens
from longtask.api.server import make_server
from longtask.api.settings import Settings
from longtask.config import Config
from tests.api import plans
from tests.api.carrying import carry_to
from tests.api.conftest import client_of
from tests.api.test_routes_tasks import PROBLEM, submit

GZIP = {"Content-Type": "application/gzip"}


@pytest.fixture
def ended(client, server) -> str:
    id = submit(client, plans.running())
    carry_to(server.parts, id, "completed")
    return id


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Callable[..., TestClient]]:
    """Clients of another installation, in which nothing is; `policy` as its server has it."""
    parts = boot.open_parts(Config(tmp_path / "elsewhere", str(tmp_path / "elsewhere.db")))
    opened: list[TestClient] = []

    def made(policy: Policy | None = None) -> TestClient:
        settings = Settings() if policy is None else Settings(policy=policy)
        opened.append(client_of(make_server(parts, settings)).__enter__())
        return opened[-1]

    made.parts = parts  # type: ignore[attr-defined]
    yield made
    for client in opened:
        client.__exit__(None, None, None)
    parts.store.close()


def test_a_task_goes_out_and_comes_in_elsewhere(client, server, ended, elsewhere):
    got = client.get(f"/v1/tasks/{ended}/archive")
    assert got.status_code == 200, got.text
    assert got.headers["content-type"] == "application/gzip"
    assert got.headers["etag"] == f'"{hashlib.sha256(got.content).hexdigest()}"'
    assert 'filename="work-1.longtask.tar.gz"' in got.headers["content-disposition"]
    there = elsewhere()
    for again in (False, True):
        answer = there.post("/v1/archives", content=got.content, headers=GZIP)
        assert answer.status_code == 201, answer.text
        assert answer.json() == {
            "task": ended, "handle": "work-1", "status": "completed", "again": again, "told": [],
        }  # fmt: skip
        assert answer.headers["location"] == f"/v1/tasks/{ended}"
    here, brought = (one.get(f"/v1/tasks/{ended}").json() for one in (client, there))
    assert brought == here
    assert there.get(f"/v1/tasks/{ended}/artifacts/report.md").content
    events = [one.get(f"/v1/tasks/{ended}/events").json()["items"] for one in (client, there)]
    assert [event["type"] for event in events[0]] == [event["type"] for event in events[1]]


def test_a_download_goes_on_where_it_was_cut_since_the_bytes_are_the_same(client, ended):
    whole = client.get(f"/v1/tasks/{ended}/archive")
    rest = client.get(f"/v1/tasks/{ended}/archive", headers={"Range": "bytes=100-"})
    assert (rest.status_code, rest.content) == (206, whole.content[100:])
    assert rest.headers["etag"] == whole.headers["etag"]
    known = client.get(f"/v1/tasks/{ended}/archive", headers={"If-None-Match": whole.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")


def test_an_open_task_and_one_that_is_not_there_have_no_archive(client):
    id = submit(client, plans.asking())
    answer = client.get(f"/v1/tasks/{id}/archive")
    assert (answer.status_code, answer.json()["type"]) == (409, PROBLEM + "refused")
    assert "export it when it has ended" in answer.json()["detail"]
    assert client.get("/v1/tasks/nothing/archive").status_code == 404


def test_what_is_no_archive_is_a_problem(client, server):
    answer = client.post("/v1/archives", content=b"x" * 5_000, headers=GZIP)
    assert (answer.status_code, answer.json()["type"]) == (422, PROBLEM + "bad-plan")
    assert "no archive of a task" in answer.json()["detail"]
    answer = client.post("/v1/archives", content=b"x", headers={"Content-Type": "text/html"})
    assert (answer.status_code, answer.json()["type"]) == (415, PROBLEM + "media-type")
    assert client.get("/v1/tasks").json()["items"] == []


def test_where_the_task_is_at_home_it_is_refused(client, ended):
    content = client.get(f"/v1/tasks/{ended}/archive").content
    answer = client.post("/v1/archives", content=content, headers=GZIP)
    assert (answer.status_code, answer.json()["type"]) == (409, PROBLEM + "refused")


def test_nothing_is_left_in_the_folder_for_temporary_files(client, ended, elsewhere, tmp_path, monkeypatch):
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    content = client.get(f"/v1/tasks/{ended}/archive").content
    there = elsewhere()
    there.post("/v1/archives", content=content, headers=GZIP)
    there.post("/v1/archives", content=content[:-9], headers=GZIP)
    client.get("/v1/tasks/nothing/archive")
    assert list(folder.iterdir()) == []


def test_an_archive_may_be_larger_than_other_bodies_and_has_a_bound_of_its_own(client, ended, elsewhere):
    content = client.get(f"/v1/tasks/{ended}/archive").content
    narrow = elsewhere(Policy(body_bytes_max=100, bodies_bytes_max=100, archive_bytes_max=len(content)))
    assert narrow.post("/v1/archives", content=content + b"x", headers=GZIP).status_code == 413
    keyed = narrow.post("/v1/archives", content=content, headers={**GZIP, "Idempotency-Key": "k"})
    assert keyed.status_code == 413, "with a key it would be kept in memory"
    assert narrow.post("/v1/archives", content=content, headers=GZIP).status_code == 201


def test_who_may_look_may_fetch_it_and_operators_of_its_workspace_may_bring_it(client, ended, elsewhere):
    content = client.get(f"/v1/tasks/{ended}/archive").content
    there = elsewhere(Policy(tokens=True))
    tokens = Tokens(elsewhere.parts.store)
    made = {
        name: {"Authorization": f"Bearer {tokens.create(name, [role], workspaces=within, by='ann')[1]}"}
        for name, role, within in (
            ("viewer", "viewer", None),
            ("operator", "operator", None),
            ("stranger", "operator", ["0123456789abcdef"]),
        )
    }

    def post(name: str):
        return there.post("/v1/archives", content=content, headers={**GZIP, **made[name]})

    assert there.post("/v1/archives", content=content, headers=GZIP).status_code == 401
    assert post("viewer").status_code == 403
    assert (post("stranger").status_code, post("stranger").json()["type"]) == (403, PROBLEM + "forbidden")
    assert there.get("/v1/tasks", headers=made["viewer"]).json()["items"] == []
    assert post("operator").status_code == 201
    [note] = elsewhere.parts.store.inbox(ended, 0, 9)
    assert note.sender == "operator"
    assert there.get(f"/v1/tasks/{ended}/archive", headers=made["viewer"]).status_code == 200
    assert there.get(f"/v1/tasks/{ended}/archive", headers=made["stranger"]).status_code == 404
