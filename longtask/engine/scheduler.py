"""What must happen though nobody asks.

Leases end, deadlines pass, ends are told, commits are merged, cancelled tasks are swept.  Any number of schedulers
may run; each round is guarded, bounded and idempotent, and recovery is nothing else.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

from longtask.core import decide
from longtask.core.errors import LongTaskError, NotFound, Refused, TaskLocked, WorkspaceError
from longtask.core.model import Lease, Task, TaskState
from longtask.core.policy import BATCH_MAX, LEASE_MS, TICK_HOLE_MS
from longtask.store.contract import ErrandRow, Ref, Store

from .activity import Activity
from .family import Done, Family
from .merging import Merger, follow_all, merge_step
from .scope import Expressions, Scopes
from .settling import TELLING, settle_apart, settle_quietly
from .waking import wake_on
from .writing import Writing, write

log = logging.getLogger("longtask.scheduler")

R = TypeVar("R")  # what a peek found: a step, a task

ROUND_MAX = 100  # refs looked at in one tick, of each kind
RECONCILE_EVERY_MS = 60_000
FOLLOW_BACK_MS = 3_600_000  # a machine that was away for longer has its newest tasks followed, no others
FOLLOW_MAX = 4  # tasks whose references are looked at in one tick: each takes git some 30 ms
MERGE_AGAIN_MS = 5_000  # after git could not merge at all
ASIDE_MS = 60_000  # after an error that nobody foresaw


class Scheduler:
    def __init__(
        self,
        store: Store,
        scopes: Scopes,
        expressions: Expressions,
        merger: Merger | None,
        *,
        lease_ms: int = LEASE_MS,
    ) -> None:
        self._store = store
        self._scopes = scopes
        self._expressions = expressions
        self._merger = merger
        self._lease_ms = lease_ms
        self._ticked_at: int | None = None
        self._steady_since = 0
        self._reconciled_at: int | None = None
        self._to_follow: deque[str] = deque()  # tasks
        self._ended_after: tuple[int, int] | None = None  # (ended_at, number): of those, more are to follow
        self._merge_not_before: dict[Ref, int] = {}
        self._activity = Activity(store)
        self._family = Family(store, scopes, expressions)
        self._aside: dict[object, int] = {}  # what an unexpected error was met about, and until when it is left alone

    def tick(self) -> int:
        """One bounded round; how much it moved."""
        now = self._store.now()
        if self._ticked_at is None or now - self._ticked_at > TICK_HOLE_MS:
            # the machine may have slept, and every worker's beat with it: give each a whole lease to come back
            self._steady_since = now
        self._aside = {ref: at for ref, at in self._aside.items() if at > now}
        found = self._store.look(ROUND_MAX)
        moved = 0
        if now - self._steady_since >= self._lease_ms:
            moved += self._together(found.expired, self._expire)
        moved += self._together(found.overdue, self._wake_overdue)
        moved += self._together(found.unheard, self._wake_on)
        moved += self._together(found.closing, self._sweep)
        moved += self._settle(found.unsettled)
        moved += self._together(found.callable, self._call)
        moved += self._run_errands(found.errands)
        moved += self._activity.look(now)
        moved += self._merge(now, found.mergeable)
        self._ticked_at = now  # a round that the store failed was none: an outage is a hole, too
        return moved

    # --- leases and deadlines -------------------------------------------------------------------------------------

    def _expire(self, lease: Lease) -> int:
        with write(self._store, lease.task_id, lease.step) as w:
            now_lease = w.tx.lease(lease.step)
            if now_lease is None:
                return 0
            step = w.step(lease.step)
            spec = w.spec(step)
            fix = None if spec.fix is None else w.tx.spec(spec.fix)
            w.add(decide.expire(w.task, step, spec, now_lease, w.now, fix))
            if w.moved:
                settle_quietly(w, lease.step)
            self._ended(w)
            return w.moved

    def _wake_overdue(self, ref: Ref) -> int:
        with write(self._store, ref.task_id, ref.step) as w:
            w.add(decide.overdue(w.task, w.step(ref.step), w.now))
            return w.moved

    def _call(self, ref: Ref) -> int:
        """The next in the queue of a free mutex.  Whoever does not come in time is passed over by a later round."""
        with write(self._store, ref.task_id, ref.step) as w:
            step = w.step(ref.step)
            if step.mutex is not None:
                w.add(decide.call(w.task, step, w.mutex(step, step.mutex)))
            return w.moved

    def _wake_on(self, task_id: str) -> int:
        with write(self._store, task_id) as w:
            return wake_on(w) + w.moved

    # --- telling, merging, sweeping -------------------------------------------------------------------------------

    def _settle(self, refs: Sequence[Ref]) -> int:
        if not refs:
            return 0
        conditional: list[Ref] = []
        moved = self._together(refs, lambda ref: self._tell(ref, conditional), TELLING)
        # an `if` is evaluated outside the lock, hence outside the group
        return moved + self._each(
            conditional, lambda ref: settle_apart(self._store, self._scopes, self._expressions, ref)
        )

    def _tell(self, ref: Ref, conditional: list[Ref]) -> int:
        with write(self._store, ref.task_id, ref.step, telling=TELLING) as w:
            if not settle_quietly(w, ref.step):
                conditional.append(ref)
            self._ended(w)
            return w.moved

    def _merge(self, now: int, found: Sequence[Ref]) -> int:
        if self._merger is None:
            return 0
        merger = self._merger
        self._merge_not_before = {ref: at for ref, at in self._merge_not_before.items() if at > now}
        refs = [ref for ref in found if ref not in self._merge_not_before]
        moved = self._each(refs, lambda ref: self._merge_one(merger, ref, now))
        if self._reconciled_at is None or now - self._reconciled_at >= RECONCILE_EVERY_MS:
            self._reconcile(now)
        self._follow_ended(now)
        some = [self._to_follow.popleft() for _ in range(min(FOLLOW_MAX, len(self._to_follow)))]
        follow_all(merger, [self._store.get_task(task_id) for task_id in some])  # what is durable, not what was to be
        return moved + len(some)  # else an idle machine would follow a few a second

    def _merge_one(self, merger: Merger, ref: Ref, now: int) -> int:
        """A repository that cannot be read or written stands in the way of its own tasks only."""
        try:
            return merge_step(self._store, merger, ref)
        except (WorkspaceError, NotFound, OSError) as error:  # its hub may be gone, the temporary folder be full
            log.warning("merge.failed task=%s step=%s: %s", ref.task_id, ref.step, error)
            self._merge_not_before[ref] = now + MERGE_AGAIN_MS
            return 0

    def _reconcile(self, now: int) -> None:
        """Open tasks, and those that have ended since the round before the last: the last commit may have ended one, or
        another machine has, and the branch belongs here.  A process that begins goes back an hour."""
        last = self._reconciled_at
        self._ended_after = (now - FOLLOW_BACK_MS if last is None else last - RECONCILE_EVERY_MS, 0)
        self._reconciled_at = now
        tasks = self._store.tasks(open_only=True, workspace_id=None, before=0, limit=ROUND_MAX)
        if last is None:
            newest = self._store.tasks(open_only=False, workspace_id=None, before=0, limit=ROUND_MAX)
            tasks += [task for task in newest if task.ended]
        self._follow_soon(tasks)

    def _follow_ended(self, now: int) -> None:
        """The next page of those that have ended, when the one before is worked off."""
        if self._ended_after is None or len(self._to_follow) >= ROUND_MAX:
            return
        page = self._store.prunable(now, self._ended_after, ROUND_MAX)
        self._ended_after = (page[-1].ended_at, page[-1].number) if len(page) == ROUND_MAX else None
        self._follow_soon(page)

    def _follow_soon(self, tasks: Iterable[Task]) -> None:
        more = (task.id for task in tasks if task.workspace_id)
        self._to_follow = deque(dict.fromkeys([*self._to_follow, *more]))

    def _sweep(self, task_id: str) -> int:
        with write(self._store, task_id) as w:
            if w.task.state is TaskState.CLOSING:
                w.move(decide.sweep(w.task, w.see(w.tx.sweepable(BATCH_MAX))))
            self._ended(w)
            return w.moved

    def _run_errands(self, rows: Sequence[ErrandRow]) -> int:
        """Each act in a transaction of its own on the other task; then one for all errands of a task, on that task.

        In no group: it would hold two tasks."""
        done: dict[str, list[Done]] = {}

        def act(row: ErrandRow) -> int:
            done.setdefault(row.task_id, []).append(self._family.act(row))
            return 1

        moved = self._each(rows, act)
        self._each(done, lambda task_id: self._family.over(task_id, done[task_id]))
        return moved

    def _ended(self, w: Writing) -> None:
        """Its folders are taken away soon."""
        if w.task.ended and w.task.workspace_id:
            self._to_follow.append(w.task.id)

    def _together(self, refs: Iterable[R], act: Callable[[R], int], telling: int = 0) -> int:
        """Small acts share a commit.  A group that has moved a batch ends, so that no lock covers many more rows; where
        one act moves so much, those that follow are not read ahead, since most would be read for nothing."""
        moved, left, size = 0, deque(refs), ROUND_MAX
        while left:
            before = moved
            with self._store.group():
                self._store.ahead([ref for ref in islice(left, size) if isinstance(ref, Ref)], telling)
                while left and moved - before < BATCH_MAX:
                    moved += self._each([left.popleft()], act)
            size = 1 if left else size
        return moved

    def _each(self, refs: Iterable[R], act: Callable[[R], int]) -> int:
        """What cannot be done about one task stands in the way of no other; it is tried again a minute later."""
        moved = 0
        for ref in refs:
            if ref in self._aside:
                continue
            try:
                moved += act(ref)
            except (Refused, NotFound, TaskLocked):
                continue  # a peek may be stale, and another scheduler faster
            except LongTaskError:
                raise
            except Exception:  # a bug, met by one task: this round tells it, the next ones pass it over
                self._aside[ref] = self._store.now() + ASIDE_MS
                raise
        return moved
