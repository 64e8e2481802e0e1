"""What a task has changed over HTTP, and files as its commits hold them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from longtask.api.access.policy import Policy
from longtask.api.access.tokens import Tokens
from tests.api import plans
from tests.api.carrying import carry_to
from tests.api.conftest import client_of
from tests.api.test_routes_tasks import PROBLEM, repository, submit  # noqa: F401

PIXEL = b"\x89PNG\r\n\x1a\n" + bytes(8)
EDIT = """
mkdir docs && printf '# Read me\\n' > docs/readme.md && printf '<script>1</script>' > docs/page.html
printf '\\211PNG\\r\\n\\032\\n\\0\\0\\0\\0\\0\\0\\0\\0' > docs/pixel.gif && printf 'a\\0b' > docs/bytes
ln -s /etc/passwd link && ln -s docs inner && echo two >> a.txt
"""


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def task(client, server, repository):  # noqa: F811
    """Its address."""
    steps = [
        {"id": "edit", "run": EDIT, "commit": True},
        {"id": "more", "run": "echo three >> a.txt", "commit": True, "needs": ["edit"]},
    ]
    id = submit(client, {"longtask": 1, "name": "code", "workspace": {"repo": str(repository)}, "steps": steps})
    carry_to(server.parts, id, "completed")
    return f"/v1/tasks/{id}"


def test_files_are_listed_as_a_commit_holds_them(client, task):
    def paths(**query):
        return [one["path"] for one in client.get(f"{task}/files", params=query).json()["items"]]

    assert paths() == sorted([
        "a.txt", "docs/bytes", "docs/page.html", "docs/pixel.gif", "docs/readme.md", "inner", "link"
    ])  # fmt: skip
    assert paths(at="base") == ["a.txt"]
    assert paths(match="docs/*.md") == ["docs/readme.md"] and paths(match="*.md") == []
    assert paths(match="**/*.[hm]*") == ["docs/page.html", "docs/readme.md"]
    assert paths(match="**/a.txt") == ["a.txt"] and paths(match="[") == []
    first = client.get(f"{task}/files", params={"limit": 2}).json()
    assert first["next"] == "docs/bytes" and paths(cursor=first["next"])[0] == "docs/page.html"
    link = next(one for one in client.get(f"{task}/files").json()["items"] if one["path"] == "link")
    assert (link["kind"], link["size_bytes"]) == ("link", len("/etc/passwd"))


@pytest.mark.parametrize(
    ("path", "content", "kind"),
    [
        ("docs/readme.md", b"# Read me\n", "text/markdown; charset=utf-8"),
        ("docs/page.html", b"<script>1</script>", "text/plain; charset=utf-8"),
        ("docs/pixel.gif", PIXEL, "image/png"),
        ("docs/bytes", b"a\0b", "application/octet-stream"),
    ],
)
def test_a_file_comes_byte_for_byte_of_a_type_that_no_browser_runs(client, task, path, content, kind):
    answer = client.get(f"{task}/files/{path}")
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, content, kind)
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]


def test_a_file_is_that_of_the_commit_that_was_named(client, server, task):
    tree = client.get(task).json()
    edited = client.get(f"{task}/steps/edit").json()["commit"]
    contents = {at: client.get(f"{task}/files/a.txt", params={"at": at}).text for at in ("base", edited, "head")}
    assert [text.split() for text in contents.values()] == [["one"], ["one", "two"], ["one", "two", "three"]]
    assert client.get(f"{task}/files/a.txt", params={"at": tree["head"]}).text == contents["head"]


def test_who_has_a_file_is_not_sent_it_again(client, task):
    answer = client.get(f"{task}/files/a.txt")
    [entry] = client.get(f"{task}/files", params={"match": "a.txt"}).json()["items"]
    assert answer.headers["etag"] == f'"{entry["blob"]}"'
    again = client.get(f"{task}/files/a.txt", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path",
    ["link", "inner", "inner/readme.md", "docs", "docs/", "gone", ".git/config", ":(top)a.txt", "*", "%2e%2e/a.txt",
     "/etc/passwd", "docs//readme.md", "%00", "docs/%2e/readme.md"],
)  # fmt: skip
def test_nothing_but_files_of_the_commit_is_found(client, task, path):
    answer = client.get(f"{task}/files/{path}")
    assert (answer.status_code, answer.json()["type"]) == (404, PROBLEM + "not-found"), answer.text


def test_only_commits_of_the_task_itself_are_answered(client, server, task, repository):  # noqa: F811
    """Neither what came before it, nor what another task of the same repository has made."""
    before = git(repository, "rev-parse", "main")
    (repository / "secret").write_text("s")
    git(repository, "add", "--all")
    git(repository, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "s")
    other = submit(client, {
        "longtask": 1, "name": "other", "workspace": {"repo": str(repository)},
        "steps": [{"id": "edit", "run": "echo x > x", "commit": True}],
    })  # fmt: skip
    carry_to(server.parts, other, "completed")
    theirs = client.get(f"/v1/tasks/{other}").json()
    for at in (theirs["head"], theirs["base"], theirs["head"][:12], "main", "HEAD", "0" * 40, "", "-h", "head^"):
        for address in ("files", "files/a.txt", "patch"):
            query = {"since" if address == "patch" else "at": at}
            answer = client.get(f"{task}/{address}", params=query)
            assert (answer.status_code, answer.json()["type"]) == (404, PROBLEM + "not-found"), (at, address)
    assert client.get(f"/v1/tasks/{other}/files/a.txt", params={"at": before}).status_code == 404
    assert client.get(f"/v1/tasks/{other}/files/secret").text == "s"


def test_a_file_that_is_too_large_is_refused(client, server, repository):  # noqa: F811
    plan = {
        "longtask": 1, "name": "large", "workspace": {"repo": str(repository)},
        "steps": [{"id": "edit", "run": "head -c 5000001 /dev/zero > large", "commit": True}],
    }  # fmt: skip
    id = submit(client, plan)
    carry_to(server.parts, id, "completed")
    answer = client.get(f"/v1/tasks/{id}/files/large")
    assert (answer.status_code, answer.json()["type"]) == (409, PROBLEM + "refused")
    assert "5,000,001 bytes" in answer.json()["detail"]


def test_a_task_without_code_has_no_files(client):
    address = f"/v1/tasks/{submit(client, plans.asking())}"
    for path in ("files", "files/a.txt"):
        assert client.get(f"{address}/{path}").json()["type"] == PROBLEM + "refused"


def test_changes_since_a_commit_are_only_those(client, task):
    edited = client.get(f"{task}/steps/edit").json()["commit"]
    patch = client.get(f"{task}/patch", params={"since": edited}).text
    assert "+three" in patch and "+two" not in patch
    changes = client.get(f"{task}/diff", params={"since": edited}).json()
    assert changes["base"] == edited
    assert changes["files"] == [{"path": "a.txt", "insertions": 1, "deletions": 0}]


def test_looking_takes_the_role_of_a_viewer(make, task):
    server = make(policy=Policy(tokens=True))
    tokens = Tokens(server.parts.store)
    with client_of(server) as client:
        for roles, status in ((["viewer"], 200), (["worker"], 403)):
            _, text = tokens.create("ann", roles, by="root")
            for path in ("files", "files/a.txt"):
                bearer = {"Authorization": f"Bearer {text}"}
                assert client.get(f"{task}/{path}", headers=bearer).status_code == status
        assert client.get(f"{task}/files/a.txt").status_code == 401
