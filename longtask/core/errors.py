"""The error tree.  Every message says: what, which one, what was found, what to do.

LongTaskError
  Refused          well formed, but not now (HTTP 409)
    LeaseLost      an attempt that is not the newest wants to write: stop the work, report nothing
  NotFound         no such task, step, artifact (404)
  BadPlan          a plan, a growth or a value that breaks the rules (422); carries every problem
  StoreBusy        the store could not answer in time: try again (503)
    TaskLocked     another block holds this task just now; the rest of the group goes on
  StoreError       the store cannot be used as it is (500): read-only, corrupt, newer version
    StoreUnavailable  not now, and waiting may mend it (503): disk full or failing, connection lost, server restarting
  WorkspaceError   the repository or the hub cannot be used as it is (500)
    HubUnreachable  the hub of a fleet does not answer, refuses, is full or lacks something: not the step's fault (503)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class LongTaskError(Exception):
    """Base of all errors that a caller may want to handle."""


class Refused(LongTaskError):
    """Well formed, but not now."""


class LeaseLost(Refused):
    """The attempt is not the newest, or its step is not running: stop the work, report nothing."""


class NotFound(LongTaskError):
    """No such thing."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a plan.  `line` and `column` count from 1; 0 means the place is not known."""

    message: str
    path: str = ""
    line: int = 0
    column: int = 0
    file: str = ""

    def __str__(self) -> str:
        if self.line:
            return f"{self.file or 'plan'}:{self.line}:{self.column}: {self.message}"
        return f"{self.path}: {self.message}" if self.path else self.message


class BadPlan(LongTaskError):
    """The plan breaks the rules; `problems` names everything that is wrong, not the first thing only."""

    def __init__(self, problems: Sequence[Problem] | str) -> None:
        self.problems: tuple[Problem, ...] = (Problem(problems),) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(str(p) for p in self.problems))


class StoreBusy(LongTaskError):
    """The store did not answer in time; the same call may go through later."""


class TaskLocked(StoreBusy):
    """Another block holds the task, and a later block of a group waits for nobody: leave it for the next round."""


class StoreError(LongTaskError):
    """The store cannot be used as it is."""


class StoreUnavailable(StoreError):
    """The store cannot be used just now, and waiting may mend that: nothing of the call was written, or it is not
    known whether it was."""


class WorkspaceError(LongTaskError):
    """The repository or the hub cannot be used as it is."""


class HubUnreachable(WorkspaceError):
    """The hub that machines share could not be read or written just now, and waiting may mend that.

    Nothing is lost: what was to be sent is still here, in the worktree and in this machine's cache, and the same call
    may be made again.  No failure of the step: it counts as trouble of the machine or its surroundings.
    """
