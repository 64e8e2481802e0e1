"""Pruning: taking away tasks that ended long ago, and bytes that no task names any more."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated

import typer

from longtask.boot import make_upkeep
from longtask.cli.help import commands
from longtask.cli.session import Session
from longtask.config import RETENTION, retention_ms
from longtask.core.errors import BadPlan
from longtask.engine.upkeep import Upkeep
from longtask.views.words import duration, handle

SHOWN_MAX = 20
PAUSE_S = 0.01  # between two batches: workers write too


def register(app: typer.Typer) -> None:
    command = commands(app, "Operate")

    @command()
    def prune(
        ctx: typer.Context,
        older_than: Annotated[
            str | None,
            typer.Option(metavar="TIME", help="tasks that ended so long ago; default: $LONGTASK_RETENTION, else 90d"),
        ] = None,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="say what would go, and take nothing away")] = False,
    ) -> int:
        """Take away tasks that ended long ago, and artifacts that no task names any more.

        Workers do this by themselves, a little every hour. A task goes as a whole, its journal included; a child goes
        with its parent. Open tasks are never touched, nor is your repository. Artifacts go a week after their last
        use. May be stopped at any time, and be called while workers run.

        Examples:
            longtask prune --dry-run
            longtask prune --older-than 30d
        """
        session: Session = ctx.obj
        session.outside_only("prune")
        kept_ms = session.config.retention_ms if older_than is None else retention_ms(older_than, "--older-than")
        if older_than is not None and kept_ms is None:
            raise BadPlan(f"--older-than {older_than!r}: write such as 30d; to keep all tasks, set {RETENTION}=off")
        upkeep = make_upkeep(session.parts, kept_ms)
        if dry_run:
            return _tell_due(session, upkeep, kept_ms)
        for _ in upkeep.round():
            time.sleep(PAUSE_S)
        if session.json:
            session.give({"dry_run": False, "older_than_ms": kept_ms, **asdict(upkeep.done)})
        done = upkeep.done
        session.say(
            f"{_tasks(done.tasks)} and {done.artifacts:,} artifacts ({done.bytes:,} bytes) are gone, {done.rows:,} "
            "rows in all"
        )
        _tell_retention(session, kept_ms)
        if session.parts.artifacts.shared():
            session.warn(
                f"artifacts at {session.config.artifacts!r} belong to several databases, so none was collected; give "
                "each database a place of its own"
            )
        return 0


def _tell_due(session: Session, upkeep: Upkeep, kept_ms: int | None) -> int:
    names = [handle(task) for task in upkeep.due()]
    if session.json:
        session.give({"dry_run": True, "older_than_ms": kept_ms, "tasks": len(names), "handles": names})
    session.say(f"{_tasks(len(names))} would go" + (f", ended more than {duration(kept_ms)} ago" if kept_ms else ""))
    for name in names[:SHOWN_MAX]:
        session.say(f"  {name}")
    if len(names) > SHOWN_MAX:
        session.say(f"  … and {len(names) - SHOWN_MAX:,} more")
    _tell_retention(session, kept_ms)
    return 0


def _tell_retention(session: Session, kept_ms: int | None) -> None:
    if kept_ms is None:
        session.say(f"tasks are kept for ever ({RETENTION}=off)")


def _tasks(count: int) -> str:
    return f"{count:,} task{'' if count == 1 else 's'}"
