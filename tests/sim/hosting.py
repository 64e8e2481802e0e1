"""Processes on one store, on virtual time: what each does is an act, and acts go wrong.

A process is what `kill -9` ends at once: a worker, a scheduler, or both.  On a WAL file each has its own connection; in
memory all share one.  An act dies at a named point of the store, or its commit does not go through; between somebody's
look and his act others may act (`interlude`).
"""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from longtask.core.errors import StoreBusy, WorkspaceError
from longtask.core.model import Json, JsonMap, Task
from longtask.core.policy import BEAT_MS
from longtask.engine.attempt import run_here
from longtask.engine.desk import Desk
from longtask.engine.dispatch import Dispatch
from longtask.engine.hands import Hands
from longtask.engine.merging import MergeResult, follow
from longtask.engine.records import TaskRecords
from longtask.engine.scheduler import Scheduler
from longtask.engine.scope import Scopes
from longtask.engine.worker import Worker
from longtask.store.postgres.store import PostgresStore
from longtask.store.sqlite import SqliteStore
from tests import postgres

from .actors import Language, Places, ScriptHandle, executors
from .checks import Onlooker
from .faults import BUSY_POINTS, POINTS, SLOWLY, Crash, Glances, aged
from .people import People
from .plans import Odds
from .repo import Repo

START = 1_750_000_000_000
LINES_MAX = 40
TEMPORARY = Path("/dev/shm")
SQLITE, POSTGRESQL = "sqlite", "postgresql"  # databases


@dataclass(slots=True)
class Process:
    name: str
    works: bool
    schedules: bool
    pools: tuple[str, ...]
    slots: int
    lives: int = 0  # how often it was started
    store: Any = None
    worker: Worker | None = None
    scheduler: Scheduler | None = None
    beat_at: int = 0
    frozen_until: int = 0
    back_at: int = 0  # dead until
    threads: list[Callable[[], None]] = field(default_factory=list)  # what its threads have still to do
    handles: list[ScriptHandle] = field(default_factory=list)

    @property
    def up(self) -> bool:
        return self.worker is not None or self.scheduler is not None


class Hosting:
    """All but what happens in a round, which is the world's."""

    def __init__(self, seed: int, odds: Odds | None = None, *, verbose: bool = False, database: str = SQLITE) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.odds = odds or Odds()
        self.verbose = verbose
        self.lines: deque[str] = deque(maxlen=LINES_MAX)
        self.now = START
        self.calm = False
        self.repo = Repo()
        self.folder: str | None = None
        self.batch = self.one(self.odds.batches)
        self.path = postgres.empty_url() if database == POSTGRESQL else ":memory:" if seed % 4 else self._file()
        self.stack: list[Process | None] = []
        self.armed: tuple[type[BaseException], str, int] | None = None
        self.past: dict[tuple[Any, ...], list[list[Any]]] = {}
        self.ids = 0
        self.artifacts: dict[str, Json] = {}
        self.store = self._open(None)
        self.onlooker = Onlooker(self.repo, lambda: self.store, self._alive, self.artifacts)
        self.language = Language(self)
        self.places = Places(self)
        scopes = self._scopes(self.store)
        desk = Desk(self.store, scopes, self.language, self._new_id)
        self.people = People(self, desk, Hands(self.store, scopes, self.language, self._put_json))
        self.tasks: list[str] = []
        self.pending: list[tuple[Any, dict[str, Any]]] = []  # plans to be submitted
        self.processes = self._processes()

    def _file(self) -> str:
        self.folder = tempfile.mkdtemp(prefix="longtask-sim-", dir=TEMPORARY if TEMPORARY.is_dir() else None)
        return str(Path(self.folder) / "tasks.db")

    def close(self) -> None:
        self.store.close()
        for process in self.processes:
            if process.store is not None:
                process.store.real.close()
        if self.folder is not None:
            shutil.rmtree(self.folder)
        if "://" in self.path:
            postgres.give_back(self.path)

    # --- chance ---------------------------------------------------------------------------------------------------

    def often(self, percent: float) -> bool:
        return self.chance.random() * 100 < percent

    def one(self, options: Sequence[Any]) -> Any:
        return options[self.chance.randrange(len(options))]

    def fails(self) -> bool:
        return not self.calm and self.often(2)

    # --- processes ------------------------------------------------------------------------------------------------

    def _open(self, process: Process | None) -> SqliteStore | PostgresStore:
        if self.path == ":memory:" and process is not None:
            return self.store
        if "://" in self.path:
            return PostgresStore(self.path, lambda: self.now, fault=self._fault)
        return SqliteStore(self.path, lambda: self.now, fault=self._fault)

    def _scopes(self, store: Any) -> Scopes:
        return Scopes(store, lambda workspace_id, digest: self.artifacts[digest])

    def _new_id(self) -> str:
        self.ids += 1
        return f"0190{self.ids:028d}"

    def _put_json(self, workspace_id: str, value: Json) -> str:
        digest = f"sha{len(self.artifacts)}"
        self.artifacts[digest] = value
        return digest

    def _put(self, workspace_id: str, body: bytes, media_type: str) -> JsonMap:
        return {"digest": f"sha{len(body)}", "size_bytes": len(body)}

    def _processes(self) -> list[Process]:
        out = []
        for n in range(self.chance.randint(self.odds.workers_min, self.odds.workers_max)):
            pools = ("default", "gpu") if n == 0 else self.one((("default",), ("default", "gpu")))
            out.append(Process(f"w{n}", True, self.often(25), pools, self.chance.randint(1, 3)))
        for n in range(self.chance.randint(0 if any(p.schedules for p in out) else 1, 2)):
            out.append(Process(f"s{n}", False, True, (), 0))
        for process in out:
            self.start(process)
        return out

    def start(self, process: Process) -> None:
        process.lives += 1
        process.store = store = Glances(self._open(process), self._glance)
        scopes = self._scopes(store)
        typed: Any = store
        if process.works:
            dispatch = Dispatch(
                typed,
                scopes,
                self.language,
                self._put_json,
                put_artifact=self._put,
                read_artifact=lambda workspace_id, digest: b"",
            )
            process.worker = Worker(
                dispatch,
                executors(self, TaskRecords(typed, scopes), self.language),
                id=f"{process.name}.{process.lives}",
                slots=process.slots,
                pools=process.pools,
                places=self.places,
                spawn=lambda act, *args: self._spawn(process, act, *args),
                follow=lambda task: self._follow_later(process, task),
            )
            process.beat_at = self.now + self.chance.randint(1, BEAT_MS)
        if process.schedules:
            process.scheduler = Scheduler(typed, scopes, self.language, self)

    def _spawn(self, process: Process, act: Callable[..., Any], *args: Any) -> Future[Any]:
        if not self.often(self.odds.later):
            return run_here(act, *args)
        future: Future[Any] = Future()

        def late() -> None:
            done = run_here(act, *args)
            error = done.exception()
            future.set_exception(error) if error else future.set_result(done.result())

        process.threads.append(late)
        return future

    def _follow_later(self, process: Process, task: Task) -> None:
        self._spawn(process, follow, self, task)

    def hold(self, handle: ScriptHandle) -> None:
        process = self.stack[-1]
        assert process is not None
        process.handles = [h for h in process.handles if h.alive] + [handle]

    def _alive(self, this: tuple[str, str, int]) -> bool:
        return any(h.alive and h.key == this for p in self.processes for h in p.handles)

    def die(self, process: Process) -> None:
        self.tell(f"{process.name} dies")
        self.suspect(process)
        for handle in process.handles:
            handle.vanish()
        process.handles, process.threads = [], []
        process.worker = process.scheduler = None
        process.frozen_until = 0
        process.back_at = self.now + self.one((0, 500, 5_000, 20_000))
        if self.path != ":memory:" and process.store is not None:
            process.store.real.close()
        process.store = None

    def suspect(self, process: Process | None) -> None:
        if process is not None and process.worker is not None:
            self.onlooker.suspects.add(process.worker.id)

    # --- acts and what goes wrong in them ---------------------------------------------------------------------------

    def act(self, process: Process | None, what: str, call: Callable[[], Any]) -> Any:
        """What one process (None: a caller) does between two looks at the world; None if it died or was put off."""
        armed, self.armed = self.armed, self._arm()
        self.stack.append(process)
        try:
            return call()
        except Crash as crash:
            self.tell(f"{process.name if process else 'caller'} is killed at {crash} while it does: {what}")
            if process is not None:
                self.die(process)
        except StoreBusy:
            self.tell(f"store busy: {process.name if process else 'caller'}: {what}")
            if "beat" in what:
                self.suspect(process)
        finally:
            self.stack.pop()
            self.armed = armed
        return None

    def _arm(self) -> tuple[type[BaseException], str, int] | None:
        if self.calm:
            return None
        if self.often(self.odds.crash):
            return Crash, self.one(POINTS), self.one((1, 1, 2, 4))
        if self.often(self.odds.busy):
            return StoreBusy, self.one(BUSY_POINTS), self.one((1, 1, 2))
        return None

    def _fault(self, point: str) -> None:
        if self.armed is None or self.armed[1] != point:
            return
        error, _, left = self.armed
        self.armed = (error, point, left - 1) if left > 1 else None
        if left == 1:
            raise error(point)

    def _glance(self, name: str, args: tuple[Any, ...], fresh: list[Any]) -> list[Any]:
        if name in SLOWLY:
            if fresh:
                self.interlude(self.odds.race, people_first=True)
            return fresh
        if self.calm or not self.odds.stale:
            return fresh
        past = self.past.setdefault((name, args[0] if name == "claimable" else ""), [])
        seen = aged(self.chance, fresh, past) if self.often(self.odds.stale) else fresh
        if fresh and self.often(30):
            past.append(fresh)
        self.interlude()
        return seen

    def interlude(self, percent: float | None = None, long: bool = False, people_first: bool = False) -> None:
        """Between somebody's look and his act, others act; sometimes for so long that his lease ends."""
        if self.calm or len(self.stack) != 1 or not self.often(self.odds.interlude if percent is None else percent):
            return
        me = self.stack[0]
        here = self.store.here if me is None else me.store.real.here
        if here.group or here.block or here.begun:
            return
        others = [p for p in self.processes if p is not me]
        rounds, ms = (10, 3_000) if long else self.one(((1, 0), (2, 20), (4, 500), (8, 3_000)))
        self.tell(f"meanwhile, {rounds} rounds")
        if ms > 500:
            self.suspect(me)
        if people_first and self.tasks:
            self.people.something()
        for _ in range(rounds):
            for process in others:
                self.turn(process)
            self.now += ms
        if self.tasks and self.often(30):
            self.people.something()
        self.tell("back")

    def tell(self, line: str) -> None:
        text = f"{self.now - START:>9} {'  ' * max(len(self.stack) - 1, 0)}{line}"
        self.lines.append(text)
        if self.verbose:
            print(text)

    # --- `Merger` -------------------------------------------------------------------------------------------------

    def merge(self, workspace_id: str, head: str, commit: str, message: str) -> MergeResult:
        if self.fails():
            raise WorkspaceError("the hub is locked")
        result = self.repo.merge(workspace_id, head, commit, message)
        self.interlude(self.odds.race)
        return result

    def follow(self, task: Task) -> None:
        self.onlooker.followed(task.id, task.head)
        if self.fails():
            raise WorkspaceError("the hub is locked")
        self.interlude()
        self.repo.follow(task)

    def turn(self, process: Process) -> int:
        """What one process does in a round; how much it moved."""
        raise NotImplementedError
