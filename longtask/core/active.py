"""`limits.active`: the time in which at least one attempt ran, of a task or of a task below it (SEMANTICS 53).

Read from journals alone, each from its own beginning, in any order among each other: a claim opens a span, whatever
ends the attempt closes it, and spans that overlap count once.  So no header counts for another one, and no beat writes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from .events import Event, StepClaimed, StepParked, TaskCancelled, TaskCompleted, TaskFailed
from .machine import STEP
from .model import StepState, WaitingFor

LATE_MS = 60_000  # an event may become visible so much later than it says: no transaction lasts as long
_ENDS = tuple(STEP[StepState.RUNNING])


@dataclass(slots=True)
class Part:
    """One task of the family: how far its journal was read, and what runs in it then."""

    seq: int = 0
    running: dict[str, int] = field(default_factory=dict)  # step -> since when


class Active:
    """`parts`: the task itself, and each child that was asked for and has not ended, by id."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.parts: dict[str, Part] = {task_id: Part()}
        self._spans: list[tuple[int, int]] = []  # apart from each other, in their order
        self._before_ms = 0  # of spans that were counted and forgotten

    def hear(self, event: Event) -> str | None:
        """The next event of the journal of one of the parts; a child that it tells of, whose journal comes next."""
        part = self.parts.get(event.task_id)
        if part is None:
            return None  # usage from below, told after its end
        part.seq = event.seq
        match event.fact:
            case StepClaimed(step=key):
                part.running[key] = event.at
            case fact if isinstance(fact, _ENDS) and fact.step in part.running:  # type: ignore[union-attr]
                self._close(part.running.pop(fact.step), event.at)  # type: ignore[union-attr]
                if isinstance(fact, StepParked) and fact.waiting_for is WaitingFor.TASK:
                    child: str = fact.question["child"]
                    self.parts[child] = Part()
                    return child
            case TaskCompleted() | TaskFailed() | TaskCancelled() if event.task_id != self.task_id:
                del self.parts[event.task_id]  # a child never runs again
        return None

    def ms(self, now: int) -> int:
        """Until `now`.  It never shrinks."""
        since = min(self._open(), default=now)
        cut = min(since, now)
        closed = sum(min(end, cut) - begin for begin, end in self._spans if begin < cut)
        return self._before_ms + closed + now - cut

    def forget(self, now: int) -> None:
        """All journals were read to what their ends were at `now`: nothing that lies far behind it will change."""
        horizon = min([now - LATE_MS, *self._open()])
        gone = bisect_left(self._spans, horizon, key=lambda span: span[1])
        self._before_ms += sum(end - begin for begin, end in self._spans[:gone])
        del self._spans[:gone]

    def _open(self) -> Iterator[int]:
        return (since for part in self.parts.values() for since in part.running.values())

    def _close(self, begin: int, end: int) -> None:
        """Joins all spans that it touches."""
        first = bisect_left(self._spans, begin, key=lambda span: span[1])
        last = bisect_right(self._spans, end, key=lambda span: span[0])
        touched = self._spans[first:last]
        if touched:
            begin, end = min(begin, touched[0][0]), max(end, touched[-1][1])
        self._spans[first:last] = [(begin, end)]
