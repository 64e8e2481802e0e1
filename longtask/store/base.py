"""The contract in SQL, once for both dialects.  How a connection is held and what its errors mean is the dialect's.

A block only reads until its end, then writes everything: header, steps, events and what goes with them, one statement
for each kind of row.  So a block that is left by an exception has nothing to undo, and a group needs no savepoints: if
a write fails, the whole group is rolled back, later blocks of it are refused, and the group raises.

Named points for the simulator (`fault`): begin, locked, written, group.release, commit, committed; single and
single.committed around a write of a running attempt.  What is raised there at `commit` or before leaves nothing behind.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from longtask.core.change import Change
from longtask.core.codec import dump_fact, dump_json, dump_options, dump_spec, load_options, load_spec
from longtask.core.errors import NotFound, Refused, StoreError
from longtask.core.events import TaskSubmitted
from longtask.core.family import Errand
from longtask.core.model import JsonMap, Lease, MutexView, Signal, Step, StepSpec, Task, TaskOptions, TaskState
from longtask.store import sharing
from longtask.store.contract import Alarm, Ref, Tx
from longtask.store.rows import (
    STEP_WIDTH,
    TASK_WIDTH,
    Row,
    pool_column,
    step_row,
    task_row,
    to_signal,
    to_step,
    to_task,
)

Params = Mapping[str, Any]
K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
CACHE_MAX = 10_000  # specs and options kept in memory; they never change once written


def wall_clock() -> int:
    return time.time_ns() // 1_000_000


def no_fault(_point: str) -> None:
    """Nothing goes wrong on purpose."""


def below(limit: int) -> int:
    assert limit > 0, f"limit {limit} must be above zero"
    return limit


@dataclass(slots=True)
class Here:
    """What this thread is in the middle of."""

    group: bool = False
    block: bool = False
    begun: bool = False  # the database is locked for writing by this thread
    lost: BaseException | None = None  # why the group was rolled back
    news: bool = False  # what was written leaves something to do for others


class SqlTx:
    """One task, locked: `contract.Tx`."""

    def __init__(self, store: SqlBlocks, task_id: str, key: str | None, created: bool, telling: int = 0) -> None:
        self.store = store
        self.task_id = task_id
        self._telling = telling
        self._told_first: list[Row] | None = None  # the first dependents of that step, if they came too
        self.saved: tuple[Change, str, str | None] | None = None
        self.sent: list[Signal] = []
        self.heard: dict[int, str | None] = {}  # by number, of signals whose hearing has moved
        self.over: list[int] = []  # numbers of errands that have been carried out
        self._header: Task | None = None
        self._first: Step | None = None  # what came with the header, and its lease
        self._first_lease: Lease | None = None
        self._last_signal: int | None = None
        self.task_n = 0
        if created:
            self.now = store.now()
            return
        self.now, rows, self._told_first = store.header(task_id, key or "", telling)
        if not rows:
            raise NotFound(f"no task {task_id!r}")
        row = rows[0]
        self.task_n = row[0]
        self._header = to_task(row, store.options(task_id, self.task_n))
        if row[TASK_WIDTH] is not None:
            self._first = to_step(row[TASK_WIDTH : TASK_WIDTH + STEP_WIDTH])
            lease = row[TASK_WIDTH + STEP_WIDTH :]
            self._first_lease = None if lease[0] is None else Lease(task_id, self._first.key, *lease)

    @property
    def task(self) -> Task:
        assert self._header is not None, "a task that is being created has no header yet"
        return self._header

    def step(self, key: str) -> Step:
        if self._first is not None and self._first.key == key:
            return self._first
        if found := self._steps("step", key=key):
            return found[0]
        raise NotFound(f"task {self.task_id!r} has no step {key!r}")

    def steps(self, keys: Sequence[str]) -> dict[str, Step]:
        if self._first is not None and list(keys) == [self._first.key]:
            return {self._first.key: self._first}
        found = self._steps("steps", keys=dump_json(list(keys))) if keys else []
        return {step.key: step for step in found}

    def _steps(self, statement: str, **params: Any) -> list[Step]:
        params["task_n"] = self.task_n
        return [to_step(row) for row in self.store.select(statement, params)]

    def spec(self, number: int) -> StepSpec:
        return self.store.spec_of(self.task_id, self.task_n, number)

    def lease(self, key: str) -> Lease | None:
        if self._first is not None and self._first.key == key:
            return self._first_lease
        rows = self.store.select("lease", {"task_n": self.task_n, "step": key})
        return Lease(self.task_id, key, *rows[0]) if rows else None

    def spent(self, key: str, run: int, *, but: int = 0) -> dict[str, int]:
        return self.store.spent_of(self.task_n, key, run, but)

    def dependents(self, key: str, after: str, limit: int) -> list[Step]:
        first = self._first is not None and self._first.key == key and not after and limit == self._telling
        if first and self._told_first is not None:
            return [to_step(row) for row in self._told_first]
        return self._steps("dependents", key=key, after=after, limit=below(limit))

    def needs(self, key: str, limit: int) -> list[str]:
        rows = self.store.select("needs_of", {"task_n": self.task_n, "key": key, "limit": below(limit)})
        return [row[0] for row in rows]

    def spec_count(self) -> int:
        return int(self.store.select("spec_count", {"task_n": self.task_n})[0][0])

    def owned_open(self, key: str, limit: int) -> list[Step]:
        return self._steps("owned_open", key=key, limit=below(limit))

    def completed_items(self, key: str, after: int, limit: int) -> list[int]:
        params = {"task_n": self.task_n, "key": key, "after": after, "limit": below(limit)}
        return [row[0] for row in self.store.select("completed_items", params)]

    def ready(self, pool: str, limit: int) -> list[Step]:
        return self._steps("ready", pool=pool_column(pool), now=self.now, limit=below(limit))

    def sweepable(self, limit: int) -> list[Step]:
        return self._steps("sweepable", limit=below(limit))

    def running(self, limit: int) -> list[Step]:
        return self._steps("running", limit=below(limit))

    def unasked(self, limit: int) -> list[str]:
        return [row[0] for row in self.store.select("unasked", {"task_n": self.task_n, "limit": below(limit)})]

    def waiters(self, name: str, after: str, limit: int) -> list[Step]:
        return self._steps("waiters", name=name, after=after, limit=below(limit))

    def delivered(self, delivery: str) -> Signal | None:
        rows = self.store.select("delivered", {"task_n": self.task_n, "delivery": delivery})
        return to_signal(rows[0]) if rows else None

    def signals(self, name: str, after: int, limit: int) -> list[Signal]:
        params = {"task_n": self.task_n, "name": name, "after": after, "limit": below(limit)}
        return [to_signal(row) for row in self.store.select("signals", params)]

    def add_signal(self, name: str, delivery: str, payload: JsonMap, sender: str) -> Signal:
        if self._last_signal is None:
            self._last_signal = self.store.select("last_signal", {"task_n": self.task_n})[0][0]
        self._last_signal += 1
        signal = Signal(self._last_signal, delivery, name, payload, sender, self.now)
        self.sent.append(signal)
        return signal

    def unheard(self) -> tuple[Signal, str] | None:
        rows = self.store.select("unheard_signal", {"task_n": self.task_n})
        return (to_signal(rows[0][:-1]), rows[0][-1]) if rows else None

    def hear(self, number: int, heard: str | None) -> None:
        self.heard[number] = heard

    def drop_errands(self, numbers: Sequence[int]) -> None:
        self.over += numbers

    def done_op(self, op: str) -> bool:
        return bool(self.store.select("done_op", {"task_n": self.task_n, "op": op}))

    def rival(self, pool: str, served_at: int) -> bool:
        params = {
            "task_n": self.task_n,
            "priority": self.task.priority,
            "served_at": served_at,
            "pool": pool_column(pool),
            "now": self.now,
        }
        return bool(self.store.select("rival", params))

    def mutex(self, name: str, step: str) -> MutexView:
        rows = self.store.select("mutex_view", {"task_n": self.task_n, "name": name, "step": step})
        task_id, holder, mine, called_at, first = rows[0]
        return MutexView(None if task_id is None else (task_id, holder), bool(called_at), first != mine)

    def save(self, change: Change, *, actor: str = "", op: str | None = None) -> None:
        assert self.saved is None, "a block saves once"
        assert change.created == (self._header is None), "what creates a task belongs into `create`, all else does not"
        self.saved = change, actor, op

    def write(self) -> None:
        """At the end of the block: everything that was saved and sent.  Raises Refused, with nothing written."""
        run, n = self.store.run, self.task_n
        if self.saved is not None:
            change, actor, op = self.saved
            self.store.here.news |= _leaves_work(change.task) or bool(change.errands)
            sharing.take_mutex(run, n, change, self.now)
            if change.created:
                n = self.task_n = self._insert(change.task)
                run("insert_options", {"task_n": n, "body": dump_options(change.task.options)})
            else:
                run("update_task", task_row(change.task) | {"n": n})
            self._write_rows(change, actor, op)
            sharing.write_mutexes(run, n, change, self.now)
            sharing.write_offers(run, n, self._header, change)
        for signal in self.sent:
            self.store.here.news = True
            run("insert_signal", {
                "task_n": n, "number": signal.number, "delivery": signal.delivery, "name": signal.name,
                "sender": signal.sender, "at": signal.at, "heard": self.heard.pop(signal.number, ""),
                "payload": dump_json(signal.payload),
            })  # fmt: skip
        for number, heard in self.heard.items():
            run("hear", {"task_n": n, "number": number, "heard": heard})
        for number in self.over:
            run("drop_errand", {"n": number})

    def _insert(self, task: Task) -> int:
        rows = self.store.run("insert_task", task_row(task))
        if rows:
            n: int = rows[0][0]
            return n
        key = task.idempotency_key
        if key is not None and (there := self.store.select("task_by_key", {"idempotency_key": key})):
            raise Refused(f"idempotency key {key!r} belongs to task {there[0][1]!r}; ask for that one")
        raise Refused(f"task {task.id!r} is there already")

    def _write_rows(self, change: Change, actor: str, op: str | None) -> None:
        now = self.now

        def bulk(name: str, rows: Sequence[Any]) -> None:
            if rows:
                self.store.run(name, {"task_n": self.task_n, "rows": dump_json(rows), "at": now, "actor": actor})

        def drop(name: str, keys: Sequence[str]) -> None:
            if keys:
                self.store.run(name, {"task_n": self.task_n, "keys": dump_json(keys)})

        bulk("upsert_steps", [step_row(change.steps[key], now) for key in sorted(change.steps)])
        bulk("insert_specs", [(number, dump_spec(spec)) for number, spec in change.specs])
        bulk("insert_edges", sorted(change.edges))
        first = change.facts[0][0] if change.facts else 0
        bulk("insert_events", [self._event_row(seq, fact, op if seq == first else None) for seq, fact in change.facts])
        drop("close_leases", change.leases_closed)
        opened = change.leases_opened
        bulk("open_leases", [(x.step, x.attempt, x.worker, x.due_at, x.timeout_at, x.stop) for x in opened])
        stops = dict(change.stops)
        for why in sorted(set(stops.values())):
            keys = dump_json([key for key, its in stops.items() if its == why])
            self.store.run("stop_leases", {"task_n": self.task_n, "why": why, "keys": keys})
        drop("close_waits", change.waits_closed)
        bulk("open_waits", [(x.step, n, x.name, x.ask) for n, x in enumerate(change.waits_opened, 1)])
        bulk("open_errands", [_errand_row(errand) for errand in change.errands])
        bulk("insert_artifacts", [artifact_row(a.step, a.attempt, a.content) for a in change.artifacts])

    def _event_row(self, seq: int, fact: Any, op: str | None) -> tuple[int, str, int, str | None, str]:
        if isinstance(fact, TaskSubmitted):
            fact = replace(fact, number=self.task_n)
        kind, v, body = dump_fact(fact)
        return seq, kind, v, op, body


def _errand_row(errand: Errand) -> list[Any]:
    body = None if errand.body is None else dump_json(errand.body)
    return [errand.step, errand.kind, errand.target, errand.seq, errand.tokens, errand.micros, body]


def _leaves_work(task: Task) -> bool:
    counts = task.counts
    return task.state is TaskState.CLOSING or bool(counts.ready or counts.untold or counts.merging)


def artifact_row(step: str, attempt: int, content: JsonMap) -> list[Any]:
    known = ("name", "digest", "size_bytes", "media_type")
    rest = {name: value for name, value in content.items() if name not in known}
    # a file name may hold bytes that are no text; the column shows them as such, the fact has them
    name = content["name"].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    media_type = content.get("media_type", "application/octet-stream")
    size_bytes = content["size_bytes"]
    return [step, attempt, name, content["digest"], size_bytes, media_type, dump_json(rest) if rest else None]


class SqlBlocks(ABC):
    """Blocks and groups, over what a dialect can do on the connection of this thread."""

    def __init__(
        self,
        queries: Mapping[str, str],
        clock: Callable[[], int] | None = None,
        fault: Callable[[str], None] | None = None,
    ) -> None:
        self.queries = queries
        self.now = clock or wall_clock
        self.fault = fault or no_fault
        self._specs: dict[tuple[str, int], StepSpec] = {}
        self._options: dict[str, TaskOptions] = {}

    @property
    @abstractmethod
    def here(self) -> Here: ...
    @abstractmethod
    def select(self, name: str, params: Params) -> list[Row]:
        """Rows of a statement that only reads; inside a block or a group, on its connection."""

    @abstractmethod
    def run(self, name: str, params: Params) -> list[Row]:
        """A statement of the transaction that is under way."""

    @abstractmethod
    def single(self, name: str, params: Params) -> list[Row]:
        """A statement that writes and commits by itself; inside a group it commits with the group."""

    @abstractmethod
    def header(self, task_id: str, key: str, telling: int) -> tuple[int, list[Row], list[Row] | None]:
        """Locks the task, then reads the time and statement `header` (no row: no such task), and, if it pays, the first
        `telling` dependents of the step.

        Raises TaskLocked where waiting for another block could end in a circle: later blocks of a group."""

    def ahead(self, refs: Sequence[Ref], telling: int = 0) -> None:  # noqa: B027
        """A dialect whose database is no journey away needs no hint."""

    @abstractmethod
    def begin(self) -> None: ...
    @abstractmethod
    def commit(self) -> None:
        """If it raises, nothing was written and `rollback` is called."""

    @abstractmethod
    def rollback(self) -> None:
        """Never raises; fine if there is nothing to roll back."""

    # hints: a dialect without them lets whoever waits sleep

    @property
    def hinted(self) -> bool:
        return False

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def tell(self) -> None:  # noqa: B027
        """Others are told that there may be work."""

    def alarms(self) -> list[Alarm]:
        return []

    # blocks

    def create(self, task_id: str) -> AbstractContextManager[Tx]:
        return self._block(task_id, None, created=True)

    def task(self, task_id: str, key: str | None = None, telling: int = 0) -> AbstractContextManager[Tx]:
        return self._block(task_id, key, created=False, telling=telling)

    @contextmanager
    def _block(self, task_id: str, key: str | None, created: bool, telling: int = 0) -> Iterator[Tx]:
        here = self.here
        assert not here.block, "nobody locks two tasks"
        if here.lost is not None:
            raise StoreError(f"this group was rolled back ({here.lost}); leave it and try again")
        here.block = True
        try:
            self._lock(here)
            tx = SqlTx(self, task_id, key, created, telling)
            yield tx
            if tx.saved is not None or tx.sent or tx.heard or tx.over:
                self._write(here, tx)
            if not here.group:
                self._commit(here)
        except BaseException:
            if not here.group:
                self._undo(here)
            raise
        finally:
            here.block = False

    @contextmanager
    def group(self) -> Iterator[None]:
        here = self.here
        assert not here.group and not here.block, "a group stands in no other group and in no block"
        here.group = True
        try:
            yield
            if here.lost is not None:
                raise here.lost
            if here.begun:
                self._commit(here)
        except BaseException:
            self._undo(here)
            raise
        finally:
            here.group, here.lost = False, None

    def together(self, act: Callable[[], T]) -> T:
        with self.group():
            return act()

    def _lock(self, here: Here) -> None:
        if not here.begun:
            self.fault("begin")
            self.begin()
            here.begun = True
            self.fault("locked")

    def _write(self, here: Here, tx: SqlTx) -> None:
        try:
            tx.write()
            self.fault("written")
            if here.group:
                self.fault("group.release")
        except Refused:
            raise  # nothing was written, and the group goes on
        except BaseException as error:
            here.lost = error if here.group else None
            self._undo(here)
            raise

    def _commit(self, here: Here) -> None:
        self.fault("commit")
        self.commit()
        here.begun, news, here.news = False, here.news, False
        self.fault("committed")
        if news:
            self.tell()

    def _undo(self, here: Here) -> None:
        if here.begun:
            here.begun = here.news = False
            self._specs.clear()  # what was read may never have been
            self._options.clear()
            self.rollback()

    # what never changes once written

    def unknown(self, task_ids: Iterable[str]) -> list[str]:
        """Those of which nothing is kept."""
        return [id_ for id_ in task_ids if id_ not in self._options]

    def know(self, task_id: str, options: str, number: int | None, spec: str | None) -> None:
        _keep(self._options, task_id, load_options(options))
        if number is not None and spec is not None:
            _keep(self._specs, (task_id, number), load_spec(spec))

    def spent_of(self, task_n: int, step: str, run: int, but: int) -> dict[str, int]:
        rows = self.select("spent", {"task_n": task_n, "step": step, "run": run, "but": but})
        return dict(zip(("tokens", "micros", "requests"), map(int, rows[0]), strict=True))

    def spec_of(self, task_id: str, task_n: int, number: int) -> StepSpec:
        spec = self._specs.get((task_id, number))
        if spec is None:
            rows = self.select("spec", {"task_n": task_n, "number": number})
            if not rows:
                raise NotFound(f"task {task_id!r} has no spec {number}")
            spec = _keep(self._specs, (task_id, number), load_spec(rows[0][0]))
        return spec

    def options(self, task_id: str, task_n: int) -> TaskOptions:
        options = self._options.get(task_id)
        if options is None:
            rows = self.select("options", {"task_n": task_n})
            options = _keep(self._options, task_id, load_options(rows[0][0]))
        return options


def _keep(cache: dict[K, V], key: K, value: V) -> V:
    if len(cache) >= CACHE_MAX:
        cache.clear()
    cache[key] = value
    return value


def load_object(text: str | None) -> Any:
    return None if text is None else json.loads(text)
