"""The documents of the API, for type checkers: at run time they are the maps that the server has sent.

docs/json.md tells what the keys mean.  A newer server may send more of them.  What may be absent is marked so.
"""

from __future__ import annotations

from typing import Any, Generic, NotRequired, TypedDict, TypeVar

Json = Any
T = TypeVar("T")


class Page(TypedDict, Generic[T]):
    """`next`: the cursor of the next page; None: there is no more."""

    items: list[T]
    next: str | None


class TaskEntry(TypedDict):
    id: str
    handle: str
    name: str
    goal: str
    status: str
    percent: int
    created_at: int
    ended_at: int | None
    created_by: str


class Told(TypedDict):
    """`total` 0: not known."""

    done: int
    total: int
    text: str


class StepEntry(TypedDict):
    key: str
    kind: str
    stage: int
    state: str
    owner: str | None
    attempt: int
    run: int
    rounds: int
    began_at: int | None
    ended_at: int | None
    due_at: int | None
    reason: str | None
    because: str | None
    benign: bool
    tolerated: bool
    waiting_for: str | None
    question: dict[str, Json] | None
    ask: int | None
    commit: str | None
    result: Json
    progress: Told | None


class StepDetail(StepEntry):
    task: str
    needs: list[str]


class StageEntry(TypedDict):
    name: str
    status: str


class TaskTree(TaskEntry):
    state: str
    base: str | None
    head: str | None
    cost_micros: int
    tokens: int
    cost_limit_micros: int | None
    tokens_limit: int | None
    stages: list[StageEntry]
    counts: dict[str, int]
    steps: list[StepEntry]
    steps_left_out: int


class GraphStep(TypedDict):
    key: str
    kind: str
    stage: int
    state: str
    owner: str | None


class Graph(TypedDict):
    task: str
    name: str
    stages: list[str]
    steps: list[GraphStep]
    edges: list[list[str]]
    steps_left_out: int


class Reason(TypedDict):
    what: str
    since: int | None
    help: list[str]
    step: str | None
    who: list[str]


class FileChange(TypedDict):
    path: str
    insertions: int
    deletions: int


class Changes(TypedDict):
    task: str
    base: str
    head: str
    files: list[FileChange]


class Acted(TypedDict):
    task: str
    handle: str
    status: str
    step: NotRequired[str]
    answer: NotRequired[str]
    by: NotRequired[str]


class Signalled(Acted):
    number: int
    woken: list[str]


class Noticed(TypedDict):
    workspace: str | None
    delivery: str
    new: bool
    tasks: int


class Attempt(TypedDict):
    attempt: int
    worker: str | None
    runtime: str | None
    began_at: int | None
    ended_at: int | None
    outcome: str | None
    reason: str | None


class OutputChunk(TypedDict):
    n: int
    at: int
    stream: str
    text: str


class Approval(TypedDict):
    task: str
    handle: str
    step: str
    ask: int
    version: str
    kind: str
    text: str
    who: list[str]
    answers: list[str]
    since: int | None
    expires_at: int | None
    question: dict[str, Json]


class Artifact(TypedDict):
    name: str
    digest: str
    size_bytes: int
    media_type: str
    step: str


class Workspace(TypedDict):
    """`host`: where the repository lies; None: on the server's machine, or at `url`.  `hub`: where a base may be pushed
    to before a task begins from it; None: nowhere."""

    id: str
    repository: str
    host: str | None
    url: str | None
    hub: str | None


class Worker(TypedDict):
    id: str
    host: str
    pid: int
    version: str | None
    pools: list[str]
    slots: int
    running: int
    started_at: int
    seen_at: int
    lag_ms: int
    alive: bool


class Pool(TypedDict):
    pool: str
    workers: int
    slots: int | None
    ready: int
    oldest_ready_ms: int | None


class Fleet(TypedDict):
    workers: list[Worker]
    pools: list[Pool]


class CloudEvent(TypedDict):
    specversion: str
    id: str
    source: str
    type: str
    time: str
    seq: int
    actor: str | None
    data: dict[str, Json]


class Checked(TypedDict):
    ok: bool
    name: str
    steps: int
    stages: list[str]
    notes: list[str]


class Who(TypedDict):
    """`workspaces` None: all.  `token`: its public id; None: this machine, without a token."""

    name: str
    roles: list[str]
    workspaces: list[str] | None
    token: str | None


class TokenEntry(TypedDict):
    """`workspaces` None: all."""

    id: str
    name: str
    roles: list[str]
    workspaces: list[str] | None
    good: bool
    created_by: str
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    used_at: int | None


class MadeToken(TokenEntry):
    token: str


class AuditEntry(TypedDict):
    """`status` of the answer; None: it is not known."""

    id: str
    at: int
    who: str
    token: str | None
    address: str
    action: str
    task: str | None
    step: str | None
    status: int | None
    outcome: str | None


class Webhook(TypedDict):
    """`state`: active, failing or disabled."""

    id: str
    url: str
    types: list[str]
    workspace: str | None
    secret_env: str | None
    state: str
    failures: int
    reason: str | None
    next_at: int | None
    delivered_at: int | None
    disabled_at: int | None
    created_by: str
    created_at: int


class NewWebhook(Webhook):
    secret: str | None


class NewLink(TypedDict):
    id: str
    url: str
    task: str
    step: str
    ask: int
    digest: str | None
    who: str
    expires_at: int
