"""`limits.active`: how long at least one attempt of a task has run, read from its journal (SEMANTICS 53).

The scheduler looks now and then and writes BudgetExceeded, so that no decision reads the clock for it.  What was read
is kept and read on from there; another scheduler, or this one after a restart, reads it anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from longtask.core.events import BudgetExceeded, BudgetRaised, Event, StepClaimed
from longtask.core.machine import STEP
from longtask.core.model import Kind, StepState, Task, TaskState
from longtask.core.policy import BATCH_MAX
from longtask.store.contract import Store

from .dispatch import STOP_BUDGET
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
    running: set[str] = field(default_factory=set)
    since: int = 0  # when the first of those began
    before_ms: int = 0  # until nothing ran

    def hear(self, event: Event) -> None:
        self.seq = event.seq
        match event.fact:
            case BudgetRaised(active_ms=int(limit_ms)):
                self.limit_ms = limit_ms
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
        if not self._over(task, seen, now):
            return 0
        with write(self._store, task.id) as w:
            if self._over(w.task, seen, w.now):  # somebody may have raised it meanwhile
                w.add([BudgetExceeded(ACTIVE)])
                w.ask_to_stop([step.key for step in w.tx.running(BATCH_MAX) if step.kind is Kind.AGENT], STOP_BUDGET)
            return w.moved

    def _over(self, task: Task, seen: Seen, now: int) -> bool:
        while seen.seq < task.seq and (page := self._store.events(task.id, seen.seq, BATCH_MAX)):
            for event in page:
                seen.hear(event)
        limited = task.exceeded is None and task.state in (TaskState.ACTIVE, TaskState.PAUSED)
        return limited and seen.active_ms(now) >= seen.limit_ms
