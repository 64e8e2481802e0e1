"""All that a worker may ask, at a store (`dispatcher.Dispatcher`), each call naming (task, step, attempt).

Nothing that `claim` or `report` hands out may be started before the store's group has ended: what is not durable has
not happened.  `round` is such a group.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from longtask.core import decide, spending
from longtask.core.errors import BadPlan, LeaseLost, LongTaskError, NotFound, Refused, TaskLocked
from longtask.core.events import StepClaimed, UsageRecorded
from longtask.core.model import (
    POOL_SYSTEM,
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
    Stopped,
    SubTask,
    Task,
)
from longtask.core.policy import BATCH_MAX, EXPANSIONS_MAX, INLINE_BYTES_MAX, LEASE_MS, REASON_LENGTH_MAX
from longtask.core.settle import ConditionNeeded
from longtask.redaction import redact, redact_value
from longtask.steps.contract import Assignment
from longtask.store.contract import Beat, Checkpoint, Chunk, JournalRow, Ref, Store

from .dispatcher import BrokenReport, Claimed, Held, Report, Reported, Round, Wanted
from .family import spent_above
from .growing import Plan, grow_in, handed_over, proposal, refusal
from .records import TaskRecords
from .scope import ARTIFACT, Expressions, Scopes
from .settling import CONDITION_ROUNDS_MAX, TELLING, open_items, settle_quietly
from .writing import Writing, write

CLAIMS_MAX = 64  # of a pool, in one commit: the database is locked for some 40 ms
SIGNALS_LOOKED_AT = 200  # of one name, when a step parks: the earliest that fits is among them, or an older page was


Runtime = Callable[[StepSpec], str | None]  # what stands in the claim: an agent's runtime, with its version
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
        self._scopes = scopes
        self._expressions = expressions
        self._put_json = put_json
        self._put, self._read = put_artifact, read_artifact
        self._runtime = runtime
        self._workspaces = workspaces
        self._records = TaskRecords(store, scopes)
        self.lease_ms = lease_ms

    def now(self) -> int:
        return self._store.now()

    # --- a round --------------------------------------------------------------------------------------------------

    def has_work(self, wanted: Wanted | None) -> bool:
        if wanted is None:
            return False
        if wanted.slots and any(self._claimable(pool, 1) for pool in wanted.pools):
            return True
        return wanted.system > 0 and bool(self._claimable(POOL_SYSTEM, 1))

    def _claimable(self, pool: str, limit: int) -> list[Ref]:
        scope = () if self._workspaces is None else (self._workspaces,)
        return self._store.claimable(pool, limit, *scope)

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
            found += self.claim(worker, pool, min(slots - len(found), CLAIMS_MAX), self._runtime)
        return found + self.claim(worker, POOL_SYSTEM, system, self._runtime)

    # --- taking work ----------------------------------------------------------------------------------------------

    def claim(self, worker: str, pool: str, limit: int, runtime: Runtime) -> list[Claimed]:
        """At most `limit` steps, of the tasks served least recently.  A peek that was stale gives fewer."""
        claimed: list[Claimed] = []
        queued, before = 0, -1
        while queued > before and queued < BATCH_MAX and len(claimed) < limit:
            # a step that goes and queues for a mutex leaves its slot to others: look again
            before = queued
            refs = self._claimable(pool, limit - len(claimed))
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
        self, w: Writing, first: Step, pool: str, worker: str, runtime: Runtime, most: int
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
        runtime: Runtime,
    ) -> Claimed | None:
        """None: it queues for its mutex."""
        spec = w.spec(step)
        fact = decide.claim(w.task, step, spec, worker, w.now, runtime(spec), self.lease_ms, mutex)
        w.add([fact])
        if step.kind is Kind.AGENT and isinstance(fact, StepClaimed) and spending.stage_spent_up(w.task, step):
            w.move(decide.Move(stops=((step.key, decide.STOP_LIMIT),)))  # it asks before its first turn
        return Claimed(w.task, w.step(step.key), spec) if isinstance(fact, StepClaimed) else None

    def brief(self, claimed: Claimed) -> Assignment:
        """Read outside any lock.  Everything that it reads is frozen by the claim."""
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
        journal = self._store.journal(claimed.ref, step.run) if again else []
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
            journal=tuple(map(_as_map, journal)),
            when_failed=step.when_failed,
            ended=self._ended(task, step, journal),
            notes=tuple(self._records.notes(task.workspace_id)) if spec.body.get("notes") and task.workspace_id else (),
            items=step.items,
            listing=self._scopes.value(task, step.listing) if step.kind is Kind.FOR_EACH else None,
            workspace=task.options.workspace,
            first_commit=task.base,
            environment=task.options.environment,
            secrets=(*task.options.secrets, *spec.body.get("secrets", ())),
            artifacts=tuple(self._records.artifacts(task.id, named=True)) if spec.kind is Kind.RUN else (),
        )

    def _ended(self, task: Task, step: Step, journal: Sequence[JournalRow]) -> JsonMap | None:
        """How that has ended which this run of an agent spawned last; None: it does not wait for the like.

        What an earlier run has spawned is nothing to this one; of which call it was, `bound` says."""
        if step.kind is not Kind.AGENT or not step.items or not journal or journal[-1].done_at:
            return None
        if step.listing["run"] != step.run:
            return None
        keys = [decide.item_key(step.key, index, step.expansion) for index in range(step.items)]
        rows = self._store.results(task.id, keys)
        ends = [
            {"step": key, "state": str(row.state), "result": self._scopes.value(task, row.result), "reason": row.reason}
            for key, row in ((key, rows[key]) for key in keys)
        ]
        return {"bound": step.listing["bound"], "ends": ends}

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
        if row.kind == "turn" and spent_above(self._store, ref.task_id):
            with write(self._store, ref.task_id, ref.step) as w:
                w.ask_to_stop([ref.step], decide.STOP_BUDGET)
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
        w.add(spending.recorded(w.task, usage))
        step = w.step(key)
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

    # --- reporting ------------------------------------------------------------------------------------------------

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
        """Records the outcome, tells the step's dependents if that needs nothing from outside, and, when `pool` is
        given and no other task has waited longer, claims the task's next ready step.  `alone`: others are not looked
        for, since there are none, or it is not their turn.

        Raises LeaseLost (stop, report nothing) and Refused (being cancelled: report Stopped once the tree is dead)."""
        outcome = masked(outcome)
        for _ in range(CONDITION_ROUNDS_MAX):
            try:
                plan = self._planned(ref, outcome)
                return self._recorded(ref, attempt, outcome, plan, worker, pool, alone)
            except BadPlan as error:  # a planner's steps: nothing was written
                outcome = refusal(error)
            except ConditionNeeded:
                continue  # what an `if` of a new step reads has changed meanwhile
        raise Refused(f"step {ref.step!r}: what the conditions of its new steps read keeps changing; report again")

    def _planned(self, ref: Ref, outcome: Outcome) -> Plan | None:
        """The steps that a planner hands over; None: none, or the step is no planner.  Raises BadPlan."""
        result = outcome.result if isinstance(outcome, Done) else None
        if not isinstance(result, dict) or not result.get("steps"):
            return None
        spec = self._store.spec(ref.task_id, self._store.get_step(ref).spec)
        if "grow" not in spec.body:
            return None
        return handed_over(self._store, self._scopes, self._expressions, ref, spec, result)

    def _recorded(
        self, ref: Ref, attempt: int, outcome: Outcome, plan: Plan | None, worker: str, pool: str | None, alone: bool
    ) -> Reported:
        outcome = bounded(outcome, lambda value: self._kept(ref, value))
        op = f"report {ref.step} {attempt}" if _moves_code(outcome) else None
        with write(self._store, ref.task_id, ref.step, telling=TELLING, actor=worker, op=op) as w:
            head = w.task.head
            if plan is not None and plan.seen_first:
                assert isinstance(outcome, Done)
                stop = _stop(w, ref.step, attempt)
                reason, digest = proposal(plan.growth)
                w.add(decide.propose(w.task, w.step(ref.step), attempt, outcome.result, reason, digest, stop))
            else:
                self._finish(w, ref.step, attempt, outcome)
                if plan is not None:
                    grow_in(w, plan.growth, ref.step, plan.conditions)
            settle_quietly(w, ref.step)
            claimed = None if pool is None else self._next(w, worker, pool, alone)
            after = w.task
        return Reported(claimed=claimed, moved=after if after.head != head or after.ended else None)

    def _finish(self, w: Writing, key: str, attempt: int, outcome: Outcome) -> None:
        step = w.step(key)
        spec = w.spec(step)
        stop = _stop(w, key, attempt)
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
        elif isinstance(outcome, Expanded):
            outcome = expanding(step, spec, outcome)
            if isinstance(outcome, Expanded) and spec.item is not None:
                owned = w.tx.spec(spec.item)
                again = step.expansion and step.kind is Kind.FOR_EACH
                left = open_items(w, key, 0, outcome.items, spec.parallel_max) if again else []
        task, now = w.task, w.now
        w.add(decide.finish(task, step, spec, attempt, outcome, now, stop=stop, signal=signal, owned=owned, left=left))

    def _next(self, w: Writing, worker: str, pool: str, alone: bool) -> Claimed | None:
        task, system = w.task, pool == POOL_SYSTEM
        ready = task.counts.ready_system if system else task.counts.ready - task.counts.ready_system
        if ready < 1 or task.admits < (1 if system else 2):
            return None
        if not alone and w.tx.rival(pool, task.served_at):
            return None
        fresh = [r for r in w.changed if r.state is StepState.READY and r.pool == pool and r.due_at <= w.now]
        if len(fresh) < ready:
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
        return self._claim(w, step, view, worker, self._runtime)

    def _kept(self, ref: Ref, value: Json) -> str:
        return self._put_json(self._store.get_task(ref.task_id).workspace_id, value)


def _stop(w: Writing, key: str, attempt: int) -> str | None:
    """What the attempt is asked to do by the mark in its lease."""
    lease = w.tx.lease(key)
    return lease.stop if lease is not None and lease.attempt == attempt else None


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


def expanding(step: Step, spec: StepSpec, outcome: Expanded) -> Expanded | Failed:
    """A worker may have said it of a step that has no items, or of more than its plan allows."""
    if spec.kind is Kind.FOR_EACH:
        return outcome
    if spec.item is None:
        return Failed("it has spawned other steps, which its plan does not allow", retryable=False)
    if not 0 < outcome.items <= spec.parallel_max:
        return Failed(f"it has spawned {outcome.items} steps at once, {spec.parallel_max} may be", retryable=False)
    if step.items and _call(step.listing) == _call(outcome.listing):
        return Failed("it has spawned the same before, and has not heard of it", retryable=False)
    if step.expansion >= EXPANSIONS_MAX:
        return Failed(f"it has spawned other steps {EXPANSIONS_MAX} times, and has not ended", retryable=False)
    return outcome


def _call(listing: JsonMap) -> tuple[Json, Json]:
    """The run, and the call of it, that an agent has spawned by."""
    return listing["run"], listing["bound"]


def _failure(step: Step, owner: Step | None) -> str | None:
    """What the run is told: why the run before it failed.  A loss or a release continues a run and is no failure."""
    own = step.reason if step.run > 1 else None
    if step.role is not Role.FIX or owner is None:
        return own
    return owner.reason if own is None else f"{owner.reason}\n\nAn earlier attempt to fix it failed: {own}"


def bounded(outcome: Outcome, put: Callable[[Json], str]) -> Outcome:
    """Large values go to the artifact store, before any lock is taken; reasons are cut.  `put` answers the digest."""
    match outcome:
        case Done(result=result) if result is not None:
            return replace(outcome, result=_inline(result, put))
        case Expanded(listing=dict(listing)):  # an agent's: which call it was stays in sight
            return replace(outcome, listing={**listing, "tasks": _inline(listing["tasks"], put)})
        case SubTask(inputs=inputs):
            return SubTask({name: _inline(value, put) for name, value in inputs.items()})
        case Expanded():
            return replace(outcome, listing=_inline(outcome.listing, put))
        case Failed() if len(outcome.reason) > REASON_LENGTH_MAX:
            cut = outcome.reason[:REASON_LENGTH_MAX] + " … (cut)"
            return Failed(cut, outcome.retryable, outcome.digest, outcome.artifacts, outcome.revise)
    return outcome


def _inline(value: Json, put: Callable[[Json], str]) -> Json:
    if isinstance(value, (int, float, bool)) or value is None or len(json.dumps(value)) <= INLINE_BYTES_MAX:
        return value
    return {ARTIFACT: put(value)}


def masked(outcome: Outcome) -> Outcome:
    """Without secrets: an outcome stands in events and rows, and is shown to everybody."""
    match outcome:
        case Done(result=result) if result is not None and (shown := redact_value(result)) != result:
            return replace(outcome, result=shown)
        case Failed(reason=reason) | Released(reason=reason) if (shown := redact(reason)) != reason:
            return replace(outcome, reason=shown)
        case Parked(question=question) if (shown := redact_value(question)) != question:
            return replace(outcome, question=shown)
        case SubTask(inputs=inputs) if (shown := redact_value(inputs)) != inputs:
            return SubTask(shown)
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
