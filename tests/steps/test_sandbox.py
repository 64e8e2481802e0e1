"""`sandbox: bubblewrap`, with the real one: what a step may still write, read and reach."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from longtask.core.errors import NotFound
from longtask.steps import sandbox


def works() -> bool:
    """Whether this machine's kernel lets a user make namespaces."""
    tried = [sandbox.PROGRAM, "--unshare-all", "--ro-bind", "/", "/", "true"]
    return shutil.which(sandbox.PROGRAM) is not None and subprocess.run(tried, capture_output=True).returncode == 0


needs_bubblewrap = pytest.mark.skipif(not works(), reason="no bubblewrap that works: apt-get install bubblewrap")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home with a key, and LongTask's home in it with a worktree."""
    home = tmp_path / "user"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("a key")
    (home / ".netrc").write_text("a password")
    (home / "notes.txt").write_text("a note")
    (home / "state" / "trees" / "task" / "work.1").mkdir(parents=True)
    (home / "state" / "longtask.db").write_text("rows")
    monkeypatch.setenv("HOME", str(home))
    return home


def run(home: Path, command: str, *, network: bool = True, readable: tuple[Path, ...] = ()) -> tuple[int, str]:
    worktree = home / "state" / "trees" / "task" / "work.1"
    words = sandbox.prefix(worktree, readable=readable, home=home / "state", network=network)
    done = subprocess.run(
        [*words, "/bin/sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30
    )
    return done.returncode, done.stdout


@needs_bubblewrap
def test_it_writes_in_its_worktree_and_nowhere_else(home: Path, tmp_path: Path):
    assert run(home, "pwd; echo made > file")[0] == 0
    assert (home / "state/trees/task/work.1/file").read_text() == "made\n"
    for path in (home / "notes.txt", home / "new", Path("/etc/new"), Path("/usr/new")):
        code, said = run(home, f"echo x > {path}")
        assert code != 0 and "Read-only" in said
    assert run(home, "echo x > /tmp/gone")[0] == 0 and not Path("/tmp/gone").exists()


@needs_bubblewrap
def test_it_reads_no_credentials_and_nothing_of_longtask(home: Path):
    assert run(home, f"cat {home}/notes.txt") == (0, "a note")
    assert run(home, f"cat {home}/.netrc") == (0, "")
    assert run(home, f"ls {home}/.ssh") == (0, "")
    assert run(home, f"ls {home}/state") == (0, "agents\ntrees\n" if (home / "state/agents").exists() else "trees\n")
    assert run(home, f"cat {home}/state/longtask.db")[0] != 0


@needs_bubblewrap
def test_a_key_behind_a_link_is_not_read_where_it_lies(home: Path):
    kept = home / "kept"
    (home / ".ssh").rename(kept)
    (home / ".ssh").symlink_to(kept)
    assert run(home, f"cat {kept}/id")[0] != 0


@needs_bubblewrap
def test_what_is_named_is_read(home: Path):
    hub = home / "state" / "hubs" / "w"
    hub.mkdir(parents=True)
    (hub / "object").write_text("code")
    assert run(home, f"cat {hub}/object", readable=(hub,)) == (0, "code")
    assert run(home, f"echo x > {hub}/object", readable=(hub,))[0] != 0


@needs_bubblewrap
@pytest.mark.parametrize("network", [True, False])
def test_without_the_network_nothing_is_reached(home: Path, network: bool):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code, _ = run(home, f"exec 3<>/dev/tcp/127.0.0.1/{port}" if not Path("/bin/bash").exists() else
                      f"/bin/bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'", network=network)  # fmt: skip
    assert (code == 0) is network


@needs_bubblewrap
def test_it_sees_no_other_process_and_has_no_capability(home: Path):
    code, said = run(home, f"kill -0 {os.getpid()}; grep CapEff /proc/self/status")
    assert "CapEff:\t0000000000000000" in said and code == 0 and "o such process" in said


def test_a_machine_without_bubblewrap_says_so(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(home))
    with pytest.raises(NotFound, match="install the package bubblewrap, or say `sandbox: none`"):
        run(home, "true")


def test_what_a_fresh_worktree_borrows_is_read_from_it(tmp_path: Path):
    info = tmp_path / ".git" / "objects" / "info"
    info.mkdir(parents=True)
    (info / "alternates").write_text('"/hubs/w/objects"\n')
    assert sandbox.borrowed(tmp_path) == [Path("/hubs/w/objects")]
    assert sandbox.borrowed(tmp_path / "none") == []
