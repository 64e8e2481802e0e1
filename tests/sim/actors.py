"""Executors that do what their script says, on virtual time; real ones for waits, approvals and lists.

What they see is told to the onlooker (`checks.Onlooker`), who knows what no row says: which attempts were begun, which
calls of a run were carried out, which process tree still lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from longtask.core.errors import BadPlan, LeaseLost, Refused, WorkspaceError
from longtask.core.grow import Growth
from longtask.core.model import (
    Done,
    Expanded,
    Failed,
    Json,
    JsonMap,
    Kind,
    Outcome,
    Parked,
    Released,
    StepSpec,
    Stopped,
    Task,
    WaitingFor,
)
from longtask.steps.approval import ApprovalExecutor
from longtask.steps.contract import Assignment, Desk, Ended, Executor, Handle, Records
from longtask.steps.for_each import ForEachExecutor
from longtask.steps.task import TaskExecutor
from longtask.steps.wait import WaitExecutor

from .checks import Onlooker
from .hands import Edited, edited, growth_of, handed_over
from .plans import Odds
from .repo import Repo
from .spawns import seams_of, spawned, tasks_of

LARGE = "x" * 5_000


class World(Protocol):
    """What an executor needs of the world around it."""

    now: int
    calm: bool  # faults are off: what hangs ends
    onlooker: Onlooker
    repo: Repo
    odds: Odds

    def interlude(self, percent: float | None = None, long: bool = False) -> None: ...
    def fails(self) -> bool: ...
    def one(self, options: Any) -> Any: ...
    def often(self, percent: float) -> bool: ...
    def hold(self, handle: ScriptHandle) -> None: ...


class Language:
    """Just enough of one: `true`, `false`, `broken`, and `KEY.NAME` for an output of a step."""

    def __init__(self, world: World) -> None:
        self._world = world

    def condition(self, text: str, scope: JsonMap) -> bool:
        self._world.interlude()
        value = self.render(text, scope)
        if not isinstance(value, bool):
            raise BadPlan(f"{text!r} is no truth value")
        return value

    def render(self, template: Json, scope: JsonMap) -> Json:
        if template in ("true", "false"):
            return template == "true"
        if isinstance(template, str) and template.count(".") == 1:
            key, _, name = template.partition(".")
            if key in scope["steps"]:
                outputs = scope["steps"][key]["outputs"]
                if not isinstance(outputs, dict) or name not in outputs:
                    raise BadPlan(f"step {key!r} has no output {name!r}")
                return outputs[name]
        return template

    def expand(self, template: Json, scope: JsonMap) -> Json:
        try:
            return self.render(template, scope)
        except BadPlan:
            return []

    def growth(self, raw: Json, task: Task) -> Growth:
        self._world.interlude()
        return growth_of(raw)

    def edited(self, key: str, old: StepSpec, words: Json, task: Task) -> Edited:
        self._world.interlude()
        return edited(old, words)


def executors(world: World, records: Records, language: Language) -> Mapping[Kind, Executor]:
    scripted = Scripted(world)
    real: dict[Kind, Executor] = {
        Kind.APPROVAL: ApprovalExecutor(language.render, records, lambda w, b, h: {"files": 0}),
        Kind.WAIT: WaitExecutor(language.render),
        Kind.FOR_EACH: ForEachExecutor(language.expand, records),
        Kind.TASK: TaskExecutor(language.render, records),
    }
    return {
        Kind.RUN: scripted,
        Kind.FUNCTION: scripted,
        Kind.AGENT: scripted,
        **{kind: Watched(world, executor) for kind, executor in real.items()},
    }


class Watched:
    """A real executor; its starts are told."""

    def __init__(self, world: World, executor: Executor) -> None:
        self._world = world
        self._executor = executor

    def start(self, assignment: Assignment, desk: Desk, place: Path | None) -> Handle:
        self._world.onlooker.begun(assignment)
        return self._executor.start(assignment, desk, place)


class Scripted:
    def __init__(self, world: World) -> None:
        self._world = world

    def start(self, assignment: Assignment, desk: Desk, place: Path | None) -> Handle:
        self._world.onlooker.begun(assignment)
        body = assignment.spec.body
        acts = body["acts"]
        act = acts[min(assignment.attempt, len(acts)) - 1]
        if act == "refuse":
            raise BadPlan("there is no such program")
        if body["ms"] == 0 and act not in ("hang",) and not body["calls"]:
            return Ended(outcome(self._world, act, assignment))
        handle = ScriptHandle(self._world, assignment, desk, act)
        self._world.hold(handle)
        return handle


class ScriptHandle:
    """A process tree, alive until it has answered or is killed."""

    def __init__(self, world: World, assignment: Assignment, desk: Desk, act: str) -> None:
        self.world = world
        self.assignment = assignment
        self.desk = desk
        self.act = act
        self.alive = True
        body = assignment.spec.body
        self.until = world.now + (1 << 50 if act == "hang" else body["ms"])
        self.stop_at: int | None = None
        self._calls = body["calls"]
        self._done = {row["n"]: row for row in assignment.journal if row["done"]}
        self._n = 0
        self._at = "begin"
        self._spawned = 0  # lists that were given out and have ended
        self._expanded: Expanded | None = None  # what it answers with

    @property
    def key(self) -> tuple[str, str, int]:
        return (self.assignment.task_id, self.assignment.step, self.assignment.attempt)

    def poll(self) -> Outcome | None:
        world = self.world
        assert self.alive, f"{self.key} is asked after its end"
        if self.stop_at is not None:
            if world.now < self.stop_at:
                return None
            return self._end(Stopped())
        while self._n < self._calls:
            if not self._call(self._n + 1):
                return None
        if world.now < self.until and not (world.calm and self.act == "hang"):
            return None
        if not self._spawns():
            return None
        said = self._expanded or outcome(world, self.act, self.assignment)
        world.interlude(world.odds.absence, long=True)
        return self._end(said)

    def _spawns(self) -> bool:
        """Work is given out, list after list, until one has not ended.  False: more in the next round."""
        a = self.assignment
        lengths = a.spec.body.get("spawns", ())
        while self._spawned < len(lengths) and self._expanded is None:
            n = self._calls + self._spawned + 1
            tasks = tasks_of(a, n, lengths[self._spawned])
            self.world.interlude(self.world.odds.absence, long=True)
            said = spawned(a, seams_of(a, self.desk, n - 1), tasks)
            if isinstance(said, Expanded):
                self._expanded = said
                return self.world.often(50)
            self.world.onlooker.told(a, n, said)
            self._spawned += 1
        return True

    def _end(self, said: Outcome) -> Outcome:
        self.alive = False
        return said

    def _call(self, n: int) -> bool:
        """The next act of a call of the run through its journal; False: more in the next round."""
        if n in self._done:
            self._n = n
            return True
        a, desk, onlooker = self.assignment, self.desk, self.world.onlooker
        turn = n % 2 == 1  # a model's turn has a price, a tool leaves a tree
        kind, mark, price = ("turn", f"turn {n}", 1) if turn else ("tool", f"tool {n}", 0)
        body = {"by": a.attempt, "n": n}
        self.world.interlude(self.world.odds.absence, long=True)
        match self._at:
            case "begin":
                before = onlooker.over_budget(a.task_id) if turn else []
                try:
                    self._taken(desk.journal_started(n, kind, "name", mark), f"call {n} may not begin")
                except Refused as stop:  # its lease asks for a stop: it gives back
                    self.stop(str(stop), 0)
                    return False
                onlooker.admitted(a.task_id, before)
                onlooker.carried_out(a, n)
                self._at = "end"
            case "end":
                usage = {"tokens_in": price, "tokens_out": price, "micros": price}
                self._taken(desk.journal_done(n, kind, "name", mark, body, usage), f"call {n} is not taken")
                onlooker.recorded(a, n, body)
                self._at = "save"
            case "save":
                if not turn:
                    self._taken(desk.checkpoint(n, f"tree {n}"), "the checkpoint is not taken")
                    onlooker.saved(a, n)
                desk.output("out", b"a line\n")
                desk.progress(n, self._calls, "calls")
                self._n, self._at = n, "begin"
        return self.world.now >= self.until or self.world.often(50)

    def _taken(self, answer: bool, text: str) -> None:
        if not answer:
            raise LeaseLost(f"{self.key}: {text}")

    def stop(self, reason: str, grace_ms: int) -> None:
        body = self.assignment.spec.body
        self.stop_at = self.world.now + (grace_ms if body["stubborn"] else min(50, grace_ms))

    def kill(self) -> None:
        self.stop_at = self.world.now

    def vanish(self) -> None:
        """Its worker is dead: the warden ends what it had started."""
        self.alive = False


def outcome(world: World, act: str, a: Assignment) -> Outcome:
    body = a.spec.body
    if world.calm and act in ("hang", "give_back"):
        act = "done"
    match act:
        case "done" | "hang":
            planned = {"steps": handed_over(world, a.step, a.attempt)} if "grow" in body else {}
            return Done({"ok": body["ok"], "list": [1, 2, 3], **planned})
        case "large":
            return Done({"ok": body["ok"], "list": [LARGE, 2]})
        case "fail":
            return Failed(f"attempt {a.attempt} failed")
        case "fail_digest":
            return Failed("the same as ever", digest="d")
        case "bad":
            return Failed("no use to try again", retryable=False)
        case "park_signal":
            return Parked(WaitingFor.EVENT, {"name": "go", "match": body["match"]}, world.one((0, world.now + 9_000)))
        case "park_user":
            question = {"kind": "approval", "text": "may I?", "digest": f"call {a.attempt}"}
            return Parked(WaitingFor.USER, question, world.one((0, 0, world.now + 60_000)))
        case "park_timer":
            return Parked(WaitingFor.TIMER, {"timer_ms": 500}, world.now + 500)
        case "give_back":
            return Released("the budget is spent")
    raise AssertionError(act)


class Places:
    """`engine.attempt.Places` on the model of git."""

    def __init__(self, world: World) -> None:
        self._world = world

    def prepare(self, assignment: Assignment, desk: Desk) -> Path:
        self._world.interlude()
        if self._world.fails():
            raise WorkspaceError("the disk is full")
        return Path(assignment.task_id) / assignment.step / str(assignment.attempt)

    def keep(self, assignment: Assignment, place: Path, outcome: Outcome, desk: Desk) -> Outcome:
        self._world.interlude()
        files = assignment.spec.body["files"]
        if not isinstance(outcome, Done) or not assignment.spec.commits:
            return outcome
        assert assignment.base is not None
        if assignment.conflict is not None:
            parents: tuple[Any, ...] = (assignment.base, assignment.conflict["commit"])
            return replace(outcome, commit=self._world.repo.commit(parents, files))
        return replace(outcome, commit=self._world.repo.commit((assignment.base,), files)) if files else outcome
