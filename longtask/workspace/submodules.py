"""Submodules: what the index and .gitmodules say of them.

A worktree has their folders, empty: it is the set-up that fills them (`git submodule update --init`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from longtask.workspace.git import Place, git
from longtask.workspace.hub import Hub

GITLINK = b"160000"
_MODE = 0o160000.to_bytes(4)  # as it stands in an index; what else has these bytes costs a question to git, no more


def links(place: Place, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Commits of submodules by their paths, as the index has them."""
    assert place.index is not None
    if _MODE not in place.index.read_bytes():
        return {}
    entries = git(place, "ls-files", "--stage", "-z", env=env).out.split(b"\0")
    found = [entry.split(b"\t", 1) for entry in entries if entry.startswith(GITLINK)]
    return {os.fsdecode(path): words.split(b" ")[1].decode() for words, path in found}


def modules(place: Place, folder: Path) -> dict[str, str]:
    """What .gitmodules of a worktree says: `submodule.NAME.path` and so on.  A link in its place is not followed."""
    file = folder / ".gitmodules"
    if file.is_symlink() or not file.is_file():
        return {}
    words = ("config", "--file", str(file), "-z", "--get-regexp", r"^submodule\.")
    return dict(entry.partition("\n")[::2] for entry in git(place, *words, ok=(0, 1, 128)).names)


def name_places(hub: Hub, folder: Path) -> None:
    """Have the repository in a worktree know where submodules come from whose URL is relative: to what the user's own
    repository was cloned from, which is not told there, nor is a password in its URL."""
    named = modules(hub.place, folder)
    wanted = {key: url for key, url in named.items() if key.endswith(".url") and url.startswith(("./", "../"))}
    root = _cloned_from(hub) if wanted else None
    if root is None:
        return
    for key, url in wanted.items():
        git(Place(git_dir=folder / ".git"), "config", key, joined(root, url))


def _cloned_from(hub: Hub) -> str | None:
    if hub.origin is not None:
        return hub.origin.url
    if hub.host is not None or not hub.repository.is_dir():
        return None
    found = git(Place(git_dir=hub.repository), "config", "--get", "remote.origin.url", ok=(0, 1)).line
    if found.startswith(("http://", "https://")):
        parts = urlsplit(found)
        found = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return found or str(hub.folder)


def joined(root: str, url: str) -> str:
    """As git itself reads a relative URL."""
    root = root.rstrip("/")
    while url.startswith(("./", "../")):
        first, _, url = url.partition("/")
        if first == "..":
            at = max(root.rfind("/"), root.rfind(":"))
            root = root[:at] if at > 0 else root
    return f"{root}/{url}".rstrip("/")
