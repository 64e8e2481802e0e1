"""Commits that a caller has pushed to the hub before it names them."""

from __future__ import annotations

from longtask.api.server import Server
from longtask.core.errors import Refused
from longtask.core.model import Step, Task
from longtask.workspace.names import attempt_ref
from longtask.workspace.workspace import Workspace

COMMIT_PATTERN = "^([0-9a-f]{40}|[0-9a-f]{64})$"


def pushed(server: Server, task: Task, row: Step, attempt: int, commit: str) -> Workspace:
    """Where the commit is, as the attempt's.  Raises Refused: it is not there."""
    workspace = server.parts.merger.workspace(task.workspace_id)
    if not workspace.take_delivered(task.id, row.key, attempt, commit):
        ref = attempt_ref(task.id, row.key, attempt)
        raise Refused(f"commit {commit[:12]} is not in the hub as {ref}; push it there, then name it")
    return workspace
