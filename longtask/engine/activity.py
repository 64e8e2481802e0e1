"""`limits.active`: how long at least one attempt of a task has run, read from its journal (SEMANTICS 53).

The scheduler looks now and then and writes BudgetNear and BudgetExceeded, so that no decision reads the clock for it.
What was read is kept and read on from there; another scheduler, or this one after a restart, reads it anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from longtask.core.events import BudgetExceeded, BudgetNear, BudgetRaised, Event, Fact, StepClaimed
from longtask.core.machine import STEP
from longtask.core.model import StepState, Task, TaskState
from longtask.core.policy import BATCH_MAX
from longtask.core.spending import near
from longtask.store.contract import Store

from .writing import write

LOOK_EVERY_MS = 5_000
TASKS_MAX = 100  # looked at in one round; the others come in the next
ENDS = tuple(STEP[StepState.RUNNING])
ACTIVE = "active"


@dataclass(slots=True)
class Seen:
    """What a task's journal has told so far."""

    limit_ms: int
    seq: int = 0
    near_ms: int = 0  # the limit of which it was told that it is near
    running: set[str] = field(default_factory=set)
    since: int = 0  # when the first of those began
    before_ms: int = 0  # until nothing ran

    def hear(self, event: Event) -> None:
        self.seq = event.seq
        match event.fact:
            case BudgetRaised(active_ms=int(limit_ms)):
                self.limit_ms = limit_ms
            case BudgetNear(which="active_ms", limit=limit_ms):
                self.near_ms = limit_ms
            case StepClaimed(step=key):
                if not self.running:
                    self.since = event.at
                self.running.add(key)
            case fact if isinstance(fact, ENDS) and fact.step in self.running:  # type: ignore[union-attr]
                self.running.discard(fact.step)  # type: ignore[union-attr]
                if not self.running:
                    self.before_ms += event.at - self.since

    def active_ms(self, now: int) -> int:
        return self.before_ms + (now - self.since if self.running else 0)


class Activity:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[str, Seen] = {}
        self._met: set[str] = set()  # since the newest task was looked at
        self._looked_at: int | None = None
        self._before = 0

    def look(self, now: int) -> int:
        """A bounded round over tasks that have such a limit; how much it moved."""
        if self._looked_at is not None and now - self._looked_at < LOOK_EVERY_MS:
            return 0
        self._looked_at = now
        tasks = self._store.tasks(open_only=True, workspace_id=None, before=self._before, limit=TASKS_MAX)
        moved = sum(self._look_at(task, now) for task in tasks if task.options.active_max_ms is not None)
        self._before = tasks[-1].number if len(tasks) == TASKS_MAX else 0
        if not self._before:
            self._seen = {task_id: seen for task_id, seen in self._seen.items() if task_id in self._met}
            self._met.clear()
        return moved

    def _look_at(self, task: Task, now: int) -> int:
        assert task.options.active_max_ms is not None
        self._met.add(task.id)
        seen = self._seen.setdefault(task.id, Seen(task.options.active_max_ms))
        if not self._of_limit(task, seen, now):
            return 0
        with write(self._store, task.id) as w:
            facts = self._of_limit(w.task, seen, w.now)  # somebody may have raised it meanwhile
            w.add(facts)
            if BudgetExceeded(ACTIVE) in facts:
                w.stop_agents()
            return w.moved

    def _of_limit(self, task: Task, seen: Seen, now: int) -> list[Fact]:
        """What is to be told of it: that it is near, once, or reached."""
        while seen.seq < task.seq and (page := self._store.events(task.id, seen.seq, BATCH_MAX)):
            for event in page:
                seen.hear(event)
        if task.exceeded is not None or task.state not in (TaskState.ACTIVE, TaskState.PAUSED):
            return []
        active_ms, limit_ms = seen.active_ms(now), seen.limit_ms
        if active_ms >= limit_ms:
            return [BudgetExceeded(ACTIVE)]
        if near(active_ms, limit_ms) and seen.near_ms != limit_ms:
            return [BudgetNear("active_ms", active_ms, limit_ms)]
        return []
