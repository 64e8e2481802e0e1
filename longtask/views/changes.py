"""What a task, or a step of it, has changed in the code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from longtask.core.errors import Refused
from longtask.core.model import Step, Task
from longtask.views.words import handle


def range_of(task: Task, step: Step | None) -> tuple[str, str]:
    """Of a question the frozen range; of a step its own commit; else all of the task.  Raises Refused."""
    if not task.workspace_id or task.base is None or task.head is None:
        raise Refused(f"task {handle(task)!r} has no workspace, hence no diff")
    if step is None:
        return task.base, task.head
    frozen = ((step.question or {}).get("show") or {}).get("diff")
    if frozen:
        return str(frozen["base"]), str(frozen["head"])
    if step.commit is not None and step.base is not None:
        return step.base, step.commit
    raise Refused(f"step {step.key!r} has changed no code; leave the step out to see the diff of the whole task")


def end_of(task: Task, step: Step | None) -> str:
    """Where what has changed since some commit ends: of a question at the code that it is about.  Raises Refused."""
    asked = None if step is None else (step.question or {}).get("head")
    if asked:
        return str(asked)
    return range_of(task, step)[1]


class FileChange(Protocol):
    """`workspace.hub.FileStat`: what it knows of git is not loaded for it."""

    @property
    def path(self) -> str: ...
    @property
    def insertions(self) -> int: ...
    @property
    def deletions(self) -> int: ...


def changes_map(task: Task, base: str, head: str, changed: Iterable[FileChange]) -> dict[str, Any]:
    """The shape of `diff --json`."""
    files = [{"path": f.path, "insertions": f.insertions, "deletions": f.deletions} for f in changed]
    return {"task": task.id, "base": base, "head": head, "files": files}
