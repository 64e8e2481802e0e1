"""Changing the work of a task that is under way, and doing some of it by hand: add, edit, take, done."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from longtask.cli.act import told
from longtask.cli.background import ensure_worker
from longtask.cli.fork import foresee
from longtask.cli.help import commands
from longtask.cli.session import TASK, Session
from longtask.cli.taken import by_hand, drop_folder, resolved, take_folder
from longtask.cli.words import growth_in, outputs_of, words_of
from longtask.core.model import Question
from longtask.store.contract import Ref
from longtask.views.words import handle

if TYPE_CHECKING:
    from longtask.workspace.tree import Worktree

STEP = "id of the step"
OUTPUT = "NAME=VALUE: what the step hands over; a value that is JSON keeps its type"


def register(app: typer.Typer) -> None:
    command = commands(app, "Act")

    @command()
    def add(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        file: Annotated[str, typer.Argument(metavar="FILE", help="the steps, as a plan writes them; - reads stdin")],
        stage: Annotated[
            str | None, typer.Option(help="the stage that they enter; the one under way if absent")
        ] = None,
        before: Annotated[str | None, typer.Option(metavar="STEP", help="a step that is to wait for them")] = None,
        after: Annotated[
            str | None, typer.Option(metavar="STEP", help="a step that those without `needs` wait for")
        ] = None,
    ) -> int:
        """Add steps to a task that is under way.

        The file holds `steps:`, as a plan does; each may need steps of the task and those above it. It may be a whole
        plan: its stages become needs. They are checked as a whole, and nothing is added if something is wrong. What
        has completed is never changed by them.

        A plain run (`longtask run -p`) that turns out to be too small grows so: what it has done stays, and goes on.

        Examples:
            longtask add @last more.yaml
            longtask add @last plan.yaml --after run
            longtask add @last more.yaml --before integration
            longtask add @last - --stage release < more.yaml
        """
        session: Session = ctx.obj
        session.outside_only("add")
        found = session.task(task)
        growth = growth_in(file, found, stage, before, after)
        rows = session.parts.desk.add(found.id, growth, session.me)
        ensure_worker(session)
        keys = [row.key for row in rows]
        text = f"{handle(found)}: added {', '.join(keys)}; see: {session.command('show', handle(found))}"
        return told(session, session.task(found.id), text, steps=keys)

    @command()
    def edit(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        step: Annotated[str, typer.Argument(help=f"{STEP}; it has not completed and does not run")],
        prompt: Annotated[str | None, typer.Option(metavar="TEXT", help="of an agent; @FILE reads a file")] = None,
        run: Annotated[str | None, typer.Option(metavar="COMMAND", help="of a command")] = None,
        timeout: Annotated[str | None, typer.Option(metavar="DURATION", help="of one attempt, such as 2h")] = None,
        retry: Annotated[int | None, typer.Option(metavar="N", help="how often to try again", min=0)] = None,
        file: Annotated[str | None, typer.Option("-f", "--file", help="any other words of a step, as YAML")] = None,
        again: Annotated[bool, typer.Option("--retry-now", help="and take it up again at once")] = False,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="only tell what will run again, and what stays")
        ] = False,
    ) -> int:
        """Say anew what a step does, from its next attempt on.

        What is not said stays as it was. Its needs, its stage and its `if` are the plan's, and stay. An approval that
        is being asked is asked anew. A step of a task that has failed is edited with --retry-now.

        Examples:
            longtask edit @last backend --prompt "Keep the old endpoint as well." --retry-now
            longtask edit @last tests --run "pytest -q -x" --timeout 1h
            longtask edit @last tests -f words.yaml
            longtask edit @last backend --dry-run
        """
        session: Session = ctx.obj
        if dry_run:
            found = session.task(task)
            return foresee(session, Ref(found.id, session.step(found, step).key), "edit")
        session.outside_only("edit")
        found = session.task(task)
        row = session.step(found, step)
        words = words_of(prompt, run, timeout, retry, file)
        edited = session.parts.hands.edit(Ref(found.id, row.key), words, session.me, again=again)
        ensure_worker(session)
        helps = "" if again or edited.open else f"; take it up: {session.command('retry', handle(found), row.key)}"
        return told(session, session.task(found.id), f"{row.key} is edited, and {edited.state}{helps}", step=row.key)

    @command()
    def take(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        step: Annotated[str, typer.Argument(help=f"{STEP}: ready, failed, or asking because it failed")],
        give_back: Annotated[bool, typer.Option("--give-back", help="it is what it was before you took it")] = False,
        hours: Annotated[float, typer.Option(metavar="N", help="after which it is given back", min=0.1)] = 24.0,
        shell: Annotated[bool, typer.Option(help="open a shell in its folder")] = True,
    ) -> int:
        """Work on a step by hand, in its own folder.

        The folder holds the task's code, with what earlier attempts have left. Nobody else works on the step until you
        say `longtask done`, give it back, or the time is over. The task may be paused meanwhile. Of a step that is
        yours already it makes, or names, the folder.

        Examples:
            longtask take @last backend
            longtask take @last backend --no-shell      # only says where
            longtask take @last backend --give-back
        """
        session: Session = ctx.obj
        session.outside_only("take")
        found = session.task(task)
        row = session.step(found, step)
        if give_back:
            row = session.parts.hands.give_back(Ref(found.id, row.key), session.me)
            kept = drop_folder(session, found, row)
            ensure_worker(session)
            text = f"{row.key} is {row.state}, as it was"
            text += "" if kept is None else f"; what you have changed is in {kept}"
            return told(session, session.task(found.id), text, step=row.key, folder=kept)
        wt = take_folder(session, found, row, round(hours * 3_600_000))
        say = partial(told, session, session.task(found.id))
        return at_work(session, handle(found), row.key, wt, shell, say, found.id)

    @command()
    def done(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        step: Annotated[str, typer.Argument(help=f"{STEP}: one that you have taken, or could take")],
        commit: Annotated[
            str | None, typer.Option(metavar="COMMIT", help="of your repository; else what stands in the folder")
        ] = None,
        message: Annotated[str, typer.Option("-m", "--message", metavar="TEXT", help="of the commit")] = "",
        output: Annotated[list[str] | None, typer.Option(help=OUTPUT)] = None,
    ) -> int:
        """What you did is the step's outcome.

        Its change of the code joins the task as any step's does. To a merge conflict, --commit names a commit that
        contains both sides; without it you are told what git makes one with.

        Examples:
            longtask done @last backend -m "Keep both endpoints"
            longtask done @last backend --commit my-branch --output count=3
        """
        session: Session = ctx.obj
        session.outside_only("done")
        found = session.task(task)
        row = session.step(found, step)
        result = outputs_of(output or [])
        if (row.question or {}).get("kind") == Question.CONFLICT:
            row = resolved(session, found, row, commit)
        else:
            row = by_hand(session, found, row, commit, message, result)
        ensure_worker(session)
        return told(session, session.task(found.id), f"{row.key} is {row.state}", step=row.key)


def at_work(
    session: Session, name: str, step: str, wt: Worktree | None, shell: bool, say: Callable[..., int], task: str
) -> int:
    """Says whose it is and where; on a terminal, with a shell in its folder."""
    where = None if wt is None else str(wt.path)
    helps = f"when it is done: {session.command('done', name, step)}; to give it back: "
    helps += session.command("take", name, step, "--give-back")
    if wt is None or not shell or session.json or not sys.stdin.isatty():
        place = "it has no code" if where is None else f"its folder is {where}"
        return say(f"{step} is yours; {place}; {helps}", step=step, folder=where)
    session.say(f"{step} is yours; a shell in its folder, {where}; leave it with `exit`; {helps}")
    environment = {**os.environ, **session.environment, "LONGTASK_TAKEN": f"{task} {step}"}
    subprocess.run([os.environ.get("SHELL") or "/bin/sh"], cwd=wt.path, env=environment, check=False)
    return say(f"{step} is still yours; {helps}", step=step, folder=where)
