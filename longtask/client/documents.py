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
    stage: str | None
    cost_micros: int
    tokens: int
    created_at: int
    ended_at: int | None
    created_by: str
    parent: str | None
    parent_step: str | None


class Asks(TypedDict):
    step: str
    text: str
    who: list[str]
    since: int | None


class ListedTask(TaskEntry):
    """`asks`: what it has asked somebody for longest."""

    asks: Asks | None


class Told(TypedDict):
    """`total` 0: not known."""

    done: int
    total: int
    text: str


class Child(TypedDict):
    task: str
    handle: str
    status: str
    percent: int


class Items(TypedDict):
    """`ended`: those included that had completed before a retry."""

    total: int
    ended: int
    failed: int
    begun: int


class StepEntry(TypedDict):
    key: str
    kind: str
    stage: int
    state: str
    owner: str | None
    attempt: int
    taken_by: str | None
    run: int
    rounds: int
    began_at: int | None
    ended_at: int | None
    due_at: int | None
    reason: str | None
    because: str | None
    benign: bool
    tolerated: bool
    waived: bool
    waiting_for: str | None
    question: dict[str, Json] | None
    ask: int | None
    commit: str | None
    result: Json
    child: Child | None
    items: Items | None
    progress: Told | None


class Grown(TypedDict):
    """`steps`: the keys of what was added."""

    task: str
    handle: str
    status: str
    steps: list[str]
    step: NotRequired[str]
    answer: NotRequired[str]
    by: NotRequired[str]


class StepDetail(StepEntry):
    """`words`: what it is to do, if they were asked for."""

    task: str
    needs: list[str]
    words: NotRequired[dict[str, Json] | None]


class StageEntry(TypedDict):
    name: str
    status: str


class ForkedFrom(TypedDict):
    """`step`: what is done again; `seq`: up to which event of the task it has taken it over."""

    task: str
    step: str | None
    seq: int


class TaskTree(TaskEntry):
    state: str
    workspace: str | None
    base: str | None
    head: str | None
    cost_limit_micros: int | None
    tokens_limit: int | None
    forked_from: ForkedFrom | None
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
    details: list[str]


class FileChange(TypedDict):
    path: str
    insertions: int
    deletions: int


class Changes(TypedDict):
    task: str
    base: str
    head: str
    files: list[FileChange]


class FileEntry(TypedDict):
    """`kind`: file, or link.  `blob`: what git calls its bytes."""

    path: str
    kind: str
    size_bytes: int
    blob: str


class Imported(TypedDict):
    """`again`: this very archive was imported before.  `told`: what could not be done, though the task is there."""

    task: str
    handle: str
    status: str
    again: bool
    told: list[str]


class Acted(TypedDict):
    task: str
    handle: str
    status: str
    step: NotRequired[str]
    answer: NotRequired[str]
    by: NotRequired[str]


class Taken(Acted):
    """`base`: the commit to begin from, with the files of `tree` if earlier attempts have left some; None: no code."""

    attempt: int
    base: str | None
    tree: str | None
    cache: list[str]


class Forked(Acted):
    forked_from: str


class Foreseen(TypedDict):
    """Keys of steps, stage by stage: those that run `again`, that begin, that will not run, that stay; of a fork, those
    that are not in it (`gone`).  `seq` and `head`: what a fork begins from."""

    act: str
    step: str
    again: list[str]
    begins: list[str]
    skipped: list[str]
    kept: list[str]
    gone: list[str]
    items_kept: dict[str, int]
    asks: bool
    revised: bool
    seq: int
    head: str | None


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


class TurnEntry(TypedDict):
    """`kind`: told, turn, tool, asked, spawned.  `body` None: it goes on.  `micros` None: no price is known."""

    n: int
    kind: str
    name: str
    attempt: int
    tokens_in: int
    tokens_out: int
    micros: int | None
    started_at: int | None
    done_at: int | None
    body: dict[str, Json] | None


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
