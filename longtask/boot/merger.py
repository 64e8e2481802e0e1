"""Merges, and the references that follow the journal: `engine.merging.Merger` by git."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from longtask.boot.late import LOADING
from longtask.core.model import Task, TaskState

if TYPE_CHECKING:
    from longtask.engine.merging import MergeResult
    from longtask.workspace.beside import Beside
    from longtask.workspace.positions import Positions
    from longtask.workspace.workspace import Workspace

FOLLOW_AGAIN_S = 600.0  # then a hub that was put back from a backup, say, is looked at again
FOLLOWED_MAX = 10_000


class GitMerger:
    """`engine.merging.Merger`.

    With a hub that machines share, what talks to it is done beside the caller, whose loop has other work to do: a merge
    that takes longer is asked for again, and references follow when they can.
    """

    def __init__(self, home: Path, shared: str | None = None) -> None:
        self._home = home
        self._shared = shared
        self._moving = threading.Lock()  # two threads that move one branch would be in each other's way
        self._beside: Beside | None = None
        self._followed: dict[str, tuple[str | None, TaskState, float]] = {}  # by task, and when
        self._positions: dict[str, Positions] = {}  # by workspace

    def merge(self, workspace_id: str, head: str, commit: str, message: str) -> MergeResult:
        if self._shared is None:
            return self._merge(workspace_id, head, commit, message)
        return self._aside().ask(self._merge, workspace_id, head, commit, message)

    def _merge(self, workspace_id: str, head: str, commit: str, message: str) -> MergeResult:
        with LOADING:
            from longtask.engine.merging import MergeResult
            from longtask.workspace.merge import Merged

        result = self.workspace(workspace_id).merge(head, commit, message)
        return MergeResult(result.commit) if isinstance(result, Merged) else MergeResult(None, result.paths)

    def follow(self, task: Task) -> None:
        if self._shared is None:
            self.follow_now(task)
        elif self._is_news(task):
            self._aside().later(task.id, self._follow_aside, task, time.monotonic())

    def _is_news(self, task: Task) -> bool:
        """Whoever has seen the hub equal the journal need not look again at once: there are many machines."""
        head, state, at = self._followed.get(task.id, (None, None, 0.0))
        return (head, state) != (task.head, task.state) or time.monotonic() - at > FOLLOW_AGAIN_S

    def follow_now(self, task: Task) -> None:
        """Waits for the hub.  For whoever has submitted a task and runs no worker: it fetches the task's branch.

        Raises LongTaskError.
        """
        told_at = time.monotonic()
        self._move(task)
        self._clean(task, told_at)

    def _follow_aside(self, task: Task, told_at: float) -> None:
        self._move(task)
        self._aside().later(f"clean {task.id}", self._clean, task, told_at, last=True)

    def _move(self, task: Task) -> None:
        if task.head is None or not task.workspace_id:
            return
        workspace = self.workspace(task.workspace_id)
        # what a child has merged appears with its parent's work
        branch = branch_of(task) if task.head != task.base and task.parent is None else None
        with self._moving:
            if not self._positions_since(workspace, time.monotonic() - FOLLOW_AGAIN_S).is_at(
                task.id, task.head, branch
            ):
                workspace.advance(task.id, task.head)
                if branch is not None:
                    workspace.publish(branch, task.head)
            if len(self._followed) >= FOLLOWED_MAX:
                self._followed.clear()
            self._followed[task.id] = (task.head, task.state, time.monotonic())

    def _clean(self, task: Task, told_at: float) -> None:
        """`told_at`: it had ended then."""
        if task.head is None or task.state not in (TaskState.COMPLETED, TaskState.CANCELLED):
            return  # a failed one may be taken up again
        workspace = self.workspace(task.workspace_id)
        with self._moving:
            if not self._positions_since(workspace, told_at).is_clean(task.id):
                workspace.clean(task.id)

    def _positions_since(self, workspace: Workspace, since: float) -> Positions:
        """Not older than that instant of `time.monotonic`."""
        found = self._positions.get(workspace.id)
        if found is None or found.taken_at < since:
            found = self._positions[workspace.id] = workspace.positions()
        return found

    def workspace(self, workspace_id: str) -> Workspace:
        with LOADING:
            from longtask.workspace.workspace import Workspace

        return Workspace.at(self._home, workspace_id, self._shared)

    def _aside(self) -> Beside:
        if self._beside is None:
            with LOADING:
                from longtask.workspace.beside import Beside

            self._beside = Beside()
        return self._beside

    def close(self) -> None:
        """What could not follow is found again by whoever runs next."""
        if self._beside is not None:
            self._beside.close()
            self._beside = None


def branch_of(task: Task) -> str:
    return f"longtask/{task.name}-{task.number}"
