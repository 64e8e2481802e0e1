"""People who lay hands on tasks, and what planners hand over: steps added, edited, taken and done by hand.

A step is written as {"id", "needs", "if", "acts"}: the language of this world.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from longtask.core.errors import BadPlan
from longtask.core.graph import Planned
from longtask.core.grow import Growth
from longtask.core.model import Json, Kind, Step, StepSpec, StepState, Task
from longtask.engine.hands import Hands
from longtask.store.contract import Ref

if TYPE_CHECKING:
    from .people import People

S = StepState
STEPS_MAX = 40  # of a task that people still add to
PLANNED_MAX = 2  # steps that a planner hands over


class Edited(NamedTuple):
    specs: tuple[StepSpec, ...]
    own: int
    kept: frozenset[str]


def growth_of(raw: Json) -> Growth:
    planned, specs = [], []
    for step in raw["steps"]:
        if not isinstance(step.get("id"), str):
            raise BadPlan("a step has no id")
        condition = step.get("if")
        body = {"acts": step["acts"], "ms": 0, "calls": 0, "ok": True, "match": {}, "stubborn": False, "files": ["a"]}
        specs.append(StepSpec(Kind.RUN, body, condition=condition, commits=bool(step.get("commits"))))
        needs = None if step.get("needs") is None else tuple(step["needs"])
        planned.append(Planned(step["id"], Kind.RUN, 1, len(specs) - 1, needs, conditional=condition is not None))
    return Growth(tuple(planned), tuple(specs), raw.get("before"), raw.get("stage"))


def handed_over(world: Any, step: str, attempt: int) -> list[dict[str, Json]]:
    """What a planner answers; now and then it does not hold, so that it has to plan anew."""
    keys = [f"{step}p{attempt}_{n}" for n in range(world.one(range(PLANNED_MAX + 1)))]
    needs = [step] if world.often(80) else ["nobody"]
    return [
        {"id": key, "needs": needs if world.often(60) else None, "acts": world.one((["done"], ["fail"]))}
        for key in keys
    ]


class LayingHands:
    def __init__(self, people: People, hands: Hands) -> None:
        self._people = people
        self._hands = hands
        self._added = 0

    def something(self, task: Task) -> None:
        world = self._people.world
        world.one((self.add, self.add, self.edit, self.take, self.take, self.done, self.give_back))(task)

    def _rows(self, task: Task, *states: StepState) -> list[Step]:
        rows = [row for row in self._people.world.store.steps(task.id, "", 500) if not row.gate]
        return [row for row in rows if row.state in states] if self._people.world.often(90) else rows

    def add(self, task: Task) -> None:
        world, rows = self._people.world, self._rows(task, *S)
        if task.counts.steps > STEPS_MAX:
            return
        states = [S(world.odds.before)] if world.odds.before else [S.BLOCKED, S.READY]
        before = world.one([None, None, *(row.key for row in rows if row.state in states)])
        ended = [row.key for row in rows if row.state is S.COMPLETED] if before else [row.key for row in rows]
        steps: list[dict[str, Json]] = []
        for _ in range(world.one((1, 1, 2))):
            self._added += 1
            may = [*ended, *(step["id"] for step in steps)]
            needs = [key for key in may if world.often(100 / (2 + len(may)))] if world.often(70) else None
            acts = world.one((["done"], ["done"], ["fail", "done"], ["fail"]))
            condition = world.one((None, None, None, "true", "false"))
            key = f"{world.one('aGz')}{self._added}"
            steps.append({"id": key, "needs": needs, "if": condition, "acts": acts, "commits": bool(task.workspace_id)})
        stage = world.one((None, None, *task.options.stages))
        growth = growth_of({"steps": steps, "before": before, "stage": stage})
        who = self._people.name()
        self._people.may(
            f"add {[s['id'] for s in steps]} before {before}", lambda: self._people.desk.add(task.id, growth, who)
        )

    def edit(self, task: Task) -> None:
        rows = self._rows(task, S.BLOCKED, S.READY, S.WAITING, S.FAILED, S.CANCELLED)
        if rows:
            row, world = self._people.world.one(rows), self._people.world
            words, again, who = {"ok": world.one((True, False))}, world.often(50), self._people.name()
            ref = Ref(task.id, row.key)
            self._people.may(f"edit {row.key} again={again}", lambda: self._hands.edit(ref, words, who, again=again))

    def take(self, task: Task) -> None:
        rows = self._rows(task, S.READY, S.WAITING, S.FAILED, S.CANCELLED)
        if rows:
            row, who = self._people.world.one(rows), self._people.name()
            for_ms = self._people.world.one((3_000, 60_000, 10_000_000))
            self._people.may(f"take {row.key} by {who}", lambda: self._hands.take(Ref(task.id, row.key), who, for_ms))

    def taken(self, task: Task) -> list[Step]:
        rows = self._people.world.store.steps(task.id, "", 500)
        return [row for row in rows if row.state is S.RUNNING and row.taken_by is not None]

    def done(self, task: Task) -> None:
        rows = self.taken(task) if self._people.world.often(80) else self._rows(task, S.READY, S.FAILED, S.WAITING)
        if rows:
            self.finish(task, self._people.world.one(rows))

    def finish(self, task: Task, row: Step) -> None:
        world, who = self._people.world, row.taken_by or self._people.name()
        commit = base = None
        if row.taken_by is not None and row.base is not None and world.store.spec(task.id, row.spec).commits:
            commit, base = world.repo.commit((row.base,), ("a",)), row.base
        call = lambda: self._hands.done(Ref(task.id, row.key), who, commit=commit, base=base, result={"ok": True})  # noqa: E731
        self._people.may(f"done {row.key} by {who} commit={commit}", call)

    def give_back(self, task: Task) -> None:
        if rows := self.taken(task):
            row, who = self._people.world.one(rows), self._people.name()
            self._people.may(f"give back {row.key}", lambda: self._hands.give_back(Ref(task.id, row.key), who))

    def help(self, task: Task) -> None:
        """What is taken is done, or given back."""
        for row in self.taken(task):
            if self._people.world.often(50):
                self.finish(task, row)
            else:
                self.give_back(task)


def edited(old: StepSpec, words: Json) -> Edited:
    return Edited((replace(old, body={**old.body, **words}),), 0, frozenset(("fix", "revise", "item", "conflict")))
