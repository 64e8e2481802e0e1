"""What a worker asks of whoever gives out work; all that it needs of the rest of LongTask.

`dispatch.Dispatch` answers at a store.  A worker that has none, elsewhere, is answered over HTTP
(`longtask/client/dispatcher.py`): what reaches it then is a round, what its own attempts need, and nothing of others.

A round is durable when it is answered, and not before: what it gives out may be started then, what it was told may be
forgotten.  Every call may be made again when its answer was lost: what has been recorded is not recorded twice, and a
claim that nobody has heard of is given out again, to the same worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from longtask.core.model import JsonMap, Outcome, Step, StepSpec, Task
from longtask.steps.contract import Assignment
from longtask.store.contract import Beat, Checkpoint, Chunk, JournalRow, Ref, WorkerRow


@dataclass(frozen=True, slots=True)
class Claimed:
    """A step that is this worker's now, as its rows were at the claim.  Elsewhere they tell no more than a worker
    looks at (`wire.claimed_map`)."""

    task: Task
    step: Step
    spec: StepSpec

    @property
    def ref(self) -> Ref:
        return Ref(self.task.id, self.step.key)


class Held(NamedTuple):
    """An attempt that a worker has in hand."""

    ref: Ref
    attempt: int


@dataclass(frozen=True, slots=True)
class Report:
    """`pool`: of the step.  `next`: a step of the same task may be claimed from that pool at once, if no other task has
    waited longer; `alone`: others are not looked for, since there are none, or it is not their turn."""

    ref: Ref
    attempt: int
    outcome: Outcome
    pool: str
    next: bool = False
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Reported:
    """What became of a report.  `over` False: somebody else held its task just then, so report it again.  `refused`:
    why it counts no more.  `claimed`: the task's next step.  `moved`: the task, if its head has moved or it has
    ended."""

    over: bool = True
    refused: str | None = None
    claimed: Claimed | None = None
    moved: Task | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a worker has room for, besides what its reports give back: `slots` steps of its pools, `system` ones.
    `alone`: a moment ago there was no other task; none is looked for if a report leads to a claim."""

    pools: tuple[str, ...]
    slots: int
    system: int
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """`reported`: of each report, in their order.  `found`: what was searched for, or given out before and not heard
    of.  `searched`: it was looked for."""

    reported: Sequence[Reported]
    found: Sequence[Claimed]
    searched: bool


class BrokenReport(Exception):
    """No row can hold the outcome of this report, by its place in the round; nothing of the round has happened.  Its
    `__cause__` says why."""

    def __init__(self, place: int) -> None:
        super().__init__(f"report {place} of the round cannot be recorded")
        self.place = place


class Dispatcher(Protocol):
    @property
    def lease_ms(self) -> int: ...
    def now(self) -> int:
        """The store's time, in ms since 1970 UTC."""

    def has_work(self, wanted: Wanted | None) -> bool:
        """A round may bring something.  A hint: it may be stale."""

    def round(self, worker: str, reports: Sequence[Report], wanted: Wanted | None) -> Round:
        """Records outcomes and claims steps, in one commit.  `wanted` None: no claims.  Raises BrokenReport."""

    def brief(self, claimed: Claimed) -> Assignment:
        """What the executor needs."""

    def beats(self, held: Sequence[Held]) -> Sequence[Beat | Exception | None]:
        """Prolongs each lease.  None: it is lost, stop the work and report nothing; an error: it is not known."""

    def journal_started(self, ref: Ref, attempt: int, run: int, row: JournalRow) -> bool: ...
    def journal_done(self, ref: Ref, attempt: int, run: int, row: JournalRow) -> bool: ...
    def checkpoint(self, ref: Ref, checkpoint: Checkpoint) -> bool: ...
    def output(self, ref: Ref, attempt: int, chunks: Sequence[Chunk]) -> bool: ...
    def drop_output(self, ref: Ref, attempt: int, numbers: range) -> bool: ...
    def progress(self, ref: Ref, attempt: int, done: int, total: int, text: str) -> bool: ...
    def put_artifact(self, claimed: Claimed, body: bytes, media_type: str) -> JsonMap:
        """{digest, size_bytes}; durable when it returns."""

    def read_artifact(self, claimed: Claimed, digest: str) -> bytes: ...


class Presence(Protocol):
    """Where a worker's loop shows that it is there, and hears that there may be work: the store, or a server."""

    def now(self) -> int: ...
    @property
    def hinted(self) -> bool: ...
    def wait(self, seconds: float) -> None: ...
    def next_due_at(self) -> int | None: ...
    def worker_seen(self, worker: WorkerRow) -> None: ...
    def worker_gone(self, worker_id: str) -> None: ...
    def forget_workers(self, before: int, limit: int) -> int: ...


class Elsewhere(Dispatcher, Presence, Protocol):
    """A server, as a worker on another machine sees it."""

    def path(self, workspace_id: str, digest: str) -> Path:
        """A local file with an artifact that an assignment has named.  Raises NotFound."""
