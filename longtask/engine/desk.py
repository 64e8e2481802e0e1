"""The front desk: all that a caller may ask of a task.

Each call is one transaction (submitting and pausing at once: several, bounded), safe to repeat, and recorded with who
asked.  Errors: NotFound, Refused (not now), BadPlan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from longtask.core import decide, events
from longtask.core.errors import BadPlan, NotFound, Refused
from longtask.core.family import END_NAME
from longtask.core.graph import Graph, did_you_mean
from longtask.core.grow import Growth
from longtask.core.model import (
    OPEN,
    Json,
    JsonMap,
    Question,
    Signal,
    Step,
    StepState,
    Task,
)
from longtask.core.policy import BATCH_MAX, SIGNAL_BYTES_MAX
from longtask.core.settle import Condition, ConditionNeeded, react
from longtask.core.stale import Foreseen
from longtask.redaction import redact, redact_value
from longtask.store.contract import Ref, Store

from .forking import Forking
from .growing import Plan, foreseen, grow_in, handed_over
from .scope import Expressions, Scopes
from .settling import CONDITION_ROUNDS_MAX, settle_quietly, with_conditions
from .submitting import Submitting, prepared
from .waking import take_in
from .writing import Writing, write


def keepable(name: str, payload: JsonMap, delivery: str | None, sender: str) -> None:
    """Raises BadPlan for a signal that no inbox can hold."""
    try:
        size = len(json.dumps(payload, allow_nan=False))
        f"{name}{delivery}{sender}".encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise BadPlan(f"signal {name!r} cannot be kept: {error}; send JSON, and names in UTF-8") from error
    if size > SIGNAL_BYTES_MAX:
        raise BadPlan(
            f"signal {name!r} is {size:,} bytes, the limit is {SIGNAL_BYTES_MAX:,}; "
            "keep the bytes elsewhere and send their address"
        )


class Superseded(Refused):
    """What was decided about has moved meanwhile (`bind: head`): the decision does not count, and the step asks anew as
    soon as a worker has looked."""


class Desk:
    def __init__(self, store: Store, scopes: Scopes, expressions: Expressions, new_id: Callable[[], str]) -> None:
        """`new_id` gives a fresh UUIDv7: chance is handed in."""
        self._store = store
        self._scopes = scopes
        self._expressions = expressions
        self._new_id = new_id
        self._submitting = Submitting(store, scopes, expressions)
        self._forking = Forking(store, self._submitting, new_id)

    # --- submitting -----------------------------------------------------------------------------------------------

    def submit(
        self,
        graph: Graph,
        *,
        by: str = "",
        workspace_id: str = "",
        base: str | None = None,
        idempotency_key: str | None = None,
        plan_text: str | None = None,
    ) -> Task:
        """Stores a checked plan; no step runs before all of it is there.

        With an idempotency key the same task is returned again, and a submission that broke off is continued; another
        plan under the same key is refused.
        """
        submission = prepared(graph)
        digest = hashlib.sha256(repr((graph, workspace_id)).encode()).hexdigest()[:32]
        known = self._known(idempotency_key, digest)
        if known is not None and not known.loading:
            return known
        if known is None:
            task_id = self._new_id()
            first = submission.first
            submitted = events.TaskSubmitted(
                id=task_id,
                name=graph.name,
                options=replace(graph.options, plan_digest=digest),
                workspace_id=workspace_id,
                created_by=by,
                idempotency_key=idempotency_key,
                base=base,
                priority=graph.priority,
                parallel=graph.parallel,
                specs=first.specs,
                steps=first.steps,
                edges=first.edges,
                more=not submission.whole,
            )
            kept_text = None if plan_text is None else redact(plan_text)  # its comments may hold anything
            try:
                self._submitting.create(submitted, kept_text, by)
            except Refused:
                known = self._known(idempotency_key, digest)  # another call with the same key was faster
                if known is None:
                    raise
                task_id = known.id
        else:
            task_id = known.id
        self._submitting.finish(task_id, submission, by)
        return self._store.get_task(task_id)

    def _known(self, idempotency_key: str | None, digest: str) -> Task | None:
        known = self._store.task_by_key(idempotency_key) if idempotency_key else None
        if known is not None and known.options.plan_digest != digest:
            raise Refused(f"idempotency key {idempotency_key!r} belongs to task {known.id!r}, which has another plan")
        return known

    def fork(self, ref: Ref, by: str, *, idempotency_key: str | None = None, paused: bool = False) -> Task:
        """A new task that does the step again, and all that came of it; what had completed before is taken over.

        With an idempotency key the same task is returned again, and a fork that broke off is continued.  `paused`:
        nothing of it begins before it is resumed."""
        return self._forking.fork(ref, by, idempotency_key, paused=paused)

    def foresee(self, ref: Ref, act: str) -> Foreseen:
        """What a `fork` from the step, its `retry` or a `reject` would make stale.  Raises Refused as the act would."""
        return self._forking.foresee(ref, act)

    # --- people, about a task -------------------------------------------------------------------------------------

    def pause(self, task_id: str, by: str, *, now: bool = False) -> Task:
        """`now`: running attempts are asked to give back too, and those of all tasks below; that costs no budget."""
        with write(self._store, task_id, actor=by) as w:
            w.add(decide.pause(w.task, by, now=now))
            if now:
                w.stop_running()
            return w.task

    def resume(self, task_id: str, by: str) -> Task:
        with write(self._store, task_id, actor=by) as w:
            w.add(decide.resume(w.task, by))
            return w.task

    def cancel(self, task_id: str, by: str, reason: str = "") -> Task:
        """Works on an open task of any size; the sweep is the scheduler's."""
        with write(self._store, task_id, actor=by) as w:
            w.add(decide.cancel_task(w.task, by, redact(reason)))
            return w.task

    def raise_budget(
        self,
        task_id: str,
        by: str,
        *,
        micros: int | None = None,
        tokens: int | None = None,
        active_ms: int | None = None,
    ) -> Task:
        with write(self._store, task_id, actor=by) as w:
            if w.task.ended:
                raise Refused(f"task {task_id!r} is {w.task.state}: its budget matters no more")
            w.add([events.BudgetRaised(by, micros, tokens, active_ms)])
            return w.task

    def add(self, task_id: str, growth: Growth, by: str) -> list[Step]:
        """Adds steps to a task that is under way; the new rows.

        Raises Refused (the task takes none now), BadPlan with every problem."""
        for _ in range(CONDITION_ROUNDS_MAX):
            conditions = foreseen(self._store, self._scopes, self._expressions, task_id, growth)
            with suppress(ConditionNeeded), write(self._store, task_id, growth.before, actor=by) as w:
                return [w.step(key) for key in grow_in(w, growth, by, conditions)]
        raise Refused(f"task {task_id!r}: what the conditions of the new steps read keeps changing; try again")

    # --- people, about a step -------------------------------------------------------------------------------------

    def cancel_step(self, ref: Ref, by: str) -> Step:
        with write(self._store, ref.task_id, ref.step, actor=by) as w:
            w.move(decide.cancel_step(w.task, w.step(ref.step), by))
            return w.step(ref.step)

    def retry(self, ref: Ref, by: str) -> Step:
        """Takes up a failed or cancelled step again; what it vetoed comes back by itself."""

        def again(w: Writing, conditions: Mapping[str, Condition]) -> Step:
            owned = len(w.tx.owned_open(ref.step, 1))
            w.add(decide.retry(w.task, w.step(ref.step), by, owned))
            w.add(react(w.task, w.step(ref.step), None, w.now, conditions))
            return w.step(ref.step)

        return with_conditions(self._store, self._scopes, self._expressions, ref, by, again)

    def skip(self, ref: Ref, by: str) -> Step:
        """Go on without it: a failed or cancelled step is waived, one that has not begun is retired."""
        with write(self._store, ref.task_id, ref.step, actor=by) as w:
            step = w.step(ref.step)
            if step.state in OPEN:
                w.add(decide.retire(w.task, step, by))
            else:
                w.add(decide.waive(w.task, step, by, len(w.tx.owned_open(ref.step, 1))))
            return w.step(ref.step)

    # --- answers and signals --------------------------------------------------------------------------------------

    def _go_on(self, task_id: str, stage: int, by: str) -> None:
        """All that ask about the limit of a stage which was raised, each by itself: one that is missed asks still."""
        for id, asking in self._store.asking(task_id=task_id, limit=BATCH_MAX):
            if asking.stage == stage:
                with suppress(Refused), write(self._store, id, asking.key, actor=by) as w:
                    w.add(decide.stage_raised(w.task, w.step(asking.key), by, w.now))

    def answer(
        self,
        ref: Ref,
        word: str,
        by: str,
        *,
        ask: int | None = None,
        digest: str | None = None,
        text: str = "",
        commit: str | None = None,
        edited: Json = None,
    ) -> Step:
        """Answers what the step asks: recorded once, before anything goes on.  `ask` and `digest`: what was seen.

        Raises Superseded when the code has moved under a question that is bound to it, BadPlan when what a planner
        wants to add does not fit any more."""
        plan = self._proposed(ref) if word == "approve" else None
        with write(self._store, ref.task_id, ref.step, actor=by) as w:
            step = w.step(ref.step)
            who = (step.question or {}).get("who")
            if who and by not in who:
                raise Refused(f"step {ref.step!r} asks {', '.join(who)}; {by!r} may not decide it")
            w.add(
                decide.answer(
                    w.task,
                    step,
                    word=word,
                    by=by,
                    now=w.now,
                    ask=ask,
                    digest=digest,
                    text=redact(text),
                    commit=commit,
                    edited=redact_value(edited),
                )
            )
            if plan is not None and w.step(ref.step).state is StepState.COMPLETED:
                grow_in(w, plan.growth, by, plan.conditions)
            if w.step(ref.step).state not in OPEN:
                settle_quietly(w, ref.step)
            answered = w.step(ref.step)
        if word == decide.RAISE_STAGE:
            self._go_on(ref.task_id, answered.stage, by)
        if (answered.cause or {}).get("superseded"):  # that is recorded; the decision is not
            raise Superseded(
                f"step {ref.step!r}: the code has moved since it was shown; {word!r} does not count, it is asked anew"
            )
        return answered

    def _proposed(self, ref: Ref) -> Plan | None:
        """What a planner wants to add; None: the step asks something else."""
        step = self._store.get_step(ref)
        if (step.question or {}).get("kind") != Question.PLAN:
            return None
        assert step.question is not None
        task, spec = self._store.get_task(ref.task_id), self._store.spec(ref.task_id, step.spec)
        result = self._scopes.value(task, step.question["result"])
        return handed_over(self._store, self._scopes, self._expressions, ref, spec, result)

    def signal(
        self, task_id: str, name: str, payload: JsonMap, *, delivery: str | None = None, sender: str = ""
    ) -> Signal:
        """Keeps the signal and wakes every waiter that fits, a batch here and the rest by the scheduler; all of them by
        the scheduler if some still have an earlier signal to hear.  A second delivery is answered with the first."""
        keepable(name, payload, delivery, sender)
        if name.startswith(END_NAME):
            raise Refused(f"signal {name!r} tells the end of a task, and only that task sends it")
        with write(self._store, task_id, actor=sender) as w:
            known = w.tx.delivered(delivery) if delivery else None
            if known is not None:
                return known
            if w.task.ended:
                raise Refused(f"task {task_id!r} is {w.task.state}: it hears no signals any more")
            return take_in(w, name, delivery or self._new_id(), payload, sender)

    def call_back(self, ref: Ref, run: int, name: str, payload: JsonMap, *, sender: str = "") -> tuple[Signal, bool]:
        """The answer to the call of a step's run, and whether it is new: a second one is answered with the first.

        It counts from the moment the call is made, also before the step has parked.  Raises Refused if it comes too
        late: the run is over."""
        keepable(name, payload, None, sender)
        delivery = f"{name} {ref.step} {run}"
        with write(self._store, ref.task_id, ref.step, actor=sender) as w:
            known = w.tx.delivered(delivery)
            if known is not None:
                return known, False
            step = w.step(ref.step)
            if w.task.ended or step.state not in OPEN or step.run != run:
                state = str(w.task.state if w.task.ended else step.state)
                over = f"is {state}" if w.task.ended or step.state not in OPEN else f"is in run {step.run}"
                raise Refused(f"step {ref.step!r} {over}: the answer to the call of run {run} comes too late")
            return take_in(w, name, delivery, payload, sender), True

    # --- looking --------------------------------------------------------------------------------------------------

    def step(self, task_id: str, key: str) -> Step:
        """Raises NotFound that names the nearest key."""
        try:
            return self._store.get_step(Ref(task_id, key))
        except NotFound:
            keys = [row.key for row in self._store.steps(task_id, "", BATCH_MAX)]
            raise NotFound(f"task has no step {key!r}{did_you_mean(key, keys)}") from None
