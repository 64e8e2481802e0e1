"""Rows and nouns: which field of a step, a header or an event stands in which column.

A field that has no column stands in `rest`: JSON without defaults, null when nothing is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, TypeVar

from longtask.core.codec import Form, dump_json, load_fact, load_json
from longtask.core.errors import StoreError
from longtask.core.events import Event
from longtask.core.machine import untold
from longtask.core.model import (
    POOL_DEFAULT,
    Kind,
    Lease,
    Signal,
    Step,
    StepState,
    Tally,
    Task,
    TaskOptions,
    TaskState,
    Verdict,
    WaitingFor,
)

Row = Sequence[Any]
W = TypeVar("W", bound=StrEnum)

STEP_COLUMNS = (
    "task_n", "key", "kind", "stage", "spec", "owner", "item", "expansion", "weight", "pool", "state", "due_at",
    "delayed", "told", "untold", "attempt", "worker", "base", "began_at", "ended_at", "timeout_at", "waiting_for",
    "rest",
)  # fmt: skip
TASK_COLUMNS = (
    "n", "id", "name", "workspace_id", "created_by", "created_at", "idempotency_key", "parent", "state", "seq",
    "admits", "priority", "served_at", "ended_at", *Tally._fields, "rest",
)  # fmt: skip

_STEP_REST = Form(Step, only=set(Step._fields) - set(STEP_COLUMNS))
_TASK_REST = Form(Task, only=set(Task._fields) - set(TASK_COLUMNS) - {"options", "counts", "number"})
_COUNTS = TASK_COLUMNS.index("steps")
_COUNTS_END = _COUNTS + len(Tally._fields)
TASK_WIDTH, STEP_WIDTH = len(TASK_COLUMNS), len(STEP_COLUMNS)


class _Words(dict[str, W]):
    """An enum by value; faster than calling it, and it tells where an unknown word comes from."""

    def __init__(self, words: type[W]) -> None:
        super().__init__({word.value: word for word in words})
        self.what = words.__name__

    def __missing__(self, word: str) -> W:
        raise StoreError(f"stored {self.what} {word!r} is not known: a newer version wrote it; upgrade longtask")


_KIND, _STATE, _TASK_STATE = _Words(Kind), _Words(StepState), _Words(TaskState)
_VERDICT, _WAITING_FOR = _Words(Verdict), _Words(WaitingFor)


def pool_column(pool: str) -> str:
    return "" if pool == POOL_DEFAULT else pool


def step_row(step: Step, now: int) -> list[Any]:
    """The columns after `task_n`."""
    rest = _STEP_REST.dump(step)
    return [
        step.key, step.kind, step.stage, step.spec, step.owner, step.item, step.expansion, step.weight,
        pool_column(step.pool), step.state, step.due_at, int(step.due_at > now), step.told, int(untold(step)),
        step.attempt, step.worker, step.base, step.began_at, step.ended_at, step.timeout_at, step.waiting_for,
        dump_json(rest) if rest else None,
    ]  # fmt: skip


def to_step(row: Row) -> Step:
    (_, key, kind, stage, spec, owner, item, expansion, weight, pool, state, due_at, _, told, _, attempt, worker, base,
     began_at, ended_at, timeout_at, waiting_for, rest) = row  # fmt: skip
    return Step(
        key=key,
        kind=_KIND[kind],
        stage=stage,
        spec=spec,
        owner=owner,
        item=item,
        expansion=expansion,
        weight=weight,
        pool=pool or POOL_DEFAULT,
        state=_STATE[state],
        due_at=due_at,
        told=_VERDICT[told],
        attempt=attempt,
        worker=worker,
        base=base,
        began_at=began_at,
        ended_at=ended_at,
        timeout_at=timeout_at,
        waiting_for=_WAITING_FOR[waiting_for],
        **(_STEP_REST.load(load_json(rest)) if rest else {}),
    )


def task_row(task: Task) -> dict[str, Any]:
    """The columns but `n`, by name."""
    rest = _TASK_REST.dump(task)
    row: dict[str, Any] = dict(zip(Tally._fields, task.counts, strict=True))
    row.update(
        id=task.id,
        name=task.name,
        workspace_id=task.workspace_id,
        created_by=task.created_by,
        created_at=task.created_at,
        idempotency_key=task.idempotency_key,
        parent=task.parent,
        state=task.state,
        seq=task.seq,
        admits=task.admits,
        priority=task.priority,
        served_at=task.served_at,
        ended_at=task.ended_at,
        rest=dump_json(rest) if rest else None,
    )
    return row


def to_task(row: Row, options: TaskOptions) -> Task:
    """The first columns of `row` are those of a header."""
    n, id_, name, workspace_id, created_by, created_at, idempotency_key, parent, state, seq = row[:10]
    _, priority, served_at, ended_at = row[10:_COUNTS]
    rest = row[_COUNTS_END]
    return Task(
        id=id_,
        name=name,
        options=options,
        workspace_id=workspace_id,
        created_by=created_by,
        created_at=created_at,
        idempotency_key=idempotency_key,
        parent=parent,
        state=_TASK_STATE[state],
        seq=seq,
        priority=priority,
        served_at=served_at,
        ended_at=ended_at,
        counts=Tally._make(row[_COUNTS:_COUNTS_END]),
        number=n,
        **(_TASK_REST.load(load_json(rest)) if rest else {}),
    )


def to_event(row: Row) -> Event:
    task_id, seq, at, kind, v, body, actor, op, pos = row
    return Event(task_id, seq, at, load_fact(kind, v, body), actor, op, pos)


def to_lease(row: Row) -> Lease:
    return Lease(*row)


def to_signal(row: Row) -> Signal:
    number, delivery, name, payload, sender, at = row
    return Signal(number, delivery, name, load_json(payload), sender, at)
