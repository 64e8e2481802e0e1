"""Looking: ls, show, watch, events, logs, artifacts.  Nothing here changes anything."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from longtask.cli.background import live_workers
from longtask.cli.reasons import why_lines
from longtask.cli.session import Session, exit_code, handle
from longtask.cli.tree import as_map, duration, lines, look, percent
from longtask.cli.viewing import LOOK_EVERY_S, plain_line, view
from longtask.core.errors import NotFound, Refused
from longtask.core.machine import status
from longtask.core.model import StepState, Task
from longtask.core.public import public
from longtask.steps.output import plain
from longtask.store.contract import Ref

TASK = "a task: id, prefix, NAME-n or @last"
PAGE = 500
PANEL = "Look"


def warn_if_idle(session: Session, tasks: list[Task]) -> None:
    """Open tasks that nothing works on look alive otherwise."""
    moving = [t for t in tasks if not t.ended and status(t) in ("running", "queued", "cancelling")]
    if moving and not live_workers(session):
        what = "it" if len(tasks) == 1 else "open tasks"
        session.warn(f"nothing works on {what} now: no worker is alive; start one: longtask worker")


def register(app: typer.Typer) -> None:
    @app.command("ls", rich_help_panel=PANEL)
    def list_tasks(
        ctx: typer.Context,
        open_only: Annotated[bool, typer.Option("--open", help="only tasks that have not ended")] = False,
        limit: Annotated[int, typer.Option("-n", min=1, max=1_000)] = 20,
    ) -> int:
        """List tasks, newest first.

        Example: longtask ls --open
        """
        session: Session = ctx.obj
        tasks = session.parts.store.tasks(open_only=open_only, workspace_id=None, before=0, limit=limit)
        if session.json:
            session.give([_task_map(t) for t in tasks])
            return 0
        if not tasks:
            session.say("no tasks yet; begin with: longtask init, or: longtask demo")
            return 0
        now = session.parts.store.now()
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in ("task", "status", "done", "age", "goal"):
            table.add_column(name, no_wrap=True, overflow="ellipsis")
        for task in tasks:
            goal = " ".join(task.options.goal.split())
            table.add_row(handle(task), status(task), f"{percent(task)}%", duration(now - task.created_at), goal[:60])
        session.out.print(table)
        warn_if_idle(session, tasks)
        return 0

    @app.command(rich_help_panel=PANEL)
    def show(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)] = "@last",
        all_steps: Annotated[bool, typer.Option("--all", help="fold nothing")] = False,
    ) -> int:
        """Where a task stands: stages, steps, progress, what it waits for.

        Example: longtask show @last
        """
        session: Session = ctx.obj
        picture = look(session.parts.store, session.parts.records, session.task(task).id)
        if session.json:
            session.give(as_map(picture))
            return 0
        for line in lines(picture, all_steps=all_steps):
            session.out.print(line)
        warn_if_idle(session, [picture.task])
        return 0

    @app.command(rich_help_panel=PANEL)
    def why(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)] = "@last",
        step: Annotated[str | None, typer.Argument(help="why this step is not done")] = None,
    ) -> int:
        """What a task or a step waits for, since when, and the command that helps.

        Example: longtask why @last
        """
        session: Session = ctx.obj
        found = session.task(task)
        reasons = why_lines(session, found, session.step(found, step) if step else None)
        if session.json:
            session.give([{"what": r.what, "since": r.since or None, "help": list(r.help)} for r in reasons])
            return 0
        now = session.parts.store.now()
        for reason in reasons:
            session.say(reason.what + (f"  (since {duration(now - reason.since)})" if reason.since else ""))
            for command in reason.help:
                session.say(f"  {command}")
        return 0

    @app.command(rich_help_panel=PANEL)
    def watch(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)] = "@last",
        step: Annotated[str | None, typer.Argument(help="follow the output of this step")] = None,
    ) -> int:
        """Follow a task until it ends or waits for somebody.  Ctrl-C leaves it running.

        Example: longtask watch @last
        """
        session: Session = ctx.obj
        found = session.task(task)
        if step is not None:
            return _logs(session, found, step, None, follow=True)
        warn_if_idle(session, [found])
        return view(session, found)

    @app.command(rich_help_panel=PANEL)
    def events(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)] = "@last",
        after: Annotated[int, typer.Option(help="only events with a higher number")] = 0,
        follow: Annotated[bool, typer.Option("-f", "--follow", help="until the task ends")] = False,
    ) -> int:
        """The journal: what has happened, in order.

        Example: longtask events @last --json | jq .type
        """
        session: Session = ctx.obj
        found = session.task(task)
        while True:
            page = session.parts.store.events(found.id, after, PAGE)
            for event in page:
                after = event.seq
                for shown in public(event.fact, found.options.stages):
                    if session.json:
                        session.give_line(
                            {
                                "specversion": "1.0",
                                "id": f"{found.id}/{event.seq}",
                                "source": f"/tasks/{found.id}",
                                "type": shown.name,
                                "time": _iso(event.at),
                                "seq": event.seq,
                                "actor": event.actor or None,
                                "data": dict(shown.fields),
                            }
                        )
                    else:
                        line = plain_line(found, event.at, shown.name, dict(shown.fields))
                        session.say(f"{event.seq:>6} {line}")
            if len(page) == PAGE:
                continue
            if not follow or session.parts.store.get_task(found.id).ended:
                return 0
            time.sleep(LOOK_EVERY_S)

    @app.command(rich_help_panel=PANEL)
    def logs(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        step: Annotated[str | None, typer.Argument(help="default: what runs, else what ran last")] = None,
        attempt: Annotated[int | None, typer.Option(help="default: the newest")] = None,
        follow: Annotated[bool, typer.Option("-f", "--follow", help="until the attempt ends")] = False,
    ) -> int:
        """The output of a step's attempt.

        Example: longtask logs @last tests --attempt 1
        """
        session: Session = ctx.obj
        found = session.task(task)
        return _logs(session, found, step or _latest(session, found), attempt, follow)

    @app.command(rich_help_panel=PANEL)
    def artifacts(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)] = "@last",
        name: Annotated[str | None, typer.Argument(help="write this one")] = None,
        output: Annotated[Path | None, typer.Option("-o", help="a file; default: standard output")] = None,
    ) -> int:
        """List what a task has made, or fetch one.

        Example: longtask artifacts @last report.md -o report.md
        """
        session: Session = ctx.obj
        found = session.task(task)
        kept = session.parts.records.artifacts(found.id)
        if name is None:
            if session.json:
                session.give(kept)
                return 0
            for artifact in kept:
                session.say(f"{artifact['size_bytes']:>12,}  {artifact['name']}  ({artifact['step']})")
            if not kept:
                session.say("no artifacts yet")
            return 0
        one = next((a for a in kept if a["name"] == name), None)
        if one is None:
            raise NotFound(
                f"task {handle(found)!r} has no artifact {name!r}; list them: longtask artifacts {handle(found)}"
            )
        content = session.parts.artifacts.read(found.workspace_id or "none", one["digest"])
        if output is None:
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
            return 0
        output.write_bytes(content)
        session.say(f"wrote {output} ({len(content):,} bytes)")
        return 0


def _latest(session: Session, task: Task) -> str:
    rows = [r for r in session.parts.records.steps(task.id) if r.attempt and r.kind in ("run", "agent", "function")]
    if not rows:
        raise Refused(f"task {handle(task)!r}: no step has run yet")
    running = [r for r in rows if r.state is StepState.RUNNING]
    return max(running or rows, key=lambda r: r.began_at).key


def _logs(session: Session, task: Task, key: str, attempt: int | None, follow: bool) -> int:
    store = session.parts.store
    step = session.step(task, key)
    number = attempt or step.attempt
    if not number:
        raise Refused(f"step {key!r} is {step.state}: it has not run yet; why: longtask why {handle(task)} {key}")
    if number > step.attempt:
        raise NotFound(f"step {key!r} has no attempt {number}; the newest is {step.attempt}")
    after = 0
    while True:
        running = follow and _runs(session, Ref(task.id, key), number)
        page = store.output(Ref(task.id, key), number, after, PAGE)
        for chunk in page:
            if chunk.n > after + 1 and after:
                session.say("… (left out: see the artifact)")
            after = chunk.n
            if session.json:
                session.give_line({"n": chunk.n, "at": chunk.at, "text": chunk.body.decode(errors="replace")})
            elif sys.stdout.isatty():
                sys.stdout.write(chunk.body.decode(errors="replace"))
            else:
                sys.stdout.write(plain(chunk.body))
        sys.stdout.flush()
        if len(page) < PAGE and not running:
            return exit_code(task) if follow and task.ended else 0
        if len(page) < PAGE:
            time.sleep(LOOK_EVERY_S)


def _runs(session: Session, ref: Ref, attempt: int) -> bool:
    step = session.parts.store.get_step(ref)
    return step.state is StepState.RUNNING and step.attempt == attempt


def _iso(at: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")


def _task_map(task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "handle": handle(task),
        "name": task.name,
        "status": status(task),
        "percent": percent(task),
        "created_at": task.created_at,
        "ended_at": task.ended_at or None,
        "created_by": task.created_by,
        "goal": task.options.goal,
    }
