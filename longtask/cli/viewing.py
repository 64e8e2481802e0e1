"""Watching a task until it ends or waits for somebody: a live tree on a terminal, a line for each event elsewhere.

`keep` is asked at each look whether to go on: it may start another worker, or know that there is none any more.
Ctrl-C detaches; nothing here can stop the work.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from longtask.cli.paint import Line
from longtask.cli.session import DETACHED, WAITS, Session, exit_code
from longtask.cli.telling import event_lines
from longtask.cli.tree import lines
from longtask.core.machine import status
from longtask.core.model import Role, Step, StepState, Task
from longtask.views import reasons
from longtask.views.events import Agents, cloud_events
from longtask.views.picture import Looker, Picture, look
from longtask.views.text import gist
from longtask.views.words import duration, handle

LOOK_EVERY_S = 0.2
BUSY_SHARE = 4  # a look that takes long is made less often
EVENTS_PAGE = 500
SETTLED_LOOKS = 3  # looks in a row at which it waits for somebody: else a step is about to wake it
MANY_STEPS = 200  # above it, a line for each step tells nothing any more
MANY_EVERY_S = 5.0
MANY_QUIET = frozenset({"step.started", "step.completed", "step.skipped"})
FAILED_SHOWN = 10

Keep = Callable[[Task], bool]


def always(task: Task) -> bool:
    return True


def view(session: Session, task: Task, *, keep: Keep = always, left: str = "the work goes on") -> int:
    """The exit code.  `left`: what is true after Ctrl-C."""
    try:
        if session.live:
            return live_view(session, task, keep)
        return PlainView(session, task.id).run(keep)
    except KeyboardInterrupt:
        if session.json:
            session.give_line(end_map(session, session.parts.store.get_task(task.id), DETACHED))
        session.say()
        session.say(f"detached; {left}; come back with: {session.command('watch', handle(task))}")
        return DETACHED


def end_map(session: Session, task: Task, code: int) -> dict[str, Any]:
    """The last line of `run --json` and `watch --json`."""
    waits = reasons.waits_for_somebody(session.face, task)
    return {
        "type": "view.ended",
        "task": task.id,
        "handle": handle(task),
        "status": status(task),
        "exit_code": code,
        "waits": [reasons.reason_map(reason) for reason in waits],
    }


class PlainView:
    """Lines.  It can be run again after a question was answered, and goes on where it was."""

    def __init__(self, session: Session, task_id: str, *, silent: bool = False, ends: bool = True) -> None:
        """`silent`: tells nothing.  `ends`: tells how it ended too."""
        self._session = session
        self._task_id = task_id
        self._silent = silent
        self._ends = ends
        self._after = 0
        self._agents = Agents(session.parts.store, task_id)
        self._told_at = time.monotonic()
        self._told_done = -1

    def run(self, keep: Keep) -> int:
        """Until the task has ended, or waits for somebody, or `keep` says no."""
        store, looks = self._session.parts.store, 0
        while True:
            page = store.events(self._task_id, self._after, EVENTS_PAGE)
            task = store.get_task(self._task_id)
            for event in page:
                self._after = event.seq
                if not self._silent:
                    self._tell(task, event)
            if page:
                looks = 0
                continue
            self._tell_many(task)
            if task.ended or not keep(task):
                return self._end(store.get_task(self._task_id))
            looks = looks + 1 if reasons.waits_for_somebody(self._session.face, task) else 0
            if looks >= SETTLED_LOOKS:
                return self._end(task)
            time.sleep(LOOK_EVERY_S)

    def _tell(self, task: Task, event: Any) -> None:
        if self._session.json:
            for told in cloud_events(task, event, self._agents):
                self._session.give_line(told)
            return
        many = task.counts.steps > MANY_STEPS
        for line in event_lines(task, event, f"{(event.at - task.created_at) / 1000:7.1f}s", quiet=True):
            if not (many and line[2][0].strip() in MANY_QUIET):
                self._session.say(line)

    def _tell_many(self, task: Task) -> None:
        """Of a large task a count now and then."""
        c = task.counts
        if c.steps <= MANY_STEPS or self._session.json or self._silent:
            return
        done = c.steps - c.open
        if done != self._told_done and (time.monotonic() - self._told_at >= MANY_EVERY_S or task.ended):
            self._told_at, self._told_done = time.monotonic(), done
            stages = len(task.options.stages or ("",))
            self._session.say(f"{'':8}  {done - c.gates:,} of {c.steps - stages:,} steps are over, {c.running:,} run")

    def _end(self, task: Task) -> int:
        code = exit_code(task)
        if not self._ends:
            return code
        if self._session.json:
            self._session.give_line(end_map(self._session, task, code))
        for line in end_lines(self._session, task):
            self._session.say(line)
        return code


def end_lines(session: Session, task: Task) -> Iterator[Line]:
    """How it stands, and the next commands."""
    name, word = handle(task), status(task)
    if word == "failed":
        yield [(f"{name} failed", "red")]
        for step in failed_steps(session, task):
            yield [(f"  {step.key} {step.state}: {gist(step.reason)}".rstrip(": "), "")]
        yield [(f"  {session.command('why', name)}", "cyan")]
    elif task.ended:
        took = duration(task.ended_at - task.created_at)
        yield [(name, "bold"), (f" {word}", "green" if word == "completed" else "red"), (f" after {took}", "")]
        yield from made_lines(session, task)
    elif waits := reasons.waits_for_somebody(session.face, task):
        yield [(f"{name} waits for somebody", "yellow")]
        for reason in waits:
            yield [(f"  {reason.what}", "")]
            yield from ([(f"    {text}", "cyan")] for text in reason.help)
    else:
        yield [(f"{name} is {word}: {session.command('why', name)}", "")]


def made_lines(session: Session, task: Task) -> Iterator[Line]:
    """Where the fruit of a task lies."""
    from longtask.boot import branch_of

    changed = bool(task.workspace_id) and task.head != task.base
    hub = session.parts.merger.workspace(task.workspace_id).hub if changed else None
    if hub is not None and hub.origin is None:
        place = f"{hub.folder} on host {hub.host}" if hub.host else str(hub.folder)
        yield [("  branch     ", "dim"), (f"{branch_of(task)} in {place}", "")]
    kept = [a["name"] for a in session.parts.records.artifacts(task.id)]
    kept = [name for name in kept if not name.startswith(("output/", "leftovers/"))]
    if kept:
        yield [("  artifacts  ", "dim"), (made_of(session, handle(task), kept), "")]


def made_of(session: Session, task: str, kept: Sequence[str]) -> str:
    """`task`: its handle."""
    names = ", ".join(kept[:5]) + (" …" if len(kept) > 5 else "")
    return f"{names}: {session.command('artifacts', task)}"


def failed_steps(session: Session, task: Task) -> list[Step]:
    return failed_of(look(session.parts.store, task.id).steps)


def failed_of(steps: Sequence[Step]) -> list[Step]:
    bad = (StepState.FAILED, StepState.CANCELLED)
    return [s for s in steps if s.state in bad and not s.tolerated and s.role is Role.OWN][:FAILED_SHOWN]


# --- on a terminal ------------------------------------------------------------------------------------------------


def live_view(session: Session, task: Task, keep: Keep, *, ends: bool = True) -> int:
    """`ends`: tells what comes next too."""
    from longtask.cli.asking import ask_inline

    looker = Looker(session.parts.store, task.id)
    while True:
        try:
            picture, asked = _watch(session, looker, keep)
        finally:
            session.above = None
        if asked is None:
            for line in lines(picture, width=session.out.columns):
                session.say(line)
            for line in end_lines(session, picture.task) if ends else ():
                session.say(line, crop=not picture.task.ended)
            return exit_code(picture.task)
        if not ask_inline(session, picture.task, asked):
            return WAITS


def _watch(session: Session, looker: Looker, keep: Keep) -> tuple[Picture, Step | None]:
    """Draws until the task ends, or asks: then with the step that asks."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False, emoji=False, markup=False)
    drawn: list[Line] = []
    looks = 0
    with _untouched(), Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop") as live:
        session.above = lambda text: console.print(Text(text, "yellow"))
        while True:
            began = time.monotonic()
            picture = looker.look()
            made = lines(picture, width=session.out.columns, height=max(console.size.height - 1, 3))
            if made != drawn:
                texts = [Text.assemble(*line, no_wrap=True, overflow="crop") for line in made]
                live.update(Group(*texts), refresh=True)
                drawn = made
            if picture.task.ended or not keep(picture.task):
                return picture, None
            asking = session.parts.store.asking(task_id=picture.task.id, limit=1)
            looks = looks + 1 if asking else 0
            if looks >= SETTLED_LOOKS:
                return picture, asking[0][1]
            time.sleep(max(LOOK_EVERY_S, BUSY_SHARE * (time.monotonic() - began)))


@contextmanager
def _untouched() -> Iterator[None]:
    """What is typed meanwhile is not shown and counts for nothing; however this ends, the terminal is left in order."""
    import termios

    def end(number: int, frame: object) -> None:
        sys.exit(128 + number)

    before = termios.tcgetattr(sys.stdin)
    quiet = list(before)
    quiet[3] &= ~termios.ECHO
    handlers = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
        for number, handler in handlers.items():
            signal.signal(number, handler)
