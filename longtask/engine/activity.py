"""Looks now and then how long tasks have been active (`core.active`), and writes BudgetNear and BudgetExceeded, so that
no decision reads the clock for it.

What was read is kept and read on from there; another scheduler, or this one after a restart, reads it anew.  A look
begins every LOOK_EVERY_MS and goes on from tick to tick, a bounded number of reads in each.  What it finds counts as of
its beginning, so it is never early: time that was reached before a look began is told by the end of that look.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from longtask.core.active import Active
from longtask.core.errors import NotFound, Refused, TaskLocked
from longtask.core.events import BudgetExceeded, BudgetNear, BudgetRaised, Event, Fact
from longtask.core.model import Task, TaskState
from longtask.core.policy import BATCH_MAX
from longtask.core.spending import near
from longtask.store.contract import Store

from .writing import write

LOOK_EVERY_MS = 5_000
TASKS_MAX = 100  # read at once
READS_MAX = 100  # pages of journals, in one tick
ACTIVE = "active"


@dataclass(slots=True)
class Seen:
    """What journals have told so far of a task with such a limit."""

    active: Active
    limit_ms: int
    near_ms: int = 0  # the limit of which it was told that it is near

    def hear(self, event: Event) -> str | None:
        """A child, when the event tells of one."""
        if event.task_id == self.active.task_id:
            match event.fact:
                case BudgetRaised(active_ms=int(limit_ms)):
                    self.limit_ms = limit_ms
                case BudgetNear(which="active_ms", limit=limit_ms):
                    self.near_ms = limit_ms
        return self.active.hear(event)


class Activity:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[str, Seen] = {}
        self._look: Iterator[int] | None = None  # the one that is under way
        self._began_at: int | None = None
        self.told_at = 0  # when the last look began that told all it found
        self._put_off = False  # something found in this look is for the next one to tell

    def look(self, now: int) -> int:
        """Some of a look; how much it moved, or 1 if it goes on."""
        if self._look is None:
            if self._began_at is not None and now - self._began_at < LOOK_EVERY_MS:
                return 0
            self._began_at, self._look, self._put_off = now, self._all(now), False
        try:
            return next(self._look)
        except StopIteration:
            self.told_at = self.told_at if self._put_off else self._began_at or 0
            self._look = None
            return 0
        except BaseException:
            self._look = None  # a generator that has raised goes on no more
            raise

    def _all(self, now: int) -> Iterator[int]:
        """Every task that has such a limit."""
        met: set[str] = set()
        before = 0
        while page := self._store.timed(before, TASKS_MAX):
            for task in page:
                if task.options.active_max_ms is None:
                    continue
                met.add(task.id)
                seen = self._seen.setdefault(task.id, Seen(Active(task.id), task.options.active_max_ms))
                yield from self._one(task.id, seen, now)
            before = page[-1].number
        self._seen = {task_id: seen for task_id, seen in self._seen.items() if task_id in met}

    def _one(self, task_id: str, seen: Seen, now: int) -> Iterator[int]:
        left, reads = list(seen.active.parts), 0
        while left:
            part = left.pop()
            page = self._page(seen, part)
            left += [child for child in map(seen.hear, page) if child is not None]
            if len(page) == BATCH_MAX and part in seen.active.parts:
                left.append(part)
            reads += 1
            if reads % READS_MAX == 0:
                yield 1
        seen.active.forget(now)
        try:
            task = self._store.get_task(task_id)
            if self._of_limit(task, seen, now) and (moved := self._tell(task_id, seen, now)):
                yield moved
        except (NotFound, Refused, TaskLocked):
            self._put_off = True  # others are at work on it, or it has ended

    def _page(self, seen: Seen, task_id: str) -> list[Event]:
        """The next events of one journal, none of them if it ends with its task, or the child is still to be made."""
        try:
            return self._store.events(task_id, seen.active.parts[task_id].seq, BATCH_MAX)
        except NotFound:
            return []

    def _tell(self, task_id: str, seen: Seen, now: int) -> int:
        with write(self._store, task_id) as w:
            while seen.active.parts[task_id].seq < w.task.seq and (page := self._page(seen, task_id)):
                for event in page:  # somebody may have raised the limit meanwhile
                    seen.hear(event)
            facts = self._of_limit(w.task, seen, now)
            w.add(facts)
            if BudgetExceeded(ACTIVE) in facts:
                w.stop_agents()
            return w.moved

    def _of_limit(self, task: Task, seen: Seen, now: int) -> list[Fact]:
        """What is to be told of it: that it is near, once, or reached."""
        if task.exceeded is not None or task.state not in (TaskState.ACTIVE, TaskState.PAUSED):
            return []
        active_ms, limit_ms = seen.active.ms(now), seen.limit_ms
        if active_ms >= limit_ms:
            return [BudgetExceeded(ACTIVE)]
        if near(active_ms, limit_ms) and seen.near_ms != limit_ms:
            return [BudgetNear("active_ms", active_ms, limit_ms)]
        return []
