"""Talking to a shared hub: where it may be, what goes wrong, and what is told and kept for oneself."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from longtask.core.errors import HubUnreachable, WorkspaceError
from longtask.workspace import Merged, Workspace
from longtask.workspace.git import Place
from longtask.workspace.hub import read_refs
from longtask.workspace.names import attempt_ref
from longtask.workspace.remote import NETWORK, Remote, call, own_ssh, redacted, remote_of, trouble
from tests.workspace.conftest import TASK
from tests.workspace.fleet import Machine, assignment, free_port, git_there, refs_of, row, silent_server

PASSWORD = "sesame-4711"


# --- the setting ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "url"),
    [
        ("/mnt/hubs", "/mnt/hubs/w.git"),
        ("/mnt/hubs/{workspace}", "/mnt/hubs/w"),
        ("file:///mnt/h/{workspace}.git", "file:///mnt/h/w.git"),
        ("ssh://git@host/longtask/{workspace}.git", "ssh://git@host/longtask/w.git"),
        ("git@host:longtask/{workspace}.git", "git@host:longtask/w.git"),
        ("https://host/one.git", "https://host/one.git"),
    ],
)
def test_where_a_hub_may_be(setting, url):
    assert remote_of(setting, "w").url == url


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        (f"https://ann:{PASSWORD}@host/x.git", "holds a password"),
        (f"ssh://ann:{PASSWORD}@host/x.git", "holds a password"),
        ("ext::sh -c 'touch x'", "neither an absolute folder"),
        ("--upload-pack=x", "neither an absolute folder"),
        ("hubs/here", "neither an absolute folder"),
        ("ftp://host/x", "no such kind of hub"),
    ],
)
def test_what_cannot_be_a_hub_is_told_without_its_password(setting, told):
    with pytest.raises(WorkspaceError, match=told) as caught:
        remote_of(setting, "w")
    assert PASSWORD not in str(caught.value)


def test_a_password_in_git_s_own_words_is_not_passed_on():
    said = f"fatal: unable to access 'https://ann:{PASSWORD}@host/x.git/': Could not resolve host"
    told = str(trouble(Remote("https://host/x.git"), "fetching", said))
    assert PASSWORD not in told and "ann" not in told
    assert "it does not answer" in told and "https://host/x.git" in told
    assert redacted(f"see ssh://a:{PASSWORD}@one@two/x") == "see ssh://two/x"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("remote: fatal: write error: No space left on device", "it is full.*make room"),
        ("fatal: Authentication failed for 'https://h/x'", "it refuses this user.*credential helper"),
        ("fatal: could not read Username for 'https://h': terminal prompts disabled", "it refuses this user"),
        ("git@h: Permission denied (publickey).", "it refuses this user"),
        ("ssh: connect to host h port 22: Connection timed out", "it does not answer"),
        (
            "remote: ERROR: The project you look for does not exist",
            "there is no such repository.*make an empty",
        ),
        ("[remote rejected] (pre-receive hook declined)", "it refuses references of ours.*refs/longtask"),
        ("something new", r"git could not do it \(something new\)"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(said, told):
    with pytest.raises(HubUnreachable, match=f"hub 'ssh://h/x': fetching: {told}"):
        raise trouble(Remote("ssh://h/x"), "fetching", said)


# --- servers that are in trouble --------------------------------------------------------------------------------------


def test_a_hub_that_says_nothing_is_given_up_with_all_that_was_started(tmp_path):
    with silent_server() as port:
        begun = time.monotonic()
        with pytest.raises(HubUnreachable, match="no answer for 1 s; see that it runs"):
            call(Remote(f"git://127.0.0.1:{port}/x"), Place(cwd=tmp_path), "asking", *_ls(port), stall_ms=1_000)
        assert time.monotonic() - begun < 10


def _ls(port: int) -> tuple[str, str]:
    return "ls-remote", f"git://127.0.0.1:{port}/x"


def test_a_hub_that_is_not_there_is_told_at_once(tmp_path, repo):
    machine = Machine(tmp_path / "a", f"git://127.0.0.1:{free_port()}/{{workspace}}.git")
    with pytest.raises(HubUnreachable, match="it does not answer"):
        machine.open(repo).base()


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A web server on loopback; the value is its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def user_config(text: str) -> Iterator[None]:
    """What stands in the settings of the worker's user meanwhile."""
    path = Path(os.environ["HOME"]) / ".gitconfig"
    path.write_text(text)
    try:
        yield
    finally:
        path.unlink()


def _helper(user: str, password: str) -> str:
    return f'[credential]\n\thelper = "!f() {{ echo username={user}; echo password={password}; }}; f"\n'


@pytest.fixture
def refusing() -> Iterator[tuple[str, list[str]]]:
    """A web server that wants a password; the list fills with those it was given."""
    given: list[str] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given.append(self.headers.get("Authorization", ""))
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None: ...

    with served(Refusing) as url:
        yield url, given


def test_nobody_is_asked_for_a_password(tmp_path, repo, refusing, monkeypatch):
    url, given = refusing
    asked = tmp_path / "asked"
    program = tmp_path / "ask"
    program.write_text(f"#!/bin/sh\ntouch {asked}\necho x\n")
    program.chmod(0o755)
    for name in ("GIT_ASKPASS", "SSH_ASKPASS"):
        monkeypatch.setenv(name, str(program))
    monkeypatch.setenv("DISPLAY", ":0")
    settings = user_config(f"[core]\n\taskPass = {program}\n")
    with settings, pytest.raises(HubUnreachable, match="it refuses this user"):
        Machine(tmp_path / "a", f"{url}/{{workspace}}.git").open(repo).base()
    assert not asked.exists()
    assert set(given) == {""}


def test_credentials_are_those_of_the_user_s_own_git_and_stand_in_no_message(tmp_path, repo, refusing):
    url, given = refusing
    settings = user_config(_helper("ann", PASSWORD))
    with settings, pytest.raises(HubUnreachable, match="it refuses this user") as caught:
        Machine(tmp_path / "a", f"{url}/{{workspace}}.git").open(repo).base()
    assert any(word.startswith("Basic ") for word in given)
    assert PASSWORD not in str(caught.value)


def test_a_disk_that_is_full_is_told_and_nothing_is_lost(tmp_path, repo, monkeypatch):
    """A limit on the size of files there: what a full disk looks like to the git that writes to it."""
    a = Machine(tmp_path / "a", str(tmp_path / "disk"))
    at_a = a.open(repo)
    wt = at_a.checkout(TASK, "s", 1, at_a.base().commit)
    (wt.path / "a").write_bytes(os.urandom(300_000))
    with monkeypatch.context() as full:
        full.setattr("longtask.workspace.exchange.RECEIVE", "trap '' XFSZ; ulimit -f 20; git receive-pack")
        for _ in range(2):
            with pytest.raises(HubUnreachable, match=r"sending a commit: it is full.*File too large.*make room"):
                at_a.commit(wt, "x")
    commit = at_a.commit(wt, "x")
    assert refs_of(tmp_path / "disk" / f"{at_a.id}.git")[attempt_ref(TASK, "s", 1)] == commit


# --- killed in the middle ---------------------------------------------------------------------------------------------

KILLED = """
import pathlib, sys
from longtask.workspace import Workspace
home, id, hub, task, base, n = sys.argv[1:]
workspace = Workspace.at(pathlib.Path(home), id, hub)
wt = workspace.checkout(task, "s", int(n), base)
print("up", flush=True)
i = 0
while True:
    (wt.path / "a").write_text(f"{i}\\n" * 2000)
    workspace.checkpoint(wt)
    workspace.commit(wt, "x")
    workspace.advance(task, base)
    i += 1
    print(i, flush=True)
"""


@pytest.mark.parametrize("doing", ["push", "pack-objects", "receive-pack", "unpack-objects", "rev-list", "update-ref"])
def test_a_machine_that_is_cut_off_at_any_moment_leaves_a_hub_that_works(tmp_path, repo, doing):
    """All its processes die at once, those of git included."""
    a, b = (Machine(tmp_path / name, str(tmp_path / "disk")) for name in "ab")
    at_a = a.open(repo)
    base = at_a.base().commit
    words = [sys.executable, "-c", KILLED, str(b.home), at_a.id, b.hub, TASK, base, "1"]
    child = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() and child.stdout.readline()
    _kill_all(child, doing)
    there = tmp_path / "disk" / f"{at_a.id}.git"
    git_there(there, "fsck", "--connectivity-only")
    for lock in there.rglob("*.lock"):  # nobody waits ten minutes here
        os.utime(lock, (1, 1))
    for name, id in refs_of(there, f"refs/longtask/{TASK}").items():
        assert at_a.read_file(id, "b") == b"b\n", name
    again = b.work(at_a.id, "after", base, a="after\n")
    assert at_a.read_file(again, "a") == b"after\n"
    assert at_a.advance(TASK, again)


def _kill_all(child: subprocess.Popen[bytes], doing: str) -> None:
    """The process and all that it has started, whatever session they are in, as soon as one of them does `doing`."""
    family = [child.pid]
    while not any(doing.encode() in _command(pid) for pid in family[1:]):
        assert child.poll() is None
        family = [child.pid]
        for pid in family:
            family += _children(pid)
    for pid in family:  # the eldest first: none of them starts another
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    for pid in family:
        family += [other for other in _children(pid) if other not in family]
    for pid in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    child.wait()
    assert child.stdout is not None
    child.stdout.close()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for path in Path(f"/proc/{pid}/task").glob("*/children") for word in path.read_text().split()]
    except OSError:
        return []


# --- real servers -----------------------------------------------------------------------------------------------------


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[str]:
    """`git daemon` on loopback; the value is its URL."""
    served = tmp_path / "served"
    served.mkdir()
    port = free_port()
    command = ["git", "daemon", "--reuseaddr", "--listen=127.0.0.1", f"--port={port}", f"--base-path={served}"]
    command += ["--export-all", "--enable=receive-pack", "--verbose", str(served)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    if shutil.which("git-daemon", path=git_there(tmp_path, "--exec-path")) is None:
        pytest.skip("optional: this git comes without its daemon")
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env, process_group=0)
    assert process.stderr is not None
    assert "Ready to rumble" in process.stderr.readline()
    drain = threading.Thread(target=process.stderr.read)
    drain.start()
    yield f"git://127.0.0.1:{port}"
    os.killpg(process.pid, 15)
    process.wait()
    drain.join()
    process.stderr.close()


def test_a_server_is_a_hub_like_any_other(tmp_path, repo, daemon):
    a, b, c = (Machine(tmp_path / name, f"{daemon}/one.git") for name in "abc")
    there = tmp_path / "served" / "one.git"
    with pytest.raises(HubUnreachable, match=r"it refuses this user|there is no such repository"):
        a.open(repo).base()
    git_there(tmp_path, "init", "--quiet", "--bare", str(there))  # as its people make it: fresh and empty
    at_a = a.open(repo)
    base = at_a.base().commit
    first = assignment(at_a.id, base)
    places = a.places
    (a.begin(places, first) / "a").write_text("mine\n")
    tree = places.save_tree(a.home / "trees" / TASK / "s.1")
    shutil.rmtree(a.home / "trees")
    again = assignment(at_a.id, base, attempt=2, journal=(row(1, tree),), checkpoint=(1, tree))
    places = b.places
    mine = b.keep(places, again, b.begin(places, again)).commit or ""
    theirs = b.work(at_a.id, "other", base, b="theirs\n")
    at_c = c.at(at_a.id)
    merged = at_c.merge(theirs, mine, "m")
    assert isinstance(merged, Merged) and at_c.advance(TASK, merged.commit)
    assert at_a.read_file(merged.commit, "a") == b"mine\n"
    assert len(at_c.clean(TASK).dropped) == 3
    assert set(refs_of(there, f"refs/longtask/{TASK}")) == {f"refs/longtask/{TASK}/head"}


def test_a_server_that_hands_out_tips_only_is_enough(tmp_path, repo, monkeypatch):
    """What an ssh server does that does not let git ask for its newer protocol."""
    a, b = (Machine(tmp_path / name, f"file://{tmp_path}/hub.git") for name in "ab")
    at_a = a.open(repo)
    base = at_a.base().commit
    places = a.places
    (a.begin(places, assignment(at_a.id, base)) / "a").write_text("saved\n")
    tree = places.save_tree(a.home / "trees" / TASK / "s.1").partition("@")[0]
    one, two = a.work(at_a.id, "one", base, b="1\n"), a.work(at_a.id, "two", base, c="2\n")
    merged = at_a.merge(one, two, "m")
    assert isinstance(merged, Merged)
    at_b = b.at(at_a.id)
    monkeypatch.setattr("longtask.workspace.remote.NETWORK", {**NETWORK, "protocol.version": "0"})
    assert (at_b.checkout(TASK, "s", 2, base, tree).path / "a").read_text() == "saved\n"
    assert at_b.contains(merged.commit, two)


class Backend(BaseHTTPRequestHandler):
    """`git http-backend` behind a password, as a web server runs it."""

    root: Path
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.headers.get("Authorization") != "Basic " + b64encode(f"ann:{PASSWORD}".encode()).decode():
            self._answer(401, [("WWW-Authenticate", 'Basic realm="x"')], b"")
            return
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        env |= {"GIT_PROJECT_ROOT": str(self.root), "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_USER": "ann"}
        env |= {"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command}
        env |= {"CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body))}
        env |= {"HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", "")}
        env |= {"GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = [tuple(line.split(": ", 1)) for line in head.decode().splitlines()]
        status = next((int(value.split()[0]) for name, value in headers if name == "Status"), 200)
        self._answer(status, [(name, value) for name, value in headers if name != "Status"], content)

    do_POST = do_GET

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None: ...


def test_a_web_server_that_wants_a_password_gets_it_from_the_user_s_git(tmp_path, repo):
    there = tmp_path / "served" / "hub.git"
    git_there(tmp_path, "init", "--quiet", "--bare", str(there))
    handler = type("Handler", (Backend,), {"root": there.parent})
    with served(handler) as url, user_config(_helper("ann", PASSWORD)):
        a, b = (Machine(tmp_path / name, f"{url}/hub.git") for name in "ab")
        at_a = a.open(repo)
        commit = b.work(at_a.id, "s", at_a.base().commit, a="1\n")
        assert at_a.read_file(commit, "a") == b"1\n"
        assert at_a.advance(TASK, commit) and at_a.clean(TASK).dropped
        place = b.begin(b.places, assignment(at_a.id, commit, "t"))
    assert all(PASSWORD.encode() not in path.read_bytes() for path in b.root.rglob("*") if path.is_file())
    assert PASSWORD not in git_there(place, "config", "--list")


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What git takes for ssh: it notes its options, and runs the other side here, as a server of old that does not
    pass on which protocol was asked for."""
    noted, folder = tmp_path / "noted", tmp_path / "bin"
    folder.mkdir()
    program = folder / "ssh"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {noted}\nunset GIT_PROTOCOL\nfor last; do :; done\nexec sh -c "$last"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    own_ssh.cache_clear()
    return noted


@pytest.mark.parametrize("form", ["git@host:{}", "ssh://git@host{}"])
def test_ssh_never_asks_and_gives_up_in_time(tmp_path, repo, ssh, form):
    there = tmp_path / "served" / "hub.git"
    git_there(tmp_path, "init", "--quiet", "--bare", str(there))
    a, b = (Machine(tmp_path / name, form.format(there)) for name in "ab")
    at_a = a.open(repo)
    commit = b.work(at_a.id, "s", at_a.base().commit, a="1\n")
    assert at_a.read_file(commit, "a") == b"1\n"
    for line in ssh.read_text().splitlines():
        assert "-oBatchMode=yes" in line and "-oConnectTimeout=20" in line


def test_how_the_user_s_git_runs_ssh_is_respected(tmp_path, repo, ssh):
    there = tmp_path / "served" / "hub.git"
    git_there(tmp_path, "init", "--quiet", "--bare", str(there))
    with user_config("[core]\n\tsshCommand = ssh -i my-key\n[ssh]\n\tvariant = ssh\n"):
        own_ssh.cache_clear()
        Machine(tmp_path / "a", f"git@host:{there}").open(repo).base()
    own_ssh.cache_clear()
    assert all(line.startswith("-i my-key") for line in ssh.read_text().splitlines())


# --- what it costs ----------------------------------------------------------------------------------------------------


def test_without_a_shared_hub_nothing_more_is_asked_of_git(repo, workspace, base, monkeypatch):
    """One attempt, from its folder to the branch: as many commands as before there were shared hubs."""
    commands: list[str] = []
    real = subprocess.run

    def counted(words, **more):
        commands.append(words[2])
        return real(words, **more)

    monkeypatch.setattr("longtask.workspace.git.subprocess.run", counted)
    wt = workspace.checkout(TASK, "s", 1, base)
    (wt.path / "a").write_text("1\n")
    commands_of = {"checkout": len(commands)}
    workspace.checkpoint(wt)
    commands_of["checkpoint"] = len(commands) - sum(commands_of.values())
    commit = workspace.commit(wt, "x")
    commands_of["commit"] = len(commands) - sum(commands_of.values())
    workspace.merge(base, commit, "m")
    commands_of["merge"] = len(commands) - sum(commands_of.values())
    workspace.advance(TASK, commit)
    commands_of["advance"] = len(commands) - sum(commands_of.values())
    assert commands_of == {"checkout": 4, "checkpoint": 6, "commit": 7, "merge": 2, "advance": 2}
    assert "ls-remote" not in commands and "push" not in commands and "cat-file" not in commands


def test_nothing_is_fetched_that_is_here(tmp_path, repo):
    a = Machine(tmp_path / "a", str(tmp_path / "disk"))
    at_a = a.open(repo)
    base = at_a.base().commit
    commit = a.work(at_a.id, "s", base, a="1\n")
    (tmp_path / "disk").rename(tmp_path / "away")
    assert at_a.stat(base, commit).paths == ("a",)
    assert at_a.merge(base, commit, "m") == Merged(commit)
    assert Workspace.at(a.home, at_a.id, a.hub).checkout(TASK, "t", 1, commit).path.is_dir()
    assert read_refs(at_a.hub, attempt_ref(TASK, "s", 1))
