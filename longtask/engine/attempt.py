"""One running attempt in its worker: prepare its place, run it, keep its work, answer with the outcome.

What blocks (git, set-up, commit) runs in a thread of the worker; everything else in the worker's own thread, in `poll`.
The beat thread only sets `lost` and `stop_reason`, and prolongs the lease (`hold`).

- What waiting may mend (`core/patience.py`) is tried again for a minute, in preparing, running and keeping alike; then
  the step is given back, which costs none of its budgets.
- The lease is kept by the monotonic clock of this machine too, counted from the beat that has prolonged it, so never
  beyond its end by the store's clock, however wrong this machine's is.  The process tree dies at that instant, by its
  warden, though this process hang; the step is given back if it can be.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

from longtask.core.decide import STOP_CANCEL
from longtask.core.errors import LeaseLost, LongTaskError, Refused, StoreBusy, StoreError
from longtask.core.model import Failed, Kind, Outcome, Released, StepSpec, Stopped
from longtask.core.patience import AGAIN_MS, PATIENCE_MS, Patience, mendable
from longtask.core.policy import STOP_GRACE_MS
from longtask.steps.contract import Assignment, Executor, Handle
from longtask.store.contract import Ref

from .attempt_desk import AttemptDesk
from .dispatcher import Claimed, Dispatcher

log = logging.getLogger("longtask.attempt")

PLACED = frozenset({Kind.RUN, Kind.FUNCTION, Kind.AGENT})
STOP_TIMEOUT = "timeout"
TIMEOUT_GRACE_MS = 2_000
LEASE_OVER = "its lease was over: the store could not be reached to prolong it"


class Places(Protocol):
    """Where attempts work.  Every call may block, and is repeatable after a crash."""

    def prepare(self, assignment: Assignment, desk: AttemptDesk) -> Path:
        """A folder at the claim's base, or at the run's checkpoint, set up.  Raises LongTaskError."""

    def keep(self, assignment: Assignment, place: Path, outcome: Outcome, desk: AttemptDesk) -> Outcome:
        """Makes the work durable and takes the folder away: the commit goes into `Done`, leftovers into artifacts."""


def needs_place(spec: StepSpec) -> bool:
    return spec.kind in PLACED or (spec.kind is Kind.ARTIFACT and spec.body["kind"] == "files")


Spawn = Callable[..., "Future[Any]"]  # like ThreadPoolExecutor.submit


def run_here(act: Callable[..., Any], *args: Any) -> Future[Any]:
    """In this thread: the future is done when this returns."""
    future: Future[Any] = Future()
    try:
        future.set_result(act(*args))
    except Exception as error:  # noqa: BLE001  what a future is for
        future.set_exception(error)
    return future


def monotonic_ms() -> int:
    """The clock of a warden, too."""
    return time.monotonic_ns() // 1_000_000


class Attempt:
    """Made when its claim is durable.  `poll` until it answers; then the worker reports."""

    def __init__(
        self,
        claimed: Claimed,
        dispatch: Dispatcher,
        executor: Executor,
        places: Places | None,
        desk: AttemptDesk,
        spawn: Spawn,
        *,
        patience_ms: int = PATIENCE_MS,
        held_until_ms: int = sys.maxsize,
        turn_until: int = 0,
    ) -> None:
        """`held_until_ms`: when the lease is over, by the monotonic clock.  `turn_until`: see `worker.TURN_MS`."""
        self.claimed = claimed
        self.desk = desk
        self.lost = False
        self.stop_reason: str | None = None
        self.grace_ms = STOP_GRACE_MS  # of a stop that is no timeout
        self.outcome: Outcome | None = None
        self.turn_until = turn_until
        self._dispatch = dispatch
        self._executor = executor
        self._places = places
        self._spawn = spawn
        self._held_until_ms = held_until_ms
        self._patience = Patience(patience_ms)
        self._look_at = 0  # not before, while what the handle needs is not to be had
        self._again: tuple[int, Callable[[], object]] | None = None  # what to try, and from when on
        self._handle: Handle | None = None
        self._place: Path | None = None
        self._stop_sent: tuple[str, int] | None = None
        self._killed = False
        self._opening: Future[Any] | None = None
        self._closing: Future[Outcome] | None = None
        self._kept: Outcome = Stopped()  # with what `keep` was called
        self._ending: Outcome | None = None  # what it will answer, once its output is stored
        self._giving_back: Released | None = None  # as soon as its tree is dead
        self._assignment: Assignment | None = None
        desk.asked_to_stop = lambda: self.lost or self.stop_reason is not None or self.lease_over
        if claimed.spec.body.get("inline"):
            self._begin(lambda: (dispatch.brief(claimed), None))
        else:
            self._prepare_apart()

    @property
    def ref(self) -> Ref:
        return self.claimed.ref

    @property
    def number(self) -> int:
        return self.claimed.step.attempt

    @property
    def system(self) -> bool:
        return self.claimed.step.pool == "system"

    @property
    def lease_over(self) -> bool:
        """Another worker may have the step by now."""
        return monotonic_ms() >= self._held_until_ms

    def hold(self, until_ms: int) -> None:
        """The lease lasts until then at least, by the monotonic clock.  From any thread."""
        self._held_until_ms = until_ms
        hold = getattr(self._handle, "hold", None)  # a handle with a process tree has one: how long that may live
        if hold is not None:
            hold(until_ms)

    # --- its beginning --------------------------------------------------------------------------------------------

    def _prepare_apart(self) -> None:
        self._opening = self._spawn(self._prepare)

    def _prepare(self) -> tuple[Assignment, Path | None]:
        assignment = self._dispatch.brief(self.claimed)
        if self._places is None or not assignment.workspace_id or not needs_place(self.claimed.spec):
            return assignment, None
        return assignment, self._places.prepare(assignment, self.desk)

    def _opened(self) -> None:
        assert self._opening is not None
        if not self._opening.done():
            return
        opening, self._opening = self._opening, None
        error = opening.exception()
        if error is None and self.desk.stopping():
            self._assignment, self._place = opening.result()
            self._close(self._meant(Stopped()))
        elif error is None:
            self._begin(opening.result)
        elif not self._tries_again(error, self._prepare_apart):
            self._end(self._failure(error, "its place could not be prepared"))

    def _begin(self, found: Callable[[], tuple[Assignment, Path | None]]) -> None:
        """Whatever goes wrong in starting it is its own failure: the worker has other steps in hand."""
        error = run_here(lambda: self._open(*found())).exception()
        if error is None:
            self._at_ease()
        elif not self._tries_again(error, lambda: self._begin(found)):
            self._close(self._failure(error, "it could not be started"))

    def _open(self, assignment: Assignment, place: Path | None) -> None:
        self._assignment, self._place = assignment, place
        self._handle = self._executor.start(assignment, self.desk, place)
        self.hold(self._held_until_ms)

    # --- a look at it ---------------------------------------------------------------------------------------------

    def poll(self, now: int) -> Outcome | None:
        """The outcome, once the work is kept and the tree is dead.  After `lost` it answers Stopped, to be dropped.

        Raises what the store raises; nothing is forgotten by that."""
        if self.outcome is None and self._ending is None:
            self._go_on(now)
        if self.outcome is None and self._ending is not None:
            if not self.lost:
                self.desk.flush(final=True)
            self.outcome = self._ending
        return self.outcome

    def _go_on(self, now: int) -> None:
        if self._again is not None:
            at, again = self._again
            if now < at and not self.desk.stopping():
                return
            self._again = None
            again()
        if self._opening is not None:
            self._opened()
        if self._closing is not None:
            self._closed()
        elif self._handle is not None and self._ending is None:
            self._look(self._handle, now)

    def _look(self, handle: Handle, now: int) -> None:
        self._obey(handle, now)
        if now < self._look_at and not self.desk.stopping():
            return
        outcome: Outcome | None
        try:
            outcome = handle.poll()
        except LeaseLost:
            self.lost = True
            return
        except Exception as error:  # noqa: BLE001  one broken executor must not stop the worker's other steps
            outcome = self._broken(handle, error, now)
            if outcome is None:
                return
        else:
            self._at_ease()
        if outcome is None:
            self.desk.flush()
        else:
            self._close(self._meant(outcome))

    def _broken(self, handle: Handle, error: Exception, now: int) -> Outcome | None:
        """A look has failed.  None: look again later."""
        if mendable(error):
            if self._giving_back is not None:
                return self._giving_back  # its tree is dead: it was about to answer
            if self._tries_again(error):
                self._look_at = now + AGAIN_MS
            else:
                self._giving_back = Released(str(error))
                self._kill_tree(handle)
            return None
        if isinstance(error, StoreBusy | StoreError):
            raise error  # not the step's fault
        self._kill_tree(handle)
        return self._failure(error, "it could not be carried on")

    def _obey(self, handle: Handle, now: int) -> None:
        timeout_ms = self.claimed.spec.timeout_ms
        if timeout_ms is not None and self.stop_reason is None and now >= self.claimed.step.began_at + timeout_ms:
            self.stop_reason = STOP_TIMEOUT
        if self.lost:
            self._kill_tree(handle)
        elif self.stop_reason is not None:
            stop = (self.stop_reason, TIMEOUT_GRACE_MS if self.stop_reason == STOP_TIMEOUT else self.grace_ms)
            if self._stop_sent != stop:  # asked, or asked more firmly
                self._stop_sent = stop
                handle.stop(*stop)

    # --- its end --------------------------------------------------------------------------------------------------

    def _close(self, outcome: Outcome) -> None:
        if self._place is None or self._places is None or self.lost:
            self._end(outcome)
            return
        self._keep(outcome)
        self._closed()

    def _keep(self, outcome: Outcome) -> None:
        assert self._assignment is not None and self._places is not None
        self._kept = outcome
        self._closing = self._spawn(self._places.keep, self._assignment, self._place, outcome, self.desk)

    def _closed(self) -> None:
        assert self._closing is not None
        if not self._closing.done():
            return
        closing, self._closing = self._closing, None
        error = closing.exception()
        if error is None:
            self._end(closing.result())
        elif isinstance(error, Refused):  # as it stands (conflict markers are left, say): the next run is told
            self._end(Failed(str(error)))
        elif not self._tries_again(error, lambda: self._keep(self._kept)):
            self._end(self._failure(error, "its work could not be kept"))

    def _end(self, outcome: Outcome) -> None:
        self._ending = outcome

    def _failure(self, error: BaseException, what: str) -> Outcome:
        """What an error of our own side means for the step."""
        if self.desk.stopping():
            return self._meant(Stopped())
        if mendable(error):  # nobody's failure: another attempt begins when it can
            return Released(str(error))
        if not isinstance(error, LongTaskError):
            log.error("attempt.error what=%r", what, exc_info=error)
        return Failed(f"{what}: {error}", retryable=False)

    def _meant(self, outcome: Outcome) -> Outcome:
        """What a stop that was asked for means."""
        if not isinstance(outcome, Stopped) or self.lost:
            return outcome
        if self.stop_reason == STOP_TIMEOUT:
            limit = self.claimed.spec.timeout_ms
            return Failed(f"timeout: it ran longer than {limit} ms", digest="timeout")
        if self.stop_reason == STOP_CANCEL:
            return outcome
        if self.stop_reason is None and self._giving_back is not None:
            return self._giving_back
        return Released(self.stop_reason or (LEASE_OVER if self.lease_over else "stopped"))

    # --- trouble --------------------------------------------------------------------------------------------------

    def _tries_again(self, error: BaseException, again: Callable[[], object] | None = None) -> bool:
        """False: waiting does not mend it, or not in time, or there is no time left.  `again` None: the next poll."""
        if not mendable(error) or self.desk.stopping():
            return False
        now = self.desk.now()
        if self._patience.since is None:
            log.warning("attempt.waits task=%s step=%s attempt=%d: %s", *self.ref, self.number, error)
            self.desk.output("note", f"waits up to {self._patience.limit_ms // 1000} s: {error}\n".encode())
        if not self._patience.left(now):
            return False
        self._again = None if again is None else (now + AGAIN_MS, again)
        return True

    def _at_ease(self) -> None:
        waited_ms = self._patience.ease(self.desk.now()) if self._patience.since is not None else None
        if waited_ms is not None:
            self.desk.output("note", f"goes on after {waited_ms / 1000:.1f} s\n".encode())

    def kill(self) -> None:
        """The worker itself ends at once: nothing of the attempt may outlive it."""
        self.lost = True
        if self._handle is not None:
            self._kill_tree(self._handle)

    def _kill_tree(self, handle: Handle) -> None:
        """At once, even if it was asked to stop before and has time left."""
        if not self._killed:
            self._killed = True
            handle.kill()
