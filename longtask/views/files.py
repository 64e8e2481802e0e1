"""Files of a task, as they stand at one of its commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from longtask.core.errors import NotFound, Refused
from longtask.core.model import Task
from longtask.views.words import handle

HEAD, BASE = "head", "base"
SIZE_BYTES_MAX = 5_000_000  # of one file: what is larger is no text that people read
TEXTS = {
    "csv": "text/csv",
    "diff": "text/x-diff",
    "json": "application/json",
    "markdown": "text/markdown",
    "md": "text/markdown",
    "patch": "text/x-diff",
}
BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"%PDF-": "application/pdf",
}
BYTES = "application/octet-stream"


class Holder(Protocol):
    """`workspace.workspace.Workspace`: what it knows of git is not loaded for it."""

    def holds(self, task_id: str, base: str, head: str, commit: str) -> bool: ...


class Entry(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def blob(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...


def commit_at(workspace: Callable[[str], Holder], task: Task, at: str) -> str:
    """`at`: head, base, or the full id of a commit of the task.  Raises Refused, NotFound."""
    if not task.workspace_id or task.base is None or task.head is None:
        raise Refused(f"task {handle(task)!r} has no workspace, hence no files")
    commit = {HEAD: task.head, BASE: task.base}.get(at, at)
    if commit in (task.head, task.base):
        return commit
    if not workspace(task.workspace_id).holds(task.id, task.base, task.head, commit):
        raise NotFound(f"task {handle(task)!r} has no commit {at!r}; name head, base, or the full id of one of its own")
    return commit


def readable(entry: Entry) -> Entry:
    """The same.  Raises NotFound for a link, which is not followed, and Refused for a file that is too large."""
    if entry.kind != "file":
        raise NotFound(f"'{entry.path}' is a symbolic link, which is not followed; name the file itself")
    if entry.size_bytes > SIZE_BYTES_MAX:
        raise Refused(
            f"file '{entry.path}' is {entry.size_bytes:,} bytes, the limit is {SIZE_BYTES_MAX:,}; "
            "let an artifact step keep it, or look at the task's branch"
        )
    return entry


def file_map(entry: Entry) -> dict[str, Any]:
    """An entry of the shape of `files --json`."""
    return {"path": entry.path, "kind": entry.kind, "size_bytes": entry.size_bytes, "blob": entry.blob}


def media_type(path: str, content: bytes) -> str:
    """By its bytes, so that no name makes a program of a text; what is neither text nor known is told as bytes."""
    for beginning, kind in BEGINNINGS.items():
        if content.startswith(beginning):
            return kind
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    try:
        content.decode()
    except UnicodeDecodeError:
        return BYTES
    if b"\0" in content:
        return BYTES
    return TEXTS.get(path.rpartition(".")[2].lower(), "text/plain") + "; charset=utf-8"
