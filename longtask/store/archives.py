"""The part of the contract on tasks that come whole, from another database; see contract.py for the rest.

1. `bring` is one transaction: the task is there with all its rows, or nothing is.
2. Its output comes afterwards, since it may lie in a file of its own; bringing it again changes nothing.
3. What has happened elsewhere is no news: the feed tells none of its events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from longtask.core.change import ArtifactRow, Change
from longtask.core.events import Event
from longtask.core.model import Json, Signal


class RunCall(NamedTuple):
    """A row of the run journal of any step: `contract.JournalRow`."""

    step: str
    run: int
    n: int
    kind: str
    name: str
    fingerprint: str
    attempt: int
    body: Json
    tokens_in: int
    tokens_out: int
    micros: int | None
    started_at: int
    done_at: int


class Written(NamedTuple):
    """Output of an attempt of any step: `contract.Chunk`."""

    step: str
    attempt: int
    n: int
    stream: str
    body: bytes
    at: int


@dataclass(frozen=True, slots=True)
class Brought:
    """`change` creates the task: header, steps, edges and specs, without facts.  `events`: the whole journal, its first
    one without a number.  `artifacts`: each with its instant.  `signals`: all of them heard."""

    change: Change
    events: Sequence[Event]
    artifacts: Sequence[tuple[ArtifactRow, int]]
    signals: Sequence[Signal]
    calls: Iterable[RunCall]
    plan: str | None = None


class Archives(Protocol):
    def calls_of_task(self, task_id: str, after: tuple[str, int, int], limit: int) -> list[RunCall]:
        """By (step, run, n), above `after`."""

    def output_of_task(self, task_id: str, after: tuple[str, int, int], limit: int) -> list[Written]:
        """By (step, attempt, n), above `after`."""

    def bring(self, brought: Brought) -> int:
        """The number that the task has here.  Raises Refused: a task of this id, or with its idempotency key, is there
        already."""

    def bring_output(self, task_id: str, written: Sequence[Written]) -> None: ...
