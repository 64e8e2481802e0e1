"""Where references stand, of all tasks of a workspace at once.

Following one task takes git a dozen processes.  A process that begins looks an hour back, at thousands of tasks maybe,
nearly all of which stand right: three processes tell which.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from longtask.workspace import names
from longtask.workspace.exchange import listed
from longtask.workspace.git import Place
from longtask.workspace.hub import Hub, read_refs, refs_in
from longtask.workspace.publish import PREFIX
from longtask.workspace.tree import worktrees


@dataclass(frozen=True, slots=True)
class Positions:
    """As it was at `taken_at` (`time.monotonic`).  `refs`: of the hub that machines share, else of this machine's.
    `littered`: tasks (as refs name them) with more than a head, in either.  `branches`: of the user's repository; None:
    it is not on this machine."""

    taken_at: float
    home: Path
    refs: Mapping[str, str]
    littered: frozenset[str]
    branches: Mapping[str, str] | None

    def is_at(self, task_id: str, head: str, branch: str | None) -> bool:
        """The references of the task were at its head: they stay, since they never go back.  `branch` None: it is to
        have none."""
        shown = branch is None or self.branches is None or self.branches.get(f"refs/heads/{branch}") == head
        return shown and self.refs.get(names.head_ref(task_id)) == head

    def is_clean(self, task_id: str) -> bool:
        """Nothing but the head was left of it.  Counts for a task that had ended when this was taken."""
        return names.safe_task(task_id) not in self.littered and not worktrees(self.home, task_id)


def positions(hub: Hub) -> Positions:
    """Raises HubUnreachable, WorkspaceError."""
    taken_at = time.monotonic()
    here = read_refs(hub, names.REFS)
    refs = here if hub.remote is None else listed(hub, f"{names.REFS}/*")
    littered = frozenset(ref.split("/")[2] for ref in (*here, *refs) if not ref.endswith("/head"))
    branches = None
    if hub.host is None and hub.origin is None and hub.repository.exists():
        branches = refs_in(Place(git_dir=hub.repository), f"refs/heads/{PREFIX}")
    return Positions(taken_at, hub.home, refs, littered, branches)
