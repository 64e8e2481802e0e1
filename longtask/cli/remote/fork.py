"""Forking a task, at a server."""

from __future__ import annotations

from longtask.cli.fork import say_foreseen, say_forked
from longtask.cli.session import Session
from longtask.client.client import Client


def fork(session: Session, client: Client, task: str, step: str, dry_run: bool, paused: bool, key: str | None) -> int:
    if dry_run:
        return say_foreseen(session, client.foresee(task, step, "fork"))
    session.outside_only("fork")
    source = client.task(task, steps=0)
    made = client.fork(source["id"], step, key=key, paused=paused)
    return say_forked(session, source["id"], source["handle"], made)
