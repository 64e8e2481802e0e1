"""Runs the `git` program, and nothing else does.

A repository is not trusted: whoever wrote it must not get a program of theirs run by merely being looked at.  So every
call has an environment of ours (no inherited GIT_*, no system or user settings, no prompt, no pager) and settings that
beat those of the repository (no hooks, no file watcher, no protocol but local files).  Filter programs
(`filter=lfs` ...) are never run: the hub knows none, and in the user's own repository `dirty.py` switches them off.  So
what a filter would have expanded stays in a worktree as it is stored, and goes back unchanged.

Names of files are bytes to git.  Here they are `str` as `os.fsdecode` makes them, which any bytes survive, and they
travel NUL-separated.  What git writes is flushed to the disk before a call returns (git's own default leaves new
objects to the system), since the journal will count on it.

Each call runs in a process group of its own: Ctrl-C in a terminal must not break a commit that is under way.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from longtask.core.errors import WorkspaceError

VERSION_MIN = (2, 38)  # the first with `merge-tree --write-tree`
MESSAGE_MAX = 600  # characters of git's own words in an error of ours

NAME = "LongTask"
EMAIL = "longtask@localhost"

SETTINGS: Mapping[str, str] = {
    "safe.directory": "*",  # a repository of somebody else is read on purpose
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.alternateRefsCommand": "true",  # the program `true`: says nothing
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.fsync": "loose-object,pack,pack-metadata,reference",
    "core.fsyncMethod": "batch",
    "core.safecrlf": "false",
    "advice.addEmbeddedRepo": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "index.sparse": "false",
    "merge.renames": "true",
    "merge.conflictStyle": "merge",
    "protocol.version": "2",  # its server hands out any commit by id
    "submodule.recurse": "false",
}

ENVIRONMENT: Mapping[str, str] = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "file",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",  # a partial clone names a program that would bring what it lacks
    "GIT_AUTHOR_NAME": NAME,
    "GIT_AUTHOR_EMAIL": EMAIL,
    "GIT_COMMITTER_NAME": NAME,
    "GIT_COMMITTER_EMAIL": EMAIL,
    "LC_ALL": "C",
}

NO_PROTOCOL: Mapping[str, str] = {"GIT_ALLOW_PROTOCOL": ""}  # where an attempt has written the settings


class GitFailed(WorkspaceError):
    """A git command ended with an exit code that its caller did not expect."""

    def __init__(self, command: Sequence[str], where: str, code: int, said: str) -> None:
        self.code = code
        self.said = said
        words = " ".join(said.split())[:MESSAGE_MAX] or "it said nothing"
        super().__init__(f"git {command[0]!r} in '{shown(where)}' ended with {code}: {words}")


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    out: bytes
    err: str

    @property
    def line(self) -> str:
        """The output as one name, without the newline that ends it (a path may hold others)."""
        return os.fsdecode(self.out.removesuffix(b"\n"))

    @property
    def names(self) -> list[str]:
        """The output as NUL-separated names."""
        return [os.fsdecode(name) for name in self.out.split(b"\0") if name]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command works.  `git_dir` None: git finds the repository from `cwd`."""

    git_dir: Path | None = None
    work_tree: Path | None = None
    index: Path | None = None
    cwd: Path | None = None

    def environment(self) -> dict[str, str]:
        named = {"GIT_DIR": self.git_dir, "GIT_WORK_TREE": self.work_tree, "GIT_INDEX_FILE": self.index}
        return {name: str(path) for name, path in named.items() if path is not None}

    @property
    def folder(self) -> Path:
        found = self.cwd or self.work_tree or self.git_dir
        assert found is not None, "a git command needs a place"
        return found


def git(
    place: Place,
    *command: str,
    ok: Sequence[int] = (0,),
    stdin: bytes = b"",
    settings: Mapping[str, str] | None = None,
    env: Mapping[str, str | None] | None = None,
    hold: Sequence[int] = (),
    within_ms: int | None = None,
) -> Answer:
    """Run one command.  `ok`: exit codes that are answers; any other raises GitFailed.

    `env`: on top of ours; None takes a name out.
    `hold`: descriptors of locks that the command keeps for as long as it lives, even when we are killed.
    `within_ms`: for commands that read what an attempt wrote, such as a named pipe called `.gitignore`.
    """
    check_version()
    try:
        done = _run(
            ["git", "--no-pager", *command],
            cwd=place.folder,
            env=_environment(place, settings or {}, env or {}),
            stdin=stdin,
            hold=hold,
            within_ms=within_ms,
        )
    except subprocess.TimeoutExpired:
        raise GitFailed(command, str(place.folder), -9, f"stopped, not done within {within_ms} ms") from None
    said = done.stderr.decode("utf-8", "backslashreplace").strip()
    if done.returncode not in ok:
        raise GitFailed(command, str(place.folder), done.returncode, said)
    return Answer(done.returncode, done.stdout, said)


def _environment(place: Place, settings: Mapping[str, str], env: Mapping[str, str | None]) -> dict[str, str]:
    made = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    made.update(ENVIRONMENT)
    made.update(place.environment())
    chosen = {**SETTINGS, **settings}
    made["GIT_CONFIG_COUNT"] = str(len(chosen))
    for n, (key, value) in enumerate(chosen.items()):
        made[f"GIT_CONFIG_KEY_{n}"] = key
        made[f"GIT_CONFIG_VALUE_{n}"] = value
    for name, changed in env.items():
        if changed is None:
            made.pop(name, None)
        else:
            made[name] = changed
    return made


def _run(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes = b"",
    hold: Sequence[int] = (),
    within_ms: int | None = None,
) -> subprocess.CompletedProcess[bytes]:
    if not cwd.is_dir():
        raise WorkspaceError(f"folder '{shown(str(cwd))}' is gone: git cannot work there")
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            env=dict(env),
            input=stdin,
            capture_output=True,
            pass_fds=hold,
            process_group=0,
            timeout=None if within_ms is None else within_ms / 1000,
            check=False,
        )
    except FileNotFoundError:
        raise WorkspaceError("program 'git' was not found: install git and put it on PATH") from None


@cache
def check_version() -> None:
    """Raises WorkspaceError for a git that is too old to merge outside a worktree."""
    done = _run(["git", "--version"], cwd=Path("/"), env=os.environ)
    said = done.stdout.decode("ascii", "replace")
    found = re.search(r"(\d+)\.(\d+)", said)
    if not found or (int(found[1]), int(found[2])) < VERSION_MIN:
        wanted = ".".join(map(str, VERSION_MIN))
        raise WorkspaceError(f"git {wanted} or newer is needed, found {said.strip()!r}: upgrade git")


def shown(name: str) -> str:
    """A file's name as it may stand in a message: bytes that are no text, and control characters, are spelled out."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def quoted(path: Path) -> str:
    """A path as a list of object folders takes it, whatever is in it."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold the lock file `path`; the value is its descriptor, for `hold`.

    The system frees it when the last holder is gone, so whoever has it knows that a `*.lock` of git's that lies about
    was left by the dead.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)
