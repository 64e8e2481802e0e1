"""A whole engine in one thread on virtual time: real store, desk, dispatch, scheduler and worker.

    world.submit(step("a"), step("b", needs=["a"]), acts={"a": [Failed("no"), Done()]})
    world.run()
    assert world.state("b") == "completed"

Fakes: the clock, ids, what a step's program does (`acts`, one for each attempt, the last one again and again), and git,
which is a set of commits (`tests.sim.repo`).  Waits, approvals and lists have their real executors.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from longtask.boot import Language
from longtask.core.codec import form
from longtask.core.events import Event, Fact
from longtask.core.graph import Graph, Planned
from longtask.core.machine import status
from longtask.core.model import Done, Json, Kind, Outcome, Role, Step, StepSpec, Stopped, Task, TaskOptions
from longtask.engine.desk import Desk
from longtask.engine.dispatch import Dispatch
from longtask.engine.hands import Hands
from longtask.engine.records import TaskRecords
from longtask.engine.scheduler import Scheduler
from longtask.engine.scope import Scopes
from longtask.engine.worker import Worker
from longtask.steps.approval import ApprovalExecutor
from longtask.steps.contract import Assignment, Ended, Handle
from longtask.steps.contract import Desk as Line
from longtask.steps.for_each import ForEachExecutor
from longtask.steps.task import TaskExecutor
from longtask.steps.wait import WaitExecutor
from longtask.store.contract import Ref
from longtask.store.sqlite import SqliteStore
from tests.engine.audit import family_violations, journal, violations
from tests.sim.repo import Repo

START = 1_750_000_000_000
LEASE_MS = 15_000
HOP_MS = 1_000  # a scheduler that ticks this often is awake
ROUNDS_MAX = 100_000
HANG = "hang"  # runs until it is stopped

F = TypeVar("F")
Act = Outcome | str | Callable[[Assignment], Outcome]
ROW = ("weight", "run_when", "when_failed", "pool")
OWNED = ("fix", "revise", "item", "conflict")


@dataclass(frozen=True, slots=True)
class Work:
    """A spec whose fix, revise, item and conflict are specs, not yet numbers."""

    spec: StepSpec
    owned: Mapping[str, Work]

    def numbered(self, specs: list[StepSpec]) -> int:
        numbers: dict[str, Any] = {name: work.numbered(specs) for name, work in self.owned.items()}
        made = replace(self.spec, **numbers)
        if made not in specs:
            specs.append(made)
        return specs.index(made)


def work(kind: Kind = Kind.RUN, **words: Any) -> Work:
    """`if_` is the condition; what is no field of a spec goes into its body."""
    owned = {name: words.pop(name) for name in OWNED if name in words}
    if "if_" in words:
        words["condition"] = words.pop("if_")
    fields = {name: words.pop(name) for name in list(words) if name in StepSpec.__slots__}
    return Work(StepSpec(kind, words, **fields), owned)


def step(key: str, stage: int = 1, needs: Sequence[str] | None = None, **words: Any) -> tuple[Planned, Work]:
    row = {name: words.pop(name) for name in ROW if name in words}
    made = work(**words)
    named = None if needs is None else tuple(needs)
    return Planned(key, made.spec.kind, stage, 0, named, conditional=made.spec.condition is not None, **row), made


def approval(key: str, stage: int = 1, needs: Sequence[str] | None = None, **words: Any) -> tuple[Planned, Work]:
    return step(key, stage, needs, kind=Kind.APPROVAL, ask="may I?", **words)


def wait(key: str, stage: int = 1, needs: Sequence[str] | None = None, **words: Any) -> tuple[Planned, Work]:
    """`within_ms`: its deadline, which the plan calls `timeout`."""
    row, made = step(key, stage, needs, kind=Kind.WAIT, **words)
    if "within_ms" in words:
        made = replace(made, spec=replace(made.spec, body={**made.spec.body, "timeout_ms": words["within_ms"]}))
    return row, made


def graph_of(
    *steps: tuple[Planned, Work],
    name: str = "t",
    stages: int | None = None,
    parallel: int = 100,
    priority: int = 0,
    **options: Any,
) -> Graph:
    specs: list[StepSpec] = []
    numbered = tuple(replace(row, spec=made.numbered(specs)) for row, made in steps)
    last = max([stages or 1, *(row.stage for row in numbered)])
    chosen = TaskOptions(stages=tuple(f"s{n}" for n in range(1, last + 1)), **options)
    return Graph(name, chosen, tuple(specs), numbered, parallel, priority)


def subtask(graph: Graph, **words: Any) -> dict[str, Any]:
    """Words of a step, or of an item, whose work is a task of its own."""
    return {"kind": Kind.TASK, "graph": form(Graph).dump(graph), **words}


def for_each(key: str, items: Json, stage: int = 1, needs: Sequence[str] | None = None, **words: Any) -> Any:
    words.setdefault("item", work())
    return step(key, stage, needs, kind=Kind.FOR_EACH, items=items, **words)


class Acting:
    """The program of an attempt that goes on until it is stopped; `stubborn`: it takes the whole grace."""

    def __init__(self, world: World, assignment: Assignment) -> None:
        self.world, self.assignment = world, assignment
        self.dead_at: int | None = None
        self.answer: Outcome = Stopped()

    def poll(self) -> Outcome | None:
        return self.answer if self.dead_at is not None and self.world.now >= self.dead_at else None

    def stop(self, reason: str, grace_ms: int) -> None:
        at = self.world.now + (grace_ms if self.assignment.spec.body.get("stubborn") else 0)
        self.dead_at = at if self.dead_at is None else min(at, self.dead_at)  # a later call can shorten it

    def kill(self) -> None:
        self.dead_at = self.world.now

    def end(self, outcome: Outcome) -> None:
        """It ends by itself, now."""
        self.dead_at, self.answer = self.world.now, outcome


class World:
    def __init__(
        self,
        path: str | Path = ":memory:",
        *,
        slots: int = 4,
        trace: Callable[[str, Any], None] | None = None,
        fault: Callable[[str], None] | None = None,
        opens: Callable[..., Any] = SqliteStore,
    ) -> None:
        """`opens`: of which database; `path` is its address."""
        self.now = START
        self.code = Repo()
        self.artifacts: dict[str, Json] = {}
        self.acts: dict[str, list[Act]] = {}
        self.begun: list[Assignment] = []
        self.hanging: dict[tuple[str, int], Acting] = {}
        self.lines: dict[tuple[str, int], Line] = {}  # by step and attempt
        self.slots = slots
        self._ids = itertools.count(1)
        self.store = opens(path, lambda: self.now, trace=trace, fault=fault)
        self.scopes = Scopes(self.store, lambda workspace_id, digest: self.artifacts[digest])
        self.records = TaskRecords(self.store, self.scopes)
        self.language = Language()
        self.desk = Desk(self.store, self.scopes, self.language, lambda: f"0190{next(self._ids):028d}")
        self.dispatch = self.new_dispatch()
        self.scheduler = self.new_scheduler()
        self.worker: Worker | None = self.new_worker("w1")
        self.tasks: list[str] = []

    # --- parts ----------------------------------------------------------------------------------------------------

    def _put_json(self, workspace_id: str, value: Json) -> str:
        digest = f"digest{len(self.artifacts)}"
        self.artifacts[digest] = json.loads(json.dumps(value))
        return digest

    def new_dispatch(self) -> Dispatch:
        return Dispatch(
            self.store,
            self.scopes,
            self.language,
            self._put_json,
            put_artifact=lambda w, body, kind: {"digest": self._put_json(w, body.decode()), "size_bytes": len(body)},
            read_artifact=lambda w, digest: b"",
            lease_ms=LEASE_MS,
        )

    def hands(self) -> Hands:
        return Hands(self.store, self.scopes, self.language, self._put_json)

    def new_scheduler(self) -> Scheduler:
        return Scheduler(self.store, self.scopes, self.language, self.code, lease_ms=LEASE_MS)

    def new_worker(self, name: str, slots: int | None = None, pools: Sequence[str] = ("default",)) -> Worker:
        kinds: dict[Kind, Any] = dict.fromkeys((Kind.RUN, Kind.FUNCTION, Kind.AGENT), self)
        real: dict[Kind, Any] = {
            Kind.APPROVAL: ApprovalExecutor(self.language.render, self.records, lambda w, b, h: {"files": 0}),
            Kind.WAIT: WaitExecutor(self.language.render),
            Kind.FOR_EACH: ForEachExecutor(self.language.expand, self.records),
            Kind.TASK: TaskExecutor(self.language.render, self.records),
        }
        return Worker(
            self.new_dispatch(),
            {**kinds, **real},
            id=name,
            slots=self.slots if slots is None else slots,
            pools=pools,
        )

    def start(self, assignment: Assignment, desk: Line, place: Path | None) -> Handle:
        """The executor of what works."""
        self.begun.append(assignment)
        self.lines[assignment.step, assignment.attempt] = desk
        named = [acts for pattern, acts in self.acts.items() if fnmatchcase(assignment.step, pattern)]
        exact = self.acts.get(assignment.step)
        acts = exact or (named[0] if named else [self.joined if assignment.conflict else Done()])
        act = acts[min(assignment.attempt, len(acts)) - 1]
        if callable(act):
            act = act(assignment)
        if isinstance(act, str):
            handle = Acting(self, assignment)
            self.hanging[assignment.step, assignment.attempt] = handle
            return handle
        return Ended(act)

    # --- code -----------------------------------------------------------------------------------------------------

    def commit(self, *files: str) -> Callable[[Assignment], Outcome]:
        """An act: Done with a commit on the attempt's base."""
        return lambda a: Done(commit=self.code.commit((a.base or "",), files))

    def joined(self, a: Assignment) -> Outcome:
        """What a conflict step does: a commit that contains both sides."""
        assert a.conflict is not None
        return Done(commit=self.code.commit((a.base or "", a.conflict["commit"]), ()))

    # --- callers --------------------------------------------------------------------------------------------------

    def submit(
        self,
        *steps: tuple[Planned, Work],
        acts: Mapping[str, Any] | None = None,
        stages: int | None = None,
        parallel: int = 100,
        priority: int = 0,
        key: str | None = None,
        name: str = "t",
        code: bool = False,
        **options: Any,
    ) -> Task:
        """`code`: the task has a workspace, at a first commit."""
        graph = graph_of(*steps, name=name, stages=stages, parallel=parallel, priority=priority, **options)
        self.acts |= {pattern: list(some) for pattern, some in (acts or {}).items()}
        more: dict[str, Any] = {"workspace_id": "ws", "base": self.code.commit((), ())} if code else {}
        task = self.desk.submit(graph, by="ann", idempotency_key=key, **more)
        if task.id not in self.tasks:
            self.tasks.append(task.id)
        return task

    def ref(self, key: str, task: int = -1) -> Ref:
        return Ref(self.tasks[task], key)

    def answer(self, key: str, word: str, **more: Any) -> Step:
        return self.desk.answer(self.ref(key), word, more.pop("by", "ann"), **more)

    def signal(self, name: str = "go", payload: Mapping[str, Any] | None = None, delivery: str | None = None) -> Any:
        return self.desk.signal(self.tasks[-1], name, payload or {}, delivery=delivery)

    # --- looking --------------------------------------------------------------------------------------------------

    def children(self, task: int = 0) -> list[Task]:
        """Those that have been made, in their order; from now on they are audited too."""
        found = self.store.children(self.tasks[task], 1_000)
        self.tasks += [child.id for child in found if child.id not in self.tasks]
        return found

    @property
    def task(self) -> Task:
        """The newest."""
        return self.store.get_task(self.tasks[-1])

    @property
    def status(self) -> str:
        return status(self.task)

    def row(self, key: str) -> Step:
        return self.store.get_step(self.ref(key))

    def state(self, key: str) -> str:
        return str(self.row(key).state)

    def states(self, *keys: str) -> list[str]:
        return [self.state(key) for key in keys]

    def rows(self) -> list[Step]:
        return self.store.steps(self.tasks[-1], "", 1_000)

    def owned(self, key: str, role: Role = Role.ITEM) -> list[Step]:
        return [row for row in self.rows() if row.owner == key and row.role is role]

    def events(self, *kinds: type[Fact]) -> list[Event]:
        return [e for e in journal(self.store, self.tasks[-1]) if not kinds or isinstance(e.fact, kinds)]

    def facts(self, kind: type[F]) -> list[F]:
        """Those of one kind, in their order."""
        return [event.fact for event in self.events() if isinstance(event.fact, kind)]

    def told(self, *kinds: type[Fact]) -> list[str]:
        """The steps of these facts, in their order."""
        return [event.fact.step for event in self.events(*kinds)]  # type: ignore[union-attr]

    def begun_keys(self) -> list[str]:
        return [assignment.step for assignment in self.begun]

    def audit(self) -> None:
        for task_id in self.tasks:
            found = violations(self.store, task_id, self.code.contains)
            assert not found, "\n".join([f"task {task_id!r}:", *found])
        found = family_violations(self.store)
        assert not found, "\n".join(found)

    # --- time -----------------------------------------------------------------------------------------------------

    def round(self) -> int:
        moved = self.worker.tick() if self.worker is not None else 0
        return moved + self.scheduler.tick()

    def settle(self) -> None:
        """Rounds at this instant, until nothing moves."""
        for _ in range(ROUNDS_MAX):
            if not self.round():
                return
        raise AssertionError("it does not come to rest")

    def settle_until(self, done: Callable[[], bool]) -> None:
        for _ in range(ROUNDS_MAX):
            if done() or not self.round():
                return
        raise AssertionError("it does not come so far")

    def run(self) -> str:
        """Until nothing moves and nothing is due, or something hangs; backoffs and deadlines pass.  The status."""
        for _ in range(ROUNDS_MAX):
            self.settle()
            at = self.store.next_due_at()
            if at is None or (self.worker is not None and self.worker.running):
                return self.status
            self.later(at - self.now)
        raise AssertionError("it does not end")

    def later(self, ms: int, beats: bool = True, awake: bool = True) -> None:
        """Time passes.  `beats`: of the worker; `awake`: the scheduler ticks meanwhile."""
        end = self.now + ms
        while self.now < end:
            self.now = min(end, self.now + HOP_MS)
            if beats and self.worker is not None:
                self.worker.beat()
            if awake:
                self.scheduler.tick()

    def die(self) -> None:
        """`kill -9` of the worker: what it ran is dead, nobody beats."""
        self.worker = None
        self.hanging.clear()

    def reborn(self, name: str = "w2") -> None:
        self.worker = self.new_worker(name)

    def end(self, key: str, outcome: Outcome) -> None:
        """What hangs in the newest attempt of the step ends by itself."""
        newest = max(attempt for at, attempt in self.hanging if at == key)
        self.hanging[key, newest].end(outcome)
