"""Forks in the simulated world: taken at random moments, broken off, asked for again; and what must hold of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from longtask.core.errors import NotFound, Refused
from longtask.core.machine import verdict
from longtask.core.model import Task, Verdict
from longtask.store.contract import Ref, Store
from tests.core.forks import misfits

from .faults import Found
from .repo import Repo

if TYPE_CHECKING:
    from .people import People

FORKS_MAX = 4  # of one world
PAGE = 1_000


class Forks:
    """What people ask for, by its key; a call that dies is made again."""

    def __init__(self, people: People) -> None:
        self._people = people
        self._asked: dict[str, Ref] = {}
        self._looked: set[str] = set()

    def something(self) -> None:
        world = self._people.world
        if self._asked and (len(self._asked) >= FORKS_MAX or world.often(20)):
            self._call(world.one(list(self._asked)))
            return
        task = world.store.get_task(world.one(world.tasks))
        rows = [
            row for row in world.store.steps(task.id, "", PAGE) if world.often(10) or (not row.gate and not row.owner)
        ]
        if rows:
            key = f"fork{len(self._asked)}"
            self._asked[key] = Ref(task.id, world.one(rows).key)
            self._call(key)

    def finish(self) -> None:
        """Faults are off: whatever was asked for is there, or is refused."""
        for key in list(self._asked):
            self._call(key)
            there = self._people.world.store.task_by_key(key)
            if key in self._asked and (there is None or (there.loading and not there.ended)):
                raise Found("fork", f"fork {key} of {self._asked[key]} is not there after a call that was answered")

    def _call(self, key: str) -> None:
        world, desk, ref = self._people.world, self._people.desk, self._asked[key]

        def fork() -> None:
            before = world.store.task_by_key(key)
            try:
                seen = desk.foresee(ref, "fork")
                made = desk.fork(ref, self._people.name(), idempotency_key=key)
            except (Refused, NotFound) as refused:
                world.tell(f"refused: {refused}")
                if world.store.task_by_key(key) is None:
                    del self._asked[key]
                return
            if before is not None and before.id != made.id:
                raise Found("fork", f"key {key!r} gave two forks")
            origin = made.options.forked
            if before is None and origin is not None and origin.seq == seen.seq:
                self._as_foreseen(world.store, made, seen)

        world.act(None, f"fork {key} from {ref.step} of {ref.task_id}", fork)
        there = world.store.task_by_key(key)  # perhaps in part: it is loading
        if there is not None and there.id not in world.tasks:
            world.tasks.append(there.id)

    def _as_foreseen(self, store: Store, made: Task, seen: Any) -> None:
        rows = {row.key: row for row in store.steps(made.id, "", PAGE)}
        stay = {key for key in seen.kept if verdict(rows[key]) not in (Verdict.OK, Verdict.OMIT)}
        run = {key for key in (*seen.again, *seen.begins) if rows[key].state == "completed"}
        if stay or run or set(seen.gone) & rows.keys():
            raise Found(
                "foreseen", f"of fork {made.id}: {stay} do not stay, {run} do not run again, {seen.gone} are in"
            )

    def audit(self, store: Store, repo: Repo, task_id: str) -> None:
        """Once, when all of it is there."""
        task = store.get_task(task_id)
        origin = task.options.forked
        if origin is None or task.loading or task_id in self._looked or task.state == "cancelled":
            return
        self._looked.add(task_id)
        source, made = (store.events(id, 0, 100 * PAGE) for id in (origin.task, task_id))
        for wrong in misfits(source, made, repo.contains):
            raise Found("fork", f"task {task_id} is no fork of {origin}: {wrong}")
