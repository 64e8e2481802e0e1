"""All that a worker may ask, each call naming (task, step, attempt).

Nothing that `claim` or `report` hands out may be started before the store's group has ended: what is not durable has
not happened.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from longtask.core import decide
from longtask.core.errors import NotFound, Refused, TaskLocked
from longtask.core.events import StepClaimed, UsageRecorded
from longtask.core.model import (
    Done,
    Expanded,
    Failed,
    Json,
    JsonMap,
    Kind,
    MutexView,
    Outcome,
    Parked,
    Released,
    Role,
    Signal,
    Step,
    StepSpec,
    StepState,
    Task,
)
from longtask.core.policy import BATCH_MAX, INLINE_BYTES_MAX, LEASE_MS, REASON_LENGTH_MAX
from longtask.redaction import redact, redact_value
from longtask.steps.contract import Assignment
from longtask.store.contract import Beat, Checkpoint, Chunk, JournalRow, Ref, Store

from .scope import ARTIFACT, Expressions, Scopes
from .settling import TELLING, open_items, settle_quietly
from .writing import Writing, write

STOP_BUDGET = "budget"  # agents give back at their next turn; what costs nothing runs on
SIGNALS_LOOKED_AT = 200  # of one name, when a step parks: the earliest that fits is among them, or an older page was


@dataclass(frozen=True, slots=True)
class Claimed:
    """A step that is this worker's now, as its rows were at the claim."""

    task: Task
    step: Step
    spec: StepSpec

    @property
    def ref(self) -> Ref:
        return Ref(self.task.id, self.step.key)


class Dispatch:
    def __init__(
        self,
        store: Store,
        scopes: Scopes,
        expressions: Expressions,
        put_json: Callable[[str, Json], str],
        *,
        lease_ms: int = LEASE_MS,
    ) -> None:
        self._store = store
        self._scopes = scopes
        self._expressions = expressions
        self._put_json = put_json
        self.lease_ms = lease_ms
        self.heads: list[Task] = []  # of tasks that a report has moved on or ended; not durable before the group ends

    # --- taking work ----------------------------------------------------------------------------------------------

    def claim(self, worker: str, pool: str, limit: int, runtime: Callable[[StepSpec], str | None]) -> list[Claimed]:
        """At most `limit` steps, of the tasks served least recently.  A peek that was stale gives fewer."""
        claimed: list[Claimed] = []
        queued, before = 0, -1
        while queued > before and queued < BATCH_MAX and len(claimed) < limit:
            # a step that goes and queues for a mutex leaves its slot to others: look again
            before = queued
            refs = self._store.claimable(pool, limit - len(claimed))
            self._store.ahead(refs)
            for ref in refs:
                try:
                    with write(self._store, ref.task_id, ref.step) as w:
                        found = self._first_free(w, w.step(ref.step), pool, worker, runtime, BATCH_MAX - queued)
                except (Refused, NotFound, TaskLocked):
                    continue  # somebody else was faster, or the task has moved on
                if found is not None:
                    claimed.append(found)
                queued += sum(row.state is StepState.WAITING for row in w.changed)
                if queued >= BATCH_MAX:
                    break  # the others come in the next round
        return claimed

    def _first_free(
        self, w: Writing, first: Step, pool: str, worker: str, runtime: Callable[[StepSpec], str | None], most: int
    ) -> Claimed | None:
        """Claims the first of the task's ready steps that has its mutex, or needs none; those before it, at most
        `most`, go and queue."""
        taken: set[str] = set()
        for step in islice(self._in_turn(w, first, pool), most):
            name = w.spec(step).mutex
            view = None
            if name is not None:  # whoever comes new to a mutex that another one has just queued for queues too
                view = MutexView(queued=True) if name in taken and step.mutex is None else w.mutex(step, name)
            claimed = self._claim(w, step, view, worker, runtime)
            if claimed is not None:
                return claimed
            taken |= {name} if name is not None else set()
        return None

    def _in_turn(self, w: Writing, first: Step, pool: str) -> Iterator[Step]:
        yield first
        for step in w.see(w.tx.ready(pool, BATCH_MAX)):
            if step.key != first.key and step.state is StepState.READY:
                yield step

    def _claim(
        self,
        w: Writing,
        step: Step,
        mutex: MutexView | None,
        worker: str,
        runtime: Callable[[StepSpec], str | None],
    ) -> Claimed | None:
        """None: it queues for its mutex."""
        spec = w.spec(step)
        fact = decide.claim(w.task, step, spec, worker, w.now, runtime(spec), self.lease_ms, mutex)
        w.add([fact])
        return Claimed(w.task, w.step(step.key), spec) if isinstance(fact, StepClaimed) else None

    def brief(self, claimed: Claimed) -> Assignment:
        """What the executor needs, read outside any lock.  Everything that it reads is frozen by the claim."""
        task, step, spec = claimed.task, claimed.step, claimed.spec
        if spec.body.get("inline"):  # a trusted function of this process: no reads unless its arguments need them
            scope = self._scopes.of(task, step, spec) if spec.reads or step.role is not Role.OWN else {}
            return Assignment(
                task.id, task.name, step.key, step.attempt, step.run, spec, step.base, task.workspace_id,
                step.timeout_at, scope, secrets=(*task.options.secrets, *spec.body.get("secrets", ()))
            )  # fmt: skip
        owner = None if step.owner is None else self._store.get_step(Ref(task.id, step.owner))
        again = step.attempt > 1
        checkpoint = self._store.checkpoint(claimed.ref, step.run) if again else None
        conflict = None
        if step.role is Role.CONFLICT and owner is not None:
            conflict = {"head": step.base, "commit": owner.commit, "reason": owner.reason}
        return Assignment(
            task_id=task.id,
            task_name=task.name,
            step=step.key,
            attempt=step.attempt,
            run=step.run,
            spec=spec,
            base=step.base,
            workspace_id=task.workspace_id,
            timeout_at=step.timeout_at,
            scope=self._scopes.of(task, step, spec),
            cause=step.cause,
            failure=_failure(step, owner),
            owner=step.owner,
            conflict=conflict,
            checkpoint=None if checkpoint is None else (checkpoint.position, checkpoint.tree),
            journal=tuple(_as_map(row) for row in self._store.journal(claimed.ref, step.run)) if again else (),
            when_failed=step.when_failed,
            items=step.items,
            listing=None if step.listing is None else self._scopes.value(task, step.listing),
            workspace=task.options.workspace,
            first_commit=task.base,
            environment=task.options.environment,
            secrets=(*task.options.secrets, *spec.body.get("secrets", ())),
        )

    # --- a running attempt ----------------------------------------------------------------------------------------

    def beat(self, ref: Ref, attempt: int) -> Beat | None:
        """None: the lease is lost, stop the work and report nothing."""
        return self._store.beat(ref, attempt, self._store.now() + self.lease_ms)

    def journal_started(self, ref: Ref, attempt: int, run: int, row: JournalRow) -> bool:
        return self._store.journal_started(ref, attempt, run, row)

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
                    self._spend(w, ref.step, row)
            return self._store.journal_done(ref, attempt, run, row)

    def _spend(self, w: Writing, key: str, row: JournalRow) -> None:
        within = w.task.within_budget
        w.add([UsageRecorded(key, row.attempt, row.tokens_in, row.tokens_out, row.micros, row.name or None)])
        if within and not w.task.within_budget:
            agents = [step.key for step in w.tx.running(BATCH_MAX) if step.kind is Kind.AGENT]
            w.ask_to_stop(agents, STOP_BUDGET)

    def checkpoint(self, ref: Ref, checkpoint: Checkpoint) -> bool:
        return self._store.put_checkpoint(ref, checkpoint)

    def output(self, ref: Ref, attempt: int, chunks: Sequence[Chunk]) -> bool:
        return self._store.put_output(ref, attempt, chunks)

    def drop_output(self, ref: Ref, attempt: int, numbers: range) -> bool:
        return self._store.drop_output(ref, attempt, numbers)

    def progress(self, ref: Ref, attempt: int, done: int, total: int, text: str) -> bool:
        return self._store.tell_progress(ref, attempt, done, total, text)

    # --- reporting ------------------------------------------------------------------------------------------------

    def report(
        self,
        ref: Ref,
        attempt: int,
        outcome: Outcome,
        *,
        worker: str = "",
        pool: str | None = None,
        runtime: Callable[[StepSpec], str | None] | None = None,
        alone: bool = False,
    ) -> Claimed | None:
        """Records the outcome, tells the step's dependents if that needs nothing from outside, and, when `pool` is
        given and no other task has waited longer, claims the task's next ready step.  `alone`: others are not looked
        for, since there are none, or it is not their turn.

        Raises LeaseLost (stop, report nothing) and Refused (being cancelled: report Stopped once the tree is dead)."""
        outcome = self._bounded(ref, masked(outcome))
        op = f"report {ref.step} {attempt}" if _moves_code(outcome) else None
        with write(self._store, ref.task_id, ref.step, telling=TELLING, actor=worker, op=op) as w:
            head = w.task.head
            self._finish(w, ref.step, attempt, outcome)
            settle_quietly(w, ref.step)
            claimed = None if pool is None or runtime is None else self._next(w, worker, pool, runtime, alone)
            after = w.task
        if after.head != head or after.ended:
            self.heads.append(after)
        return claimed

    def _finish(self, w: Writing, key: str, attempt: int, outcome: Outcome) -> None:
        step = w.step(key)
        spec = w.spec(step)
        lease = w.tx.lease(key)
        stop = lease.stop if lease is not None and lease.attempt == attempt else None
        signal, owned, left = None, None, []
        if isinstance(outcome, Parked):
            signal = earliest_fitting(w, step, outcome.question)
            if signal is None and outcome.question.get("late"):
                # woken by its deadline, and the last look into the inbox found nothing
                outcome = Failed(f"deadline: no signal {outcome.question['name']!r} came in time", retryable=False)
        elif isinstance(outcome, Failed) and outcome.revise:
            owned = None if spec.revise is None else w.tx.spec(spec.revise)
        elif isinstance(outcome, Failed) and spec.fix is not None:
            owned = w.tx.spec(spec.fix)
        elif isinstance(outcome, Expanded) and spec.item is not None:
            owned = w.tx.spec(spec.item)
            left = open_items(w, key, 0, outcome.items, spec.parallel_max) if step.expansion else []
        task, now = w.task, w.now
        w.add(decide.finish(task, step, spec, attempt, outcome, now, stop=stop, signal=signal, owned=owned, left=left))

    def _next(
        self, w: Writing, worker: str, pool: str, runtime: Callable[[StepSpec], str | None], alone: bool
    ) -> Claimed | None:
        task = w.task
        if task.admits < 2 or task.counts.ready - task.counts.ready_system < 1:
            return None
        if not alone and w.tx.rival(pool, task.served_at):
            return None
        fresh = [r for r in w.changed if r.state is StepState.READY and r.pool == pool and r.due_at <= w.now]
        if len(fresh) < task.counts.ready:
            fresh += [r for r in w.see(w.tx.ready(pool, len(fresh) + 1)) if r.state is StepState.READY]
        if not fresh:
            return None
        step = min(fresh, key=lambda r: (r.due_at, r.key))
        name, view = w.spec(step).mutex, None
        if name is not None:
            # Only one that this report itself gives back, to nobody who queues: a claim of any other may be refused
            # for having looked at a stale row, and a report must not be.  A search for work comes next.
            view = w.mutex(step, name)
            if not view.free or not w.frees(name):
                return None
        return self._claim(w, step, view, worker, runtime)

    def _bounded(self, ref: Ref, outcome: Outcome) -> Outcome:
        """Large values go to the artifact store before the lock is taken; reasons are cut."""
        match outcome:
            case Done(result=result) if result is not None:
                return replace(outcome, result=self._inline(ref, result))
            case Expanded():
                return Expanded(outcome.items, self._inline(ref, outcome.listing))
            case Failed() if len(outcome.reason) > REASON_LENGTH_MAX:
                cut = outcome.reason[:REASON_LENGTH_MAX] + " … (cut)"
                return Failed(cut, outcome.retryable, outcome.digest, outcome.artifacts, outcome.revise)
        return outcome

    def _inline(self, ref: Ref, value: Json) -> Json:
        if isinstance(value, (int, float, bool)) or value is None or len(json.dumps(value)) <= INLINE_BYTES_MAX:
            return value
        return {ARTIFACT: self._put_json(self._store.get_task(ref.task_id).workspace_id, value)}


def earliest_fitting(w: Writing, step: Step, question: JsonMap) -> Signal | None:
    """The earliest signal of the inbox above `seen` that fits what the step is about to wait for."""
    name = question.get("name")
    if name is None:
        return None
    after = step.seen
    while True:
        page = w.tx.signals(name, after, SIGNALS_LOOKED_AT)
        for signal in page:
            if decide.fits(question, signal):
                return signal
        if len(page) < SIGNALS_LOOKED_AT:
            return None
        after = page[-1].number


def _failure(step: Step, owner: Step | None) -> str | None:
    """What the run is told: why the run before it failed.  A loss or a release continues a run and is no failure."""
    own = step.reason if step.run > 1 else None
    if step.role is not Role.FIX or owner is None:
        return own
    return owner.reason if own is None else f"{owner.reason}\n\nAn earlier attempt to fix it failed: {own}"


def masked(outcome: Outcome) -> Outcome:
    """Without secrets: an outcome stands in events and rows, and is shown to everybody."""
    match outcome:
        case Done(result=result) if result is not None and (shown := redact_value(result)) != result:
            return replace(outcome, result=shown)
        case Failed(reason=reason) | Released(reason=reason) if (shown := redact(reason)) != reason:
            return replace(outcome, reason=shown)
        case Parked(question=question) if (shown := redact_value(question)) != question:
            return replace(outcome, question=shown)
        case Expanded(listing=listing) if (shown := redact_value(listing)) != listing:
            return replace(outcome, listing=shown)
    return outcome


def _moves_code(outcome: Outcome) -> bool:
    return isinstance(outcome, Done) and outcome.commit is not None


def _as_map(row: JournalRow) -> JsonMap:
    return {
        "n": row.n,
        "kind": row.kind,
        "name": row.name,
        "fingerprint": row.fingerprint,
        "body": row.body,
        "done": row.done_at > 0,
    }
