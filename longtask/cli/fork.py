"""Forking a task: a new one that does a step again, and what an act would make stale."""

from __future__ import annotations

from typing import Annotated

import typer

from longtask.cli.background import ensure_worker
from longtask.cli.help import commands
from longtask.cli.session import TASK, Session
from longtask.core.model import JsonMap
from longtask.engine.merging import follow
from longtask.store.contract import Ref
from longtask.views.documents import acted_map
from longtask.views.foreseen import foreseen_lines, foreseen_map
from longtask.views.words import handle


def register(app: typer.Typer) -> None:
    command = commands(app, "Act")

    @command()
    def fork(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        step: Annotated[str, typer.Option("--from", metavar="STEP", help="do this one again, and what came of it")],
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="only tell what will run again, and what stays")
        ] = False,
        paused: Annotated[
            bool, typer.Option("--paused", help="edit its steps first, then `longtask resume` it")
        ] = False,
        key: Annotated[str | None, typer.Option(metavar="KEY", help="the same key gives the same fork")] = None,
    ) -> int:
        """Do a step again in a new task, which takes over what was done before it.

        What had completed when the step was claimed last stays, with its results and its code; all else starts over.
        The task itself is not touched.

        Examples:
            longtask fork @last --from migrate --dry-run
            longtask fork shop-12 --from migrate
            longtask fork shop-12 --from migrate --paused    # then edit, then resume
        """
        session: Session = ctx.obj
        found = session.task(task)
        ref = Ref(found.id, session.step(found, step).key)
        if dry_run:
            return foresee(session, ref, "fork")
        session.outside_only("fork")
        made = session.parts.desk.fork(ref, session.me, idempotency_key=key, paused=paused)
        follow(session.parts.merger, made)
        ensure_worker(session)
        return say_forked(session, found.id, handle(found), acted_map(made, step=ref.step))


def foresee(session: Session, ref: Ref, act: str) -> int:
    """What the act would make stale; nothing is done."""
    return say_foreseen(session, foreseen_map(act, session.parts.desk.foresee(ref, act)))


def say_foreseen(session: Session, seen: JsonMap) -> int:
    if session.json:
        session.give(dict(seen))
    for line in foreseen_lines(seen):
        session.say(line)
    return 0


def say_forked(session: Session, source: str, name: str, made: JsonMap) -> int:
    if session.json:
        session.give({**made, "forked_from": source})
    told = f"{made['handle']} is forked from {name}, and does {made['step']} again"
    if made["status"] == "paused":  # also one that was there already, under the same key
        edit, resume = session.command("edit", made["handle"], made["step"]), session.command("resume", made["handle"])
        session.say(f"{told} when it is resumed; change what it does: {edit} --prompt …; then: {resume}")
    else:
        session.say(f"{told}; watch: {session.command('watch', made['handle'])}")
    return 0
