"""What workers elsewhere send, and what they are told.  `engine/wire.py` reads and writes the same."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Base64Bytes, Field, StringConstraints

from longtask.api.documents.shape import Instant, Shape
from longtask.api.sight import NAME_MAX, Body, Name, Number, Text
from longtask.core.model import WaitingFor
from longtask.core.policy import SPAWNED_MAX

REPORTS_MAX = 64
HELD_MAX = 1_000
CHUNKS_MAX = 500
POOLS_MAX = 100
SLOTS_MAX = 256
COUNT_MAX = 2**53

Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
Commit = Annotated[str, StringConstraints(pattern="^([0-9a-f]{40}|[0-9a-f]{64})$")]
Lease = Annotated[int, Field(ge=1_000, le=3_600_000, description="So long a lease lasts from then on, in ms.")]
Count = Annotated[int, Field(ge=0, le=COUNT_MAX)]
Numbered = Annotated[int, Field(ge=1, le=2**31 - 1)]


class Held(Body):
    task: Name
    step: Name
    attempt: Numbered


class ArtifactMade(Body):
    name: Name
    digest: Digest
    size_bytes: Count
    media_type: Name


class Spawned(Body):
    """A task that an agent has given out."""

    name: Text
    prompt: Text


class Listing(Body):
    """What an agent has spawned, and which call of its run waits for it."""

    run: Numbered
    bound: Name
    tasks: Annotated[list[Spawned], Field(max_length=SPAWNED_MAX)] | dict[Literal["$artifact"], Digest]


class Outcome(Body):
    """`outcome` says which of the other keys count; the others are left out."""

    outcome: Literal["done", "failed", "parked", "expanded", "released", "stopped"]
    result: Any = None
    commit: Commit | None = None
    base: Commit | None = None
    artifacts: list[ArtifactMade] = Field(default=[], max_length=1_000)
    reason: Text | None = None
    retryable: bool = True
    digest: Name | None = None
    revise: bool = False
    waiting_for: WaitingFor | None = None
    question: dict[str, Any] | None = None
    due_at: Number = 0
    items: Numbered | None = None
    listing: Listing | None = None


class Report(Held):
    pool: Name
    next: bool = Field(default=False, description="Claim a next step of the same task with it.")
    alone: bool = Field(default=False, description="Though others may have waited longer.")
    outcome: Outcome


class Wanted(Body):
    pools: list[Name] = Field(max_length=POOLS_MAX)
    slots: Annotated[int, Field(ge=0, le=SLOTS_MAX)]
    alone: bool = False


class Round(Body):
    lease_ms: Lease
    reports: list[Report] = Field(default=[], max_length=REPORTS_MAX)
    wanted: Wanted | None = Field(default=None, description="Absent: claim nothing.")
    held: list[Held] | None = Field(
        default=None,
        max_length=HELD_MAX,
        description="All that it has in hand, when an answer was lost: what is leased to it besides is told again.",
    )


class Beats(Body):
    lease_ms: Lease
    held: list[Held] = Field(max_length=HELD_MAX)


class Seen(Body):
    host: Name
    pid: Count
    pools: list[Name] = Field(max_length=POOLS_MAX)
    slots: Annotated[int, Field(ge=0, le=SLOTS_MAX)]
    started_at: Number
    version: Name = ""


class Turn(Body):
    """A turn or a tool call of a run, or what else its journal holds; `done` False: it begins."""

    n: Numbered
    kind: Annotated[Name, Field(max_length=40)]
    name: Name
    fingerprint: Name
    done: bool = False
    body: Any = None
    tokens_in: Count = 0
    tokens_out: Count = 0
    micros: Count | None = 0


class Checkpoint(Body):
    position: Annotated[int, Field(ge=0, le=2**31 - 1)]
    tree: Annotated[str, StringConstraints(pattern="^[0-9a-f]{0,64}@[0-9a-f]{40,64}$")] | None


class Chunk(Body):
    n: Numbered
    stream: Literal["out", "err", "note"]
    body: Base64Bytes


class Output(Body):
    chunks: list[Chunk] = Field(default=[], max_length=CHUNKS_MAX)
    drop: tuple[Numbered, Numbered] | None = Field(
        default=None, description="Chunks from the first number up to before the second one, of the middle of a flood."
    )


class Progress(Body):
    done: Count
    total: Count
    text: Annotated[Name, Field(max_length=NAME_MAX)]


# --- what they are told -------------------------------------------------------------------------------------------


class Greeting(Shape):
    """`worker`: its name in journals.  `hub`: where code is shared, without credentials; null: nowhere but on the
    server's own disk."""

    worker: str = Field(examples=["w3f9a1c@4k2m9x1b7q"])
    hub: str | None = Field(examples=["https://git.example.com/longtask"])
    version: str = Field(examples=["0.1.0"])
    now: Instant


class Known(Shape):
    now: Instant


class Work(Shape):
    work: bool = Field(description="A round may bring something; it may be stale.")
    now: Instant


class Claim(Shape):
    task: str
    name: str
    workspace: str
    step: str
    attempt: int
    run: int
    pool: str
    began_at: Instant
    spec: dict[str, Any]


class Reported(Shape):
    """`over` false: report it again.  `refused`: why it counts no more."""

    over: bool
    refused: str | None
    claimed: Claim | None


class RoundTold(Shape):
    reported: list[Reported]
    found: list[Claim]
    searched: bool
    now: Instant


class Beat(Shape):
    """`held` false: the lease is lost.  `stop`: why it is asked to stop."""

    held: bool
    stop: str | None


class BeatsTold(Shape):
    answers: list[Beat]
    strays: bool = Field(description="More is leased to this worker than it has named.")
    now: Instant


class Kept(Shape):
    held: bool = Field(description="False: the lease is lost, and nothing was written.")


class ArtifactKept(Shape):
    digest: str
    size_bytes: int


class Assignment(Shape):
    """What an executor needs; keys that have their usual value are left out."""

    task_id: str
    step: str
    attempt: int
    spec: dict[str, Any]
