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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from longtask import __version__
from longtask.config import ALLOW_PRIVATE, PUBLIC_URL, Config
from longtask.core.errors import Refused, StoreError
from longtask.core.model import Json, JsonMap, Kind, Outcome, StepSpec, Task, TaskState
from longtask.core.policy import LEASE_MS
from longtask.engine.desk import Desk
from longtask.engine.records import TaskRecords
from longtask.engine.scope import Scopes
from longtask.store.artifacts import ArtifactStore
from longtask.store.artifacts.folder import Folder
from longtask.store.contract import Store, WorkerRow
from longtask.store.sqlite import SqliteStore

# A command that only looks must not pay for what works: that half is imported by `executors` and `make_loop`.
if TYPE_CHECKING:
    from longtask.agents.native.installed import Installed
    from longtask.engine.dispatch import Dispatch, Runtime
    from longtask.engine.dispatcher import Dispatcher, Elsewhere, Presence
    from longtask.engine.loop import Loop
    from longtask.engine.merging import MergeResult
    from longtask.engine.scheduler import Scheduler
    from longtask.engine.upkeep import Upkeep
    from longtask.engine.worker import Worker
    from longtask.steps.contract import Assignment, Executor
    from longtask.steps.contract import Desk as StepDesk
    from longtask.steps.places import Places
    from longtask.workspace.beside import Beside
    from longtask.workspace.positions import Positions
    from longtask.workspace.workspace import Workspace

FOLLOW_AGAIN_S = 600.0  # then a hub that was put back from a backup, say, is looked at again
FOLLOWED_MAX = 10_000

TRACING_SHARE_SERVING = 0.1  # of the time of a process that mostly waits for others

POSTGRES = ("postgresql", "postgres")  # schemes of a URL
# Two threads that come into one package by different doors may find it half made; so all that is imported late, here,
# is imported by one thread at a time.
LOADING = threading.RLock()


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
        with LOADING:
            from longtask.plan import expressions

        return expressions.condition(text, scope)

    def render(self, template: Json, scope: JsonMap) -> Json:
        with LOADING:
            from longtask.plan import expressions

        return expressions.render(template, scope)

    def expand(self, items: Json, scope: JsonMap) -> Json:
        with LOADING:
            from longtask.plan import expressions

        return expressions.expand(items, scope)


class GitMerger:
    """`engine.merging.Merger`.

    With a hub that machines share, what talks to it is done beside the caller, whose loop has other work to do: a merge
    that takes longer is asked for again, and references follow when they can.
    """

    def __init__(self, home: Path, shared: str | None = None) -> None:
        self._home = home
        self._shared = shared
        self._moving = threading.Lock()  # two threads that move one branch would be in each other's way
        self._beside: Beside | None = None
        self._followed: dict[str, tuple[str | None, TaskState, float]] = {}  # by task, and when
        self._positions: dict[str, Positions] = {}  # by workspace

    def merge(self, workspace_id: str, head: str, commit: str, message: str) -> MergeResult:
        if self._shared is None:
            return self._merge(workspace_id, head, commit, message)
        return self._aside().ask(self._merge, workspace_id, head, commit, message)

    def _merge(self, workspace_id: str, head: str, commit: str, message: str) -> MergeResult:
        with LOADING:
            from longtask.engine.merging import MergeResult
            from longtask.workspace.merge import Merged

        result = self.workspace(workspace_id).merge(head, commit, message)
        return MergeResult(result.commit) if isinstance(result, Merged) else MergeResult(None, result.paths)

    def follow(self, task: Task) -> None:
        if self._shared is None:
            self.follow_now(task)
        elif self._is_news(task):
            self._aside().later(task.id, self._follow_aside, task, time.monotonic())

    def _is_news(self, task: Task) -> bool:
        """Whoever has seen the hub equal the journal need not look again at once: there are many machines."""
        head, state, at = self._followed.get(task.id, (None, None, 0.0))
        return (head, state) != (task.head, task.state) or time.monotonic() - at > FOLLOW_AGAIN_S

    def follow_now(self, task: Task) -> None:
        """Waits for the hub.  For whoever has submitted a task and runs no worker: it fetches the task's branch.

        Raises LongTaskError.
        """
        told_at = time.monotonic()
        self._move(task)
        self._clean(task, told_at)

    def _follow_aside(self, task: Task, told_at: float) -> None:
        self._move(task)
        self._aside().later(f"clean {task.id}", self._clean, task, told_at, last=True)

    def _move(self, task: Task) -> None:
        if task.head is None or not task.workspace_id:
            return
        workspace = self.workspace(task.workspace_id)
        branch = branch_of(task) if task.head != task.base else None
        with self._moving:
            if not self._positions_since(workspace, time.monotonic() - FOLLOW_AGAIN_S).is_at(
                task.id, task.head, branch
            ):
                workspace.advance(task.id, task.head)
                if branch is not None:
                    workspace.publish(branch, task.head)
            if len(self._followed) >= FOLLOWED_MAX:
                self._followed.clear()
            self._followed[task.id] = (task.head, task.state, time.monotonic())

    def _clean(self, task: Task, told_at: float) -> None:
        """`told_at`: it had ended then."""
        if task.head is None or task.state not in (TaskState.COMPLETED, TaskState.CANCELLED):
            return  # a failed one may be taken up again
        workspace = self.workspace(task.workspace_id)
        with self._moving:
            if not self._positions_since(workspace, told_at).is_clean(task.id):
                workspace.clean(task.id)

    def _positions_since(self, workspace: Workspace, since: float) -> Positions:
        """Not older than that instant of `time.monotonic`."""
        found = self._positions.get(workspace.id)
        if found is None or found.taken_at < since:
            found = self._positions[workspace.id] = workspace.positions()
        return found

    def workspace(self, workspace_id: str) -> Workspace:
        with LOADING:
            from longtask.workspace.workspace import Workspace

        return Workspace.at(self._home, workspace_id, self._shared)

    def _aside(self) -> Beside:
        if self._beside is None:
            with LOADING:
                from longtask.workspace.beside import Beside

            self._beside = Beside()
        return self._beside

    def close(self) -> None:
        """What could not follow is found again by whoever runs next."""
        if self._beside is not None:
            self._beside.close()
            self._beside = None


def branch_of(task: Task) -> str:
    return f"longtask/{task.name}-{task.number}"


def new_id() -> str:
    """A UUIDv7: ids of tasks sort by their time."""
    import uuid

    stamp = time.time_ns() // 1_000_000
    value = (stamp << 80) | (0x7 << 76) | (secrets.randbits(12) << 64) | (0b10 << 62) | secrets.randbits(62)
    return str(uuid.UUID(int=value))


def open_store(config: Config) -> Store:
    """A path, `sqlite:///PATH` or `postgresql://…`.  Raises StoreError."""
    scheme, _, rest = config.database.partition("://")
    if rest and scheme not in ("sqlite", *POSTGRES):  # the rest may hold a password
        raise StoreError(f"database '{scheme}://…': give a path, sqlite:///PATH, or postgresql://USER@HOST/NAME")
    try:
        config.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        home = str(config.home)
        raise StoreError(f"folder {home!r}: {error.strerror}; LONGTASK_HOME names another place") from error
    if rest and scheme in POSTGRES:
        from longtask.store.postgres.store import PostgresStore

        return PostgresStore(config.database)
    return SqliteStore(Path(rest.removeprefix("/") if rest else config.database).expanduser())


def migrate_store(config: Config, contract: bool) -> tuple[list[int], list[int]]:
    """Brings the schema to the newest on which the release before still runs (`contract`: to the newest of all); the
    numbers applied, and those left.  A file in SQLite migrates itself when it is opened.  Raises StoreError."""
    if not config.database.startswith(tuple(f"{name}://" for name in POSTGRES)):
        open_store(config).close()
        return [], []
    from longtask.store.postgres.migrating import bring_up

    return bring_up(config.database, contract)


def open_artifacts(config: Config, store: Store) -> ArtifactStore:
    """A folder, or `s3://BUCKET/PREFIX` with the usual AWS_* variables.  Raises StoreError."""
    scheme, _, rest = config.artifacts.partition("://")
    if not rest:
        return ArtifactStore(config.artifacts, store)
    if scheme != "s3":  # the rest may hold a password
        raise StoreError(f"artifacts at '{scheme}://…': give a folder, or s3://BUCKET/PREFIX")
    from longtask.store.artifacts.bucket import Bucket

    return ArtifactStore(Bucket(config.artifacts, Folder(config.artifact_cache)), store)


def open_parts(config: Config) -> Parts:
    store = open_store(config)
    artifacts = open_artifacts(config, store)

    def read_json(workspace_id: str, digest: str) -> Json:
        return json.loads(artifacts.read(workspace_id, digest))

    scopes = Scopes(store, read_json)
    language = Language()
    desk = Desk(store, scopes, language, new_id)
    records, merger = TaskRecords(store, scopes), GitMerger(config.home, config.hub)
    return Parts(config, store, artifacts, scopes, records, language, desk, merger)


class Executors(Mapping[Kind, "Executor"]):
    """Made at their first use: what they import would cost each short run a tenth of a second."""

    def __init__(self, makers: Mapping[Kind, Callable[[], Executor]]) -> None:
        self._makers, self._made = makers, dict[Kind, "Executor"]()

    def __getitem__(self, kind: Kind) -> Executor:
        with LOADING:
            if kind not in self._made:
                self._made[kind] = self._makers[kind]()
            return self._made[kind]

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


class LaterPlaces:
    """`steps.places.Places`, made at its first use."""

    def __init__(self, config: Config) -> None:
        self.home = config.home
        self._config = config
        self._made: Places | None = None

    @property
    def _places(self) -> Places:
        with LOADING:
            from longtask.steps.places import Places

            if self._made is None:
                self._made = Places(self._config.home, self._config.hub)
            return self._made

    def prepare(self, assignment: Assignment, desk: StepDesk) -> Path:
        return self._places.prepare(assignment, desk)

    def keep(self, assignment: Assignment, place: Path, outcome: Outcome, desk: StepDesk) -> Outcome:
        return self._places.keep(assignment, place, outcome, desk)

    def save_tree(self, place: Path) -> str:
        return self._places.save_tree(place)


PathOf = Callable[[str, str], Path]  # (workspace id, digest) -> a file with the bytes


def carriers(expressions: Language, places: LaterPlaces, path_of: PathOf) -> dict[Kind, Callable[[], Executor]]:
    """Makers of what carries out the work of a plan, on any machine; all else is done beside the store."""

    def command() -> Executor:
        from longtask.steps.command import CommandExecutor

        return CommandExecutor(expressions.render, path_of)

    def function() -> Executor:
        from longtask.steps.function import FunctionExecutor

        return FunctionExecutor(render=expressions.render)

    def agent() -> Executor:
        from longtask.steps.agent import AgentExecutor
        from longtask.steps.places import ToldConflicts

        made = AgentExecutor(
            save_tree=places.save_tree,
            render=expressions.render,
            read_document=read_document,
            program=installed(places.home).path,
        )
        return ToldConflicts(made)

    return {Kind.RUN: command, Kind.FUNCTION: function, Kind.AGENT: agent}


def executors(parts: Parts, places: LaterPlaces) -> Mapping[Kind, Executor]:
    language, records, workspace = parts.expressions, parts.records, parts.merger.workspace

    def stat(workspace_id: str, base: str, head: str) -> JsonMap:
        found = workspace(workspace_id).stat(base, head)
        return {
            "files": len(found.files),
            "insertions": found.insertions,
            "deletions": found.deletions,
            "paths": list(found.paths[:200]),
        }

    def diff(workspace_id: str, base: str, head: str) -> bytes:
        return workspace(workspace_id).diff(base, head)

    def approval() -> Executor:
        from longtask.steps.approval import ApprovalExecutor

        return ApprovalExecutor(language.render, records, stat)

    def wait() -> Executor:
        from longtask.steps.wait import WaitExecutor

        return WaitExecutor(language.render)

    def call() -> Executor:
        from longtask.steps.call import CallExecutor
        from longtask.steps.posting import Allowed

        allowed = Allowed.read(parts.config.allow_private, ALLOW_PRIVATE)
        return CallExecutor(language.render, callbacks(parts), allowed)

    def artifact() -> Executor:
        from longtask.steps.artifact import ArtifactExecutor

        return ArtifactExecutor(language.render, records, diff)

    def for_each() -> Executor:
        from longtask.steps.for_each import ForEachExecutor

        return ForEachExecutor(language.expand, records)

    return Executors({
        **carriers(language, places, parts.artifacts.path), Kind.APPROVAL: approval, Kind.WAIT: wait,
        Kind.ARTIFACT: artifact, Kind.FOR_EACH: for_each, Kind.CALL: call,
    })  # fmt: skip


def callbacks(parts: Parts) -> Callable[[str, str, int], str]:
    """`steps.call.Reached`: the address where the callback of a step's run is awaited."""

    def address(task_id: str, step: str, run: int) -> str:
        base = parts.config.public_url
        if base is None:
            raise Refused(f"a call needs an address for its callback: set {PUBLIC_URL} to that of the server")
        with LOADING:
            from longtask.core.seal import seal
            from longtask.steps.call import PURPOSE

        return f"{base}/v1/callbacks/calls/{seal(parts.store.signing_key(PURPOSE), PURPOSE, [task_id, step, run])}"

    return address


def read_document(path: Path) -> Json:
    with LOADING:
        from longtask.plan.yaml import parse

    value, _, findings = parse(path.read_bytes(), str(path))
    findings.raise_if_any()
    return value


def runtime_of(home: Path, spec: StepSpec) -> str | None:
    if spec.kind is not Kind.AGENT:
        return None
    with LOADING:
        from longtask.agents.catalog import RUNTIMES
        from longtask.agents.contract import library_version, runtime

    name = spec.body.get("runtime", "recorded")
    library = library_version(name)
    if library is not None:
        return f"{name} {library}"
    found = runtime(name)
    entry = RUNTIMES.get(found.name)
    version = found.version if entry is None or entry.program is None else installed(home).version(entry.program)
    return f"{found.name} {version}".rstrip()


@cache
def installed(home: Path) -> Installed:
    """Programs of agents on this machine."""
    with LOADING:
        from longtask.agents.native.installed import Installed

    return Installed(home)


def make_upkeep(parts: Parts, retention_ms: int | None) -> Upkeep:
    """`retention_ms` None: tasks are kept for ever."""
    with LOADING:
        from longtask.engine.upkeep import Upkeep
        from longtask.room import Room

    room = Room(parts.config.home, parts.store, parts.artifacts, parts.merger.workspace)
    return Upkeep(parts.store, room, retention_ms=retention_ms)


def keep_traces(parts: Parts, *, serving: bool) -> Callable[[], None]:
    """Writes the trace file, and sends spans where a collector is named, until what it answers is called.

    A server does so for all; with a database of this machine alone, whoever works does too.  Of the workers of a fleet
    none does: each would read everything."""
    from longtask.telemetry import settings, tracing
    from longtask.telemetry.follower import SHARE

    chosen = settings.load()
    shared = parts.config.database.startswith(tuple(f"{name}://" for name in POSTGRES))
    if not serving and (shared or not chosen.enabled):
        return lambda: None
    share = TRACING_SHARE_SERVING if serving else SHARE
    return tracing.start_tracing(parts.store, parts.config.home, chosen, __version__, share=share)


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

    from longtask.engine.merging import follow
    from longtask.engine.scheduler import Scheduler
    from longtask.engine.upkeep import Keeper

    store = parts.store
    places = LaterPlaces(parts.config)
    follower = ThreadPoolExecutor(1, thread_name_prefix="follow")  # one: references are moved in their order
    keeper = Keeper(lambda: make_upkeep(parts, parts.config.retention_ms))
    end_tracing = keep_traces(parts, serving=False)

    def follow_later(task: Task) -> None:
        follower.submit(follow, parts.merger, task)

    def close() -> None:
        keeper.stop()
        follower.shutdown(wait=True)
        end_tracing()
        parts.merger.close()
        store.close()

    return _working(
        make_dispatch(parts, runtime=partial(runtime_of, parts.config.home), lease_ms=lease_ms),
        store,
        executors(parts, places),
        places,
        Scheduler(store, parts.scopes, parts.expressions, parts.merger, lease_ms=lease_ms),
        id=id or new_worker_id(),
        slots=slots,
        pools=pools,
        follow=follow_later,
        close=close,
    )


def make_dispatch(
    parts: Parts,
    *,
    runtime: Runtime,
    workspaces: Sequence[str] | None = None,
    lease_ms: int = LEASE_MS,
) -> Dispatch:
    """What workers ask, answered at the store.  `workspaces`: work of others is not given out; None: of all."""
    from longtask.engine.dispatch import Dispatch

    def put_artifact(workspace_id: str, body: bytes, media_type: str) -> JsonMap:
        stored = parts.artifacts.put(workspace_id, body, media_type)
        return {"digest": stored.digest, "size_bytes": stored.size_bytes}

    def put_json(workspace_id: str, value: Json) -> str:
        return str(put_artifact(workspace_id, json.dumps(value).encode(), "application/json")["digest"])

    def read_artifact(workspace_id: str, digest: str) -> bytes:
        return parts.artifacts.read(workspace_id, digest)

    return Dispatch(
        parts.store,
        parts.scopes,
        parts.expressions,
        put_json,
        put_artifact=put_artifact,
        read_artifact=read_artifact,
        runtime=runtime,
        workspaces=workspaces,
        lease_ms=lease_ms,
    )


def make_loop_elsewhere(
    config: Config, server: Elsewhere, *, id: str, slots: int = 4, pools: tuple[str, ...] = ("default",)
) -> Running:
    """A worker that has no store, and leaves to others what is done beside one: system steps, and what a scheduler
    does.  Of `config` it uses `home` and `hub`.  The caller runs `loop.run()` and closes afterwards."""
    places = LaterPlaces(config)
    makers = carriers(Language(), places, server.path)
    return _working(server, server, Executors(makers), places, None, id=id, slots=slots, pools=pools)


def _working(
    dispatcher: Dispatcher,
    presence: Presence,
    executors: Mapping[Kind, Executor],
    places: LaterPlaces,
    scheduler: Scheduler | None,
    *,
    id: str,
    slots: int,
    pools: tuple[str, ...],
    follow: Callable[[Task], None] | None = None,
    close: Callable[[], None] = lambda: None,
) -> Running:
    """`scheduler` None: system steps are for those who have one, too."""
    from concurrent.futures import ThreadPoolExecutor

    from longtask.engine.loop import Loop
    from longtask.engine.worker import Worker

    threads = ThreadPoolExecutor(slots + 4, thread_name_prefix="attempt")
    worker = Worker(
        dispatcher,
        executors,
        id=id,
        slots=slots,
        pools=pools,
        system=scheduler is not None,
        places=places,
        spawn=threads.submit,
        follow=follow,
    )
    row = WorkerRow(id, socket.gethostname(), os.getpid(), pools, slots, presence.now(), version=__version__)
    presence.worker_seen(row)
    loop = Loop(presence, worker, scheduler, row, lease_ms=dispatcher.lease_ms)

    def end() -> None:
        threads.shutdown(wait=True, cancel_futures=True)
        close()

    return Running(loop, worker, end)


def new_worker_id() -> str:
    """Short, since it stands in every claim; host and pid stand in the worker's row."""
    return f"w{secrets.token_hex(3)}"
