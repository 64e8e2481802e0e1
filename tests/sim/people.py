"""What callers ask at random, and what they must be answered.

A refusal is an answer too.  Where it is certain (an old question, another digest, the same answer again) it is
demanded.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from longtask.core.decide import ANSWERS
from longtask.core.errors import BadPlan, NotFound, Refused
from longtask.core.model import Question, Step, StepState, Task, TaskState, WaitingFor
from longtask.engine.desk import Desk
from longtask.engine.hands import Hands
from longtask.store.contract import Ref, Store

from .checks import Onlooker
from .faults import Found
from .forks import Forks
from .hands import LayingHands
from .plans import SIGNALS, Odds
from .repo import Repo

S = StepState
NAMES = ("ann", "ben")


class World(Protocol):
    """What people need of the world around them."""

    chance: Random
    now: int
    odds: Odds
    onlooker: Onlooker
    repo: Repo
    tasks: list[str]

    @property
    def store(self) -> Store: ...
    def often(self, percent: float) -> bool: ...
    def one(self, options: Any) -> Any: ...
    def act(self, process: Any, what: str, call: Callable[[], Any]) -> Any: ...
    def tell(self, line: str) -> None: ...


class People:
    """All that reaches the desk.  `world.act` makes a call; it may die in the middle of it."""

    def __init__(self, world: World, desk: Desk, hands: Hands) -> None:
        self.world = world
        self.desk = desk
        self.hands = LayingHands(self, hands)
        self.forks = Forks(self)
        self.deliveries = 0

    def something(self) -> None:
        world = self.world
        task = world.store.get_task(world.one(world.tasks))
        deeds: dict[str, Callable[[Task], None]] = {
            "pause": self.pause,
            "resume": self.resume,
            "cancel": self.cancel,
            "cancel_step": self.cancel_step,
            "retry": self.retry,
            "skip": self.skip,
            "answer": self.answer,
            "signal": self.signal,
            "raise": self.raise_budget,
        }
        words = ["answer"] * 6 + ["signal"] * 5 + ["retry"] * 3 + ["cancel_step"] * 2 + ["skip", "pause"]
        words += ["resume"] * (5 if task.state is TaskState.PAUSED else 1) + ["raise"] * (
            1 + 5 * (not task.within_budget)
        )
        words += ["cancel"] * world.often(15)
        if world.odds.forks and world.often(world.odds.forks):
            self.forks.something()
            return
        if world.odds.hands and world.often(world.odds.hands):
            self.hands.something(task)
            return
        rather = world.odds.person.split()
        word = world.one(rather) if rather and world.often(60) else world.one(words)
        deeds[word](task)

    def may(self, what: str, call: Callable[[], Any]) -> Any:
        """None: refused, or dead on the way."""

        def asked() -> Any:
            try:
                return call()
            except (Refused, NotFound, BadPlan) as refused:
                self.world.tell(f"refused: {refused}")
                return None

        return self.world.act(None, what, asked)

    def _never(self, what: str, call: Callable[[], Any]) -> None:
        """A call that must be refused."""

        def asked() -> None:
            try:
                call()
            except (Refused, NotFound):
                return
            raise Found("refusal", f"{what} was taken")

        self.world.act(None, what, asked)

    def _step(self, task: Task, *states: StepState) -> Step | None:
        rows = [row for row in self.world.store.steps(task.id, "", 500) if not states or row.state in states]
        return self.world.one(rows) if rows else None

    # --- about a task ---------------------------------------------------------------------------------------------

    def pause(self, task: Task) -> None:
        now = self.world.often(40)
        self.may(f"pause {task.name} now={now}", lambda: self.desk.pause(task.id, self.name(), now=now))

    def resume(self, task: Task) -> None:
        self.may(f"resume {task.name}", lambda: self.desk.resume(task.id, self.name()))

    def cancel(self, task: Task) -> None:
        self.may(f"cancel {task.name}", lambda: self.desk.cancel(task.id, self.name()))

    def raise_budget(self, task: Task) -> None:
        micros = (task.budget_micros or 0) + 100
        active_ms = None
        if task.options.active_max_ms is not None:
            active_ms = self.world.now - task.created_at + self.world.chance.randint(1, 120_000)
        who = self.name()
        self.may(f"raise {task.name}", lambda: self.desk.raise_budget(task.id, who, micros=micros, active_ms=active_ms))

    def name(self) -> str:
        return str(self.world.one(NAMES))

    # --- about a step ---------------------------------------------------------------------------------------------

    def cancel_step(self, task: Task) -> None:
        row = self._step(task, *((S.RUNNING, S.WAITING, S.BLOCKED, S.MERGING, S.READY) if self.world.often(90) else ()))
        if row is not None:
            ref = Ref(task.id, row.key)

            def call() -> None:
                step = self.desk.cancel_step(ref, self.name())
                if step.state is S.RUNNING:
                    self.world.onlooker.cancelling(task.id, step)

            self.may(f"cancel {task.name} {row.key}", call)

    def retry(self, task: Task) -> None:
        row = self._step(task, *((S.FAILED, S.CANCELLED) if self.world.often(90) else ()))
        if row is not None:
            ref = Ref(task.id, row.key)
            self.may(f"retry {task.name} {row.key}", lambda: self.desk.retry(ref, self.name()))

    def skip(self, task: Task) -> None:
        row = self._step(task, *((S.FAILED, S.CANCELLED, S.BLOCKED) if self.world.often(90) else ()))
        if row is not None:
            ref = Ref(task.id, row.key)
            self.may(f"skip {task.name} {row.key}", lambda: self.desk.skip(ref, self.name()))

    # --- answers and signals --------------------------------------------------------------------------------------

    def answer(self, task: Task) -> None:
        asking = self.world.store.asking(task_id=None, limit=20)
        if not asking:
            return
        task_id, row = self.world.one(asking)
        ref, question = Ref(task_id, row.key), row.question or {}
        word = self.word(row)
        say: dict[str, Any] = {"ask": self.world.one((None, row.ask, row.ask)), "text": "so be it"}
        if self.world.often(50):
            say["digest"] = question.get("digest")
        if word == "resolve":
            say["commit"] = self.resolved(task_id, row)
        wrong = self.world.one(("",) * 6 + ("ask", "digest", "word"))
        match wrong:
            case "ask":
                say["ask"] = row.ask + self.world.one((-1, 1))
            case "digest":
                say["digest"] = "another"
            case "word":
                word = "perhaps"
        what = f"answer {row.key} ask {row.ask}: {word} {say}"
        if wrong:
            self._never(what, lambda: self.desk.answer(ref, word, self.name(), **say))
            return
        if self.give(ref, row, word, say) is not None and self.world.often(30):
            say["ask"] = row.ask
            self._never(f"again {what}", lambda: self.desk.answer(ref, word, self.name(), **say))

    def give(self, ref: Ref, row: Step, word: str, say: dict[str, Any]) -> Step | None:
        """None: refused, or dead on the way."""

        def call() -> Step:
            step = self.desk.answer(ref, word, self.name(), **say)
            self.world.onlooker.answered[ref.task_id, ref.step, row.ask] += 1
            return step

        taken: Step | None = self.may(f"answer {row.key} ask {row.ask}: {word} {say}", call)
        return taken

    def word(self, row: Step) -> str:
        question = row.question or {}
        words = list(question.get("answers") or ANSWERS[Question(question["kind"])])
        if "approve" in words and self.world.often(50):
            return "approve"
        return str(self.world.one(words))

    def resolved(self, task_id: str, row: Step) -> str:
        head = self.world.store.get_task(task_id).head
        assert head is not None and row.commit is not None
        return self.world.repo.commit((head, row.commit), ())

    def signal(self, task: Task, name: str | None = None, payload: dict[str, str] | None = None) -> None:
        world = self.world
        name = name or world.one(SIGNALS)
        payload = payload if payload is not None else world.one(({}, {"sha": "1"}, {"sha": "2"}))
        again = self.deliveries and world.often(30)
        if not again:
            self.deliveries += 1
        delivery = f"d{world.chance.randint(1, self.deliveries) if again else self.deliveries}"

        world.onlooker.tried.setdefault((task.id, delivery), []).append((name, payload))

        def call() -> None:
            sent = self.desk.signal(task.id, name, payload, delivery=delivery, sender=self.name())
            world.onlooker.signalled(task.id, sent)

        self.may(f"signal {task.name} {name} {payload} {delivery}", call)

    # --- the second phase: all that is asked is answered -----------------------------------------------------------

    def help(self, patient: bool) -> None:
        """`patient`: whatever may be answered; else what ends the matter."""
        for task_id in self.world.tasks:
            task = self.world.store.get_task(task_id)
            if task.ended:
                continue
            if task.state is TaskState.PAUSED:
                self.resume(task)
            if not task.within_budget:
                self.raise_budget(task)
            for row in self.world.store.steps(task_id, "", 500):
                if row.state is S.WAITING:
                    self._wake(task, row, patient)
            self.hands.help(task)

    def _wake(self, task: Task, row: Step, patient: bool) -> None:
        question = row.question or {}
        if row.waiting_for is WaitingFor.USER:
            words = question.get("answers") or ANSWERS[Question(question["kind"])]
            word = self.word(row) if patient else ("give_up" if "give_up" in words else "approve")
            say = {"commit": self.resolved(task.id, row)} if word == "resolve" else {}
            self.give(Ref(task.id, row.key), row, word, say)
        elif "name" in question and row.waiting_for is not WaitingFor.TASK:
            self.deliveries += 1
            self.signal(task, question["name"], dict(question.get("match") or {}))
