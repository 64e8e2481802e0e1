"""What is not committed in the user's working tree, and a commit of it.

It is what the user's own git would list and record: with the user's lists of ignored files, settings of line endings
and attributes, but without the filter programs.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from longtask.core.errors import Refused
from longtask.workspace import filters, names
from longtask.workspace.git import Place, git, quoted, shown
from longtask.workspace.hub import Hub, Move, commit_tree, move_refs

NAMES_MAX = 8  # names in one message
_TIMES = re.compile(rb"  ([cm]time): (\d+):(\d+)\n")
OF_CONTENT = ("core.autocrlf", "core.eol")

THEIRS = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")


class DirtyTree(Refused):
    """The working tree holds what the base would not; `paths` names it."""

    def __init__(self, folder: Path, paths: Collection[str]) -> None:
        self.paths = tuple(paths)
        super().__init__(
            f"repository '{shown(str(folder))}': {counted(self.paths)} not committed: "
            "commit, or choose with --dirty ignore|include (leave out, or start from the files as they are)"
        )


@dataclass(frozen=True, slots=True)
class Changes:
    """What is not committed in the working tree.  Of these `unmerged`, `nested` (repositories inside) and `filtered`
    (files that a filter program would change on their way into a commit) cannot be included."""

    paths: tuple[str, ...] = ()
    unmerged: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    filtered: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.paths, *self.unmerged, *self.nested, *self.filtered)

    @property
    def left_out(self) -> str:
        return f"; left out: {listed(self.nested)} (repositories inside the repository)" if self.nested else ""


def changes(hub: Hub, aside: Iterable[Path]) -> Changes:
    """What `git status` would list there, by name.  `aside`: files that do not count."""
    if hub.folder == hub.repository:  # bare: there is no working tree
        return Changes()
    place, settings = Place(cwd=hub.folder), _settings(hub)
    words = ("--porcelain=v2", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=dirty")
    lines = git(place, "status", *words, settings=settings).names
    top = os.path.realpath(hub.folder)
    hidden = {os.path.relpath(os.path.realpath(path), top) for path in aside}
    ours = os.path.relpath(os.path.realpath(hub.home), top) + os.sep  # somebody may keep our home in the repository
    stored: dict[str, str] = {}  # by path, its blob; empty: the index has another than the commit, or none
    unmerged: list[str] = []
    nested: list[str] = []
    for line in lines:
        kind, fields = line[0], line[2:].split(" ", {"1": 7, "u": 9}.get(line[0], 0))
        path = fields[-1]
        if path in hidden or path.startswith(ours):
            continue
        if kind == "u":
            unmerged.append(path)
        elif path.endswith("/"):
            nested.append(path)
        else:
            stored[path] = fields[6] if kind == "1" and fields[0][0] == "." else ""
    there = [path for path in stored if (hub.folder / path).is_file() and not (hub.folder / path).is_symlink()]
    filtered = filters.drivers(place, there, settings)
    for path in [path for path in filtered if _as_stored(hub, path, stored[path])]:
        del stored[path], filtered[path]
    paths = tuple(path for path in stored if path not in filtered)
    return Changes(paths, tuple(unmerged), tuple(nested), tuple(filtered))


def _as_stored(hub: Hub, path: str, blob: str) -> bool:
    """A file that merely looks changed, since its filter was not run: it is as old as git knows it, or Git LFS has its
    content."""
    if not blob.strip("0"):
        return False
    if _as_old(hub, path):
        return True
    place = Place(git_dir=hub.repository)
    if int(git(place, "cat-file", "-s", blob).line) > filters.POINTER_BYTES_MAX:
        return False
    return filters.points_at(git(place, "cat-file", "blob", blob).out, hub.folder / path)


def _as_old(hub: Hub, path: str) -> bool:
    """Git itself looks into a file that was written in the same instant as its index."""
    words = ("ls-files", "--debug", "-z", "--", path)
    told = git(Place(cwd=hub.folder), *words, env={"GIT_LITERAL_PATHSPECS": "1"}).out
    found = (hub.folder / path).lstat()
    known = {name: int(s) * 10**9 + int(ns) for name, s, ns in _TIMES.findall(told)}
    return known == {b"ctime": found.st_ctime_ns, b"mtime": found.st_mtime_ns}


def include(hub: Hub, head: str | None, changes: Changes) -> str | None:
    """A commit of the working tree, written into the hub through an index of our own.  None: nothing to include."""
    if changes.unmerged:
        raise Refused(
            f"repository '{shown(str(hub.folder))}' is in the middle of a merge "
            f"({counted(changes.unmerged)} unmerged): finish it, or choose --dirty ignore"
        )
    if changes.filtered:
        raise Refused(
            f"repository '{shown(str(hub.folder))}': {counted(changes.filtered)} not committed, of those that go "
            "through a filter program (`filter` in .gitattributes), and none is run here: commit, or choose "
            "--dirty ignore"
        )
    if not changes.paths:
        return None
    objects = {
        "GIT_OBJECT_DIRECTORY": str(hub.path / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": quoted(hub.repository / "objects"),
    }
    with tempfile.TemporaryDirectory(prefix="longtask-") as folder:
        place, settings = Place(cwd=hub.folder, index=Path(folder) / "index"), _settings(hub)
        settings["core.splitIndex"] = "false"  # half of it would lie in the user's repository
        if head is not None:
            git(place, "read-tree", head, settings=settings, env=objects)
        names_in = b"".join(os.fsencode(path) + b"\0" for path in changes.paths)
        words = ("--add", "--remove", "--replace", "-z", "--stdin")
        git(place, "update-index", *words, stdin=names_in, settings=settings, env=objects)
        tree = git(place, "write-tree", settings=settings, env=objects).line
    parents = [head] if head is not None else []
    commit = commit_tree(hub, tree, parents, "Working tree as it was when the task was submitted\n")
    move_refs(hub, [Move(names.base_ref(commit), commit)])
    return commit


# As the user's own git sees it


def _settings(hub: Hub) -> dict[str, str]:
    attributes = users_file(hub.repository, "core.attributesFile", "attributes")
    found = git(
        Place(git_dir=hub.repository),
        *("config", "--includes", "-z", "--get-regexp", r"^core\.(autocrlf|eol)$"),
        ok=(0, 1, 128),
        env=_theirs(),
    )
    chosen = dict(entry.partition("\n")[::2] for entry in found.names)
    return {
        "core.excludesFile": str(hub.excludes),
        "core.attributesFile": str(attributes),
        **{name: chosen[name] or "true" for name in OF_CONTENT if name in chosen},
        **filters.switched_off(Place(cwd=hub.folder)),
    }


def users_file(repository: Path, setting: str, name: str) -> Path:
    """The file that the user's own settings name, or git's own place for it.  It need not be there."""
    named = git(
        Place(git_dir=repository),
        *("config", "--includes", "--type=path", "--get", setting),
        ok=(0, 1, 128),
        env=_theirs(),
    ).line
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return Path(named) if named else config / "git" / name


def _theirs() -> dict[str, str | None]:
    """The user's own settings are read, for a few names; nothing else in them is obeyed."""
    return {"GIT_CONFIG_COUNT": None, **{name: os.environ.get(name) for name in THEIRS}}


# Words


def counted(paths: Collection[str]) -> str:
    return f"{len(paths)} file{'s' if len(paths) != 1 else ''} ({listed(paths)})"


def listed(paths: Collection[str]) -> str:
    first = [f"'{shown(path)}'" for path in list(paths)[:NAMES_MAX]]
    more = len(paths) - len(first)
    return ", ".join(first) + (f" and {more} more" if more > 0 else "")
