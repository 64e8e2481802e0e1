"""Claims, runs, beats, reports.

`tick` does one bounded round and never blocks; `beat` is called by a thread of its own.

Order within a tick: what attempts have ended is collected; in one group their outcomes are recorded and new steps are
claimed; only when the group is durable are the new attempts started.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from longtask.core.decide import STOP_CANCEL
from longtask.core.errors import LeaseLost, LongTaskError, NotFound, Refused, TaskLocked
from longtask.core.model import POOL_SYSTEM, Failed, Kind, Outcome, StepSpec, Stopped, Task
from longtask.core.patience import PATIENCE_MS
from longtask.steps.contract import Executor
from longtask.store.contract import Store

from .attempt import Attempt, Places, Spawn, monotonic_ms, run_here
from .attempt_desk import AttemptDesk, PutArtifact
from .dispatch import Claimed, Dispatch
from .settling import TELLING

log = logging.getLogger("longtask.worker")

SYSTEM_MAX = 64  # system steps in hand at once: they hold no slot
GROUP_MAX = 64  # reports, and claims of a pool, in one commit: the database is locked for some 40 ms
DRAIN_GRACE_MS = 1_000  # with the way of a report to another worker, a step goes on there within two seconds
SPARE = (
    30  # so much of a lease earlier are process trees to be dead: a kill takes a moment, on a busy machine some 100 ms
)
ALONE_MS = 20  # how long a worker that saw no other task with work takes it that there is none
TURN_MS = (
    1_000  # so long a task keeps a slot that it was given, step after step; then whoever has waited longer gets it
)


class Worker:
    def __init__(
        self,
        store: Store,
        dispatch: Dispatch,
        executors: Mapping[Kind, Executor],
        *,
        id: str,
        slots: int,
        pools: Sequence[str] = ("default",),
        places: Places | None = None,
        put_artifact: PutArtifact,
        read_artifact: Callable[[str, str], bytes],
        runtime: Callable[[StepSpec], str | None] = lambda spec: None,
        spawn: Spawn = run_here,
        follow: Callable[[Task], None] | None = None,
        patience_ms: int = PATIENCE_MS,
    ) -> None:
        """`follow` makes a task's references equal its journal, later: it must not block.  What it misses, a scheduler
        repeats.  `patience_ms`: how long an attempt waits for what waiting may mend."""
        self.id = id
        self.slots = slots
        self.pools = tuple(pools)
        self.draining = False
        self._store = store
        self._dispatch = dispatch
        self._executors = executors
        self._places = places
        self._put, self._read = put_artifact, read_artifact
        self._runtime = runtime
        self._spawn = spawn
        self._follow = follow
        self._patience_ms = patience_ms
        self._attempts: list[Attempt] = []
        self._lock = threading.Lock()  # guards the list against the beat thread
        self._alone_until = 0

    @property
    def running(self) -> list[Attempt]:
        with self._lock:
            return list(self._attempts)

    @property
    def _held_ms(self) -> int:
        """How long an attempt may go on without a beat."""
        return self._dispatch.lease_ms - self._dispatch.lease_ms // SPARE

    # --- one round ------------------------------------------------------------------------------------------------

    def tick(self) -> int:
        now = self._store.now()
        ended, trouble = self._look(now)
        moved = self._drop_lost()
        if not ended and trouble is not None:
            raise trouble
        if not ended and not self._something_to_claim(now):
            return moved
        claims: list[Claimed] = []
        turns: list[
            int
        ] = []  # until when the slot is the task's, for each claim of a report; one that was searched for begins one
        over: list[Attempt] = []
        heads = self._dispatch.heads
        heads.clear()  # those of a group that did not go through
        with self._store.group():
            self._store.ahead([attempt.ref for attempt in ended], TELLING)
            for attempt in ended:
                try:
                    claimed = self._report(attempt, now)
                except TaskLocked:
                    continue  # another block holds its task just now: the next round reports it
                over.append(attempt)
                if claimed is not None:
                    claims.append(claimed)
                    turns.append(attempt.turn_until)
            claims += self._claim(now, len(over), claims)
            # so long their leases last at most, however long the commit takes; the first beat knows it better
            held_until_ms = monotonic_ms() + self._held_ms
        with self._lock:
            self._attempts = [a for a in self._attempts if a not in over]
        turns += [now + TURN_MS] * (len(claims) - len(turns))
        for claimed, turn_until in zip(claims, turns, strict=True):
            self._start(claimed, held_until_ms, turn_until)
        if self._follow is not None:
            for task in heads:
                self._follow(task)
        if trouble is not None:
            raise trouble
        return moved + len(over) + len(claims)

    def _look(self, now: int) -> tuple[list[Attempt], Exception | None]:
        """Attempts that have ended, and what the store said to the first one that it failed: the others go on."""
        ended: list[Attempt] = []
        trouble: Exception | None = None
        for attempt in self.running:
            try:
                if attempt.poll(now) is not None and not attempt.lost:
                    ended.append(attempt)
            except Exception as error:  # noqa: BLE001  told to the loop when all have been looked at
                trouble = trouble or error
        return ended[:GROUP_MAX], trouble

    def _drop_lost(self) -> int:
        """Attempts whose lease is gone: killed, and forgotten once their tree is dead.  They report nothing."""
        lost = [a for a in self.running if a.lost and a.outcome is not None]
        for attempt in lost:
            log.warning("lease.lost task=%s step=%s attempt=%d", attempt.ref.task_id, attempt.ref.step, attempt.number)
        if lost:
            with self._lock:
                self._attempts = [a for a in self._attempts if a not in lost]
        return len(lost)

    def _something_to_claim(self, now: int) -> bool:
        if self.draining:
            return False
        if self._room(0, []) and any(self._store.claimable(pool, 1) for pool in self.pools):
            return True
        return self._room_system(0, []) > 0 and bool(self._store.claimable(POOL_SYSTEM, 1))

    def _room(self, over: int, claims: list[Claimed]) -> int:
        held = sum(not a.system for a in self.running) + sum(c.step.pool != POOL_SYSTEM for c in claims)
        return max(self.slots - held + over, 0)

    def _room_system(self, over: int, claims: list[Claimed]) -> int:
        held = sum(a.system for a in self.running) + sum(c.step.pool == POOL_SYSTEM for c in claims)
        return max(SYSTEM_MAX - held + over, 0)

    def _report(self, attempt: Attempt, now: int) -> Claimed | None:
        pool = None
        if not self.draining and attempt.claimed.step.pool in self.pools:
            pool = attempt.claimed.step.pool
        outcome = attempt.outcome
        assert outcome is not None
        try:
            return self._send(attempt, outcome, pool, now)
        except LeaseLost as lost:
            log.warning("report.refused task=%s step=%s: %s", attempt.ref.task_id, attempt.ref.step, lost)
        except Refused:  # it is being cancelled: what has come of it counts no more, and its tree is dead
            try:
                return self._send(attempt, Stopped(), pool, now)
            except Refused as refused:
                log.warning("report.refused task=%s step=%s: %s", attempt.ref.task_id, attempt.ref.step, refused)
        except NotFound:
            log.warning("report.refused task=%s step=%s: not there", attempt.ref.task_id, attempt.ref.step)
        except LongTaskError:
            raise
        except Exception as broken:  # an outcome that no row can hold: the next round reports that instead
            attempt.outcome = Failed(f"its outcome cannot be recorded: {broken}", retryable=False)
            raise
        return None

    def _send(self, attempt: Attempt, outcome: Outcome, pool: str | None, now: int) -> Claimed | None:
        return self._dispatch.report(
            attempt.ref,
            attempt.number,
            outcome,
            worker=self.id,
            pool=pool,
            runtime=self._runtime,
            alone=now < max(self._alone_until, attempt.turn_until),
        )

    def _claim(self, now: int, over: int, claims: list[Claimed]) -> list[Claimed]:
        """Fills free slots.  A worker that has just been handed its next step looks for others only now and then."""
        if self.draining or (claims and now < self._alone_until):
            return []
        found: list[Claimed] = []
        for pool in self.pools:
            room = min(self._room(over, claims + found), GROUP_MAX)
            found += self._dispatch.claim(self.id, pool, room, self._runtime)
        found += self._dispatch.claim(self.id, POOL_SYSTEM, self._room_system(over, claims + found), self._runtime)
        if not found:
            self._alone_until = now + ALONE_MS
        return found

    def _start(self, claimed: Claimed, held_until_ms: int, turn_until: int) -> None:
        desk = AttemptDesk(self._dispatch, claimed, self._store.now, self._put, self._read)
        executor = self._executors[claimed.spec.kind]
        attempt = Attempt(
            claimed,
            self._dispatch,
            executor,
            self._places,
            desk,
            self._spawn,
            patience_ms=self._patience_ms,
            held_until_ms=held_until_ms,
            turn_until=turn_until,
        )
        with self._lock:
            self._attempts.append(attempt)

    # --- beside the rounds ----------------------------------------------------------------------------------------

    def beat(self) -> None:
        """Prolongs every lease; notes which are lost and which are asked to stop.  Raises the first error, when each
        has had its beat."""
        trouble: Exception | None = None
        for attempt in self.running:
            if attempt.lost or attempt.outcome is not None:
                continue
            began_ms = monotonic_ms()  # the lease is counted from here on, or from a later instant
            try:
                answer = self._dispatch.beat(attempt.ref, attempt.number)
            except Exception as error:  # noqa: BLE001  the others need their beats all the more
                trouble = trouble or error
                continue
            if answer is None:
                attempt.lost = True
                continue
            attempt.hold(began_ms + self._held_ms)
            if answer.stop is not None and (attempt.stop_reason is None or answer.stop == STOP_CANCEL):
                attempt.stop_reason = answer.stop
        if trouble is not None:
            raise trouble

    def drain(self, reason: str = "drain", grace_ms: int = DRAIN_GRACE_MS) -> None:
        """No more claims; running attempts are asked to give back, and killed after the grace.  Done when `running` is
        empty."""
        self.draining = True
        for attempt in self.running:
            attempt.grace_ms = grace_ms
            if attempt.stop_reason is None:
                attempt.stop_reason = reason

    def kill(self) -> None:
        for attempt in self.running:
            attempt.kill()
