"""What a fold moved: all that a store must write, in one transaction, for some facts to have happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .events import Fact
from .family import Errand
from .model import Edge, JsonMap, Lease, Step, StepSpec, StepState, Task


@dataclass(frozen=True, slots=True)
class WaitRow:
    """A waiting step that a signal can wake: found by task and name."""

    step: str
    ask: int
    name: str


@dataclass(frozen=True, slots=True)
class ArtifactRow:
    """An artifact that an accepted outcome names.  `content` = {name, digest, size_bytes, media_type}."""

    step: str
    attempt: int
    content: JsonMap


@dataclass(frozen=True, slots=True)
class MutexRow:
    """A mutex that is held: the row is there while its attempt runs, and no second one can be."""

    name: str
    task_id: str
    step: str
    attempt: int
    at: int  # since when


@dataclass(frozen=True, slots=True)
class TicketRow:
    """A place in the queue for a mutex, kept until the step is claimed or ends."""

    n: int  # in the order of coming, over all mutexes
    name: str
    task_id: str
    step: str
    at: int
    called_at: int = 0  # 0: not called


@dataclass(frozen=True, slots=True)
class OfferRow:
    """What a task has for the workers of a pool.  `offer_at`: its earliest ready step is due then; None: nothing is
    ready, or the task admits no claim."""

    pool: str
    priority: int
    served_at: int
    offer_at: int | None


class MutexMoves:
    """What becomes of mutex and ticket rows as steps move: a running step holds its mutex, another open one queues."""

    def __init__(self) -> None:
        self.taken: tuple[str, int, str] | None = None
        self.freed: list[tuple[str, str]] = []
        self.opened: list[tuple[str, str]] = []
        self.called: list[str] = []
        self.closed: list[str] = []

    def look(self, old: Step | None, row: Step) -> None:
        held = None if old is None or old.state is not StepState.RUNNING else old.mutex
        holds = row.mutex if row.state is StepState.RUNNING else None
        queued = None if old is None or old.state is StepState.RUNNING else old.mutex
        queues = None if row.state is StepState.RUNNING else row.mutex
        if old is None or (held, old.attempt) != (holds, row.attempt):
            if held is not None:
                self.freed.append((row.key, held))
            if holds is not None:
                assert self.taken is None, f"steps {self.taken} and {row.key!r} take a mutex in one transaction"
                self.taken = row.key, row.attempt, holds
        if queues is None:
            self.closed += [row.key] if queued is not None else []
        elif old is None or queued is None or (row.state is StepState.WAITING and old.state is not StepState.WAITING):
            self.opened.append((row.key, queues))
        elif row.state is StepState.READY and old.state is StepState.WAITING:
            self.called.append(row.key)


@dataclass(frozen=True, slots=True)
class Change:
    """The rows after the facts.  `steps` holds every step that was changed or added, by key."""

    task: Task
    steps: Mapping[str, Step]
    facts: tuple[tuple[int, Fact], ...] = ()  # numbered, oldest first
    created: bool = False  # the header is new
    added: frozenset[str] = frozenset()  # keys of `steps` that are new rows
    edges: tuple[Edge, ...] = ()
    specs: tuple[tuple[int, StepSpec], ...] = ()
    leases_opened: tuple[Lease, ...] = ()
    leases_closed: tuple[str, ...] = ()  # step keys
    stops: tuple[tuple[str, str], ...] = ()  # running steps that are asked to stop: (key, why)
    waits_opened: tuple[WaitRow, ...] = ()
    waits_closed: tuple[str, ...] = ()  # step keys
    mutex_taken: tuple[str, int, str] | None = None  # (step, attempt, name): by the one claim of this transaction
    mutexes_freed: tuple[tuple[str, str], ...] = ()  # (step, name); the one that is taken may be among them
    tickets_opened: tuple[tuple[str, str], ...] = ()  # (step, name); a step that queues already keeps its place
    tickets_called: tuple[str, ...] = ()  # step keys
    tickets_closed: tuple[str, ...] = ()  # step keys
    artifacts: tuple[ArtifactRow, ...] = ()
    errands: tuple[Errand, ...] = ()  # what this transaction leaves to be done to other tasks
