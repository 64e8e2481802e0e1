"""Errands between tasks: each is acted on in one transaction of the other task, and over in one of its own.

`act` may be done any number of times, by any number of schedulers, also long after the errand was over; it does its
work once.  A crash between the two transactions leaves the errand, and the next round does it again.  A task that is
not there (any more) is told nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from longtask.core import decide, family, spending
from longtask.core.codec import load
from longtask.core.errors import NotFound, Refused
from longtask.core.events import TaskPaused, TaskSubmitted, UsageRecorded
from longtask.core.fork import submitted
from longtask.core.graph import Graph
from longtask.core.machine import Draft
from longtask.core.model import PAUSED_BY_PARENT, JsonMap, Task, TaskState
from longtask.store.contract import ErrandRow, Ref, Store

from .forking import Forking
from .scope import Expressions, Scopes
from .submitting import Submission, Submitting, prepared
from .waking import take_in
from .writing import Writing, write

CHILDREN_MAX = 100  # told in one round of a relay


@dataclass(frozen=True, slots=True)
class Done:
    """An errand that was acted on, and what it leaves to be said on the task that had it."""

    n: int
    kind: str
    followed: int = 0  # of a creation: the wish that the child was born into
    wish: int = 0  # of a relay: what was told
    before: str | None = None  # of a relay: to the children of steps above this key
    cursor: str | None = None  # of a relay: up to this one; None: to the last


class Family:
    def __init__(self, store: Store, scopes: Scopes, expressions: Expressions) -> None:
        self._store = store
        self._submitting = Submitting(store, scopes, expressions)
        self._forking = Forking(store, self._submitting)

    def act(self, row: ErrandRow) -> Done:
        """The first transaction, or some, on other tasks."""
        match row.kind:
            case family.CREATE:
                return Done(row.n, row.kind, followed=self._create(row))
            case family.CANCEL:
                self._cancel(row)
            case family.ENDED:
                self._tell_end(row)
            case family.SPENT:
                self._tell_usage(row)
            case family.RELAY:
                return self._relay(row)
            case _:
                raise Refused(f"errand {row.kind!r} is not known: a newer version wrote it, and carries it out")
        return Done(row.n, row.kind)

    def over(self, task_id: str, done: Sequence[Done]) -> int:
        """The second one, on the task that had these errands."""
        with write(self._store, task_id) as w:
            gone: list[Done] = []
            for one in done:
                if one.kind == family.RELAY and not _relayed(w, one):
                    continue
                if one.kind == family.CREATE and one.followed < w.task.wish:
                    # A relay may have looked before the child was there, and say so later: its wish is another one now.
                    w.mark(wish=w.task.wish + 1, relay="")
                if one.kind == family.ENDED:
                    w.mark(parent_told=True)
                gone.append(one)
            if w.task.relay is not None:  # it may have ended here, and have begun anew: by the same errand
                gone = [one for one in gone if one.kind != family.RELAY]
            w.tx.drop_errands([one.n for one in gone])
            return len(gone)

    # --- children -------------------------------------------------------------------------------------------------

    def _create(self, row: ErrandRow) -> int:
        """Also when the step waits for it no longer: then it is ended by the next errand.  Whoever would pass it over
        could be late, and make it after that."""
        parent = self._store.get_task(row.task_id)
        body: JsonMap = json.loads(row.body or "{}")
        try:
            child = self._store.get_task(row.target)
            if not child.loading:
                return child.followed
        except NotFound:
            pass
        spec = self._store.spec(parent.id, body["spec"])
        graph = load(Graph, spec.body["graph"])
        old = self._source(body, graph)
        whole = None if old is None else self._forking.whole(old)
        submission = prepared(graph) if whole is None else whole[1]
        if whole is None:
            begun = self._fresh(row.target, graph, submission, parent)
        else:
            digest = graph.options.plan_digest
            begun = submitted(whole[0], submission.first, id=row.target, step=None, by="", plan_digest=digest)
        secrets = dict.fromkeys((*parent.options.secrets, *graph.options.secrets))
        begun = replace(
            begun,
            options=replace(begun.options, inputs=body["inputs"], secrets=tuple(secrets)),
            created_by=parent.created_by,
            priority=parent.priority,
            parent=parent.id,
            parent_step=row.step,
            ancestors=family.above(parent, row.step),
        )

        def born(draft: Draft) -> None:
            if family.held(parent):
                draft.add([TaskPaused(PAUSED_BY_PARENT, family.BY_PARENT, parent.at_once)])
            draft.mark(followed=parent.wish)

        with suppress(Refused):  # it is there: by another scheduler, or by one that died before all of it was
            self._submitting.create(begun, None, family.BY_PARENT, born)
        child = self._store.get_task(row.target)  # perhaps as another one has begun it
        if child.options.forked is not None:
            self._forking.finish(child, family.BY_PARENT)
        else:
            self._submitting.finish(child.id, prepared(graph), family.BY_PARENT)
        return child.followed

    def _source(self, body: JsonMap, graph: Graph) -> Task | None:
        """The step's last child, if it was made from the same and did not complete: what it completed is taken over."""
        if "after" not in body:
            return None
        try:
            old = self._store.get_task(body["after"])
        except NotFound:
            return None
        alike = old.options.inputs == body["inputs"] and old.options.plan_digest == graph.options.plan_digest
        return old if alike and old.state in (TaskState.FAILED, TaskState.CANCELLED) else None

    def _fresh(self, id: str, graph: Graph, submission: Submission, parent: Task) -> TaskSubmitted:
        return TaskSubmitted(
            id=id,
            name=graph.name,
            options=graph.options,
            workspace_id=parent.workspace_id,
            base=parent.head,
            parallel=graph.parallel,
            specs=submission.first.specs,
            steps=submission.first.steps,
            edges=submission.first.edges,
            more=not submission.whole,
        )

    def _cancel(self, row: ErrandRow) -> None:
        with suppress(NotFound), write(self._store, row.target, actor=family.BY_PARENT) as w:
            if not w.task.ended:
                reason = f"step {row.step!r} of its parent does not wait for it any more"
                w.add(decide.cancel_task(w.task, family.BY_PARENT, reason))

    def _relay(self, row: ErrandRow) -> Done:
        parent = self._store.get_task(row.task_id)
        before, wish, hold = parent.relay, parent.wish, family.held(parent)
        if before is None or parent.state not in (TaskState.ACTIVE, TaskState.PAUSED):
            return Done(row.n, row.kind, wish=wish)
        if parent.at_once and before == "" and self._stop_running(parent.id):
            return Done(row.n, row.kind, wish=wish, before=before, cursor=before)
        page = self._store.awaited(parent.id, before, CHILDREN_MAX)
        for _, child in page:
            self._follow(child, wish, hold, parent.at_once)
        cursor = page[-1][0] if len(page) == CHILDREN_MAX else None
        return Done(row.n, row.kind, wish=wish, before=before, cursor=cursor)

    def _stop_running(self, task_id: str) -> bool:
        """More than one transaction may ask; False: all were asked, or it is not to pause at once any more."""
        with write(self._store, task_id) as w:
            return w.task.at_once and w.stop_running()

    def _follow(self, child: str, wish: int, hold: bool, at_once: bool = False) -> None:
        try:
            with write(self._store, child, actor=family.BY_PARENT) as w:
                facts = family.follow(w.task, wish, hold, at_once)
                if facts is not None:
                    w.add(facts)
                    w.mark(followed=wish)
                    if w.task.at_once:
                        w.stop_running()
        except NotFound:
            return  # it is still to be made, from what its parent is then

    # --- parents --------------------------------------------------------------------------------------------------

    def _tell_end(self, row: ErrandRow) -> None:
        child = self._store.get_task(row.task_id)
        payload = {"state": str(child.state), "head": child.head, "base": child.base}
        delivery = family.delivery_of(child.id)
        with suppress(NotFound), write(self._store, row.target, actor=child.id) as w:
            if not w.task.ended and w.tx.delivered(delivery) is None:
                take_in(w, family.END_NAME + child.id, delivery, payload, child.id)

    def _tell_usage(self, row: ErrandRow) -> None:
        op = family.usage_op(row.task_id, row.seq)
        usage = UsageRecorded(row.step, 0, child=row.task_id, **json.loads(row.body or "{}"))
        with suppress(NotFound), write(self._store, row.target, op=op) as w:
            if w.tx.done_op(op):
                return
            within = w.task.within_budget
            stage = w.step(row.step).stage if w.task.options.stage_limits else 1
            w.add([usage] if w.task.ended else spending.recorded(w.task, stage, usage))
            if within and not w.task.within_budget:
                w.stop_agents()


def _relayed(w: Writing, one: Done) -> bool:
    """Whether the relay is over.  It goes on from where it was taken up, unless another wish has begun it anew."""
    task: Task = w.task
    if task.relay is not None and task.state not in (TaskState.ACTIVE, TaskState.PAUSED):
        w.mark(relay=None)  # its children are ended
        return True
    if task.relay is None:
        return True
    if task.wish != one.wish or task.relay != one.before:
        return False
    w.mark(relay=one.cursor)
    return one.cursor is None


def why_no_turn(store: Store, ref: Ref) -> str | None:
    """Why the step is to begin no turn: the task or one over it has spent its budget, usage included that it has not
    been told yet, or its stage has.  None: it may.  Whoever runs then is asked to stop, but only so many under one
    lock: this finds the others."""
    counting = store.over(ref.task_id)
    if any(_is_over(*one) for one in counting):
        return decide.STOP_BUDGET
    task = counting[0].task
    limited = task.options.stage_limits and spending.stage_spent_up(task, store.get_step(ref))
    return decide.STOP_LIMIT if limited else None


def _is_over(task: Task, tokens: int, micros: int) -> bool:
    counted = task._replace(spent_tokens=task.spent_tokens + tokens, spent_micros=task.spent_micros + micros)
    return not counted.within_budget
