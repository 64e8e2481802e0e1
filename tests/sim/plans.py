"""Random plans, and the odds of a world.

What the executors will do is written into the plan: a spec's `acts` are the words for its attempts, one after another,
the last for all that follow.  So one seed gives one script, whatever the order of events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from longtask.core.graph import Graph, Planned
from longtask.core.model import Kind, RunWhen, StepSpec, TaskOptions, WhenFailed

from .families import child_spec

SIGNALS = ("go", "go", "ci.build")
ACTS_AT_FIRST = ("done", "done", "fail", "fail", "fail_digest", "fail_digest", "bad", "park_signal", "park_user",
                 "park_timer", "hang", "give_back", "large")  # fmt: skip
ACTS_AT_LAST = ("done",) * 10 + ("fail", "fail_digest", "bad", "refuse", "large")


@dataclass(frozen=True, slots=True)
class Odds:
    """Chances of a round or an act, in percent unless said otherwise.  Mutants are hunted with other ones."""

    rounds: int = 70  # of the first phase
    tasks_max: int = 3
    steps_max: int = 9
    workers_min: int = 1
    workers_max: int = 4
    people: float = 35
    person: str = ""  # what people do more often
    stale: float = 8
    interlude: float = 1.5  # others run while somebody is between looking and acting
    race: float = 30  # the same while a merge is made
    absence: float = 2  # the same in the middle of an agent's call, for longer than a lease
    crash: float = 2  # an act that dies at a named point
    busy: float = 1  # an act whose commit does not go through
    kill: float = 2
    freeze: float = 2.5
    suspend: float = 1
    drain: float = 1
    later: float = 40  # what a worker gives to a thread is done later
    code: float = 65  # a task has a repository
    files: str = "ab"  # that commits touch: the fewer, the more conflicts
    stages_max: int = 3
    needs: float = 55  # a step names what it needs
    conditional: float = 20
    fix: float = 30
    mutex: float = 25  # a step that does some work wants one
    kinds: tuple[Kind, ...] = (Kind.RUN, Kind.RUN, Kind.RUN, Kind.FUNCTION, Kind.AGENT, Kind.AGENT, Kind.APPROVAL,
                               Kind.WAIT, Kind.FOR_EACH)  # fmt: skip
    batches: tuple[int, ...] = (500, 500, 500, 3, 2)
    acts: tuple[str, ...] = ()  # at first, instead of the usual ones
    calls_max: int = 5  # of an agent
    spawn: float = 0  # an agent gives out work; nothing is drawn for 0, so that kept seeds tell what they told
    before: str = ""  # the state of what people put work before; else any that may be
    hands: float = 0  # people lay hands on steps, and agents are planners; nothing is drawn for 0
    task: float = 0  # a step's, or an item's, work is a task of its own; nothing is drawn for 0
    active: float = 0  # a task has a limit of its active time; nothing is drawn for 0
    forks: float = 0  # people fork tasks; nothing is drawn for 0
    limited: float = 0  # stages have limits; nothing is drawn for 0
    failing: float = -1  # last act is a failure; below 0: as it comes
    attended: float = 60


class Planner:
    def __init__(self, chance: Random, odds: Odds, batch: int, depth: int = 0) -> None:
        """`depth`: of the tasks that it plans, below one that people have submitted."""
        self.chance = chance
        self.depth = depth
        self.odds = odds
        self.batch = batch
        self.specs: list[StepSpec] = []
        self.code = False
        self.pools: tuple[str, ...] = ("default",)

    def often(self, percent: float) -> bool:
        return self.chance.random() * 100 < percent

    def one(self, options: Sequence[Any]) -> Any:
        return options[self.chance.randrange(len(options))]

    def graph(self, name: str, pools: Sequence[str]) -> Graph:
        chance, odds = self.chance, self.odds
        self.specs = []
        self.pools = tuple(pools)
        self.code = self.often(odds.code)
        attended = self.often(odds.attended)
        stages = chance.randint(1, odds.stages_max)
        planned: list[Planned] = []
        for n in range(chance.randint(1, odds.steps_max)):
            planned.append(self._planned(f"{'abcdefghij'[n]}", stages, planned, attended))
        options = TaskOptions(
            fail_fast=self.often(10),
            attended=attended,
            workspace={"repo": "."} if self.code else None,
            stages=tuple(f"stage {k}" for k in range(1, stages + 1)),
            budget_micros=self.one((None,) * 8 + (0, 4)),
        )
        if odds.task and not self.depth and self.often(40):
            options = replace(options, budget_micros=chance.randint(1, 8))
        if odds.active and self.often(odds.active):
            options = replace(options, active_max_ms=chance.randint(1_000, 60_000))
        if odds.limited and self.often(odds.limited):
            limits = tuple({"micros": chance.randint(1, 8)} if self.often(70) else {} for _ in range(stages))
            options = replace(options, stage_limits=limits)
        parallel = self.one((1, 2, 3, 4, 4))
        return Graph(name, options, tuple(self.specs), tuple(planned), parallel, self.one((0, 0, 1)))

    def _planned(self, key: str, stages: int, before: list[Planned], attended: bool) -> Planned:
        stage = self.chance.randint(1, stages)
        needs: tuple[str, ...] | None = None
        if self.often(self.odds.needs):
            needs = tuple(s.key for s in before if s.stage <= stage and self.often(40))
        kind: Kind = self.one(self.odds.kinds)
        if self.odds.task and self.often(self.odds.task):
            kind = Kind.TASK
        condition: str | None = None
        reads: tuple[str, ...] = ()
        if self.often(self.odds.conditional):
            condition, reads = self._condition(needs or ())
        spec = self._spec(kind, condition, reads, needs or ())
        words = [WhenFailed.STOP, WhenFailed.STOP, WhenFailed.CONTINUE, *[WhenFailed.ASK] * 2 * attended]
        return Planned(
            key,
            kind,
            stage,
            spec,
            needs,
            weight=self.one((100, 100, 7)),
            run_when=self.one((RunWhen.SUCCESS,) * 6 + (RunWhen.ALWAYS, RunWhen.FAILURE)),
            when_failed=self.one(words),
            conditional=condition is not None,
            pool=self.specs[spec].pool,
        )

    def _condition(self, needs: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        if needs and self.often(60):
            need = self.one(needs)
            return f"{need}.ok", (need,)
        return self.one(("true", "true", "true", "false", "false", "broken")), ()

    def _add(self, spec: StepSpec) -> int:
        self.specs.append(spec)
        return len(self.specs) - 1

    def _spec(self, kind: Kind, condition: str | None, reads: tuple[str, ...], needs: Sequence[str]) -> int:
        common: dict[str, Any] = {"condition": condition, "reads": reads}
        if kind is Kind.APPROVAL:
            body = {"ask": "may it go on?", "bind": self.one(("frozen", "frozen", "head"))}
            if self.often(25):
                body["expires_ms"] = self.chance.randint(1_000, 90_000)
            revise = self._work(Kind.AGENT, depth=1) if self.often(50) else None
            return self._add(StepSpec(kind, body, revise=revise, revise_rounds_max=2, **common))
        if kind is Kind.WAIT:
            if self.often(30):
                return self._add(StepSpec(kind, {"timer_ms": self.chance.randint(1, 60_000)}, **common))
            body = {"signal": self.one(SIGNALS), "match": self.one(({}, {"sha": "1"}, {"sha": "2"}))}
            if self.often(30):
                body["timeout_ms"] = self.chance.randint(1_000, 90_000)
            return self._add(StepSpec(kind, body, **common))
        if kind is Kind.FOR_EACH:
            item = self._item()
            items: Any = list(range(self.one((0, 1, 2, 3, 5, 7))))
            if needs and self.often(30):
                need = self.one(needs)
                items, common["reads"] = f"{need}.list", tuple(dict.fromkeys((*reads, need)))
            window = min(self.chance.randint(1, 3), self.batch)
            return self._add(StepSpec(kind, {}, items=items, item=item, parallel_max=window, **common))
        if kind is Kind.TASK:
            return self._add(child_spec(self, common))
        return self._work(kind, common)

    def _item(self) -> int:
        if self.odds.task and self.often(self.odds.task):
            return self._add(child_spec(self, {}))
        return self._work(self.one((Kind.RUN, Kind.AGENT)), depth=1)

    def conflict_spec(self) -> int:
        return self._work(Kind.AGENT, depth=1)

    def _work(self, kind: Kind, common: dict[str, Any] | None = None, depth: int = 0) -> int:
        """A spec whose executor follows a script."""
        chance = self.chance
        first = self.odds.acts or ACTS_AT_FIRST
        acts = [self.one(first) for _ in range(self.one((0, 0, 1, 1, 2, 4)))]
        last = self.one(ACTS_AT_LAST)
        if self.odds.failing >= 0:
            last = self.one(("fail", "bad")) if self.often(self.odds.failing) else "done"
        item = spawns = None
        if self.odds.spawn and kind is Kind.AGENT and depth != 1 and depth < 3 and self.often(self.odds.spawn):
            spawns = [min(chance.randint(1, 3), self.batch) for _ in range(self.one((1, 1, 2, 3)))]
            item = self._work(Kind.AGENT, depth=3)
        inline = kind is Kind.FUNCTION and self.often(60)
        commits = self.code and not inline and self.often(80)
        body: dict[str, Any] = {
            "acts": [*acts, last],
            "ms": self.one((0, 0, 30, 700, 4_000, 20_000)),
            "calls": chance.randint(1, self.odds.calls_max) if kind is Kind.AGENT else 0,
            "files": [f for f in self.odds.files if self.often(100 / len(self.odds.files))],
            "stubborn": self.often(30),
            "match": self.one(({}, {"sha": "1"})),
            "ok": self.often(80),
        }
        if spawns is not None:
            body["spawns"] = spawns
        if self.odds.hands and kind is Kind.AGENT and depth == 0 and self.often(self.odds.hands):
            body["grow"] = self.one(({}, {}, {"approve": True}, {"steps_max": 1}))
            commits = False
        if inline:
            body |= {"inline": True, "acts": ["done" if w == "refuse" else w for w in body["acts"]]}
        fix = None
        if not inline and depth < 3 and self.often(self.odds.fix if depth == 0 else 15):
            fix = self._work(Kind.AGENT, depth=depth + 1)
        conflict = self._work(Kind.AGENT, depth=depth + 1) if commits and depth < 2 and self.often(60) else None
        return self._add(
            StepSpec(
                kind,
                body,
                pool=self.one(self.pools),
                mutex=self.one(("m", "m", "n")) if self.often(self.odds.mutex) else None,
                failures_max=self.one((0, 0, 1, 2)),
                losses_max=self.one((0, 1, 3, 3)),
                timeout_ms=self.one((None, None, 5_000, 40_000)),
                repeatable=not self.often(20),
                commits=commits,
                fix=fix,
                item=item,
                parallel_max=16 if spawns is None else max(spawns),
                fix_rounds_max=chance.randint(1, 3),
                conflict=conflict,
                **(common or {}),
            )
        )
