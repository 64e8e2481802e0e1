"""Claims, runs, beats, reports.

`tick` does one bounded round and never blocks; `beat` is called by a thread of its own.

Order within a tick: what attempts have ended is collected; in one round of the dispatcher their outcomes are recorded
and new steps are claimed; only when that is durable are the new attempts started.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from longtask.core.decide import STOP_CANCEL
from longtask.core.model import Failed, Kind, Task
from longtask.core.patience import PATIENCE_MS
from longtask.steps.contract import Executor

from .attempt import Attempt, Places, Spawn, monotonic_ms, run_here
from .attempt_desk import AttemptDesk
from .dispatcher import BrokenReport, Claimed, Dispatcher, Held, Report, Wanted

log = logging.getLogger("longtask.worker")

SYSTEM_MAX = 64  # system steps in hand at once: they hold no slot
REPORTS_MAX = 64  # in one round
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
        dispatch: Dispatcher,
        executors: Mapping[Kind, Executor],
        *,
        id: str,
        slots: int,
        pools: Sequence[str] = ("default",),
        system: bool = True,
        places: Places | None = None,
        spawn: Spawn = run_here,
        follow: Callable[[Task], None] | None = None,
        patience_ms: int = PATIENCE_MS,
    ) -> None:
        """`system`: it carries out system steps too.  `follow` makes a task's references equal its journal, later: it
        must not block, and what it misses, a scheduler repeats.  `patience_ms`: how long an attempt waits for what
        waiting may mend."""
        self.id = id
        self.slots = slots
        self.pools = tuple(pools)
        self.draining = False
        self._system_max = SYSTEM_MAX if system else 0
        self._dispatch = dispatch
        self._executors = executors
        self._places = places
        self._spawn = spawn
        self._follow = follow
        self._patience_ms = patience_ms
        self._attempts: list[Attempt] = []
        self._lock = threading.Lock()  # guards the list against the beat thread
        self._alone_until = 0
        self._drained: tuple[str, int] | None = None  # why, and what grace there is

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
        now = self._dispatch.now()
        ended, trouble = self._look(now)
        moved = self._drop_lost()
        if not ended and trouble is not None:
            raise trouble
        wanted = self._wanted(now)
        if not ended and not self._dispatch.has_work(wanted):
            return moved
        reports = [self._report(attempt, now) for attempt in ended]
        began_ms = monotonic_ms()  # leases of this round are counted from a later instant
        try:
            round = self._dispatch.round(self.id, reports, wanted)
        except BrokenReport as broken:  # the next round reports that instead
            why = broken.__cause__
            ended[broken.place].outcome = Failed(f"its outcome cannot be recorded: {why}", retryable=False)
            raise (why or broken) from None
        if round.searched and not round.found:
            self._alone_until = now + ALONE_MS
        over: list[Attempt] = []
        claims: list[tuple[Claimed, int]] = []  # and until when the slot is the task's
        for attempt, told in zip(ended, round.reported, strict=True):
            if told.over:
                over.append(attempt)
            if told.refused is not None:
                log.warning("report.refused task=%s step=%s: %s", *attempt.ref, told.refused)
            if told.claimed is not None:
                claims.append((told.claimed, attempt.turn_until))
        claims += [(claimed, now + TURN_MS) for claimed in round.found]
        if over:
            with self._lock:
                self._attempts = [a for a in self._attempts if a not in over]
        for claimed, turn_until in claims:
            self._start(claimed, began_ms + self._held_ms, turn_until)
        if self._follow is not None:
            for told in round.reported:
                if told.moved is not None:
                    self._follow(told.moved)
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
        return ended[:REPORTS_MAX], trouble

    def _drop_lost(self) -> int:
        """Attempts whose lease is gone: killed, and forgotten once their tree is dead.  They report nothing."""
        lost = [a for a in self.running if a.lost and a.outcome is not None]
        for attempt in lost:
            log.warning("lease.lost task=%s step=%s attempt=%d", attempt.ref.task_id, attempt.ref.step, attempt.number)
        if lost:
            with self._lock:
                self._attempts = [a for a in self._attempts if a not in lost]
        return len(lost)

    def _wanted(self, now: int) -> Wanted | None:
        if self.draining:
            return None
        running = self.running
        system = sum(attempt.system for attempt in running)
        slots = max(self.slots - (len(running) - system), 0)
        return Wanted(self.pools, slots, max(self._system_max - system, 0), alone=now < self._alone_until)

    def _report(self, attempt: Attempt, now: int) -> Report:
        outcome, pool = attempt.outcome, attempt.claimed.step.pool
        assert outcome is not None
        return Report(
            attempt.ref,
            attempt.number,
            outcome,
            pool,
            next=not self.draining and (pool in self.pools or attempt.system),
            alone=now < max(self._alone_until, attempt.turn_until),
        )

    def _start(self, claimed: Claimed, held_until_ms: int, turn_until: int) -> None:
        desk = AttemptDesk(self._dispatch, claimed)
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
        if self._drained is not None:  # it was given out before, and its answer was lost
            attempt.stop_reason, attempt.grace_ms = self._drained
        with self._lock:
            self._attempts.append(attempt)

    # --- beside the rounds ----------------------------------------------------------------------------------------

    def beat(self) -> None:
        """Prolongs every lease; notes which are lost and which are asked to stop.  Raises the first error, when each
        has had its beat."""
        trouble: Exception | None = None
        beating = [a for a in self.running if not a.lost and a.outcome is None]
        began_ms = monotonic_ms()  # leases are counted from here on, or from a later instant
        answers = self._dispatch.beats([Held(a.ref, a.number) for a in beating])
        for attempt, answer in zip(beating, answers, strict=True):
            if isinstance(answer, Exception):
                trouble = trouble or answer
            elif answer is None:
                attempt.lost = True
            else:
                attempt.hold(began_ms + self._held_ms)
                if answer.stop is not None and (attempt.stop_reason is None or answer.stop == STOP_CANCEL):
                    attempt.stop_reason = answer.stop
        if trouble is not None:
            raise trouble

    def drain(self, reason: str = "drain", grace_ms: int = DRAIN_GRACE_MS) -> None:
        """No more claims; running attempts are asked to give back, and killed after the grace.  Done when `running` is
        empty."""
        self.draining = True
        self._drained = reason, grace_ms
        for attempt in self.running:
            attempt.grace_ms = grace_ms
            if attempt.stop_reason is None:
                attempt.stop_reason = reason

    def kill(self) -> None:
        for attempt in self.running:
            attempt.kill()
