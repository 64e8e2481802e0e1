"""Recording what has come of an attempt: the outcome, what it means to the step's dependents, the task's next claim."""

from __future__ import annotations

from collections.abc import Callable

from longtask.core import decide
from longtask.core.errors import BadPlan, Refused
from longtask.core.grow import refusal
from longtask.core.model import (
    POOL_SYSTEM,
    Done,
    Expanded,
    Failed,
    Json,
    JsonMap,
    Kind,
    Outcome,
    Parked,
    Signal,
    Step,
    StepSpec,
    StepState,
)
from longtask.core.policy import EXPANSIONS_MAX
from longtask.core.settle import ConditionNeeded
from longtask.core.spending import limits_of, stage_spent_up
from longtask.store.contract import Ref, Store

from .claiming import Claims
from .dispatcher import Claimed, Reported
from .growing import Plan, grow_in, handed_over, proposal
from .outcomes import bounded, masked
from .scope import Expressions, Scopes
from .settling import CONDITION_ROUNDS_MAX, TELLING, open_items, settle_quietly
from .writing import Writing, write

SIGNALS_LOOKED_AT = 200  # of one name, when a step parks: the earliest that fits is among them, or an older page was


class Reports:
    def __init__(
        self,
        store: Store,
        scopes: Scopes,
        expressions: Expressions,
        put_json: Callable[[str, Json], str],
        claims: Claims,
    ) -> None:
        self._store, self._scopes, self._expressions = store, scopes, expressions
        self._put_json = put_json
        self._claims = claims

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
        if stop == decide.STOP_LIMIT and not _limit_stands(w, step, spec):
            stop = None  # it was raised meanwhile, for all of the stage
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
        return self._claims.take(w, step, view, worker)

    def _kept(self, ref: Ref, value: Json) -> str:
        return self._put_json(self._store.get_task(ref.task_id).workspace_id, value)


def _limit_stands(w: Writing, step: Step, spec: StepSpec) -> bool:
    if stage_spent_up(w.task, step):
        return True
    limits = limits_of(spec, step.raises)
    spent = w.tx.spent(step.key, step.run) if limits else {}
    return any(spent[name] >= limit for name, limit in limits.items())


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


def _moves_code(outcome: Outcome) -> bool:
    return isinstance(outcome, Done) and outcome.commit is not None
