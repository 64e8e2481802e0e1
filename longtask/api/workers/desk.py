"""What workers elsewhere ask, carried out for their own attempts and no others.

Whose an attempt is never changes: its number is given out once, with its lease.  So a look before a write is enough,
and the write itself is refused when the lease has gone meanwhile.  What is not the caller's own is answered as what is
its own no more, so that nobody learns what there is.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from anyio.to_thread import run_sync

from longtask import boot
from longtask.api.access.caller import Caller
from longtask.api.problems import Problem
from longtask.api.workers import shapes
from longtask.core.codec import dump_json
from longtask.core.errors import BadPlan, LeaseLost, NotFound, StoreBusy
from longtask.core.model import POOL_SYSTEM, Kind, Step, StepSpec, StepState, Task
from longtask.core.policy import LEASE_MS
from longtask.engine import wire
from longtask.engine.dispatch import Dispatch
from longtask.engine.dispatcher import BrokenReport, Claimed, Held, Report, Reported, Round, Wanted
from longtask.engine.merging import follow
from longtask.engine.records import ARTIFACTS_MAX
from longtask.store.contract import Ref

TURNS, TURN_S = 64, 5.0
REFUSED = "it is not this worker's attempt, or not any more"


def whole_name(caller: Caller, worker: str) -> str:
    """As it stands in leases and journals.  No worker beside the store has an `@` in its name."""
    return f"{worker}@{caller.token or 'here'}"


class WorkersDesk:
    def __init__(self, parts: boot.Parts) -> None:
        self.parts = parts
        self.store = parts.store
        self._turns = [threading.Lock() for _ in range(TURNS)]
        self._follower: ThreadPoolExecutor | None = None  # one thread: references are moved in their order

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        follower = self._follower = ThreadPoolExecutor(1, thread_name_prefix="follow")
        try:
            yield
        finally:
            self._follower = None
            await run_sync(follower.shutdown)

    def _follow(self, task: Task) -> None:
        """What is missed, a scheduler repeats."""
        if self._follower is not None:
            self._follower.submit(follow, self.parts.merger, task)

    def dispatch(self, caller: Caller, lease_ms: int = LEASE_MS) -> Dispatch:
        seen = None if caller.workspaces is None else sorted(caller.workspaces)
        return boot.make_dispatch(self.parts, runtime=runtime_named, workspaces=seen, lease_ms=lease_ms)

    def own(self, caller: Caller, worker: str, task: str, step: str, attempt: int) -> Step:
        """The step that this attempt carries out.  Raises LeaseLost."""
        try:
            row = self.store.get_step(Ref(task, step)) if "\0" not in task + step else None
        except NotFound:
            row = None
        mine = row is not None and (row.worker, row.attempt) == (whole_name(caller, worker), attempt)
        if row is None or not mine or row.state is not StepState.RUNNING:
            raise LeaseLost(f"step {step!r}, attempt {attempt}: {REFUSED}")
        return row

    def claimed(self, row: Step, task: str) -> Claimed:
        """As it was claimed: while a step runs its row stays as it is."""
        return Claimed(self.store.get_task(task), row, self.store.spec(task, row.spec))

    def names(self, row: Step, task: str, digest: str) -> bool:
        """The task has this artifact, or the run journal names it: blocks of an agent's session stand there alone."""
        if any(entry.digest == digest for entry in self.store.artifacts(task, ARTIFACTS_MAX)):
            return True
        turns = self.store.journal(Ref(task, row.key), row.run)
        return any(turn.body is not None and digest in dump_json(turn.body) for turn in turns)

    # --- rounds ---------------------------------------------------------------------------------------------------

    def round(self, caller: Caller, worker: str, asked: shapes.Round) -> Mapping[str, Any]:
        """A round that comes again finds the one before ended: what that has given out is found by its leases."""
        name = whole_name(caller, worker)
        if asked.wanted is not None and POOL_SYSTEM in asked.wanted.pools:
            raise BadPlan(f"pool {POOL_SYSTEM!r}: its steps are carried out beside the store")
        dispatch = self.dispatch(caller, asked.lease_ms)
        with self._turn(name):
            strays = [] if asked.held is None else self._strays(dispatch, name, asked.held, asked.reports)
            told: list[Reported | None] = [None] * len(asked.reports)
            mine: list[tuple[int, Report]] = []
            for place, report in enumerate(asked.reports):
                try:
                    row = self.own(caller, worker, report.task, report.step, report.attempt)
                except LeaseLost as lost:
                    told[place] = Reported(refused=str(lost))
                else:
                    mine.append((place, report_of(report, row)))
            done = self._carried_out(dispatch, name, mine, wanted_of(asked.wanted, len(strays)))
        for (place, _), reported in zip(mine, done.reported, strict=True):
            told[place] = reported
            if reported.moved is not None:
                self._follow(reported.moved)
        return {
            "reported": [wire.reported_map(reported) for reported in told if reported is not None],
            "found": [wire.claimed_map(claimed) for claimed in (*strays, *done.found)],
            "searched": done.searched,
            "now": self.store.now(),
        }

    @contextmanager
    def _turn(self, name: str) -> Iterator[None]:
        """Rounds of one worker are carried out one after another; who waits holds a thread, so not for long."""
        lock = self._turns[hash(name) % TURNS]
        if not lock.acquire(timeout=TURN_S):
            raise StoreBusy(f"worker {name!r}: a round before this one is still being carried out; ask again")
        try:
            yield
        finally:
            lock.release()

    def _carried_out(
        self, dispatch: Dispatch, name: str, mine: Sequence[tuple[int, Report]], wanted: Wanted | None
    ) -> Round:
        try:
            return dispatch.round(name, [report for _, report in mine], wanted)
        except BrokenReport as broken:
            detail = f"a report cannot be recorded: {type(broken.__cause__).__name__}"
            extra = {"place": mine[broken.place][0]}
            raise Problem(422, "broken-report", "a report cannot be recorded", detail, extra) from broken

    def _strays(
        self, dispatch: Dispatch, name: str, held: Sequence[shapes.Held], reports: Sequence[shapes.Report]
    ) -> list[Claimed]:
        """What is leased to this worker and it does not know of, with a lease that begins anew."""
        known = {(one.task, one.step, one.attempt) for one in (*held, *reports)}
        found: list[Claimed] = []
        for lease in self.store.leases_of_worker(name, shapes.HELD_MAX):
            ref = Ref(lease.task_id, lease.step)
            if (*ref, lease.attempt) in known or dispatch.beat(ref, lease.attempt) is None:
                continue
            row = self.store.get_step(ref)
            if row.attempt == lease.attempt and row.state is StepState.RUNNING:
                found.append(self.claimed(row, ref.task_id))
        return found

    def beats(self, caller: Caller, worker: str, asked: shapes.Beats) -> Mapping[str, Any]:
        leases = self.store.leases_of_worker(whole_name(caller, worker), shapes.HELD_MAX)
        leased = {Held(Ref(lease.task_id, lease.step), lease.attempt) for lease in leases}
        dispatch = self.dispatch(caller, asked.lease_ms)
        named = [Held(Ref(one.task, one.step), one.attempt) for one in asked.held]
        beats = [dispatch.beat(one.ref, one.attempt) if one in leased else None for one in named]
        return {
            "answers": [{"held": beat is not None, "stop": None if beat is None else beat.stop} for beat in beats],
            "strays": bool(leased - set(named)),
            "now": self.store.now(),
        }


def runtime_named(spec: StepSpec) -> str | None:
    """Which version it has, only the worker's own machine knows; to ask would import here what a plan names."""
    return str(spec.body.get("runtime", "recorded")) if spec.kind is Kind.AGENT else None


def report_of(report: shapes.Report, row: Step) -> Report:
    """Raises BadPlan."""
    given = report.outcome.model_dump(exclude_unset=True, mode="json")
    ref = Ref(report.task, report.step)
    next_ = report.next and report.pool == row.pool
    return Report(ref, report.attempt, wire.outcome_of(given), row.pool, next_, report.alone)


def wanted_of(wanted: shapes.Wanted | None, strays: int) -> Wanted | None:
    if wanted is None:
        return None
    return Wanted(tuple(dict.fromkeys(wanted.pools)), max(wanted.slots - strays, 0), 0, wanted.alone)
