"""Forks, in bounded transactions: the source's journal is read without a lock, for what is written in it never changes.

A fork that broke off is continued by doing it again with the same key: up to which event it goes stands in its header.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

from longtask.core import decide, hands, stale
from longtask.core.errors import NotFound, Refused
from longtask.core.events import Event, TaskPaused
from longtask.core.fork import Forked, begin_late, forkable, forked, point, submission, submitted
from longtask.core.machine import Draft
from longtask.core.model import PAUSED_BY_PERSON, Edge, Step, StepState, Task, WaitingFor
from longtask.core.stale import Foreseen
from longtask.store.contract import Ref, Store

from .submitting import Submission, Submitting
from .writing import write

ACTS = ("fork", "retry", "edit", "reject")
PAGE = 1_000  # rows and events that are read at once; nothing is locked


class _Made:
    """A fork, in the pieces that its transactions write."""

    def __init__(self, fork: Forked) -> None:
        self.fork = fork
        first, *others = submission(fork)
        self.parts = Submission(first, tuple(others), tuple(begin_late(fork)))


class Forking:
    def __init__(self, store: Store, submitting: Submitting, new_id: Callable[[], str] | None = None) -> None:
        """`new_id`: of forks that people ask for."""
        self._store = store
        self._submitting = submitting
        self._new_id = new_id

    def fork(self, ref: Ref, by: str, idempotency_key: str | None = None, *, paused: bool = False) -> Task:
        """A new task that does the step again, and all that came of it.  Raises NotFound, Refused.  `paused`: from its
        first instant, so that its steps can be edited before one of them begins."""
        digest = hashlib.sha256(f"fork {ref.task_id} {ref.step}".encode()).hexdigest()[:32]
        known, made = self._known(idempotency_key, digest), None
        if known is None:
            made = _Made(self.forked(ref))
            known = self._create(made, ref, by, idempotency_key, digest, paused)
        if not known.loading:
            return known
        try:
            self._finish(known, made, by)
        except NotFound:
            with write(self._store, known.id, actor=by) as w:
                w.add(decide.cancel_task(w.task, by, "its source was pruned meanwhile"))
            raise
        return self._store.get_task(known.id)

    def forked(self, ref: Ref) -> Forked:
        """What a fork from the step would take over now.  Raises NotFound, Refused."""
        task = self._store.get_task(ref.task_id)
        step = self._store.get_step(ref)  # read after the header: what it has not ended for good, it had not then
        forkable(task, step)
        return forked(self._events(ref.task_id, point(self._events(ref.task_id, task.seq), step)))

    def whole(self, task: Task) -> tuple[Forked, Submission]:
        """All that a task had completed, or had completed before it was cancelled."""
        made = _Made(forked(self._events(task.id, point(self._events(task.id, task.seq), None))))
        return made.fork, made.parts

    def finish(self, task: Task, by: str) -> None:
        """The further transactions of a fork that has begun.  Raises NotFound: its source is gone."""
        self._finish(task, None, by)

    def _known(self, idempotency_key: str | None, digest: str) -> Task | None:
        known = self._store.task_by_key(idempotency_key) if idempotency_key else None
        if known is not None and known.options.plan_digest != digest:
            raise Refused(f"idempotency key {idempotency_key!r} belongs to task {known.id!r}, which is another one")
        return known

    def _create(self, made: _Made, ref: Ref, by: str, idempotency_key: str | None, digest: str, paused: bool) -> Task:
        assert self._new_id is not None
        new_id = self._new_id()
        begun = submitted(
            made.fork,
            made.parts.first,
            id=new_id,
            step=ref.step,
            by=by,
            idempotency_key=idempotency_key,
            plan_digest=digest,
        )

        def born(draft: Draft) -> None:
            if paused:
                draft.add([TaskPaused(PAUSED_BY_PERSON, by)])

        try:
            self._submitting.create(begun, self._store.get_plan(ref.task_id), by, born)
        except Refused:
            known = self._known(idempotency_key, digest)  # another call with the same key was faster
            if known is None:
                raise
            return known
        return self._store.get_task(new_id)

    def _finish(self, task: Task, made: _Made | None, by: str) -> None:
        """Raises NotFound: its source is gone."""
        origin = task.options.forked
        assert origin is not None
        if made is None or made.fork.seq != origin.seq:
            made = _Made(forked(self._events(origin.task, origin.seq)))
        if self._submitting.load(task.id, made.parts.others, by):
            # All rows are there by now that name what the source has kept: if it is there too, nothing of that was
            # collected, and nothing will be.
            self._store.get_task(origin.task)
            self._submitting.begin(task.id, made.parts.begins, by)

    def _events(self, task_id: str, last: int) -> Iterator[Event]:
        """The journal up to this number."""
        after = 0
        while after < last:
            page = self._store.events(task_id, after, min(PAGE, last - after))
            if not page:
                return
            yield from page
            after = page[-1].seq

    # --- named before it is done ----------------------------------------------------------------------------------

    def foresee(self, ref: Ref, act: str) -> Foreseen:
        """What an act would make stale: one of ACTS.  Raises NotFound, and Refused as the act itself would."""
        assert act in ACTS, f"{act!r} makes nothing stale"
        task, step = self._store.get_task(ref.task_id), self._store.get_step(ref)
        if act == "fork":
            return stale.by_fork(self.forked(ref), ref.step, self._rows(ref.task_id))
        if act == "reject":
            spec = self._store.spec(ref.task_id, step.spec)
            rows = {row.key: row for row in self._rows(ref.task_id)}
            return stale.by_reject(task, rows, self._edges(ref.task_id), step, spec)
        asks = step.state is StepState.WAITING and step.waiting_for is WaitingFor.USER  # to try again is its answer
        ended = step.state in (StepState.FAILED, StepState.CANCELLED)
        if act == "edit" and not ended:
            hands.edit(task, step, step.spec, "", (), 0)
        elif not asks:
            decide.retry(task, step, "")
        rows = {row.key: row for row in self._rows(ref.task_id)}
        by = stale.by_edit if act == "edit" else stale.by_retry
        return by(rows, self._edges(ref.task_id), step)

    def _rows(self, task_id: str) -> Iterator[Step]:
        after = ""
        while page := self._store.steps(task_id, after, PAGE):
            yield from page
            after = page[-1].key

    def _edges(self, task_id: str) -> Iterator[Edge]:
        after = ("", "")
        while page := self._store.edges(task_id, after, PAGE):
            yield from (Edge(*edge) for edge in page)
            after = page[-1]
