"""Bytes that steps have made, over HTTP."""

from __future__ import annotations

import hashlib

import pytest

from tests.api import plans
from tests.api.carrying import carry_to
from tests.api.test_routes_tasks import PROBLEM, submit


@pytest.fixture
def report(client, server):
    """The address of an artifact."""
    id = submit(client, plans.running())
    carry_to(server.parts, id, "completed")
    return f"/v1/tasks/{id}/artifacts/report.md"


def test_artifacts_are_listed_and_fetched(client, report):
    [one] = client.get(report.rpartition("/")[0]).json()["items"]
    answer = client.get(report)
    assert answer.status_code == 200
    assert hashlib.sha256(answer.content).hexdigest() == one["digest"]
    assert len(answer.content) == one["size_bytes"] == int(answer.headers["content-length"])
    assert client.get(report, params={"digest": one["digest"]}).content == answer.content
    assert client.get(report, params={"digest": "0" * 64}).status_code == 404
    assert client.get(report + "x").json()["type"] == PROBLEM + "not-found"


def test_what_attempts_leave_by_the_way_is_listed_when_asked_for(client, report):
    folder = report.rpartition("/")[0]
    more = client.get(folder, params={"all": True}).json()["items"]
    assert len(more) >= len(client.get(folder).json()["items"])


@pytest.mark.parametrize(
    "range_, begin, end",
    [("bytes=0-4", 0, 5), ("bytes=3-", 3, None), ("bytes=-6", -6, None), ("bytes=2-999999", 2, None)],
)
def test_a_range_is_served_as_a_range(client, report, range_, begin, end):
    whole = client.get(report).content
    answer = client.get(report, headers={"Range": range_})
    assert answer.status_code == 206
    assert answer.content == whole[begin:end]
    assert answer.headers["content-range"].endswith(f"/{len(whole)}")
    assert answer.headers["accept-ranges"] == "bytes"


def test_a_range_outside_is_a_problem_and_one_that_is_badly_written_is_passed_over(client, report):
    whole = client.get(report).content
    answer = client.get(report, headers={"Range": f"bytes={len(whole)}-"})
    assert (answer.status_code, answer.json()["type"]) == (416, PROBLEM + "range")
    assert answer.headers["content-range"] == f"bytes */{len(whole)}"
    for text in ("bytes=5-2", "bytes=", "lines=1-2", "bytes=0-1,4-5", "x" * 200):
        answer = client.get(report, headers={"Range": text})
        assert (answer.status_code, answer.content) == (200, whole), text


def test_who_has_the_bytes_need_not_be_sent_them_again(client, report):
    etag = client.get(report).headers["etag"]
    assert client.get(report, headers={"If-None-Match": etag}).status_code == 304
    assert client.get(report, headers={"Range": "bytes=0-1", "If-Range": etag}).status_code == 206
    assert client.get(report, headers={"Range": "bytes=0-1", "If-Range": '"other"'}).status_code == 200


def test_a_browser_never_runs_an_artifact_under_the_servers_name(client, server):
    name = "page.html"
    steps = [{"id": "make", "artifact": {"report": {"name": name, "title": "<script>alert(1)</script>"}}}]
    id = submit(client, {"longtask": 1, "name": "page", "steps": steps})
    carry_to(server.parts, id, "completed")
    [one] = client.get(f"/v1/tasks/{id}/artifacts").json()["items"]
    answer = client.get(f"/v1/tasks/{id}/artifacts/{one['name']}")
    assert b"<script>" in answer.content and one["name"] == name
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert "html" not in answer.headers["content-type"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
