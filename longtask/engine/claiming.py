"""Taking work: which step a worker may have next, the claim, and what its executor is told of it.

A claim is no work yet: it may be started when it is durable (`dispatch.Dispatch.round`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from longtask.core import decide, spending
from longtask.core.errors import NotFound, Refused, TaskLocked
from longtask.core.events import StepClaimed
from longtask.core.model import JsonMap, Kind, MutexView, Role, Step, StepSpec, StepState, Task
from longtask.core.policy import BATCH_MAX
from longtask.steps.contract import Assignment
from longtask.store.contract import JournalRow, Ref, Store

from .dispatcher import Claimed
from .records import TaskRecords
from .scope import Scopes
from .writing import Writing, write

Runtime = Callable[[StepSpec], str | None]  # what stands in the claim: an agent's runtime, with its version


class Claims:
    def __init__(
        self, store: Store, scopes: Scopes, runtime: Runtime, workspaces: Sequence[str] | None, lease_ms: int
    ) -> None:
        """`workspaces`: tasks of others are not looked for; None: of all."""
        self._store, self._scopes, self._runtime = store, scopes, runtime
        self._workspaces = workspaces
        self._records = TaskRecords(store, scopes)
        self._lease_ms = lease_ms

    def claimable(self, pool: str, limit: int) -> list[Ref]:
        scope = () if self._workspaces is None else (self._workspaces,)
        return self._store.claimable(pool, limit, *scope)

    def claim(self, worker: str, pool: str, limit: int) -> list[Claimed]:
        """At most `limit` steps, of the tasks served least recently.  A peek that was stale gives fewer."""
        claimed: list[Claimed] = []
        queued, before = 0, -1
        while queued > before and queued < BATCH_MAX and len(claimed) < limit:
            # a step that goes and queues for a mutex leaves its slot to others: look again
            before = queued
            refs = self.claimable(pool, limit - len(claimed))
            self._store.ahead(refs)
            for ref in refs:
                try:
                    with write(self._store, ref.task_id, ref.step) as w:
                        found = self._first_free(w, w.step(ref.step), pool, worker, BATCH_MAX - queued)
                except (Refused, NotFound, TaskLocked):
                    continue  # somebody else was faster, or the task has moved on
                if found is not None:
                    claimed.append(found)
                queued += sum(row.state is StepState.WAITING for row in w.changed)
                if queued >= BATCH_MAX:
                    break  # the others come in the next round
        return claimed

    def _first_free(self, w: Writing, first: Step, pool: str, worker: str, most: int) -> Claimed | None:
        """Claims the first of the task's ready steps that has its mutex, or needs none; those before it, at most
        `most`, go and queue."""
        taken: set[str] = set()
        for step in islice(self._in_turn(w, first, pool), most):
            name = w.spec(step).mutex
            view = None
            if name is not None:  # whoever comes new to a mutex that another one has just queued for queues too
                view = MutexView(queued=True) if name in taken and step.mutex is None else w.mutex(step, name)
            claimed = self.take(w, step, view, worker)
            if claimed is not None:
                return claimed
            taken |= {name} if name is not None else set()
        return None

    def _in_turn(self, w: Writing, first: Step, pool: str) -> Iterator[Step]:
        yield first
        for step in w.see(w.tx.ready(pool, BATCH_MAX)):
            if step.key != first.key and step.state is StepState.READY:
                yield step

    def take(
        self,
        w: Writing,
        step: Step,
        mutex: MutexView | None,
        worker: str,
    ) -> Claimed | None:
        """None: it queues for its mutex."""
        spec = w.spec(step)
        fact = decide.claim(w.task, step, spec, worker, w.now, self._runtime(spec), self._lease_ms, mutex)
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


def _failure(step: Step, owner: Step | None) -> str | None:
    """What the run is told: why the run before it failed.  A loss or a release continues a run and is no failure."""
    own = step.reason if step.run > 1 else None
    if step.role is not Role.FIX or owner is None:
        return own
    return owner.reason if own is None else f"{owner.reason}\n\nAn earlier attempt to fix it failed: {own}"


def _as_map(row: JournalRow) -> JsonMap:
    return {
        "n": row.n,
        "kind": row.kind,
        "name": row.name,
        "fingerprint": row.fingerprint,
        "body": row.body,
        "done": row.done_at > 0,
    }
