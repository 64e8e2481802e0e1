"""What a task shares with others: the mutexes that it holds, its places in their queues, what it offers to workers.

A mutex's row is the exclusion itself; that no two tasks hold one is its key.  Offers are a copy for the search of work:
a recount of the ready steps that the task admits, one row a pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from longtask.core.change import MutexRow, OfferRow, TicketRow
from longtask.core.model import POOL_SYSTEM, Step, StepState, TaskState, WaitingFor

from .view import View, Violation, is_open, shown

S = StepState


def check(
    view: View,
    mutexes: Sequence[MutexRow] | None,
    tickets: Sequence[TicketRow] | None,
    offers: Sequence[OfferRow] | None,
) -> Iterator[Violation]:
    """None: not looked at."""
    if mutexes is not None:
        yield from _held(view, mutexes)
    if tickets is not None:
        yield from _queued(view, tickets)
    if offers is not None:
        yield from _offered(view, offers)


def _wanted(view: View, step: Step) -> str | None:
    spec = view.specs.get(step.spec)
    return None if spec is None or step.gate else spec.mutex


def _held(view: View, mutexes: Sequence[MutexRow]) -> Iterator[Violation]:
    """Exactly the running steps that name one hold it, by their newest attempt."""
    found = {(row.name, row.step, row.attempt) for row in mutexes}
    running = [step for step in view.steps.values() if step.state is S.RUNNING]
    wanted = {(name, s.key, s.attempt) for s in running if (name := _wanted(view, s)) is not None}
    if found != wanted or len(found) != len(mutexes):
        yield Violation("mutex", f"held are {sorted(found)}, running steps name {sorted(wanted)}")
    for step in running:
        if step.mutex != _wanted(view, step):
            yield Violation("mutex", f"step {step.key!r} runs with {step.mutex!r}, it names {_wanted(view, step)!r}")


def _queued(view: View, tickets: Sequence[TicketRow]) -> Iterator[Violation]:
    """Who waits for a mutex has a ticket, once; who runs, or has ended, has none."""
    held = {row.step: row for row in tickets}
    if len(held) != len(tickets):
        yield Violation("ticket", "a step has two tickets")
    for key, row in sorted(held.items()):
        step = view.steps.get(key)
        if step is None or not is_open(step) or step.state is S.RUNNING or step.mutex != row.name:
            state = "not there" if step is None else f"{step.state}, with mutex {step.mutex!r}"
            yield Violation("ticket", f"step {key!r} has a ticket for {row.name!r} and is {state}")
        elif row.name != _wanted(view, step):
            yield Violation("ticket", f"step {key!r} has a ticket for {row.name!r}, it names {_wanted(view, step)!r}")
        elif row.called_at and step.state is S.WAITING:
            yield Violation("ticket", f"step {key!r} was called to {row.name!r} and waits on")
    waiting = {s.key for s in view.steps.values() if s.state is S.WAITING and s.waiting_for is WaitingFor.MUTEX}
    queueing = {s.key for s in view.steps.values() if is_open(s) and s.state is not S.RUNNING and s.mutex is not None}
    if lost := (waiting | queueing) - held.keys():
        yield Violation("ticket", f"steps {shown(lost)} wait for a mutex and have no ticket")


def _offered(view: View, offers: Sequence[OfferRow]) -> Iterator[Violation]:
    task = view.task
    if not task.ended:
        running = sum(s.state is S.RUNNING and not s.slotless for s in view.steps.values())
        active = task.state is TaskState.ACTIVE and not task.loading and task.within_budget
        wanted = {
            (pool, task.priority, task.served_at, due_at)
            for pool, due_at in _earliest(view).items()
            if active and (pool == POOL_SYSTEM or running < task.parallel)
        }
    else:
        wanted = set()
    found = {(o.pool, o.priority, o.served_at, o.offer_at) for o in offers if o.offer_at is not None or task.ended}
    if found != wanted:
        yield Violation("offer", f"offered are {sorted(found, key=str)}, ready and admitted {sorted(wanted, key=str)}")


def _earliest(view: View) -> dict[str, int]:
    out: dict[str, int] = {}
    for step in view.steps.values():
        if step.state is S.READY:
            out[step.pool] = min(step.due_at, out.get(step.pool, step.due_at))
    return out
