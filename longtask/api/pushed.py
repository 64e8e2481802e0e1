"""Commits that a caller has pushed to the hub before it names them."""

from __future__ import annotations

import shlex

from longtask.api.server import Server
from longtask.core.errors import Refused
from longtask.core.model import Step, Task
from longtask.views.words import handle
from longtask.workspace.workspace import Workspace

COMMIT_PATTERN = "^([0-9a-f]{40}|[0-9a-f]{64})$"


def pushed(server: Server, task: Task, row: Step, ref: str, commit: str) -> Workspace:
    """Where the commit is, as `ref`.  Raises Refused: it is not there."""
    workspace = server.parts.merger.workspace(task.workspace_id)
    if not workspace.take_delivered(task.id, ref, commit):
        raise Refused(
            f"commit {commit[:12]} is not in the hub as {ref}; in a checkout that has it, this brings it there and "
            f"names it: longtask done {shlex.quote(handle(task))} {shlex.quote(row.key)} --commit {commit}"
        )
    return workspace
