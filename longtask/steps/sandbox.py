"""`sandbox: bubblewrap`: what a step runs sees the machine, but changes its worktree only, and reads no credentials.

    stops        writing outside the worktree and its scratch folder; reading the credentials in the home folder, and
                 LongTask's own database, hubs and other worktrees; talking to services by sockets in /run and /tmp (a
                 container engine, a key agent); with `network: false`, any connection; seeing other processes
    does not     hide other files that the user may read; limit memory or processors; stop what a program does with
                 the network if it has one, or to its own worktree; stand up to a hole in the kernel

It is the kernel's user namespaces, by Debian's `bubblewrap`.  An agent's own process stays outside, since it talks to
its worker and its model: its shell is inside, and so is an agent that is a program of its own.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import longtask
from longtask.core.errors import NotFound

BUBBLEWRAP = "bubblewrap"
PROGRAM = "bwrap"
EMPTY = Path(longtask.__file__).parent / "py.typed"  # a file without a byte, whatever else is there
AGENTS = "agents"  # in LongTask's home: programs that it has fetched

HIDDEN = ("/tmp", "/var/tmp", "/run")  # empty inside, and its own
# In the home folder.  What is a folder is empty inside, what is a file is empty.
CREDENTIALS = (
    ".ssh .gnupg .aws .azure .kube .docker .netrc .git-credentials .npmrc .pypirc .pgpass .vault-token .terraform.d "
    ".config/gh .config/gcloud .config/git/credentials .config/op .config/hub .config/containers .cargo/credentials "
    ".cargo/credentials.toml .gem/credentials .m2/settings.xml .gradle/gradle.properties .bash_history .zsh_history "
    ".claude .claude.json .codex .local/share/keyrings .local/share/opencode .local/state/longtask "
    ".mozilla .config/google-chrome"
).split()
_NAMED = ("resolv.conf", "systemd/resolve")  # in /run: how names are looked up


def prefix(
    folder: Path, *, writable: Sequence[Path] = (), readable: Iterable[Path] = (), home: Path | None, network: bool
) -> list[str]:
    """The words before a command that make it run inside, in `folder`.  `home`: LongTask's.

    Raises NotFound when this machine has no bubblewrap."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise NotFound(
            "sandbox 'bubblewrap': this machine has no `bwrap`; install the package bubblewrap, or say `sandbox: none`"
        )
    words = [program, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
    words += ["--share-net"] if network else []
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for place in HIDDEN:
        words += ["--tmpfs", place]
    for name in _NAMED if network else ():
        words += ["--ro-bind-try", f"/run/{name}", f"/run/{name}"]
    if any(Path.home().is_relative_to(place) for place in HIDDEN):
        words += ["--ro-bind", os.fspath(Path.home()), os.fspath(Path.home())]
    words += [word for path in _credentials() for word in path]
    if home is not None and home.is_dir():
        words += ["--tmpfs", os.fspath(home)]
        readable = (home / AGENTS, *readable)
    for path in (*_python(), *readable):
        words += ["--ro-bind-try", os.fspath(path), os.fspath(path)]
    for path in (folder, *writable):
        words += ["--bind", os.fspath(path), os.fspath(path)]
    return [*words, "--chdir", os.fspath(folder), "--"]


def _credentials() -> Iterator[tuple[str, ...]]:
    for name in CREDENTIALS:
        path = Path(os.path.realpath(Path.home() / name))  # where a link leads: there it would be read
        if not path.exists():
            continue
        yield ("--tmpfs", os.fspath(path)) if path.is_dir() else ("--ro-bind", os.fspath(EMPTY), os.fspath(path))


def _python() -> Iterator[Path]:
    """What runs functions and agents, should it lie where nothing is seen."""
    yield from (Path(sys.base_prefix), Path(sys.prefix), Path(longtask.__file__).parent.parent)


def borrowed(worktree: Path) -> list[Path]:
    """The objects that a fresh worktree's repository borrows: of the hub.  Read before anything has run in it."""
    try:
        lines = (worktree / ".git" / "objects" / "info" / "alternates").read_text().splitlines()
    except OSError:
        return []
    return [Path(line.strip('"')) for line in lines if line]
