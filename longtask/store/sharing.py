"""What a block writes of things that tasks share: mutexes, places in their queues, offers to workers.

A mutex is taken by one statement, `take_mutex`, before the block writes anything else: it answers a row when the mutex
was free and none when it was not, and never waits for another transaction.  So two claims that both saw it free cannot
both have it, and the one that comes too late is refused with nothing written.  A mutex that the same block frees is
handed on instead: its row is the block's own, and nobody can come between.

An offer says what a task has for the workers of a pool, so that a search for work reads tasks that have some and
nothing else.  It is a copy, made anew by every block that moves a ready step or what the header admits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from longtask.core.change import Change
from longtask.core.codec import dump_json
from longtask.core.errors import Refused
from longtask.core.model import StepState, Task
from longtask.store.rows import Row, pool_column

Run = Callable[[str, Mapping[str, Any]], list[Row]]


def take_mutex(run: Run, task_n: int, change: Change, now: int) -> None:
    """Raises Refused: it is not free any more."""
    if change.mutex_taken is None or _handed_on(change):
        return
    step, attempt, name = change.mutex_taken
    if not run("take_mutex", {"name": name, "task_n": task_n, "step": step, "attempt": attempt, "at": now}):
        raise Refused(f"step {step!r}: mutex {name!r} was taken a moment ago; it is tried again")


def write_mutexes(run: Run, task_n: int, change: Change, now: int) -> None:
    """Frees, hands on, queues, calls.  The row of a mutex that was taken is there already."""
    handed_on = _handed_on(change)
    for step, name in change.mutexes_freed:
        if not (handed_on and change.mutex_taken is not None and change.mutex_taken[2] == name):
            run("free_mutex", {"name": name, "task_n": task_n, "step": step})
    if handed_on and change.mutex_taken is not None:
        step, attempt, name = change.mutex_taken
        run("hand_on_mutex", {"name": name, "task_n": task_n, "step": step, "attempt": attempt, "at": now})
    if change.tickets_closed:
        run("close_tickets", {"task_n": task_n, "keys": dump_json(list(change.tickets_closed))})
    if change.tickets_opened:
        run("open_tickets", {"task_n": task_n, "rows": dump_json(change.tickets_opened), "at": now})
    for step in change.tickets_called:
        run("call_ticket", {"task_n": task_n, "step": step, "at": now})


def _handed_on(change: Change) -> bool:
    return change.mutex_taken is not None and any(change.mutex_taken[2] == name for _, name in change.mutexes_freed)


def write_offers(run: Run, task_n: int, before: Task | None, change: Change) -> None:
    """`before`: the header as it was, None for a task that is created.  Silent while nothing is ready: a chain, where
    each step is claimed by the report of the one before, offers nothing."""
    task = change.task
    if task.ended:
        if before is not None and not before.ended:
            run("close_offers", {"task_n": task_n})
        return
    ready = 0 if before is None else before.counts.ready
    if not ready and not task.counts.ready:
        return
    moved = {pool_column(step.pool) for step in change.steps.values() if step.state is StepState.READY}
    served = {"task_n": task_n, "priority": task.priority, "served_at": task.served_at}
    for pool in sorted(moved):
        run("open_offer", served | {"pool": pool})
    if moved or task.counts.ready != ready or before is None or _terms(task) != _terms(before):
        run("renew_offers", served | {"admits": task.admits})


def _terms(task: Task) -> tuple[int, int, int]:
    return task.admits, task.priority, task.served_at
