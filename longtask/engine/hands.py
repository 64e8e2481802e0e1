"""People who lay hands on a step: edit it, take it and work on it themselves, say that it is done.

Each call is one transaction, recorded with who asked.  Errors: NotFound, Refused (not now), BadPlan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from longtask.core import decide, hands
from longtask.core.errors import BadPlan, Refused
from longtask.core.grow import renumbered, steps_in
from longtask.core.model import OPEN, Done, Json, Step, StepSpec, StepState
from longtask.core.policy import EDGES_PER_STEP_MAX, TAKEN_MS
from longtask.core.settle import Condition, ConditionNeeded, react
from longtask.redaction import redact_value
from longtask.store.contract import Ref, Store

from .growing import Plan, grow_in, handed_over
from .outcomes import bounded
from .scope import Expressions, Scopes
from .settling import settle_quietly, with_conditions
from .writing import Writing, write


class Hands:
    def __init__(
        self, store: Store, scopes: Scopes, expressions: Expressions, put_json: Callable[[str, Json], str]
    ) -> None:
        self._store = store
        self._scopes = scopes
        self._expressions = expressions
        self._put_json = put_json

    def edit(self, ref: Ref, words: Json, by: str, *, again: bool = False) -> Step:
        """Other words for a step that has not completed, from its next attempt on: those of a plan, as plain values.
        `again`: what has failed, or asks because it did, is also taken up again."""
        task, old = self._store.get_task(ref.task_id), self._store.get_step(ref)
        was = self._store.spec(ref.task_id, old.spec)
        edited = self._expressions.edited(ref.step, was, redact_value(words), task)

        def act(w: Writing, conditions: Mapping[str, Condition]) -> Step:
            step = w.step(ref.step)
            if step.spec != old.spec:
                raise Refused(f"step {ref.step!r} was edited by somebody else just now; look at it again")
            first = w.tx.spec_count()
            specs = [renumbered(spec, first) for spec in edited.specs]
            specs[edited.own] = replace(specs[edited.own], **{name: getattr(was, name) for name in edited.kept})
            _readable(w, step, was, specs[edited.own])
            if again and step.state not in OPEN:
                w.add(decide.retry(w.task, step, by, len(w.tx.owned_open(ref.step, 1))))
            w.add(hands.edit(w.task, w.step(ref.step), first + edited.own, by, specs, first))
            if again and step.state in OPEN:
                w.add(decide.answer(w.task, w.step(ref.step), word="again", by=by, now=w.now, text="edited"))
            elif again:
                w.add(react(w.task, w.step(ref.step), None, w.now, conditions))
            return w.step(ref.step)

        return self._with_conditions(ref, by, act)

    def take(self, ref: Ref, by: str, for_ms: int = TAKEN_MS) -> Step:
        """The step is `by`'s until it is done or given back, or `for_ms` have passed: then it is what it was."""
        return self._with_conditions(ref, by, lambda w, conditions: _take(w, ref.step, by, for_ms, conditions))

    def give_back(self, ref: Ref, by: str) -> Step:
        with write(self._store, ref.task_id, ref.step, actor=by) as w:
            w.add(hands.give_back(w.task, w.step(ref.step), by, w.now))
            if w.step(ref.step).state not in OPEN:
                settle_quietly(w, ref.step)
            return w.step(ref.step)

    def done(
        self,
        ref: Ref,
        by: str,
        *,
        commit: str | None = None,
        base: str | None = None,
        result: Json = None,
        attempt: int | None = None,
    ) -> Step:
        """What `by` did is the step's outcome.  One that nobody has taken is taken with it.  `commit`: the change of
        the code, already on a reference of its own in the hub; `base`: the commit that it was made on; `attempt`: with
        which `by` has taken it, None: whichever is the newest.  A planner's outputs hold its `steps`, which are added;
        nobody is asked about them once more."""
        outcome = Done(redact_value(result), commit, base=base)
        seen = self._store.get_step(ref)
        spec, plan = self._store.spec(ref.task_id, seen.spec), None
        if "grow" in spec.body and steps_in(outcome.result):  # an empty list is a plan, too
            plan = handed_over(self._store, self._scopes, self._expressions, ref, spec, outcome.result)
        workspace_id = self._store.get_task(ref.task_id).workspace_id
        kept = bounded(outcome, lambda value: self._put_json(workspace_id, value))

        def act(w: Writing, conditions: Mapping[str, Condition]) -> Step:
            step = w.step(ref.step)
            if step.spec != seen.spec:
                raise Refused(f"step {ref.step!r} was edited by somebody else just now; look at it again")
            if attempt is not None and (step.attempt != attempt or step.state is not StepState.RUNNING):
                raise Refused(f"step {ref.step!r}: attempt {attempt} is over; take it again, then say that it is done")
            hands.need_own(step.key, step.taken_by if step.state is StepState.RUNNING else None, by)
            if plan is not None and step.state in (StepState.FAILED, StepState.CANCELLED):
                hint = "take it first, so that its stages are open again; then say that it is done"
                raise Refused(f"step {ref.step!r} is {step.state}, and its steps have no place now: {hint}")
            if not hands.held_by(step, by):
                step = _take(w, ref.step, by, TAKEN_MS, conditions)
            w.add(decide.finish(w.task, step, w.spec(step), step.attempt, kept, w.now))
            if plan is not None:
                _grow(w, plan, ref.step)
            settle_quietly(w, ref.step)
            return w.step(ref.step)

        return self._with_conditions(ref, by, act)

    def _with_conditions(self, ref: Ref, by: str, act: Callable[[Writing, Mapping[str, Condition]], Step]) -> Step:
        return with_conditions(self._store, self._scopes, self._expressions, ref, by, act)


def _take(w: Writing, key: str, by: str, for_ms: int, conditions: Mapping[str, Condition]) -> Step:
    for _ in range(2):  # what had failed is restored first
        step = w.step(key)
        spec = w.spec(step)
        mutex = None if spec.mutex is None else w.mutex(step, spec.mutex)
        owned = 0 if step.state in OPEN else len(w.tx.owned_open(key, 1))
        w.add(hands.take(w.task, step, spec, by, w.now, for_ms, owned_open=owned, mutex=mutex))
        if w.step(key).state is StepState.RUNNING:
            break
        w.add(react(w.task, w.step(key), None, w.now, conditions))
    return w.step(key)


def _grow(w: Writing, plan: Plan, key: str) -> None:
    try:
        grow_in(w, plan.growth, key, plan.conditions)
    except ConditionNeeded:
        text = f"step {key!r}: what the conditions of its new steps read has changed just now; try again"
        raise Refused(text) from None


def _readable(w: Writing, step: Step, was: StepSpec, now: StepSpec) -> None:
    """What the new words read must have ended when the step begins.  Raises BadPlan."""
    more = [key for key in now.reads if key not in was.reads]
    if not more:
        return
    rows = w.tx.steps(more)
    needs = w.tx.needs(step.key, EDGES_PER_STEP_MAX)
    for key in more:
        row = rows.get(key)
        if row is None:
            raise BadPlan(f"step {step.key!r} reads steps.{key}: no such step")
        if row.state is not StepState.COMPLETED and row.stage >= step.stage and key not in needs:
            raise BadPlan(f"step {step.key!r} reads steps.{key}, but does not wait for it")
