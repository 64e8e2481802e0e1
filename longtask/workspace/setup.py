"""What `workspace.setup` makes (installed packages ...) is kept per state of the lock files and copied into worktrees.

A copy, never a hard link: a step that writes into its `node_modules` must not write into everybody's.  On file systems
that can, the copy shares its blocks until somebody writes.  An entry appears whole, by rename, and never changes; two
processes that make the same one both succeed.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from longtask.core.errors import Refused, WorkspaceError
from longtask.workspace import names
from longtask.workspace.git import git, shown
from longtask.workspace.hub import Hub
from longtask.workspace.tree import Worktree, delete, inner_path

LOCK_FILES = (
    "*.lock",
    "*.lockb",
    "*-lock.json",
    "*-lock.yaml",
    "npm-shrinkwrap.json",
    "package.json",
    "requirements*.txt",
    "constraints*.txt",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "go.mod",
    "go.sum",
    "go.work",
    "Cargo.toml",
    "pom.xml",
    "build.gradle*",
    "settings.gradle*",
    "gradle.properties",
    "libs.versions.toml",
    "Gemfile",
    "composer.json",
    "packages.config",
    "*.csproj",
    "Directory.Packages.props",
    "mix.exs",
    ".tool-versions",
    ".nvmrc",
    ".python-version",
)
MAKE_FILES = {"Makefile", "makefile", "GNUmakefile"}
_WORDS = re.compile(r"[\s;&|()<>\"'`$=]+")


def setup_key(
    hub: Hub,
    base: str,
    command: str,
    files: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """A digest of all that decides what `command` installs.  `files`: patterns that replace LOCK_FILES.

    A pattern with a slash is matched against the whole path, one without against the name alone, in any folder.  A file
    that the command names (`sh tools/setup.sh`) counts, too: else one branch's script would set up all the others.
    """
    patterns = tuple(files) if files is not None else LOCK_FILES
    words = {os.path.normpath(word) for word in _WORDS.split(command) if word}
    named = words | (MAKE_FILES if "make" in words else set())
    digest = hashlib.sha256()
    settings = [f"{name}={value}" for name, value in sorted((environment or {}).items())]
    for part in (command, sys.platform, platform.machine(), *settings):
        digest.update(os.fsencode(part) + b"\0")
    for entry in git(hub.place, "ls-tree", "-r", "-z", base).out.split(b"\0"):
        path = os.fsdecode(entry.partition(b"\t")[2])
        name = path.rsplit("/", 1)[-1]
        if path in named or any(fnmatch.fnmatchcase(path if "/" in pattern else name, pattern) for pattern in patterns):
            digest.update(entry + b"\0")
    return digest.hexdigest()[:32]


def save_cache(hub: Hub, wt: Worktree, key: str, paths: Sequence[str]) -> bool:
    """Keep `paths` of the worktree under `key`.  False: somebody already has; paths that are not there are left out."""
    entry = _entry(hub, key)
    if entry.exists():
        return False
    entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".", dir=entry.parent))
    try:
        kept = [inner_path(path) for path in paths if os.path.lexists(_inside(wt, path))]
        for n, path in enumerate(kept):
            _copy(wt.path / path, made / str(n))
        (made / "paths.json").write_text(json.dumps({"asked": _sorted(paths), "kept": kept}))
        made.rename(entry)
        return True
    except OSError as error:
        if entry.exists():  # another process was quicker
            return False
        raise WorkspaceError(f"setup cache {key!r} could not be kept: {error}") from error
    finally:
        if made.exists():
            delete(made)


def restore_cache(hub: Hub, wt: Worktree, key: str, paths: Sequence[str]) -> bool:
    """Copy what `save_cache` kept.  False: run the set-up (nothing kept, other paths, or something in the way)."""
    entry = _entry(hub, key)
    try:
        known = json.loads((entry / "paths.json").read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    if known["asked"] != _sorted(paths) or any(os.path.lexists(_inside(wt, path)) for path in paths):
        return False
    for n, path in enumerate(known["kept"]):
        target = wt.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(entry / str(n), target)
    os.utime(entry)  # its last use: the oldest go first
    return True


def trim_caches(hub: Hub, keep: int) -> int:
    """Delete all but the `keep` entries that were used last; returns how many went."""
    folder = _entry(hub, "x").parent
    if not folder.is_dir():
        return 0
    entries = sorted((e for e in folder.iterdir() if not e.name.startswith(".")), key=_used_at, reverse=True)
    for entry in entries[keep:]:
        gone = Path(tempfile.mkdtemp(prefix=".", dir=folder))
        entry.rename(gone / "gone")
        delete(gone)
    return len(entries[keep:])


def _used_at(entry: Path) -> int:
    return entry.stat().st_mtime_ns


def _entry(hub: Hub, key: str) -> Path:
    return hub.home / names.CACHES / hub.id / names.safe(key)


def _sorted(paths: Sequence[str]) -> list[str]:
    return sorted(inner_path(path) for path in paths)


def _inside(wt: Worktree, name: str) -> Path:
    """The path in the worktree; refused if a link on the way leads out of it."""
    path = wt.path / inner_path(name)
    if not Path(os.path.realpath(path.parent)).is_relative_to(os.path.realpath(wt.path)):
        raise Refused(f"path '{shown(name)}' leads out of the worktree by a symbolic link")
    return path


def _copy(source: Path, target: Path) -> None:
    """Copy a file, a link or a folder with modes and times; `target` does not exist."""
    done = subprocess.run(
        ["cp", "-a", "--reflink=auto", "--", str(source), str(target)], capture_output=True, check=False
    )
    if done.returncode == 0:
        return
    # No such option (not GNU), or no such program.
    if os.path.lexists(target):
        delete(target)
    if source.is_dir() and not source.is_symlink():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target, follow_symlinks=False)
