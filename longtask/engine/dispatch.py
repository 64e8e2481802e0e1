"""All that a worker may ask, at a store (`dispatcher.Dispatcher`), each call naming (task, step, attempt).

Nothing that `claim` or `report` hands out may be started before the store's group has ended: what is not durable has
not happened.  `round` is such a group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from longtask.core import decide, spending
from longtask.core.errors import LeaseLost, LongTaskError, NotFound, Refused, TaskLocked
from longtask.core.events import UsageRecorded
from longtask.core.model import POOL_SYSTEM, Json, JsonMap, Kind, Outcome, Stopped
from longtask.core.policy import BATCH_MAX, LEASE_MS
from longtask.steps.contract import Assignment
from longtask.store.contract import Beat, Checkpoint, Chunk, JournalRow, Ref, Store

from .claiming import Claims, Runtime
from .dispatcher import BrokenReport, Claimed, Held, Report, Reported, Round, Wanted
from .family import why_no_turn
from .reporting import Reports
from .scope import Expressions, Scopes
from .settling import TELLING
from .writing import Writing, write

CLAIMS_MAX = 64  # of a pool, in one commit: the database is locked for some 40 ms
PutArtifact = Callable[[str, bytes, str], JsonMap]  # (workspace id, bytes, media type) -> {digest, size_bytes}
ReadArtifact = Callable[[str, str], bytes]  # (workspace id, digest)
AGAIN = Reported(over=False)


class Dispatch:
    def __init__(
        self,
        store: Store,
        scopes: Scopes,
        expressions: Expressions,
        put_json: Callable[[str, Json], str],
        *,
        put_artifact: PutArtifact,
        read_artifact: ReadArtifact,
        runtime: Runtime = lambda spec: None,
        workspaces: Sequence[str] | None = None,
        lease_ms: int = LEASE_MS,
    ) -> None:
        """`workspaces`: tasks of others are not looked for; None: of all."""
        self._store = store
        self._put, self._read = put_artifact, read_artifact
        self._claims = Claims(store, scopes, runtime, workspaces, lease_ms)
        self._reports = Reports(store, scopes, expressions, put_json, self._claims)
        self.lease_ms = lease_ms

    def now(self) -> int:
        return self._store.now()

    # --- a round --------------------------------------------------------------------------------------------------

    def has_work(self, wanted: Wanted | None) -> bool:
        if wanted is None:
            return False
        if wanted.slots and any(self._claims.claimable(pool, 1) for pool in wanted.pools):
            return True
        return wanted.system > 0 and bool(self._claims.claimable(POOL_SYSTEM, 1))

    def round(self, worker: str, reports: Sequence[Report], wanted: Wanted | None) -> Round:
        reported: list[Reported] = []
        found: list[Claimed] = []
        with self._store.group():
            self._store.ahead([report.ref for report in reports], TELLING)
            for place, report in enumerate(reports):
                try:
                    reported.append(self._reported(worker, report))
                except LongTaskError:
                    raise
                except Exception as error:  # an outcome that no row can hold
                    raise BrokenReport(place) from error
            searched = wanted is not None and not (wanted.alone and any(one.claimed for one in reported))
            if searched:
                assert wanted is not None
                found = self._search(worker, wanted, reports, reported)
        return Round(reported, found, searched)

    def _reported(self, worker: str, report: Report) -> Reported:
        pool, why = report.pool if report.next else None, ""
        # One that is being cancelled: what has come of it counts no more, and its tree is dead.
        for outcome in (report.outcome, Stopped()):
            try:
                return self.report(report.ref, report.attempt, outcome, worker=worker, pool=pool, alone=report.alone)
            except TaskLocked:
                return AGAIN
            except (LeaseLost, NotFound) as lost:
                return Reported(refused=str(lost))
            except Refused as refused:
                why = str(refused)
        return Reported(refused=why)

    def _search(
        self, worker: str, wanted: Wanted, reports: Sequence[Report], reported: Sequence[Reported]
    ) -> list[Claimed]:
        """Fills free slots: those that were free, and those that reports have given back and not taken again."""
        slots, system = wanted.slots, wanted.system
        for report, one in zip(reports, reported, strict=True):
            if one.over and one.claimed is None:
                if report.pool == POOL_SYSTEM:
                    system += 1
                else:
                    slots += 1
        found: list[Claimed] = []
        for pool in wanted.pools:
            found += self.claim(worker, pool, min(slots - len(found), CLAIMS_MAX))
        return found + self.claim(worker, POOL_SYSTEM, system)

    def claim(self, worker: str, pool: str, limit: int) -> list[Claimed]:
        return self._claims.claim(worker, pool, limit)

    def brief(self, claimed: Claimed) -> Assignment:
        return self._claims.brief(claimed)

    def report(
        self,
        ref: Ref,
        attempt: int,
        outcome: Outcome,
        *,
        worker: str = "",
        pool: str | None = None,
        alone: bool = False,
    ) -> Reported:
        return self._reports.report(ref, attempt, outcome, worker=worker, pool=pool, alone=alone)

    # --- a running attempt ----------------------------------------------------------------------------------------

    def beats(self, held: Sequence[Held]) -> list[Beat | Exception | None]:
        answers: list[Beat | Exception | None] = []
        for ref, attempt in held:
            try:
                answers.append(self.beat(ref, attempt))
            except Exception as error:  # noqa: BLE001  the others need their beats all the more
                answers.append(error)
        return answers

    def beat(self, ref: Ref, attempt: int) -> Beat | None:
        """None: the lease is lost, stop the work and report nothing."""
        return self._store.beat(ref, attempt, self._store.now() + self.lease_ms)

    def journal_started(self, ref: Ref, attempt: int, run: int, row: JournalRow) -> bool:
        """Raises Refused, with the reason, when a turn is not to be begun: the attempt is asked to stop."""
        if row.kind == "turn" and (why := why_no_turn(self._store, ref)):
            with write(self._store, ref.task_id, ref.step) as w:
                w.ask_to_stop([ref.step], why)
        if self._store.journal_started(ref, attempt, run, row):
            return True
        beat = self.beat(ref, attempt) if row.kind == "turn" else None
        if beat is not None and beat.stop is not None:
            raise Refused(beat.stop)
        return False

    def journal_done(self, ref: Ref, attempt: int, run: int, row: JournalRow) -> bool:
        """The row and what it cost become durable together, and once: a repeated call costs nothing."""
        if not (row.tokens_in or row.tokens_out or row.micros):
            return self._store.journal_done(ref, attempt, run, row)
        op = f"usage {ref.step} {run} {row.n}"
        with self._store.group():
            with write(self._store, ref.task_id, op=op) as w:
                lease = w.tx.lease(ref.step)
                if lease is None or lease.attempt != attempt:
                    return False
                if not w.tx.done_op(op):
                    self._spend(w, ref.step, run, row)
            return self._store.journal_done(ref, attempt, run, row)

    def _spend(self, w: Writing, key: str, run: int, row: JournalRow) -> None:
        within = w.task.within_budget
        usage = UsageRecorded(key, row.attempt, row.tokens_in, row.tokens_out, row.micros, row.name or None)
        step = w.step(key)
        w.add(spending.recorded(w.task, step.stage, usage))
        spec = w.spec(step)
        if spending.limits_of(spec, step.raises):
            before = w.tx.spent(key, run, but=row.n)
            more = {
                "tokens": row.tokens_in + row.tokens_out,
                "micros": row.micros or 0,
                "requests": int(row.kind == "turn"),
            }
            w.add(spending.near_limits(step, spec, before, more))
            if spending.spent_up(spec, step.raises, {name: before[name] + more[name] for name in before}):
                w.ask_to_stop([key], decide.STOP_LIMIT)
        if w.task.options.stage_limits:
            beside = [
                row for row in w.see(w.tx.running(BATCH_MAX)) if row.kind is Kind.AGENT and row.stage == step.stage
            ]
            spent_up = [row.key for row in beside if spending.stage_spent_up(w.task, row)]
            w.ask_to_stop(spent_up, decide.STOP_LIMIT)
        if within and not w.task.within_budget:
            w.stop_agents()

    def checkpoint(self, ref: Ref, checkpoint: Checkpoint) -> bool:
        return self._store.put_checkpoint(ref, checkpoint)

    def output(self, ref: Ref, attempt: int, chunks: Sequence[Chunk]) -> bool:
        return self._store.put_output(ref, attempt, chunks)

    def drop_output(self, ref: Ref, attempt: int, numbers: range) -> bool:
        return self._store.drop_output(ref, attempt, numbers)

    def progress(self, ref: Ref, attempt: int, done: int, total: int, text: str) -> bool:
        return self._store.tell_progress(ref, attempt, done, total, text)

    def put_artifact(self, claimed: Claimed, body: bytes, media_type: str) -> JsonMap:
        return self._put(claimed.task.workspace_id, body, media_type)

    def read_artifact(self, claimed: Claimed, digest: str) -> bytes:
        return self._read(claimed.task.workspace_id, digest)
