"""Looking: ls, show, why, artifacts.  Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from longtask.cli.background import warn_if_idle
from longtask.cli.help import commands
from longtask.cli.left import left, lines_left, paged
from longtask.cli.paint import Line, cells
from longtask.cli.session import TASK, Session
from longtask.cli.tree import WHOLE, lines, status_colour
from longtask.core.errors import NotFound, Refused
from longtask.core.model import Task
from longtask.views import reasons
from longtask.views.documents import picture_map, task_map
from longtask.views.listing import listed_maps
from longtask.views.picture import look
from longtask.views.text import clean
from longtask.views.words import duration, handle

STEPS_JSON_MAX = 200_000


def register(app: typer.Typer) -> None:
    command = commands(app, "Look")

    @command("ls")
    def list_tasks(
        ctx: typer.Context,
        open_only: Annotated[bool, typer.Option("--open", help="only tasks that have not ended")] = False,
        limit: Annotated[
            int, typer.Option("-n", "--limit", metavar="N", help="at most so many; default: 20", min=1, max=1_000)
        ] = 20,
        before: Annotated[
            int, typer.Option("--before", metavar="N", help="older than the task whose handle ends in N", min=0)
        ] = 0,
        children: Annotated[
            bool, typer.Option("--children", help="with those that were made for steps of other tasks")
        ] = False,
    ) -> int:
        """List tasks, newest first.

        Examples:
            longtask ls --open
            longtask ls --json | jq -r '.[] | select(.status == "waiting_user") | .handle'
        """
        session: Session = ctx.obj
        tasks = session.parts.store.tasks(
            open_only=open_only, workspace_id=None, before=before, limit=limit, children=children
        )
        if session.json:
            session.give(listed_maps(session.parts.store, tasks))
            return 0
        if not tasks:
            session.say("no tasks yet; begin with: longtask init, or: longtask demo")
            return 0
        for line in table([task_map(t) for t in tasks], session.parts.store.now()):
            session.say(line, crop=True)
        if len(tasks) == limit:
            session.say([(f"older ones: {session.command('ls', '--before', str(tasks[-1].number))}", "dim")])
        warn_if_idle(session, tasks)
        return 0

    @command()
    def show(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=f"{TASK}; default: @last")] = "@last",
        all_steps: Annotated[bool, typer.Option("--all", help="every step: fold nothing")] = False,
        only_left: Annotated[bool, typer.Option("--left", help="what is left, as one list, failures first")] = False,
        limit: Annotated[
            int | None,
            typer.Option("-n", "--limit", metavar="N", help="with --left: so many at a time; default: 50", min=1),
        ] = None,
        skip: Annotated[
            int | None, typer.Option("--skip", metavar="N", help="with --left: without the first N", min=0)
        ] = None,
    ) -> int:
        """Show where a task stands: stages, steps, progress, what it waits for.

        Examples:
            longtask show
            longtask show migrate-3 --left
            longtask show release-12 --json | jq '.steps[] | select(.state == "failed")'
        """
        session: Session = ctx.obj
        begin, many = paged(only_left, limit, skip)
        whole = all_steps or only_left or session.json
        found = session.task(task)
        picture = look(session.parts.store, found.id, *([STEPS_JSON_MAX] if whole else []))
        if session.json:
            shown = replace(picture, steps=left(picture.steps)[begin : begin + many]) if only_left else picture
            session.give(picture_map(shown))
            return 0
        if only_left:
            for line in lines_left(picture, begin, many, session.out.columns):
                session.say(line)
            return 0
        for line in lines(picture, detail=WHOLE if all_steps else None, width=session.out.columns):
            session.say(line)
        warn_if_idle(session, [picture.task])
        return 0

    @command()
    def why(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=f"{TASK}; default: @last")] = "@last",
        step: Annotated[str | None, typer.Argument(help="why this step is not done")] = None,
    ) -> int:
        """Tell what a task or a step waits for, since when, and the command that helps.

        Examples:
            longtask why
            longtask why @last tests
        """
        session: Session = ctx.obj
        found = session.task(task)
        told = reasons.why(session.face, found, session.step(found, step) if step else None)
        if session.json:
            session.give([reasons.reason_map(reason) for reason in told])
            return 0
        say_reasons(session, told, session.parts.store.now())
        return 0

    @command()
    def artifacts(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=f"{TASK}; default: @last")] = "@last",
        name: Annotated[str | None, typer.Argument(help="fetch this one")] = None,
        output: Annotated[
            Path | None, typer.Option("-o", "--output", metavar="FILE", help="where to; default: standard output")
        ] = None,
    ) -> int:
        """List what a task has made, or fetch one of them.

        Examples:
            longtask artifacts @last
            longtask artifacts @last report.md -o report.md
        """
        session: Session = ctx.obj
        found = session.task(task)
        kept = session.parts.records.artifacts(found.id)
        if name is not None:
            return _fetch(session, found, name, output)
        if session.json:
            session.give(kept)
            return 0
        say_artifacts(session, kept)
        return 0


def say_reasons(session: Session, told: list[reasons.Reason], now: int) -> None:
    for reason in told:
        since: Line = [(f"  (since {duration(now - reason.since)})", "dim")] if reason.since else []
        session.say([(reason.what, ""), *since])
        for line in reason.details:
            session.say([("  - " + line, "dim")])
        for text in reason.help:
            session.say([("  " + text, "cyan")])


def say_artifacts(session: Session, kept: Sequence[Mapping[str, Any]]) -> None:
    for artifact in kept:
        session.say(f"{artifact['size_bytes']:>12,}  {clean(artifact['name'])}  ({artifact['step']})")
    if not kept:
        session.say("no artifacts yet")


def table(tasks: Sequence[Mapping[str, Any]], now: int) -> list[Line]:
    """Of documents: entries of `ls --json`."""
    rows = [
        (t["handle"], t["status"], f"{t['percent']}%", duration(now - t["created_at"]), clean(t["goal"])) for t in tasks
    ]
    head = ("task", "status", "done", "age", "goal")
    wide = [max(cells(row[i]) for row in [head, *rows]) for i in range(4)]

    def padded(row: tuple[str, ...], *styles: str) -> Line:
        texts = [row[i] + " " * (wide[i] - cells(row[i]) + 2) for i in range(4)] + [row[4]]
        return list(zip(texts, styles, strict=True))

    return [padded(head, *["dim"] * 5), *(padded(row, "bold", status_colour(row[1]), "", "", "dim") for row in rows)]


def _fetch(session: Session, task: Task, name: str, output: Path | None) -> int:
    one = next((a for a in session.parts.records.artifacts(task.id) if a["name"] == name), None)
    if one is None:
        listed = session.command("artifacts", handle(task))
        raise NotFound(f"task {handle(task)!r} has no artifact {name!r}; list them: {listed}")
    content = session.parts.artifacts.read(task.workspace_id, one["digest"])
    if output is None:
        session.out.content(content)
        return 0
    try:
        output.write_bytes(content)
    except OSError as error:
        raise Refused(f"file {str(output)!r} cannot be written: {error.strerror}; name another with -o") from None
    if session.json:
        session.give({**one, "file": str(output)})
    session.say(f"wrote {output} ({len(content):,} bytes)")
    return 0
