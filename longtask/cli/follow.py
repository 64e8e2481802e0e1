"""Following: watch, events, logs."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from longtask.cli.background import warn_if_idle
from longtask.cli.help import commands
from longtask.cli.session import TASK, Session
from longtask.cli.telling import event_lines, local
from longtask.cli.viewing import LOOK_EVERY_S, view
from longtask.core.errors import NotFound, Refused
from longtask.core.model import Step, StepState, Task
from longtask.steps.output import plain
from longtask.store.contract import Ref
from longtask.views.events import Agents, cloud_events
from longtask.views.output import Told
from longtask.views.picture import look
from longtask.views.words import handle

PAGE = 500
# On a terminal colours pass; what moves the cursor, sets titles or asks the terminal something does not.
_HARMFUL = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f\x80-\x9f]")


def register(app: typer.Typer) -> None:
    command = commands(app, "Look")

    @command()
    def watch(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=f"{TASK}; default: @last")] = "@last",
        step: Annotated[str | None, typer.Argument(help="follow the output of this step")] = None,
    ) -> int:
        """Follow a task until it ends or waits for somebody.

        On a terminal a live tree, and questions are asked at once; elsewhere a line for each event. Ctrl-C leaves the
        task running. The exit code is the task's: 0 completed, 1 failed, 3 waits for somebody, 4 cancelled.

        Examples:
            longtask watch
            longtask watch @last tests
        """
        session: Session = ctx.obj
        found = session.task(task)
        if step is not None:
            return _logs(session, session.step(found, step), found, None, follow=True)
        warn_if_idle(session, [found])
        return view(session, found)

    @command()
    def events(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=f"{TASK}; default: @last")] = "@last",
        after: Annotated[int, typer.Option(metavar="N", help="only events with a higher number", min=0)] = 0,
        follow: Annotated[bool, typer.Option("-f", "--follow", help="until the task ends")] = False,
    ) -> int:
        """Tell what has happened, in order: the task's journal.

        Examples:
            longtask events @last
            longtask events @last --json --after 120 | jq -r .type
        """
        session: Session = ctx.obj
        found = session.task(task)
        agents = Agents(session.parts.store, found.id)
        while True:
            page = session.parts.store.events(found.id, after, PAGE)
            for event in page:
                after = event.seq
                if session.json:
                    for told in cloud_events(found, event, agents):
                        session.give_line(told)
                    continue
                for line in event_lines(found, event, f"{event.seq:>5}  {local(event.at)}", quiet=False):
                    session.say(line)
            if len(page) == PAGE:
                continue
            if not follow or (not page and session.parts.store.get_task(found.id).ended):
                return 0
            time.sleep(LOOK_EVERY_S)

    @command()
    def logs(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=f"{TASK}; default: @last")] = "@last",
        step: Annotated[str | None, typer.Argument(help="default: what runs, else what ran last")] = None,
        attempt: Annotated[int | None, typer.Option(metavar="N", help="default: the newest", min=1)] = None,
        follow: Annotated[bool, typer.Option("-f", "--follow", help="until the attempt ends")] = False,
    ) -> int:
        """Print the output of a step's attempt.

        Examples:
            longtask logs @last tests
            longtask logs @last tests --attempt 1
            longtask logs -f
        """
        session: Session = ctx.obj
        found = session.task(task)
        row = session.step(found, step) if step else latest(session, found, look(session.parts.store, found.id).steps)
        return _logs(session, row, found, attempt, follow)


def latest(session: Session, task: Task, steps: Sequence[Step]) -> Step:
    """What runs, else what ran last.  Raises Refused."""
    rows = [r for r in steps if r.attempt and r.kind in ("run", "agent", "function")]
    if not rows:
        raise Refused(f"task {handle(task)!r}: no step has run yet; {session.command('why', handle(task))}")
    running = [r for r in rows if r.state is StepState.RUNNING]
    return max(running or rows, key=lambda r: r.began_at)


class Chunks:
    """Lines of `logs --json` in their order, told to whoever reads.  `task`: its handle."""

    def __init__(self, session: Session, task: str) -> None:
        self._session, self._task = session, task
        self._after = 0

    def __call__(self, told: dict[str, Any]) -> None:
        session = self._session
        if self._after and told["n"] > self._after + 1:
            where = session.command("artifacts", self._task)
            session.say([("… left out; all of it is an artifact: ", "dim"), (where, "")])
        self._after = told["n"]
        if session.json:
            session.give_line(told)
        elif session.out.terminal:
            session.out.raw(_HARMFUL.sub("", told["text"]))
        else:
            session.out.raw(plain(told["text"].encode()))

    def end(self, step: str, attempt: int) -> None:
        if not self._after and not self._session.json:
            print(f"step {step!r} has written nothing in attempt {attempt}", file=sys.stderr)


def _logs(session: Session, step: Step, task: Task, attempt: int | None, follow: bool) -> int:
    store, ref, name = session.parts.store, Ref(task.id, step.key), handle(task)
    number = attempt or step.attempt
    if not number:
        why = session.command("why", name, step.key)
        raise Refused(f"step {step.key!r} is {step.state}: it has not run yet; {why}")
    if number > step.attempt:
        raise NotFound(f"step {step.key!r} has no attempt {number}; the newest is {step.attempt}")
    after, say = 0, Chunks(session, name)
    as_map = Told()
    while True:
        running = follow and _runs(session, ref, number)
        page = store.output(ref, number, after, PAGE)
        for chunk in page:
            after = chunk.n
            say(as_map(chunk))
        if len(page) == PAGE:
            continue
        if not running:
            say.end(step.key, number)
            return 0
        time.sleep(LOOK_EVERY_S)


def _runs(session: Session, ref: Ref, attempt: int) -> bool:
    step = session.parts.store.get_step(ref)
    return step.state is StepState.RUNNING and step.attempt == attempt
