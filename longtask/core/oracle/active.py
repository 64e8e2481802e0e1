"""How long a task was active, restated as a sweep over all that its journal and those below it say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from longtask.core import events as e

from .history import MOVES
from .view import Violation


def active_ms(family: Iterable[Sequence[e.Event]], now: int) -> int:
    """`family`: the journals of a task and of all below it, whole."""
    steps: list[tuple[int, int]] = []
    for journal in family:
        running: set[str] = set()
        for event in journal:
            key = getattr(event.fact, "step", "")
            if isinstance(event.fact, e.StepClaimed):
                running.add(key)
                steps.append((event.at, 1))
            elif key in running and _leaves(event.fact):
                running.discard(key)
                steps.append((event.at, -1))
    total = depth = since = 0
    for at, change in sorted((at, change) for at, change in steps if at <= now):
        total += at - since if depth else 0
        depth, since = depth + change, at
    return total + (now - since if depth else 0)


def _leaves(fact: e.Fact) -> bool:
    source, target = MOVES.get(type(fact), ("", ""))
    return "running" in source.split() and target != "running"


def limits(own: Sequence[e.Event], below: Sequence[Sequence[e.Event]], told_by: int) -> Iterator[Violation]:
    """A limit is never told early, and it is told when it was reached before `told_by`."""
    limit: int | None = None
    exceeded = closed = False
    since = 0  # when somebody last changed what is asked of it
    for event in own:
        match event.fact:
            case e.TaskSubmitted(options=options):
                limit, since = options.active_max_ms, event.at
            case e.BudgetRaised(active_ms=raised):
                limit, exceeded, since = (limit if raised is None else raised), False, event.at
            case e.BudgetExceeded(which="active"):
                exceeded = True
                used = active_ms([own, *below], event.at)
                if limit is None or used < limit:
                    yield Violation("active", f"event {event.seq} says that {limit} ms are over, {used} ms are")
            case e.TaskCompleted() | e.TaskFailed() | e.TaskCancelled() | e.CancelRequested() | e.TaskDoomed():
                closed = True
            case e.TaskReopened():
                closed, since = False, event.at
    if limit is None or exceeded or closed:
        return
    used = active_ms([own, *below], told_by)
    if used >= limit and since < told_by:
        yield Violation("active", f"{used} of {limit} ms are over by {told_by}, and nobody has told it")
