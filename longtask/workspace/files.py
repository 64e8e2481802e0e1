"""Files as a commit holds them: which there are, and their bytes as they are stored.

Nothing is checked out and no link is followed, so that a name leads to what stands under it in the commit, or nowhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from longtask.core.errors import NotFound
from longtask.workspace.git import git, shown
from longtask.workspace.hub import Hub, contains, has_commit
from longtask.workspace.names import task_refs

FILE, LINK = "file", "link"
_KINDS = {b"100644": FILE, b"100755": FILE, b"120000": LINK}  # others are folders, or repositories inside


@dataclass(frozen=True, slots=True)
class Entry:
    """`blob`: names its bytes.  `kind`: file, or link, whose bytes are where it points to."""

    path: str
    kind: str
    blob: str
    size_bytes: int


def entries(hub: Hub, commit: str, pattern: str = "**") -> Iterator[Entry]:
    """Those that fit, by path.  `*` and `?` stand for what is no slash, `**/` for any folders, `[a-z]` for a letter."""
    fits = glob(pattern)
    for entry in _entries(hub, "-r", commit):
        if fits.fullmatch(entry.path):
            yield entry


def entry(hub: Hub, commit: str, path: str) -> Entry:
    """Raises NotFound."""
    parts = path.split("/")
    if "\0" not in path and not {"", ".", ".."}.intersection(parts):
        for found in _entries(hub, commit, "--", path):
            if found.path == path:
                return found
    raise NotFound(f"file '{shown(path)}' is not in commit {commit[:12]}; give the path from the top of the repository")


def content(hub: Hub, blob: str) -> bytes:
    return git(hub.place, "cat-file", "blob", blob).out


def holds(hub: Hub, task_id: str, base: str, head: str, commit: str) -> bool:
    """The commit is of the task: its base, or made upon it and in its head or in what an attempt has delivered."""
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", commit) or not has_commit(hub, commit):
        return False
    if not contains(hub, commit, base):
        return False
    if contains(hub, head, commit):
        return True
    words = ("for-each-ref", "--count=1", f"--contains={commit}", f"{task_refs(task_id)}/attempts")
    return bool(git(hub.place, *words).out)


def glob(pattern: str) -> re.Pattern[str]:
    """Raises NotFound for one that cannot be read."""
    out = ""
    for found in re.finditer(r"\*\*/|\*\*|\*|\?|\[!?\]?[^]]*\]|.", pattern, re.DOTALL):
        part = found[0]
        match part:
            case "**/":
                out += "(?:.*/)?"
            case "**":
                out += ".*"
            case "*":
                out += "[^/]*"
            case "?":
                out += "[^/]"
            case _ if len(part) > 1:
                inner = part[1:-1].replace("\\", r"\\").replace("[", r"\[")
                out += f"(?!/)[{'^' + inner[1:] if inner.startswith('!') else inner}]"
            case _:
                out += re.escape(part)
    try:
        return re.compile(out, re.DOTALL)
    except re.error as error:
        raise NotFound(f"pattern {shown(pattern)!r} cannot be read: {error}") from error


def _entries(hub: Hub, *words: str) -> Iterator[Entry]:
    listed = git(hub.place, "ls-tree", "-z", "-l", "--full-tree", *words, env={"GIT_LITERAL_PATHSPECS": "1"})
    for line in listed.out.split(b"\0"):
        head, tab, path = line.partition(b"\t")
        if not tab:
            continue
        mode, _, blob, size = head.split()
        if mode in _KINDS:
            yield Entry(os.fsdecode(path), _KINDS[mode], blob.decode(), int(size))
