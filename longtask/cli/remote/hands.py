"""Changing the work of a task, at a server."""

from __future__ import annotations

from longtask.cli import hands
from longtask.cli.fork import say_foreseen
from longtask.cli.remote.act import _told
from longtask.cli.session import Session
from longtask.client.client import Client
from longtask.core.errors import BadPlan
from longtask.core.model import Json


def add(
    session: Session, client: Client, task: str, file: str, stage: str | None, before: str | None, after: str | None
) -> int:
    session.outside_only("add")
    from longtask.plan.growth import words_of

    raw = words_of(*hands.read_words(file), hands.folder_of(file))
    if not isinstance(raw.get("steps"), list):
        raise BadPlan(
            f"{file}: write `steps:`, a list of steps as a plan has them; stages are added beside the database"
        )
    said = {"stage": stage, "before": before, "after": after}
    place = {word: value or raw.get(word) for word, value in said.items()}
    grown = client.add(task, raw["steps"], **place)
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
    words: dict[str, Json] = hands.words_of(prompt, run, timeout, retry, file)
    acted = client.edit(task, step, words, retry=again)
    return _told(session, acted, f"{step} is edited")
