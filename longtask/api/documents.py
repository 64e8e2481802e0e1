"""The documents of the API, as OpenAPI tells them.

They are described here and made in `views/`; that both agree is tested, and costs nothing when one is served.  Of a
document keys may be added, never taken away; so a description says which are always there, and leaves room for more.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

Instant = Annotated[int, Field(description="ms since 1970 UTC", examples=[1_767_225_600_000])]
Json = Any
T = TypeVar("T")
TASK_ID = "019b76da-a800-7000-8000-000000000001"


class Shape(BaseModel):
    model_config = ConfigDict(extra="allow")


class Page(Shape, Generic[T]):
    items: list[T]
    next: str | None = Field(description="What the next request names as its cursor; null: there is no more.")


class ProblemItem(Shape):
    message: str
    path: str
    line: int | None = Field(default=None, description="From 1; 0: the place is not known.")
    column: int | None = None


class Problem(Shape):
    """RFC 9457.  `type` never changes its meaning."""

    type: str = Field(examples=["urn:longtask:problem:not-found"])
    title: str = Field(examples=["no such thing"])
    status: int = Field(examples=[404])
    detail: str | None = Field(default=None, examples=["no task 'shop-9'; list them: GET /v1/tasks"])
    problems: list[ProblemItem] | None = Field(default=None, description="Everything that is wrong with a plan.")


class TaskEntry(Shape):
    id: str = Field(examples=[TASK_ID])
    handle: str = Field(examples=["shop-12"])
    name: str = Field(examples=["shop"])
    goal: str
    status: str = Field(
        description="completed, failed, cancelled, cancelling, paused, running, queued, waiting_budget, waiting_user, "
        "waiting_ci, waiting_event or waiting_timer.",
        examples=["waiting_user"],
    )
    percent: int = Field(ge=0, le=100, examples=[62])
    stage: str | None = Field(description="The one that runs; null: it has ended.", examples=["build"])
    cost_micros: int
    tokens: int
    created_at: Instant
    ended_at: Instant | None
    created_by: str = Field(examples=["ann"])
    parent: str | None = Field(default=None, description="The task for whose step it was made; null: for none.")
    parent_step: str | None = None


class Asks(Shape):
    step: str
    text: str
    who: list[str] = Field(description="Who may decide; empty: anybody who may decide on this task.")
    since: Instant | None


class ListedTask(TaskEntry):
    asks: Asks | None = Field(description="What it has asked somebody for longest; null: nothing.")


class Told(Shape):
    done: int
    total: int = Field(description="0: not known.")
    text: str


class Child(Shape):
    task: str = Field(examples=[TASK_ID])
    handle: str = Field(examples=["migrate-13"])
    status: str
    percent: int = Field(ge=0, le=100)


class StepEntry(Shape):
    key: str = Field(examples=["tests"])
    kind: str = Field(examples=["run"])
    stage: int = Field(ge=1)
    state: str = Field(
        description="blocked, ready, running, waiting, merging, completed, failed, cancelled or skipped.",
        examples=["running"],
    )
    owner: str | None = Field(description="The step that a fix, a conflict or an item of a for_each belongs to.")
    attempt: int = Field(description="The newest; 0: none yet.")
    taken_by: str | None = Field(description="The person who works on it by hand.")
    run: int
    rounds: int
    began_at: Instant | None
    ended_at: Instant | None
    due_at: Instant | None
    reason: str | None = Field(description="Of the last failure, retry or loss.")
    because: str | None = Field(description="The step that decided a skip.")
    benign: bool
    tolerated: bool
    waiting_for: str | None
    question: dict[str, Json] | None
    ask: int | None
    commit: str | None
    result: Json = Field(description='Its outputs; a large one stands as {"$artifact": digest}.')
    child: Child | None = Field(default=None, description="Of a `task` step: the newest task that was made for it.")
    progress: Told | None


class StageEntry(Shape):
    name: str
    status: str = Field(description="upcoming, ahead, running, completed, failed or skipped.")


class ForkedFrom(Shape):
    task: str = Field(examples=[TASK_ID])
    step: str | None = Field(description="What it does again.")
    seq: int = Field(description="Up to which event of that task it has taken it over.")


class TaskTree(TaskEntry):
    state: str
    base: str | None
    head: str | None
    cost_limit_micros: int | None = Field(description="Null: there is none.")
    tokens_limit: int | None
    forked_from: ForkedFrom | None = Field(default=None, description="Null: it is no fork.")
    stages: list[StageEntry]
    counts: dict[str, int] = Field(description="Steps by state and by what they wait for.")
    steps: list[StepEntry]
    steps_left_out: int


class GraphStep(Shape):
    key: str
    kind: str
    stage: int
    state: str
    owner: str | None


class Graph(Shape):
    task: str
    name: str
    stages: list[str]
    steps: list[GraphStep]
    edges: list[tuple[str, str]] = Field(description="[need, step]")
    steps_left_out: int


class Reason(Shape):
    what: str = Field(examples=["review asks ann: Does this look right?"])
    since: Instant | None
    help: list[str] = Field(description="Commands that help.", examples=[["longtask approve shop-12 review"]])
    step: str | None
    who: list[str] = Field(description="Who may decide; empty: anybody who may decide on this task.")


class Reasons(Shape):
    items: list[Reason]


class FileChange(Shape):
    path: str
    insertions: int
    deletions: int


class Changes(Shape):
    task: str
    base: str
    head: str
    files: list[FileChange]


class FileEntry(Shape):
    path: str = Field(examples=["shop/base.py"])
    kind: str = Field(description="file or link; links are not followed.")
    size_bytes: int
    blob: str = Field(description="What git calls its bytes: the ETag without its quotes.")


class Imported(Shape):
    task: str = Field(examples=[TASK_ID])
    handle: str = Field(examples=["shop-3"], description="With its number in this installation.")
    status: str = Field(examples=["completed"])
    again: bool = Field(description="This very archive was imported before.")
    told: list[str] = Field(description="What could not be done, though the task is here.")


class Acted(Shape):
    task: str = Field(examples=[TASK_ID])
    handle: str = Field(examples=["shop-12"])
    status: str = Field(examples=["running"])
    step: str | None = None
    answer: str | None = None
    by: str | None = None


class Grown(Acted):
    steps: list[str] = Field(description="The keys of what was added.", examples=[["docs"]])


class Forked(Acted):
    forked_from: str = Field(description="The task that was forked.", examples=[TASK_ID])


class Foreseen(Shape):
    """Keys of steps of the plan, stage by stage."""

    act: str = Field(description="fork, retry, edit or reject.", examples=["fork"])
    step: str = Field(examples=["migrate"])
    again: list[str] = Field(description="These have been begun, and run again.")
    begins: list[str] = Field(description="These have not been begun, and are to run.")
    skipped: list[str] = Field(description="These will not run.")
    kept: list[str] = Field(description="These have ended, and stay as they are.")
    gone: list[str] = Field(description="These were added later than a fork looks, and are not in it.")
    items_kept: dict[str, int] = Field(description="Of a `for_each` that runs again: how many items are kept.")
    asks: bool = Field(description="A person is asked first whether it goes on.")
    revised: bool = Field(description="A revision is put in front, and the question is asked again.")
    seq: int = Field(description="Of a fork: the last event of the task that it takes over; else 0.")
    head: str | None = Field(description="Of a fork: the commit that it begins from.")


class StepDetail(StepEntry):
    task: str
    needs: list[str]
    words: dict[str, Json] | None = Field(
        default=None,
        description="With `words`: what it is to do from its next attempt on; null: it cannot be edited.",
        examples=[{"run": "make test", "timeout": "1h", "retry": 2}],
    )


class Attempt(Shape):
    attempt: int
    worker: str | None
    runtime: str | None
    began_at: Instant | None
    ended_at: Instant | None
    outcome: str | None = Field(description="The type of the event that ended it; null: it runs.")
    reason: str | None


class OutputChunk(Shape):
    n: int = Field(description="Counts from 1; a gap means that the middle of a flood was left out.")
    at: Instant
    stream: str = Field(description="out, err or note")
    text: str


class Approval(Shape):
    task: str
    handle: str
    step: str
    ask: int
    version: str = Field(description="The ETag without its quotes.")
    kind: str = Field(description="approval, or a question of the machine: unknown, failed, no_fix, conflict, limit.")
    text: str
    who: list[str] = Field(description="Who may decide; empty: anybody who may decide on this task.")
    answers: list[str] = Field(examples=[["approve", "reject", "edit", "respond"]])
    since: Instant | None
    expires_at: Instant | None
    question: dict[str, Json]


class Artifact(Shape):
    name: str
    digest: str
    size_bytes: int
    media_type: str
    step: str


class Workspace(Shape):
    id: str
    repository: str = Field(description="Its folder, or the URL that it is fetched from.")
    host: str | None = Field(description="The machine on which the repository lies; null: the server's, or a URL's.")
    url: str | None = Field(description="Where the server fetches it; null: nowhere.")
    hub: str | None = Field(
        description="Where whoever submits may push a base, a folder or a URL (to refs/longtask/bases/COMMIT); null: "
        "nowhere that this caller could reach."
    )


class Worker(Shape):
    id: str
    host: str
    pid: int
    version: str | None
    pools: list[str]
    slots: int
    running: int
    started_at: Instant
    seen_at: Instant
    lag_ms: int
    alive: bool


class Pool(Shape):
    pool: str
    workers: int
    slots: int | None
    ready: int
    oldest_ready_ms: int | None


class Fleet(Shape):
    workers: list[Worker]
    pools: list[Pool]


class CloudEvent(Shape):
    specversion: str = Field(examples=["1.0"])
    id: str = Field(examples=[f"{TASK_ID}/12"])
    source: str = Field(examples=[f"/tasks/{TASK_ID}"])
    type: str = Field(examples=["step.completed"])
    time: str = Field(examples=["2026-01-01T00:00:00.000+00:00"])
    seq: int
    actor: str | None
    data: dict[str, Json]


class Checked(Shape):
    ok: bool
    name: str
    steps: int
    stages: list[str]
    notes: list[str]


# Named, so that the description names them.


class TaskPage(Page[ListedTask]):
    pass


class StepPage(Page[StepEntry]):
    pass


class AttemptPage(Page[Attempt]):
    pass


class OutputPage(Page[OutputChunk]):
    pass


class ApprovalPage(Page[Approval]):
    pass


class ArtifactPage(Page[Artifact]):
    pass


class FilePage(Page[FileEntry]):
    pass


class WorkspacePage(Page[Workspace]):
    pass


class EventPage(Page[CloudEvent]):
    pass


_TASK = {
    "id": TASK_ID,
    "handle": "shop-12",
    "name": "shop",
    "goal": "Everything builds, and somebody has looked at it.",
    "status": "waiting_user",
    "percent": 50,
    "stage": "steps",
    "cost_micros": 0,
    "tokens": 0,
    "created_at": 1_767_225_600_000,
    "ended_at": None,
    "created_by": "ann",
}
_STEP = {
    "key": "tests",
    "kind": "run",
    "stage": 1,
    "state": "completed",
    "owner": None,
    "attempt": 1,
    "taken_by": None,
    "run": 1,
    "rounds": 0,
    "began_at": 1_767_225_600_100,
    "ended_at": 1_767_225_681_000,
    "due_at": None,
    "reason": None,
    "because": None,
    "benign": False,
    "tolerated": False,
    "waiting_for": None,
    "question": None,
    "ask": None,
    "commit": None,
    "result": {"exit_code": 0},
    "progress": {"done": 183, "total": 183, "text": ""},
}
_QUESTION = {"kind": "approval", "text": "Does this look right?", "digest": "5d41402abc4b2a76", "bind": "frozen"}
EXAMPLES: dict[str, dict[str, Any]] = {
    "Acted": {"task": TASK_ID, "handle": "shop-12", "status": "running"},
    "Grown": {"task": TASK_ID, "handle": "shop-12", "status": "running", "steps": ["docs"]},
    "Forked": {
        "task": TASK_ID,
        "handle": "shop-13",
        "status": "running",
        "step": "migrate",
        "forked_from": "019b76da-a800-7000-8000-000000000000",
    },
    "Foreseen": {
        "act": "fork",
        "step": "migrate",
        "again": ["migrate", "tests"],
        "begins": ["review"],
        "skipped": [],
        "kept": ["analyse"],
        "gone": [],
        "items_kept": {},
        "asks": False,
        "revised": False,
        "seq": 41,
        "head": "9d2f3c1b7c4b0f6d1f0e4a5b6c7d8e9f0a1b2c3d",
    },
    "TaskPage": {
        "items": [
            {
                **_TASK,
                "asks": {
                    "step": "review",
                    "text": "Does this look right?",
                    "who": [],
                    "since": 1_767_225_681_000,
                },
            }
        ],
        "next": "12",
    },
    "TaskTree": {
        **_TASK,
        "state": "active",
        "base": "9d2f3c1b7c4b0f6d1f0e4a5b6c7d8e9f0a1b2c3d",
        "head": "9d2f3c1b7c4b0f6d1f0e4a5b6c7d8e9f0a1b2c3d",
        "cost_limit_micros": 5_000_000,
        "tokens_limit": None,
        "forked_from": None,
        "stages": [{"name": "steps", "status": "running"}],
        "counts": {"steps": 3, "open": 2, "wait_user": 1},
        "steps": [_STEP],
        "steps_left_out": 1,
    },
    "StepPage": {"items": [_STEP], "next": None},
    "StepDetail": {**_STEP, "task": TASK_ID, "needs": []},
    "Graph": {
        "task": TASK_ID,
        "name": "shop",
        "stages": ["steps"],
        "steps": [
            {"key": "tests", "kind": "run", "stage": 1, "state": "completed", "owner": None},
            {"key": "review", "kind": "approval", "stage": 1, "state": "waiting", "owner": None},
        ],
        "edges": [["tests", "review"]],
        "steps_left_out": 0,
    },
    "Reasons": {
        "items": [
            {
                "what": "review asks anybody: Does this look right?",
                "since": 1_767_225_681_000,
                "help": ["longtask approve shop-12 review", "longtask reject shop-12 review -m REASON"],
                "step": "review",
                "who": [],
            }
        ]
    },
    "Changes": {
        "task": TASK_ID,
        "base": "9d2f3c1b7c4b0f6d1f0e4a5b6c7d8e9f0a1b2c3d",
        "head": "1f0e4a5b6c7d8e9f0a1b2c3d9d2f3c1b7c4b0f6d",
        "files": [{"path": "shop/base.py", "insertions": 12, "deletions": 3}],
    },
    "AttemptPage": {
        "items": [
            {
                "attempt": 1,
                "worker": "w3f9a1c",
                "runtime": None,
                "began_at": 1_767_225_600_100,
                "ended_at": 1_767_225_681_000,
                "outcome": "completed",
                "reason": None,
            }
        ],
        "next": None,
    },
    "OutputPage": {
        "items": [{"n": 1, "at": 1_767_225_680_000, "stream": "out", "text": "183 passed\n"}],
        "next": None,
    },
    "Approval": {
        "task": TASK_ID,
        "handle": "shop-12",
        "step": "review",
        "ask": 1,
        "version": "1.5d41402abc4b2a76",
        "kind": "approval",
        "text": "Does this look right?",
        "who": [],
        "answers": ["approve", "reject", "edit", "respond"],
        "since": 1_767_225_681_000,
        "expires_at": None,
        "question": _QUESTION,
    },
    "ArtifactPage": {
        "items": [
            {
                "name": "report.md",
                "digest": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
                "size_bytes": 1_204,
                "media_type": "text/markdown",
                "step": "report",
            }
        ],
        "next": None,
    },
    "FilePage": {
        "items": [
            {
                "path": "shop/base.py",
                "kind": "file",
                "size_bytes": 1_204,
                "blob": "5716ca5987cbf97d6bb54920bea6adde242d87e6",
            }
        ],
        "next": None,
    },
    "EventPage": {
        "items": [
            {
                "specversion": "1.0",
                "id": f"{TASK_ID}/12",
                "source": f"/tasks/{TASK_ID}",
                "type": "step.completed",
                "time": "2026-01-01T00:01:21.000+00:00",
                "seq": 12,
                "actor": None,
                "data": {"step": "tests", "attempt": 1},
            }
        ],
        "next": "12",
    },
    "WorkspacePage": {
        "items": [
            {
                "id": "0f6d1f0e4a5b6c7d",
                "repository": "/home/ann/shop",
                "host": "laptop",
                "url": None,
                "hub": "ssh://git@git.example.com/longtask/0f6d1f0e4a5b6c7d.git",
            }
        ],
        "next": None,
    },
    "Fleet": {
        "workers": [
            {
                "id": "w3f9a1c",
                "host": "build-1",
                "pid": 4711,
                "version": "0.1.0",
                "pools": ["default"],
                "slots": 4,
                "running": 1,
                "started_at": 1_767_225_000_000,
                "seen_at": 1_767_225_680_000,
                "lag_ms": 1_000,
                "alive": True,
            }
        ],
        "pools": [{"pool": "default", "workers": 1, "slots": 4, "ready": 0, "oldest_ready_ms": None}],
    },
    "Checked": {"ok": True, "name": "shop", "steps": 2, "stages": ["steps"], "notes": []},
    "Problem": {
        "type": "urn:longtask:problem:not-found",
        "title": "no such thing",
        "status": 404,
        "detail": "no task 'shop-9'; list them: GET /v1/tasks",
    },
}


def answers(model: Any, media_type: str | None = None, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """What a route answers when all is well, for its `responses`.  `media_type` None: JSON of this shape."""
    if media_type is None:
        return {status: {"model": model, "description": "As asked."}}
    shape = {"type": "string"} if model is str else {"type": "string", "format": "binary"}
    return {status: {"description": "As asked.", "content": {media_type: {"schema": shape}}}}
