"""One running attempt in its worker: prepare its place, run it, keep its work, answer with the outcome.

What blocks (git, set-up, commit) runs in a thread of the worker; everything else in the worker's own thread, in `poll`.
The beat thread only sets `lost` and `stop_reason`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

from longtask.core.decide import STOP_CANCEL
from longtask.core.errors import LeaseLost, LongTaskError, Refused, StoreBusy, StoreError
from longtask.core.model import Failed, Json, JsonMap, Kind, Outcome, Released, StepSpec, Stopped
from longtask.core.policy import STOP_GRACE_MS
from longtask.steps.contract import Assignment, Executor, Handle
from longtask.steps.output import OutputBuffer
from longtask.store.contract import Checkpoint, Chunk, JournalRow, Ref

from .dispatch import Claimed, Dispatch

log = logging.getLogger("longtask.attempt")

PLACED = frozenset({Kind.RUN, Kind.FUNCTION, Kind.AGENT})
STOP_TIMEOUT = "timeout"
TIMEOUT_GRACE_MS = 2_000
PROGRESS_EVERY_MS = 500
PROGRESS_MAX = 2**53  # above it some databases and all browsers count wrong
PROGRESS_TEXT_MAX = 200


class Places(Protocol):
    """Where attempts work.  Every call may block, and is repeatable after a crash."""

    def prepare(self, assignment: Assignment, desk: AttemptDesk) -> Path:
        """A folder at the claim's base, or at the run's checkpoint, set up.  Raises LongTaskError."""

    def keep(self, assignment: Assignment, place: Path, outcome: Outcome, desk: AttemptDesk) -> Outcome:
        """Makes the work durable and takes the folder away: the commit goes into `Done`, leftovers into artifacts."""


PutArtifact = Callable[[str, bytes, str], JsonMap]  # (workspace id, bytes, media type) -> {digest, size_bytes}


class AttemptDesk:
    """`steps.contract.Desk` for one attempt."""

    def __init__(
        self,
        dispatch: Dispatch,
        claimed: Claimed,
        now: Callable[[], int],
        put: PutArtifact,
        read: Callable[[str, str], bytes],
    ) -> None:
        self._dispatch = dispatch
        self._ref, self._attempt, self._run = claimed.ref, claimed.step.attempt, claimed.step.run
        self._workspace_id = claimed.task.workspace_id
        self._put, self._read = put, read
        self._now = now
        self.buffer = OutputBuffer()
        self._taken: list[Chunk] = []  # out of the buffer, and not yet stored: the store may be busy
        self._progress: tuple[int, int, str] | None = None
        self._progress_at = 0
        self.asked_to_stop: Callable[[], bool] = lambda: False

    def now(self) -> int:
        return self._now()

    def stopping(self) -> bool:
        return self.asked_to_stop()

    def journal_started(self, n: int, kind: str, name: str, fingerprint: str) -> bool:
        row = JournalRow(n, kind, name, fingerprint, self._attempt)
        return self._dispatch.journal_started(self._ref, self._attempt, self._run, row)

    def journal_done(self, n: int, kind: str, name: str, fingerprint: str, body: Json, usage: JsonMap) -> bool:
        row = JournalRow(
            n,
            kind,
            name,
            fingerprint,
            self._attempt,
            body,
            usage.get("tokens_in") or 0,
            usage.get("tokens_out") or 0,
            usage.get("micros"),
        )
        return self._dispatch.journal_done(self._ref, self._attempt, self._run, row)

    def checkpoint(self, position: int, tree: str | None) -> bool:
        return self._dispatch.checkpoint(self._ref, Checkpoint(self._run, position, tree, self._attempt))

    def output(self, stream: str, body: bytes) -> None:
        self.buffer.feed(body)

    def progress(self, done: int, total: int, text: str) -> None:
        """Any numbers and words: they come from a program's output, and never more than a screen depends on them."""
        words = text[:PROGRESS_TEXT_MAX].encode("utf-8", "replace").decode()
        self._progress = (min(max(done, 0), PROGRESS_MAX), min(max(total, 0), PROGRESS_MAX), words)

    def put_artifact(self, name: str, body: bytes, media_type: str) -> JsonMap:
        return {"name": name, **self._put(self._workspace_id, body, media_type), "media_type": media_type}

    def read_artifact(self, digest: str) -> bytes:
        return self._read(self._workspace_id, digest)

    def flush(self, final: bool = False) -> None:
        """Stores output and progress that are due.  A lost lease is noticed by the beat, not here."""
        now = self.now()
        self._taken += [Chunk(c.number, "out", c.content) for c in self.buffer.take(now, final)]
        if self._taken:
            self._dispatch.output(self._ref, self._attempt, self._taken)
            self._taken = []
        dropped = self.buffer.forget()
        if dropped:
            self._dispatch.drop_output(self._ref, self._attempt, dropped)
        if self._progress is not None and (final or now - self._progress_at >= PROGRESS_EVERY_MS):
            self._dispatch.progress(self._ref, self._attempt, *self._progress)
            self._progress, self._progress_at = None, now


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


class Attempt:
    """Made when its claim is durable.  `poll` until it answers; then the worker reports."""

    def __init__(
        self,
        claimed: Claimed,
        dispatch: Dispatch,
        executor: Executor,
        places: Places | None,
        desk: AttemptDesk,
        spawn: Spawn,
    ) -> None:
        self.claimed = claimed
        self.desk = desk
        self.lost = False
        self.stop_reason: str | None = None
        self.outcome: Outcome | None = None
        self._executor = executor
        self._places = places
        self._spawn = spawn
        self._handle: Handle | None = None
        self._place: Path | None = None
        self._stop_sent: str | None = None
        self._killed = False
        self._closing: Future[Outcome] | None = None
        self._assignment: Assignment | None = None
        desk.asked_to_stop = lambda: self.lost or self.stop_reason is not None
        if claimed.spec.body.get("inline"):
            self._opening: Future[Any] | None = None
            self._begin(lambda: (dispatch.brief(claimed), None))
        else:
            self._opening = spawn(self._prepare, dispatch)

    @property
    def ref(self) -> Ref:
        return self.claimed.ref

    @property
    def number(self) -> int:
        return self.claimed.step.attempt

    @property
    def system(self) -> bool:
        return self.claimed.step.pool == "system"

    def _prepare(self, dispatch: Dispatch) -> tuple[Assignment, Path | None]:
        assignment = dispatch.brief(self.claimed)
        if self._places is None or not assignment.workspace_id or not needs_place(self.claimed.spec):
            return assignment, None
        return assignment, self._places.prepare(assignment, self.desk)

    def _begin(self, found: Callable[[], tuple[Assignment, Path | None]]) -> None:
        """Whatever goes wrong in starting it is its own failure: the worker has other steps in hand."""
        error = run_here(lambda: self._open(*found())).exception()
        if error is not None:
            self._close(_failure(error, "it could not be started"))

    def _open(self, assignment: Assignment, place: Path | None) -> None:
        self._assignment, self._place = assignment, place
        self._handle = self._executor.start(assignment, self.desk, place)

    def poll(self, now: int) -> Outcome | None:
        """The outcome, once the work is kept and the tree is dead.  After `lost` it answers Stopped, to be dropped."""
        if self.outcome is not None:
            return self.outcome
        if self._opening is not None and not self._opened():
            return self.outcome
        if self._closing is not None:
            return self._poll_closing()
        assert self._handle is not None
        self._obey(now)
        try:
            outcome = self._handle.poll()
        except LeaseLost:
            self.lost = True
            return None
        except (StoreBusy, StoreError):
            raise  # not the step's fault
        except Exception as broken:  # noqa: BLE001  one broken executor must not stop the worker's other steps
            self._kill_tree()
            outcome = _failure(broken, "it could not be carried on")
        if outcome is None:
            self.desk.flush()
            return None
        return self._close(self._meant(outcome))

    def _close(self, outcome: Outcome) -> Outcome | None:
        if self._place is None or self._places is None or self.lost:
            return self._end(outcome)
        assert self._assignment is not None
        self._closing = self._spawn(self._places.keep, self._assignment, self._place, outcome, self.desk)
        return self._poll_closing()

    def _opened(self) -> bool:
        """It runs, or is being closed; False: not yet, or it has ended."""
        assert self._opening is not None
        if not self._opening.done():
            return False
        opening, self._opening = self._opening, None
        error = opening.exception()
        if error is not None:
            stopped = self.desk.stopping()
            self._end(self._meant(Stopped()) if stopped else _failure(error, "its place could not be prepared"))
        elif self.desk.stopping():
            self._assignment, self._place = opening.result()
            self._close(self._meant(Stopped()))
        else:
            self._begin(opening.result)
        return self.outcome is None

    def _poll_closing(self) -> Outcome | None:
        assert self._closing is not None
        if not self._closing.done():
            return None
        error = self._closing.exception()
        if isinstance(error, Refused):  # as it stands (conflict markers are left, say): the next run is told
            return self._end(Failed(str(error)))
        return self._end(_failure(error, "its work could not be kept") if error else self._closing.result())

    def _end(self, outcome: Outcome) -> Outcome:
        if not self.lost:
            self.desk.flush(final=True)
        self.outcome = outcome
        return outcome

    def _obey(self, now: int) -> None:
        assert self._handle is not None
        timeout_ms = self.claimed.spec.timeout_ms
        if timeout_ms is not None and self.stop_reason is None and now >= self.claimed.step.began_at + timeout_ms:
            self.stop_reason = STOP_TIMEOUT
        if self.lost:
            self._kill_tree()
        elif self.stop_reason is not None and self._stop_sent != self.stop_reason:  # asked, or asked more firmly
            self._stop_sent = self.stop_reason
            grace_ms = TIMEOUT_GRACE_MS if self.stop_reason == STOP_TIMEOUT else STOP_GRACE_MS
            self._handle.stop(self.stop_reason, grace_ms)

    def _meant(self, outcome: Outcome) -> Outcome:
        """What a stop that was asked for means."""
        if not isinstance(outcome, Stopped) or self.lost:
            return outcome
        if self.stop_reason == STOP_TIMEOUT:
            limit = self.claimed.spec.timeout_ms
            return Failed(f"timeout: it ran longer than {limit} ms", digest="timeout")
        if self.stop_reason == STOP_CANCEL:
            return outcome
        return Released(self.stop_reason or "stopped")

    def kill(self) -> None:
        """The worker itself ends at once: nothing of the attempt may outlive it."""
        self.lost = True
        self._kill_tree()

    def _kill_tree(self) -> None:
        """At once, even if it was asked to stop before and has time left."""
        if self._handle is not None and not self._killed:
            self._killed = True
            self._handle.kill()


def _failure(error: BaseException, what: str) -> Failed | Released:
    if isinstance(error, StoreBusy):  # nobody's failure: another attempt begins when it can
        return Released(str(error))
    if not isinstance(error, LongTaskError):
        log.error("attempt.error what=%r", what, exc_info=error)
    return Failed(f"{what}: {error}", retryable=False)
