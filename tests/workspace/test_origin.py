"""Repositories that are named by a URL: which URLs may be, and what is fetched from where."""

from __future__ import annotations

import http.server
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from longtask.core.errors import BadPlan, HubUnreachable, NotFound
from longtask.workspace import NotPublished, Workspace, origin
from longtask.workspace.hub import Origin
from tests.workspace.conftest import TASK, Repo


@pytest.fixture
def bare(repo: Repo, tmp_path: Path) -> Path:
    """A bare clone of the repository, as a server has it."""
    made = tmp_path / "served" / "shop.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(repo.path), str(made)], check=True)
    subprocess.run(["git", "update-server-info"], cwd=made, check=True)  # for plain HTTP
    return made


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c true",
        "ext::https://git.example.com/x",
        "ftp://git.example.com/x",
        "git://git.example.com/x",
        "https://ann:pw@git.example.com/x",
        "https://token@git.example.com/x",
        "https://git.example.com/x?token=1",
        "https://git.example.com/",
        "https:///x",
        "https://git.example.com:port/x",
        "https://-oProxyCommand=true/x",
        "ssh://-oProxyCommand=true/x",
        "ssh://-oProxyCommand=true@git.example.com/x",
        "ssh://git@git.example.com/-x",
        "git@-oProxyCommand=true:x",
        "-oProxyCommand=true@git.example.com:x",
        "--upload-pack=true",
        "git@git.example.com:-x",
        "https://git.example.com/a b",
        "https://git.example.com/a\nb",
        "file://elsewhere/x",
        "file:///",
    ],
)
def test_what_is_no_url_of_a_repository_is_refused(url):
    with pytest.raises(BadPlan) as bad:
        origin.check(url)
    assert "pw" not in str(bad.value) and "token@" not in str(bad.value)


@pytest.mark.parametrize(
    "url", ["https://git.example.com/shop.git", "ssh://git@git.example.com:2222/shop", "git@git.example.com:a/shop"]
)
def test_what_is_one_is_written_in_one_way(url):
    assert origin.check(url + "/") == origin.check(url) == url and origin.is_url(url)


def test_one_repository_is_known_by_the_ways_in_which_it_is_reached():
    ways = ["https://git.example.com/a/shop.git", "git@git.example.com:a/shop.git", "ssh://git@git.example.com/a/shop/"]
    assert len({origin.address(way) for way in ways}) == 1
    assert origin.address("/srv/shop") is None


def test_a_base_is_fetched_by_branch_tag_id_or_as_the_repository_begins(bare, repo, tmp_path):
    repo.git("tag", "-a", "-m", "one", "v1")
    subprocess.run(["git", "fetch", "-q", "--tags", str(repo.path)], cwd=bare, check=True)
    workspace = Workspace.of(tmp_path / "home", f"file://{bare}", trusted=True)
    head = repo.git("rev-parse", "HEAD")
    assert workspace.base().commit == head and workspace.base().branch == "main"
    assert workspace.base("main").commit == workspace.base("v1").commit == workspace.base(head).commit == head
    for name in ("nothing", "*", "ma*", "0" * 40):
        with pytest.raises((NotFound, HubUnreachable)):
            workspace.base(name)
    with pytest.raises(NotFound):
        workspace.base("--upload-pack=true")
    assert workspace.id == Workspace.at(tmp_path / "home", workspace.id).id
    assert isinstance(workspace.publish("longtask/x-1", head), NotPublished)


def test_what_begins_from_a_url_is_worked_on_as_ever(bare, repo, tmp_path):
    workspace = Workspace.of(tmp_path / "home", f"file://{bare}", trusted=True)
    wt = workspace.checkout(TASK, "edit", 1, workspace.base().commit)
    (wt.path / "new.txt").write_text("new\n")
    commit = workspace.commit(wt, "work")
    assert commit is not None and workspace.stat(repo.git("rev-parse", "HEAD"), commit).paths == ("new.txt",)


def test_every_machine_of_a_fleet_finds_it_in_the_hub(bare, repo, tmp_path):
    shared = str(tmp_path / "hub")
    one = Workspace.of(tmp_path / "one", f"file://{bare}", shared, trusted=True)
    base = one.base().commit
    other = Workspace.at(tmp_path / "other", one.id, shared)
    assert other.hub.origin == Origin(f"file://{bare}", "nowhere") and other.hub.host is None
    assert other.has_commit(base)
    one.announce()
    other.announce()  # both say the same of it
    with pytest.raises(AssertionError):
        other.base()


def test_what_others_have_written_into_the_hub_names_nothing_on_this_machine(repo, tmp_path):
    """Whoever may push a base may push a record, too."""
    shared = str(tmp_path / "hub")
    one = Workspace.open(tmp_path / "one", repo.path, shared)
    one.base()
    record = Path(shared) / f"{one.id}.git"
    content = json.dumps({"repository": str(repo.path / ".git"), "folder": str(repo.path), "host": None}).encode()
    entries = ""
    for name, body in (("exclude", b""), ("workspace.json", content)):
        blob = repo.git("--git-dir", str(record), "hash-object", "-w", "--stdin", stdin=body)
        entries += f"100644 blob {blob}\t{name}\n"
    tree = repo.git("--git-dir", str(record), "mktree", stdin=entries.encode())
    commit = repo.git("--git-dir", str(record), "commit-tree", "-m", "x", tree)
    repo.git("--git-dir", str(record), "update-ref", f"refs/longtask/workspaces/{one.id}/record", commit)
    assert Workspace.at(tmp_path / "other", one.id, shared).hub.host is not None


def test_what_was_trusted_once_stays_so(bare, tmp_path):
    home, url = tmp_path / "home", f"file://{bare}"
    pinned = ["127.0.0.1"]
    said = [Workspace.of(home, url, trusted=word, pinned=pinned).hub.origin for word in (False, True, False)]
    assert said == [Origin(url, "public"), Origin(url, "anywhere"), Origin(url, "anywhere")]


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args) -> None: ...

    def do_GET(self) -> None:
        if self.path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/moved"))
            self.end_headers()
            return
        super().do_GET()


@contextmanager
def served(folder: Path) -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_host_that_is_not_trusted_is_asked_at_the_pinned_addresses_and_follows_nobody(
    bare, repo, tmp_path, monkeypatch
):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # asked for nothing
    with served(bare.parent) as port:
        url = f"http://git.invalid:{port}/shop.git"  # a name that leads nowhere
        pinned = ["127.0.0.1"]
        workspace = Workspace.of(tmp_path / "home", url, trusted=False, pinned=pinned)
        assert workspace.base(pinned=pinned).commit == repo.git("rev-parse", "HEAD")
        with pytest.raises(HubUnreachable, match=r"repository 'http://git\.invalid"):
            Workspace.of(tmp_path / "home", url.replace("/shop", "/moved/shop"), trusted=False, pinned=pinned)
        with pytest.raises(AssertionError):
            workspace.base()
    assert [one.id for one in Workspace.all(tmp_path / "home")] == [workspace.id]  # of the other nothing is kept
