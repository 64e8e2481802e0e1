"""The part of the contract on how much there is of everything, for metrics and traces.  Each reads a bounded number of
index entries or rows, however large the database is; see contract.py for the rest."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from longtask.telemetry.source import Call


class OpenCounts(NamedTuple):
    """Sums over open tasks, the oldest first, at most as many as were asked for."""

    tasks: int = 0
    paused: int = 0
    closing: int = 0
    open: int = 0  # from here on: steps
    ready: int = 0
    running: int = 0
    running_system: int = 0
    merging: int = 0
    wait_user: int = 0
    wait_ci: int = 0
    wait_event: int = 0
    wait_timer: int = 0
    wait_task: int = 0
    wait_mutex: int = 0

    @property
    def waiting(self) -> dict[str, int]:
        return {name.removeprefix("wait_"): n for name, n in self._asdict().items() if name.startswith("wait_")}

    @property
    def blocked(self) -> int:
        known = self.ready + self.running + self.running_system + self.merging + sum(self.waiting.values())
        return max(self.open - known, 0)


class Queue(NamedTuple):
    """Of a pool: tasks that have a step ready for it, and since when the one that has waited longest."""

    pool: str
    tasks: int
    due_at: int


class Gauges(Protocol):
    def open_counts(self, limit: int) -> OpenCounts: ...
    def queues(self, limit: int) -> list[Queue]:
        """By pool; at most so many tasks are looked at."""

    def calls(self, task_id: str, step: str, attempt: int, limit: int, *, bodies: bool = False) -> list[Call]:
        """What the run journal holds of an attempt, by (run, n)."""
