"""Changing the work of a task, at a server."""

from __future__ import annotations

from longtask.cli.fork import say_foreseen
from longtask.cli.remote.act import _told
from longtask.cli.session import Session
from longtask.cli.words import growth_words, words_of
from longtask.client.client import Client
from longtask.core.model import Json


def add(
    session: Session, client: Client, task: str, file: str, stage: str | None, before: str | None, after: str | None
) -> int:
    session.outside_only("add")
    grown = client.add(task, **growth_words(file, stage, before, after))
    helps = session.command("show", grown["handle"])
    return _told(session, grown, f"{grown['handle']}: added {', '.join(grown['steps'])}; see: {helps}")


def edit(
    session: Session,
    client: Client,
    task: str,
    step: str,
    prompt: str | None,
    run: str | None,
    timeout: str | None,
    retry: int | None,
    file: str | None,
    again: bool,
    dry_run: bool,
) -> int:
    if dry_run:
        return say_foreseen(session, client.foresee(task, step, "edit"))
    session.outside_only("edit")
    words: dict[str, Json] = words_of(prompt, run, timeout, retry, file)
    acted = client.edit(task, step, words, retry=again)
    return _told(session, acted, f"{step} is edited")
