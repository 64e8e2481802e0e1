"""One world: processes on one store, virtual time, and two phases.

Safety: random turns of workers, schedulers and people, with faults; the onlooker audits every few rounds.  Liveness:
faults off, whatever is asked is answered, and every task must end within a bounded number of rounds.

A process (`Process`) is what `kill -9` ends at once: a worker, a scheduler, or both.  On a WAL file each has its own
connection; in memory all share one.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from longtask.core.errors import StoreBusy
from longtask.core.model import Json, JsonMap
from longtask.core.policy import BEAT_MS
from longtask.engine import desk, records, settling
from longtask.engine.attempt import run_here
from longtask.engine.desk import Desk
from longtask.engine.dispatch import Dispatch
from longtask.engine.records import TaskRecords
from longtask.engine.scheduler import Scheduler
from longtask.engine.scope import Scopes
from longtask.engine.worker import Worker
from longtask.store.sqlite import SqliteStore

from .actors import Language, Places, ScriptHandle, executors
from .checks import Onlooker
from .faults import BUSY_POINTS, POINTS, Crash, Found, Glances, aged
from .people import People
from .plans import Odds, Planner
from .repo import Repo

START = 1_750_000_000_000
STEP_MAX_MS = 4_000  # a scheduler that ticks less often takes it that its machine was asleep
AUDIT_EVERY = 8  # rounds
ROUNDS_MAX = 1_500  # of the second phase
PATIENT_ROUNDS = 60  # of the second phase: after these, questions are answered by what ends them
LINES_MAX = 40
TEMPORARY = Path("/dev/shm")
RECONCILE_MS = 61_000


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


class World:
    def __init__(self, seed: int, odds: Odds | None = None, *, verbose: bool = False) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.odds = odds or Odds()
        self.verbose = verbose
        self.lines: deque[str] = deque(maxlen=LINES_MAX)
        self.now = START
        self.calm = False
        self.round = 0
        self.repo = Repo()
        self.folder: str | None = None
        self.batch = self.one(self.odds.batches)
        self.path = ":memory:" if seed % 4 else self._file()
        self.stack: list[Process | None] = []
        self.armed: tuple[type[BaseException], str, int] | None = None
        self.past: dict[tuple[Any, ...], list[list[Any]]] = {}
        self.ids = 0
        self.artifacts: dict[str, Json] = {}
        self.store = self._open(None)
        self.onlooker = Onlooker(self.repo, lambda: self.store, self._alive)
        self.language = Language(self)
        self.places = Places(self)
        self.people = People(self, Desk(self.store, self._scopes(self.store), self.language, self._new_id))
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

    # --- chance ---------------------------------------------------------------------------------------------------

    def often(self, percent: float) -> bool:
        return self.chance.random() * 100 < percent

    def one(self, options: Sequence[Any]) -> Any:
        return options[self.chance.randrange(len(options))]

    def fails(self) -> bool:
        return not self.calm and self.often(1)

    # --- processes ------------------------------------------------------------------------------------------------

    def _open(self, process: Process | None) -> SqliteStore:
        if self.path == ":memory:" and process is not None:
            return self.store
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
        for n in range(self.chance.randint(1, self.odds.workers_max)):
            pools = ("default", "gpu") if n == 0 else self.one((("default",), ("default", "gpu")))
            out.append(Process(f"w{n}", True, self.often(25), pools, self.chance.randint(1, 3)))
        for n in range(self.chance.randint(0 if any(p.schedules for p in out) else 1, 2)):
            out.append(Process(f"s{n}", False, True, (), 0))
        for process in out:
            self.start(process)
        return out

    def start(self, process: Process) -> None:
        process.lives += 1
        process.store = store = Glances(self._open(process), self._glance)  # type: ignore[arg-type]
        scopes = self._scopes(store)
        typed: Any = store
        if process.works:
            dispatch = Dispatch(typed, scopes, self.language, self._put_json)
            process.worker = Worker(
                typed,
                dispatch,
                executors(self, TaskRecords(typed, scopes), self.language),
                id=f"{process.name}.{process.lives}",
                slots=process.slots,
                pools=process.pools,
                places=self.places,
                put_artifact=self._put,
                read_artifact=lambda workspace_id, digest: b"",
                spawn=lambda act, *args: self._spawn(process, act, *args),
                follow=self.follow,
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
        if self.calm or not self.odds.stale:
            return fresh
        past = self.past.setdefault((name, args[0] if name == "claimable" else ""), [])
        seen = aged(self.chance, fresh, past) if self.often(self.odds.stale) else fresh
        if fresh and self.often(30):
            past.append(fresh)
        self.interlude()
        return seen

    def interlude(self, percent: float | None = None) -> None:
        """Between somebody's look and his act, others act; sometimes for so long that his lease ends."""
        if self.calm or len(self.stack) != 1 or not self.often(self.odds.interlude if percent is None else percent):
            return
        me = self.stack[0]
        here = (me.store if me is not None else self.store).real.here if me is not None else self.store.here
        if here.group or here.block or here.begun:
            return
        others = [p for p in self.processes if p is not me]
        rounds, ms = self.one(((1, 0), (2, 20), (4, 500), (8, 3_000)))
        self.tell(f"meanwhile, {rounds} rounds")
        if ms > 500:
            self.suspect(me)
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

    def merge(self, workspace_id: str, head: str, commit: str, message: str) -> Any:
        result = self.repo.merge(workspace_id, head, commit, message)
        self.interlude(self.odds.race)
        return result

    def follow(self, task: Any) -> None:
        self.interlude()
        self.repo.follow(task)

    # --- rounds ---------------------------------------------------------------------------------------------------

    def turn(self, process: Process) -> int:
        """What one process does in a round."""
        if not process.up:
            if self.now < process.back_at:
                return 0
            self.start(process)
        if self.now < process.frozen_until:
            return 0
        moved = 0
        if process.threads and self.often(60):
            threads, process.threads = process.threads, []
            for late in threads:
                if process.up:
                    self.act(process, "thread", late)
                    moved += 1
        turns = [self._work, self._beat]  # two threads: either may come first
        for act in turns if self.often(50) else reversed(turns):
            moved += act(process)
        if process.worker is not None and process.worker.draining and not process.worker.running:
            self.die(process)
        if process.scheduler is not None:
            moved += self.act(process, "schedule", process.scheduler.tick) or 0
        if moved:
            self.tell(f"{process.name} moves {moved}")
        return moved

    def _work(self, process: Process) -> int:
        if process.worker is None:
            return 0
        return self.act(process, "work", process.worker.tick) or 0

    def _beat(self, process: Process) -> int:
        worker = process.worker
        if worker is None or self.now < process.beat_at:
            return 0
        process.beat_at = self.now + BEAT_MS

        def beat() -> None:
            worker.beat()
            for attempt in worker.running:
                if not attempt.lost and attempt.outcome is None:
                    self.onlooker.holds(attempt.ref, attempt.number)

        self.act(process, "beat", beat)
        return 0

    def _everybody(self) -> int:
        order = list(self.processes)
        self.chance.shuffle(order)
        moved = 0
        for process in order:
            if self.calm or self.often(85):
                moved += self.turn(process)
        return moved

    def _pass(self, moved: int) -> None:
        """Time goes on: a little while things move, else to the next instant at which something is due."""
        if moved:
            self.now += self.one((0, 1, 5, 20, 200))
            return
        at = self.store.next_due_at() or self.now + 60_000
        working = False
        for process in self.processes:
            if process.worker is not None and process.worker.running:
                at, working = min(at, process.beat_at), True
                at = min([at, *(h.until for h in process.handles if h.alive and h.until > self.now)])
                at = min([at, *(h.stop_at for h in process.handles if h.alive and h.stop_at)])
            if process.frozen_until > self.now or not process.up:
                at, working = min(at, max(process.frozen_until, process.back_at)), True
            if process.threads:
                at = self.now
        limit = STEP_MAX_MS if working or self.often(50) else 600_000
        self.now = max(self.now + 1, min(at, self.now + limit))

    def _trouble(self) -> None:
        odds = self.odds
        workers = [p for p in self.processes if p.worker is not None]
        if workers and self.often(odds.kill):
            self.die(self.one([p for p in workers if p.worker and p.worker.running] or workers))
        up = [p for p in self.processes if p.up and p.frozen_until <= self.now]
        if up and self.often(odds.freeze):
            process = self.one(up)
            process.frozen_until = self.now + self.chance.randint(1_000, 60_000)
            self.suspect(process)
            self.tell(f"{process.name} freezes until {process.frozen_until - START}")
        if self.often(odds.suspend):
            self.now += self.chance.randint(6_000, 8_000_000)
            self.tell("the machine was asleep")
        workers = [p for p in self.processes if p.worker is not None]
        if workers and self.often(odds.drain):
            process = self.one(workers)
            self.tell(f"{process.name} drains")
            process.worker.drain()

    def _submit(self) -> None:
        if not self.pending:
            return
        graph, more = self.pending[0]

        def call() -> None:
            task = self.people.desk.submit(graph, by="ann", **more)
            again = self.people.desk.submit(graph, by="ann", **more) if self.often(20) else task
            if again.id != task.id:
                raise Found("submit", f"key {more['idempotency_key']!r} gave two tasks")
            self.pending.pop(0)

        self.act(None, f"submit {graph.name}", call)
        there = self.store.task_by_key(more["idempotency_key"])  # perhaps in part: it is loading
        if there is not None and there.id not in self.tasks:
            self.tasks.append(there.id)

    def _plans(self) -> None:
        planner = Planner(self.chance, self.odds, self.batch)
        for n in range(self.chance.randint(1, self.odds.tasks_max)):
            graph = planner.graph(f"t{n}", ("default", "default", "gpu"))
            more: dict[str, Any] = {"idempotency_key": f"k{n}"}
            if graph.options.workspace is not None:
                more |= {"workspace_id": "ws", "base": self.repo.commit((), ())}
            self.pending.append((graph, more))

    # --- two phases -----------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Raises Found."""
        with small_batches(self.batch):
            self._plans()
            self._safety()
            self._liveness()

    def _safety(self) -> None:
        for self.round in range(1, self.odds.rounds + 1):
            if self.pending and (self.round == 1 or self.often(30)):
                self._submit()
            self._trouble()
            moved = self._everybody()
            if self.tasks and self.often(self.odds.people):
                self.people.something()
            self._pass(moved)
            if self.round % AUDIT_EVERY == 0:
                self.audit()

    def audit(self) -> None:
        for task_id in self.tasks:
            self.onlooker.audit(task_id, self.now)

    def _liveness(self) -> None:
        self.tell("calm: no more faults")
        self.calm = True
        for process in self.processes:
            process.frozen_until = process.back_at = 0
        while self.pending:
            self._submit()
        for rounds in range(ROUNDS_MAX):
            moved = self._everybody()
            if all(self.store.get_task(task_id).ended for task_id in self.tasks):
                return self._end()
            if not moved:
                self.people.help(rounds < PATIENT_ROUNDS)
            self._pass(moved)
            if rounds % (4 * AUDIT_EVERY) == 0:
                self.audit()
        open_tasks = [task.name for task in map(self.store.get_task, self.tasks) if not task.ended]
        raise Found("liveness", f"tasks {open_tasks} have not ended after {ROUNDS_MAX} rounds without faults")

    def _end(self) -> None:
        self.audit()
        for _ in range(2):  # branches follow heads, if only after a while
            for process in self.processes:
                if process.scheduler is not None:
                    process.scheduler.tick()
            self.now += RECONCILE_MS
        for task_id in self.tasks:
            self.onlooker.ended(task_id)
        for problem in self.store.verify():
            raise Found("database", problem)


@contextmanager
def small_batches(size: int) -> Iterator[None]:
    """Batches so small that telling takes several passes."""
    modules = (settling, desk, records)
    before = [module.BATCH_MAX for module in modules]
    for module in modules:
        module.BATCH_MAX = size  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module, old in zip(modules, before, strict=True):
            module.BATCH_MAX = old  # type: ignore[attr-defined]


def play(seed: int, odds: Odds | None = None, *, verbose: bool = False) -> str | None:
    """What went wrong, ready to be printed; None if nothing did."""
    world = World(seed, odds, verbose=verbose)
    try:
        world.play()
        return None
    except Found as found:
        wrong = str(found)
    except Exception as error:  # noqa: BLE001  whatever the engine raises where it should not is a finding
        wrong = trace(error)
    finally:
        world.close()
    lines = "\n    ".join(world.lines)
    return f"make sim SEED={seed}: {wrong}\n  last events:\n    {lines}"


def trace(error: Exception) -> str:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)[-4:]
    where = " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames))
    return f"[{type(error).__name__}] {error} ({where})"
