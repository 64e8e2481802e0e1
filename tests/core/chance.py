"""Random plans and random moves, each allowed at its moment.  Chance is a callable: hypothesis may shrink it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from longtask.core import decide
from longtask.core.errors import BadPlan, Refused
from longtask.core.graph import Planned
from longtask.core.machine import untold
from longtask.core.model import (
    Expanded,
    Failed,
    Kind,
    Parked,
    Question,
    Released,
    Role,
    RunWhen,
    StepSpec,
    StepState,
    Stopped,
    TaskState,
    WaitingFor,
    WhenFailed,
)

from .play import Play, Wrong, planned

S = StepState

Choose = Callable[[int], int]  # n -> one of 0 .. n-1; 0 is the simplest


class Player:
    """A random plan and random moves, each of them allowed at that moment; refusals are refusals."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose

    def one(self, options: Sequence[Any]) -> Any:
        return options[self.choose(len(options))]

    def often(self, percent: int) -> bool:
        return self.choose(100) >= 100 - percent

    def plan(self) -> Play:
        stages = 1 + self.choose(3)
        specs = [
            StepSpec(Kind.RUN),
            StepSpec(Kind.RUN, commits=True, conflict=1),
            StepSpec(Kind.RUN, fix=0, fix_rounds_max=2, failures_max=1, timeout_ms=20_000),
            StepSpec(Kind.RUN, fix=2, commits=True, conflict=1, repeatable=False),
            StepSpec(Kind.FOR_EACH, item=0, parallel_max=2),
            StepSpec(Kind.FOR_EACH, item=3, parallel_max=1 + self.choose(3), failures_max=1),
            StepSpec(Kind.RUN, losses_max=0),
            StepSpec(Kind.AGENT, item=1, parallel_max=3, commits=True, conflict=1, failures_max=1, fix=0),
        ]
        mix = self.one([[0, 1, 1, 2, 3, 3, 4, 5, 6], [0, 1, 1, 2, 3, 3, 4, 5, 6, 7], [1, 1, 3], [4, 5], [0, 7, 7]])
        steps: list[Planned] = []
        ifs: dict[str, bool | str] = {}
        for n in range(1 + self.choose(7)):
            key = "abcdefgh"[n]
            stage = 1 + self.choose(stages)
            spec = self.one(mix)
            needs = None
            if self.often(50):
                needs = [s.key for s in steps if s.stage <= stage and self.often(30)]
            conditional = self.often(20)
            if conditional:
                ifs[key] = self.one([True, False, "broken"])
            steps.append(
                planned(key, stage, needs, spec=spec, kind=specs[spec].kind, conditional=conditional,
                        weight=self.one([100, 7]),
                        run_when=self.one([RunWhen.SUCCESS, RunWhen.SUCCESS, RunWhen.SUCCESS, RunWhen.ALWAYS,
                                           RunWhen.FAILURE]),
                        when_failed=self.one([WhenFailed.STOP, WhenFailed.STOP, WhenFailed.CONTINUE, WhenFailed.ASK]))
            )  # fmt: skip
        return Play(steps, stages=stages, specs=specs, ifs=ifs, parallel=self.one([100, 2, 1]),
                    batch=self.one([500, 1, 2]), submit_batch=self.one([500, 3]), attended=self.often(50),
                    fail_fast=self.often(15))  # fmt: skip

    def moves(self, play: Play) -> list[tuple[Any, ...]]:
        """What may be tried now; what ends tasks early is rare."""
        task, rows = play.task, play.rows
        out: list[tuple[Any, ...]] = []
        closing = task.state is TaskState.CLOSING
        for key, row in sorted(rows.items()):
            if untold(row) and not closing and not task.ended:
                out += [(play.settle, key)] * 2
            if row.state is S.READY and task.admits == 2:
                out += [(play.claim, key)] * 8
            elif row.state is S.RUNNING:
                out += [(self.finish, play, key)] * 4 + [(play.expire, key)]
            elif row.state is S.MERGING and not closing:
                out += [(play.merge, key), (play.merge, key, True), (play.merge, key, True)]
            elif row.state is S.WAITING:
                out += [(self.wake, play, key)] * 2
            if row.taken_by is not None and row.state is S.RUNNING:
                out.append((play.give_back, key))
            elif self.often(2):
                out.append((play.take, key))
            if self.often(2) and not task.ended:
                out.append((play.edit, key, play.specs[row.spec]))
            if row.open and not row.gate:
                out += [(play.cancel_step, key)] if self.often(12) else []
                out += [(play.retire, key)] if self.often(4) else []
            elif row.state in (S.FAILED, S.CANCELLED) and not task.ended:
                out += [(play.retry, key)] * 3 + [(play.waive, key)]
            elif row.state in (S.FAILED, S.CANCELLED) and self.often(70):
                out += [(play.retry, key), (play.waive, key)]
        if closing:
            out += [(play.sweep,)] * 3
        if task.state is TaskState.ACTIVE and self.often(10):
            out.append((play.pause,))
        if task.state is TaskState.PAUSED:
            out += [(play.resume,)] * 3
        if not task.ended and self.often(10):
            out.append((play.signal, "go"))
        if not task.ended and self.often(2):
            out.append((play.cancel,))
        if not task.ended and self.often(20) and len(rows) < 40:
            out += [(self.add, play)] * 4
        return out

    def add(self, play: Play) -> None:
        """A step or two, somewhere; what may not be is refused."""
        rows = [row for row in play.rows.values() if not row.gate]
        spec = self.choose(7)
        open_rows = [row for row in rows if row.state in (S.READY, S.BLOCKED) and row.role is Role.OWN]
        before = self.one(open_rows if open_rows and self.often(80) else rows).key if self.often(50) else None
        new: list[Planned] = []
        for n in range(1 + self.choose(2)):
            may = [row for row in rows if row.state is S.COMPLETED] if before and self.often(80) else rows
            needs = [row.key for row in may if self.often(100 // (2 + len(may)))] + [
                step.key for step in new if self.often(40)
            ]
            conditional = self.often(20)
            key = f"{self.one('agz')}{len(play.rows)}_{n}"
            if conditional:
                play.ifs[key] = self.one([True, False, "broken"])
            new.append(planned(key, 1, needs if self.often(70) else None, conditional=conditional,
                               run_when=self.one([RunWhen.SUCCESS, RunWhen.SUCCESS, RunWhen.ALWAYS])))  # fmt: skip
        stages = play.task.options.stages
        play.add(
            *new, before=before, stage=self.one([None, None, *stages]), specs=[*map(self._alone, [play.specs[spec]])]
        )

    def _alone(self, spec: StepSpec) -> StepSpec:
        """Without what it names by number: a growth numbers its own."""
        return replace(spec, fix=None, item=None, conflict=None) if spec.kind is Kind.RUN else StepSpec(Kind.RUN)

    def finish(self, play: Play, key: str) -> None:
        row = play.rows[key]
        stopped = play.leases[key].stop is not None
        if stopped and self.often(60):
            play.finish(key, Stopped())
        elif row.kind is Kind.FOR_EACH and not row.items and self.often(80):
            whole = row.listing if row.listing is not None else list(range(self.choose(6)))
            play.finish(key, Expanded(len(whole), whole))
        elif row.kind is Kind.AGENT and play.specs[row.spec].item is not None and self.often(40):
            length = 1 + self.choose(3)
            play.finish(key, Expanded(length, {"run": row.run, "bound": row.attempt, "tasks": [""] * length}))
        else:
            play.finish(key, self.one([play.done(key)] * 5 + [
                Failed("boom"), Failed("boom"), Failed("boom", digest="d"), Failed("boom", digest="e"),
                Failed("bad", retryable=False), Stopped(), Released("drain"),
                Parked(WaitingFor.EVENT, {"name": "go"}), Parked(WaitingFor.TIMER, {}, play.now + 50),
                Parked(WaitingFor.USER, {"kind": "approval", "digest": "x"}),
            ]))  # fmt: skip

    def wake(self, play: Play, key: str) -> None:
        row = play.rows[key]
        question = row.question or {}
        if row.due_at:
            play.overdue(key)
        elif "name" in question:
            play.signal("go")
        else:
            words = question.get("answers") or decide.ANSWERS[Question(question["kind"])]
            word = self.one(list(words))
            commit = None
            if word == "resolve":
                assert row.commit is not None and play.task.head is not None
                commit = f"c{len(play.ancestors)}"
                play.ancestors[commit] = play.ancestors[row.commit] | play.ancestors[play.task.head] | {commit}
            play.answer(key, word, commit=commit)

    def play(self, moves: int) -> Play:
        return self.go_on(self.plan(), moves)

    def go_on(self, play: Play, moves: int) -> Play:
        for _ in range(moves):
            options = self.moves(play)
            if not options:
                break
            act, *rest = self.one(options)
            try:
                act(*rest)
            except (Refused, BadPlan):
                continue
        return play

    def end(self, play: Play, rounds: int = 300) -> None:
        """Faults off, nobody's help but answers: every task ends."""
        for _ in range(rounds):
            task = play.task
            if task.ended:
                return
            if task.state is TaskState.CLOSING:
                play.sweep()
            if task.state is TaskState.PAUSED:
                play.resume()
            for key, lease in sorted(play.leases.items()):
                if lease.stop == decide.STOP_CANCEL or task.state is TaskState.CLOSING:
                    play.expire(key)
            if task.state is TaskState.CLOSING:
                continue
            play.drain(rounds=5)
            for key, row in sorted(play.rows.items()):
                if row.state is S.WAITING and row.waiting_for == "user":
                    words = (row.question or {}).get("answers") or ("approve",)
                    play.answer(key, "give_up" if "give_up" in words else words[0])
                elif row.state is S.WAITING:
                    play.overdue(key) if row.due_at else play.signal("go")
        raise Wrong("\n".join(["the task does not end", str(play.task), *play.story()]))
