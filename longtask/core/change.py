"""What a fold moved: all that a store must write, in one transaction, for some facts to have happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .events import Fact
from .model import Edge, JsonMap, Lease, Step, StepSpec, Task


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
    artifacts: tuple[ArtifactRow, ...] = ()
