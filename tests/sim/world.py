"""One world, played in two phases.

Safety: random turns of workers, schedulers and people, with faults; the onlooker audits every few rounds.  Liveness:
faults off, whatever is asked is answered, and every task must end within a bounded number of rounds.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from longtask.core import graph as graphs
from longtask.core import machine, policy
from longtask.core.policy import BEAT_MS
from longtask.engine import desk, dispatch, family, records, scheduler, settling, submitting, waking, writing

from .faults import Found
from .hosting import SQLITE, START, Hosting, Process
from .plans import Odds, Planner

STEP_MAX_MS = 4_000  # a scheduler that ticks less often takes it that its machine was asleep
AUDIT_EVERY = 8  # rounds
ROUNDS_MAX = 1_500  # of the second phase
PATIENT_ROUNDS = 60  # of the second phase: after these, questions are answered by what ends them
RECONCILE_MS = 61_000


class World(Hosting):
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
            process = self.one([p for p in up if p.worker and p.worker.running] or up)
            process.frozen_until = self.now + self.chance.randint(1_000, 60_000)
            self.suspect(process)
            self.tell(f"{process.name} freezes until {process.frozen_until - START}")
        if self.often(odds.suspend):
            self.now += self.chance.randint(6_000, 8_000_000)
            self.tell("the machine was asleep")
        workers = [p for p in self.processes if p.worker is not None]
        if workers and self.often(odds.drain):
            process = self.one(workers)
            assert process.worker is not None
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
        for rounds in range(self.odds.rounds):
            if self.pending and (rounds == 0 or self.often(30)):
                self._submit()
            self._trouble()
            moved = self._everybody()
            self.meet_children()
            if self.tasks and self.often(self.odds.people):
                self.people.something()
            self._pass(moved)
            if rounds % AUDIT_EVERY == 0:
                self.audit()

    def audit(self) -> None:
        self.meet_children()
        for task_id in self.tasks:
            self.onlooker.audit(task_id, self.now)
            self.people.forks.audit(self.store, self.repo, task_id)
        self.onlooker.audit_families()
        if self.odds.active:
            looks = [p.scheduler._activity.told_at for p in self.processes if p.scheduler is not None]
            self.onlooker.audit_active(max(looks, default=0))

    def meet_children(self) -> None:
        """Tasks that were made for steps are tasks like others: people act on them, and they must end."""
        if not self.odds.task:
            return
        found = self.store.tasks(open_only=False, workspace_id=None, before=0, limit=1_000)
        self.tasks += [task.id for task in reversed(found) if task.parent and task.id not in self.tasks]

    def _liveness(self) -> None:
        self.tell("calm: no more faults")
        self.calm = True
        for process in self.processes:
            process.frozen_until = process.back_at = 0
        while self.pending:
            self._submit()
        self.people.forks.finish()
        for rounds in range(ROUNDS_MAX):
            moved = self._everybody()
            self.meet_children()
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
    modules = (graphs, settling, submitting, desk, dispatch, records, scheduler, waking, writing)
    before = [module.BATCH_MAX for module in modules]
    children_max, family.CHILDREN_MAX = family.CHILDREN_MAX, min(size, family.CHILDREN_MAX)
    stops_max = policy.STOPS_MAX
    machine.STOPS_MAX = writing.STOPS_MAX = size  # type: ignore[attr-defined]
    for module in modules:
        module.BATCH_MAX = size  # type: ignore[attr-defined]
    try:
        yield
    finally:
        family.CHILDREN_MAX = children_max
        machine.STOPS_MAX = writing.STOPS_MAX = stops_max  # type: ignore[attr-defined]
        for module, old in zip(modules, before, strict=True):
            module.BATCH_MAX = old  # type: ignore[attr-defined]


def play(seed: int, odds: Odds | None = None, *, verbose: bool = False, database: str = SQLITE) -> str | None:
    """What went wrong, ready to be printed; None if nothing did."""
    world = World(seed, odds, verbose=verbose, database=database)
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
    other = "" if database == SQLITE else f" DATABASE={database}"
    other += f" SPAWN={odds.spawn:g}" if odds is not None and odds.spawn else ""
    other += f" TASK={odds.task:g}" if odds is not None and odds.task else ""
    other += f" ACTIVE={odds.active:g}" if odds is not None and odds.active else ""
    other += f" HANDS={odds.hands:g}" if odds is not None and odds.hands else ""
    other += f" FORKS={odds.forks:g}" if odds is not None and odds.forks else ""
    return f"make sim SEED={seed}{other}: {wrong}\n  last events:\n    {lines}"


def trace(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    where = " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames))
    return f"[{type(error).__name__}] {error} ({where})"
