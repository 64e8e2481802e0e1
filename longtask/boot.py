"""Composition: the only file that knows every part.

parts = open_parts(load(database))          a store, a desk, and what reads a task
loop = make_loop(parts, slots=4)            a worker and a scheduler that share them
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from longtask.config import Config
from longtask.core.errors import StoreError
from longtask.core.model import Json, JsonMap, Kind, StepSpec, Task, TaskState
from longtask.core.policy import LEASE_MS
from longtask.engine.desk import Desk
from longtask.engine.records import TaskRecords
from longtask.engine.scope import Scopes
from longtask.store.artifacts import ArtifactStore
from longtask.store.contract import Store, WorkerRow
from longtask.store.sqlite import SqliteStore

# A command that only looks must not pay for what works: that half is imported by `executors` and `make_loop`.
if TYPE_CHECKING:
    from longtask.engine.loop import Loop
    from longtask.engine.merging import MergeResult
    from longtask.engine.worker import Worker
    from longtask.steps.contract import Executor
    from longtask.steps.places import Places

NO_WORKSPACE = "none"  # where artifacts of tasks without a repository are kept


@dataclass(frozen=True, slots=True)
class Parts:
    config: Config
    store: Store
    artifacts: ArtifactStore
    scopes: Scopes
    records: TaskRecords
    expressions: Language
    desk: Desk
    merger: GitMerger


class Language:
    """`engine.scope.Expressions`; the library behind it is imported when the first expression is evaluated."""

    def condition(self, text: str, scope: JsonMap) -> bool:
        from longtask.plan import expressions

        return expressions.condition(text, scope)

    def render(self, template: Json, scope: JsonMap) -> Json:
        from longtask.plan import expressions

        return expressions.render(template, scope)

    def expand(self, items: Json, scope: JsonMap) -> Json:
        from longtask.plan import expressions

        return expressions.expand(items, scope)


class GitMerger:
    """`engine.merging.Merger`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._following = threading.Lock()  # two threads that move one branch would be in each other's way

    def merge(self, workspace_id: str, head: str, commit: str, message: str) -> MergeResult:
        from longtask.engine.merging import MergeResult
        from longtask.workspace.merge import Merged
        from longtask.workspace.workspace import Workspace

        result = Workspace.at(self._home, workspace_id).merge(head, commit, message)
        return MergeResult(result.commit) if isinstance(result, Merged) else MergeResult(None, result.paths)

    def follow(self, task: Task) -> None:
        if task.head is None or not task.workspace_id:
            return
        from longtask.workspace.workspace import Workspace

        workspace = Workspace.at(self._home, task.workspace_id)
        with self._following:
            workspace.advance(task.id, task.head)
            if task.head != task.base:
                workspace.publish(branch_of(task), task.head)
            if task.state in (TaskState.COMPLETED, TaskState.CANCELLED):  # a failed one may be taken up again
                workspace.clean(task.id)


def branch_of(task: Task) -> str:
    return f"longtask/{task.name}-{task.number}"


def new_id() -> str:
    """A UUIDv7: ids of tasks sort by their time."""
    import uuid

    stamp = time.time_ns() // 1_000_000
    value = (stamp << 80) | (0x7 << 76) | (secrets.randbits(12) << 64) | (0b10 << 62) | secrets.randbits(62)
    return str(uuid.UUID(int=value))


def open_store(config: Config) -> Store:
    """A path, or `sqlite:///PATH`.  Raises StoreError."""
    scheme, _, rest = config.database.partition("://")
    if rest and scheme != "sqlite":  # the rest may hold a password
        raise StoreError(f"database '{scheme}://…': this version keeps tasks in SQLite files; give a path")
    path = Path(rest.removeprefix("/") if rest else config.database).expanduser()
    try:
        config.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        home = str(config.home)
        raise StoreError(f"folder {home!r}: {error.strerror}; LONGTASK_HOME names another place") from error
    return SqliteStore(path)


def open_parts(config: Config) -> Parts:
    store = open_store(config)
    artifacts = ArtifactStore(config.artifacts)

    def read_json(workspace_id: str, digest: str) -> Json:
        return json.loads(artifacts.read(workspace_id or NO_WORKSPACE, digest))

    scopes = Scopes(store, read_json)
    language = Language()
    desk = Desk(store, scopes, language, new_id)
    return Parts(config, store, artifacts, scopes, TaskRecords(store, scopes), language, desk, GitMerger(config.home))


def executors(parts: Parts, places: Places) -> Mapping[Kind, Executor]:
    from longtask.steps.agent import AgentExecutor
    from longtask.steps.approval import ApprovalExecutor
    from longtask.steps.artifact import ArtifactExecutor
    from longtask.steps.command import CommandExecutor
    from longtask.steps.for_each import ForEachExecutor
    from longtask.steps.function import FunctionExecutor
    from longtask.steps.places import ToldConflicts
    from longtask.steps.wait import WaitExecutor
    from longtask.workspace.workspace import Workspace

    language, records, home = parts.expressions, parts.records, parts.config.home

    def stat(workspace_id: str, base: str, head: str) -> JsonMap:
        found = Workspace.at(home, workspace_id).stat(base, head)
        return {
            "files": len(found.files),
            "insertions": found.insertions,
            "deletions": found.deletions,
            "paths": list(found.paths[:200]),
        }

    def diff(workspace_id: str, base: str, head: str) -> bytes:
        return Workspace.at(home, workspace_id).diff(base, head)

    def path_of(workspace_id: str, digest: str) -> Path:
        return parts.artifacts.path(workspace_id or NO_WORKSPACE, digest)

    return {
        Kind.RUN: CommandExecutor(language.render, records, path_of),
        Kind.FUNCTION: FunctionExecutor(render=language.render),
        Kind.AGENT: ToldConflicts(
            AgentExecutor(save_tree=places.save_tree, render=language.render, read_document=read_document)
        ),
        Kind.APPROVAL: ApprovalExecutor(language.render, records, stat),
        Kind.WAIT: WaitExecutor(language.render),
        Kind.ARTIFACT: ArtifactExecutor(language.render, records, diff),
        Kind.FOR_EACH: ForEachExecutor(language.expand, records),
    }


def read_document(path: Path) -> Json:
    from longtask.plan.yaml import parse

    value, _, findings = parse(path.read_bytes(), str(path))
    findings.raise_if_any()
    return value


def runtime_of(spec: StepSpec) -> str | None:
    if spec.kind is not Kind.AGENT:
        return None
    from longtask.agents.contract import runtime

    found = runtime(spec.body.get("runtime", "recorded"))
    return f"{found.name} {found.version}"


@dataclass(frozen=True, slots=True)
class Running:
    loop: Loop
    worker: Worker
    close: Callable[[], None]


def make_loop(
    parts: Parts,
    *,
    slots: int = 4,
    pools: tuple[str, ...] = ("default",),
    lease_ms: int = LEASE_MS,
    id: str | None = None,
) -> Running:
    """A worker with its scheduler.  The caller runs `loop.run()` and closes afterwards."""
    from concurrent.futures import ThreadPoolExecutor

    from longtask.engine.dispatch import Dispatch
    from longtask.engine.loop import Loop
    from longtask.engine.merging import follow
    from longtask.engine.scheduler import Scheduler
    from longtask.engine.worker import Worker
    from longtask.steps.places import Places

    store = parts.store
    places = Places(parts.config.home)
    threads = ThreadPoolExecutor(slots + 4, thread_name_prefix="attempt")
    follower = ThreadPoolExecutor(1, thread_name_prefix="follow")  # one: references are moved in their order

    def put_artifact(workspace_id: str, body: bytes, media_type: str) -> JsonMap:
        stored = parts.artifacts.put(workspace_id or NO_WORKSPACE, body, media_type)
        return {"digest": stored.digest, "size_bytes": stored.size_bytes}

    def put_json(workspace_id: str, value: Json) -> str:
        return str(put_artifact(workspace_id, json.dumps(value).encode(), "application/json")["digest"])

    def read_artifact(workspace_id: str, digest: str) -> bytes:
        return parts.artifacts.read(workspace_id or NO_WORKSPACE, digest)

    def follow_later(task: Task) -> None:
        follower.submit(follow, parts.merger, task)

    dispatch = Dispatch(store, parts.scopes, parts.expressions, put_json, lease_ms=lease_ms)
    worker = Worker(
        store,
        dispatch,
        executors(parts, places),
        id=id or f"w{secrets.token_hex(3)}",  # short, since it stands in every claim; host and pid stand in its row
        slots=slots,
        pools=pools,
        places=places,
        put_artifact=put_artifact,
        read_artifact=read_artifact,
        runtime=runtime_of,
        spawn=threads.submit,
        follow=follow_later,
    )
    scheduler = Scheduler(store, parts.scopes, parts.expressions, parts.merger, lease_ms=lease_ms)
    row = WorkerRow(worker.id, socket.gethostname(), os.getpid(), pools, slots, store.now())
    store.worker_seen(row)
    loop = Loop(store, worker, scheduler, row, lease_ms=lease_ms)

    def close() -> None:
        threads.shutdown(wait=True, cancel_futures=True)
        follower.shutdown(wait=True)
        store.close()

    return Running(loop, worker, close)
