"""What traces are read from and kept in: the store as seen from here, and a span."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from longtask.core.events import Event
from longtask.core.model import Json


class Call(NamedTuple):
    """One row of the run journal: a turn or a tool call.  `done_at` 0: its end is not known."""

    run: int
    n: int
    kind: str  # turn, tool, told
    name: str  # of the model or the tool
    tokens_in: int = 0
    tokens_out: int = 0
    micros: int | None = 0
    started_at: int = 0
    done_at: int = 0
    body: Json = None  # its answer, if that was asked for


class Source(Protocol):
    """`store.contract.Store` has all of it."""

    def now(self) -> int: ...
    def identity(self) -> str: ...
    def feed(self, cursor: str, limit: int) -> tuple[list[Event], str]: ...
    def feed_end(self) -> str: ...
    def events(self, task_id: str, after: int, limit: int) -> list[Event]: ...
    def calls(self, task_id: str, step: str, attempt: int, limit: int, *, bodies: bool = False) -> list[Call]: ...


class SpanKind(StrEnum):
    TASK = "task"
    STAGE = "stage"
    STEP = "step"
    ATTEMPT = "attempt"
    RUN = "run"  # of an agent, as far as one attempt carried it
    TURN = "turn"  # a call of a model
    TOOL = "tool"
    WAIT = "wait"  # parked, or being merged


OK, ERROR = "ok", "error"


@dataclass(slots=True)
class Span:
    """Instants are ms since 1970.  `started_at` 0: has not begun, and is shown to nobody; `ended_at` 0: goes on."""

    id: str
    task_id: str
    parent: str  # "": none
    kind: SpanKind
    name: str
    step: str = ""
    attempt: int = 0
    started_at: int = 0
    ended_at: int = 0
    status: str = ""  # "": neither ok nor error
    attributes: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)  # what the fold must remember of it


_RANK = {kind: number for number, kind in enumerate(SpanKind)}


def by_beginning(span: Span) -> tuple[int, int, int, str]:
    """A key to sort by: of what began together, parents come first."""
    return span.started_at, _RANK[span.kind], span.attempt, span.name
