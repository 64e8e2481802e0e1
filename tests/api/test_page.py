"""The page is served as the browser needs it, lets nothing else in, and is missed with a hint."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from longtask.api import page
from longtask.api.access.policy import Policy
from tests.api.conftest import client_of

INDEX = b"<!doctype html><title>LongTask</title>"
SCRIPT = b"export const t = 1;\n"
VIEWS = ("/", "/inbox", "/tasks", "/tasks/shop-1", "/tasks/shop-1/steps/a%2Fb/approval", "/events", "/fleet")


@pytest.fixture(params=["sqlite"])
def database(request, tmp_path: Path) -> str:
    """What is served here stands in no database."""
    return str(tmp_path / "longtask.db")


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_bytes(INDEX)
    (folder / "assets" / "index-B1a2_c3D.js").write_bytes(SCRIPT)
    (folder / "assets" / "theme.js").write_bytes(SCRIPT)
    (folder / "assets" / "secrets.txt").write_bytes(b"no file of a page")
    monkeypatch.setattr(page, "FOLDER", folder)
    return folder


def test_every_address_of_a_view_gives_the_page(client, built):
    for address in VIEWS:
        answer = client.get(address)
        assert (answer.status_code, answer.content) == (200, INDEX), address
        assert answer.headers["content-type"] == "text/html; charset=utf-8"


def test_other_addresses_are_none_of_the_page(client, built):
    for address in ("/v1/nothing", "/inbox/x", "/index.html", "/static/index.html"):
        assert client.get(address).status_code == 404, address
    assert client.post("/inbox", json={}).status_code == 405


def test_nothing_runs_that_stands_not_in_its_files(client, built):
    for address in ("/", "/assets/index-B1a2_c3D.js"):
        policy = client.get(address).headers["content-security-policy"]
        rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
        assert rules["default-src"] == "'none'"
        assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == rules["worker-src"] == "'self'"
        assert "unsafe" not in policy and "http" not in policy


def test_what_is_named_by_what_it_holds_is_kept_for_ever_and_all_else_is_asked_for_again(client, built):
    kept = {a: client.get(a).headers["cache-control"] for a in ("/", "/assets/theme.js", "/assets/index-B1a2_c3D.js")}
    assert kept == {
        "/": "no-cache",
        "/assets/theme.js": "no-cache",
        "/assets/index-B1a2_c3D.js": "public, max-age=31536000, immutable",
    }


def test_who_has_it_is_not_told_again_until_it_changes(client, built):
    version = client.get("/").headers["etag"]
    again = client.get("/", headers={"If-None-Match": version})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", version)
    (built / "index.html").write_bytes(INDEX + b"<p>built anew")
    anew = client.get("/", headers={"If-None-Match": version})
    assert anew.status_code == 200 and anew.content.endswith(b"anew")


def test_it_is_packed_for_who_can_unpack(client, built):
    with client.stream("GET", "/assets/theme.js", headers={"Accept-Encoding": "gzip"}) as answer:
        packed = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip" and gzip.decompress(packed) == SCRIPT
    plain = client.get("/assets/theme.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers and plain.content == SCRIPT


@pytest.mark.parametrize(
    "name", ["missing.js", "secrets.txt", "%2E%2E", "..%2Findex.html", "%00.js", "x" * 500 + ".js", "a b.js"]
)
def test_only_its_own_files_are_served(client, built, name):
    assert client.get(f"/assets/{name}").status_code in (404, 400)


def test_its_files_need_no_token_and_what_it_asks_for_does(make, built):
    server = make(policy=Policy(tokens=True))
    with client_of(server) as stranger:
        for address in (*VIEWS, "/assets/theme.js"):
            assert stranger.get(address).status_code == 200, address
        assert stranger.get("/v1/tasks").status_code == 401


def test_a_build_without_it_says_how_to_get_it(client, built):
    (built / "index.html").unlink()
    answer = client.get("/tasks")
    assert answer.status_code == 501
    assert "make page" in answer.text and "/openapi.json" in answer.text
