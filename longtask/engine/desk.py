"""The front desk: all that a caller may ask of a task.

Each call is one transaction (submitting and pausing at once: several, bounded), safe to repeat, and recorded with who
asked.  Errors: NotFound, Refused (not now), BadPlan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from longtask.core import decide, events
from longtask.core.errors import BadPlan, NotFound, Refused
from longtask.core.events import NewStep
from longtask.core.graph import Batch, Graph, batches, build, did_you_mean
from longtask.core.machine import fold
from longtask.core.model import (
    OPEN,
    Json,
    JsonMap,
    Kind,
    Signal,
    Step,
    Task,
    TaskState,
)
from longtask.core.policy import BATCH_MAX, SIGNAL_BYTES_MAX
from longtask.core.settle import Condition, ConditionNeeded, react
from longtask.redaction import redact, redact_value
from longtask.store.contract import Ref, Store

from .scope import Expressions, Scopes
from .settling import evaluate, settle_quietly
from .waking import take_in
from .writing import Writing, write

CONDITION_ROUNDS_MAX = 8


def _begin_at_once(rows: Sequence[NewStep]) -> list[NewStep]:
    """The steps that begin on their `if` alone, and gates that need nothing at all: those of empty stages open when the
    one before is told, so it is the first stage's at most."""
    return [row for row in rows if not row.blockers and (row.conditional or row.kind is Kind.GATE)]


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


class Desk:
    def __init__(self, store: Store, scopes: Scopes, expressions: Expressions, new_id: Callable[[], str]) -> None:
        """`new_id` gives a fresh UUIDv7: chance is handed in."""
        self._store = store
        self._scopes = scopes
        self._expressions = expressions
        self._new_id = new_id

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
        rows, edges = build(graph)
        digest = hashlib.sha256(repr((graph, workspace_id)).encode()).hexdigest()[:32]
        options = replace(graph.options, plan_digest=digest)
        known = self._known(idempotency_key, digest)
        if known is not None and not known.loading:
            return known
        first, *others = batches(rows, edges, graph.specs)
        begins = _begin_at_once(rows)
        whole = not others and not begins  # then it is there with its first batch
        if known is None:
            task_id = self._new_id()
            submitted = events.TaskSubmitted(
                id=task_id,
                name=graph.name,
                options=options,
                workspace_id=workspace_id,
                created_by=by,
                idempotency_key=idempotency_key,
                base=base,
                priority=graph.priority,
                parallel=graph.parallel,
                specs=first.specs,
                steps=first.steps,
                edges=first.edges,
                more=not whole,
            )
            kept_text = None if plan_text is None else redact(plan_text)  # its comments may hold anything

            def create() -> None:
                with self._store.create(task_id) as tx:
                    tx.save(fold(None, {}, [submitted], tx.now), actor=by)
                if kept_text is not None:
                    self._store.put_plan(task_id, kept_text)

            try:
                self._store.together(create)
            except Refused:
                known = self._known(idempotency_key, digest)  # another call with the same key was faster
                if known is None:
                    raise
                task_id = known.id
        else:
            task_id = known.id
        if not whole and self._load(task_id, others, by):
            self._begin(task_id, begins, by)
        return self._store.get_task(task_id)

    def _known(self, idempotency_key: str | None, digest: str) -> Task | None:
        known = self._store.task_by_key(idempotency_key) if idempotency_key else None
        if known is not None and known.options.plan_digest != digest:
            raise Refused(f"idempotency key {idempotency_key!r} belongs to task {known.id!r}, which has another plan")
        return known

    def _load(self, task_id: str, others: Sequence[Batch], by: str) -> bool:
        """The other batches; False: it was cancelled meanwhile, or loaded by another call with the same key."""
        done = self._store.get_task(task_id).counts.steps
        for batch in others:
            if batch.first < done:
                continue
            with write(self._store, task_id, actor=by) as w:
                if not w.task.loading or w.task.state is TaskState.CLOSING:
                    return False
                if w.task.counts.steps == batch.first:
                    w.add([events.StepsAdded(batch.steps, batch.edges, batch.specs, batch.first_spec, by, more=True)])
        return True

    def _begin(self, task_id: str, begins: Sequence[NewStep], by: str) -> None:
        """The last transaction ends the loading."""
        conditional = tuple(row.key for row in begins if row.conditional)
        conditions = evaluate(self._store, self._scopes, self._expressions, task_id, conditional) if conditional else {}
        keys = [row.key for row in begins]
        for start in range(0, max(len(keys), 1), BATCH_MAX):
            batch = keys[start : start + BATCH_MAX]
            with write(self._store, task_id, actor=by) as w:
                if not w.task.loading or w.task.state is TaskState.CLOSING:
                    return
                facts = [fact for key in batch for fact in react(w.task, w.step(key), None, w.now, conditions)]
                last = start + BATCH_MAX >= len(keys)
                w.add([*facts, events.StepsAdded((), by=by, more=not last)])

    # --- people, about a task -------------------------------------------------------------------------------------

    def pause(self, task_id: str, by: str, *, now: bool = False) -> Task:
        """`now`: running attempts are asked to give back too; that costs no budget."""
        with write(self._store, task_id, actor=by) as w:
            w.add(decide.pause(w.task, by))
            if now:
                running = [row.key for row in w.tx.running(BATCH_MAX)]
                w.ask_to_stop(running, "pause")
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

    # --- people, about a step -------------------------------------------------------------------------------------

    def cancel_step(self, ref: Ref, by: str) -> Step:
        with write(self._store, ref.task_id, ref.step, actor=by) as w:
            w.move(decide.cancel_step(w.task, w.step(ref.step), by))
            return w.step(ref.step)

    def retry(self, ref: Ref, by: str) -> Step:
        """Takes up a failed or cancelled step again; what it vetoed comes back by itself."""

        def again(w: Writing, conditions: dict[str, Condition]) -> Step:
            owned = len(w.tx.owned_open(ref.step, 1))
            w.add(decide.retry(w.task, w.step(ref.step), by, owned))
            w.add(react(w.task, w.step(ref.step), None, w.now, conditions))
            return w.step(ref.step)

        return self._with_conditions(ref, by, again)

    def skip(self, ref: Ref, by: str) -> Step:
        """Go on without it: a failed or cancelled step is waived, one that has not begun is retired."""
        with write(self._store, ref.task_id, ref.step, actor=by) as w:
            step = w.step(ref.step)
            if step.state in OPEN:
                w.add(decide.retire(w.task, step, by))
            else:
                w.add(decide.waive(w.task, step, by, len(w.tx.owned_open(ref.step, 1))))
            return w.step(ref.step)

    def _with_conditions(self, ref: Ref, by: str, act: Callable[[Writing, dict[str, Condition]], Step]) -> Step:
        conditions: dict[str, Condition] = {}
        for _ in range(CONDITION_ROUNDS_MAX):
            try:
                with write(self._store, ref.task_id, ref.step, actor=by) as w:
                    return act(w, conditions)
            except ConditionNeeded as needed:
                conditions |= evaluate(self._store, self._scopes, self._expressions, ref.task_id, needed.keys)
        raise Refused(f"step {ref.step!r}: what its condition reads keeps changing; try again")

    # --- answers and signals --------------------------------------------------------------------------------------

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
        """Answers what the step asks: recorded once, before anything goes on.  `ask` and `digest`: what was seen."""
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
            if w.step(ref.step).state not in OPEN:
                settle_quietly(w, ref.step)
            return w.step(ref.step)

    def signal(
        self, task_id: str, name: str, payload: JsonMap, *, delivery: str | None = None, sender: str = ""
    ) -> Signal:
        """Keeps the signal and wakes every waiter that fits, a batch here and the rest by the scheduler; all of them by
        the scheduler if some still have an earlier signal to hear.  A second delivery is answered with the first."""
        keepable(name, payload, delivery, sender)
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
