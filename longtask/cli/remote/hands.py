"""Changing the work of a task, at a server."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from longtask.cli.fork import say_foreseen
from longtask.cli.hands import at_work
from longtask.cli.remote import workspaces
from longtask.cli.remote.act import _told
from longtask.cli.session import Session
from longtask.cli.taken import made
from longtask.cli.words import growth_words, outputs_of, words_of
from longtask.client.client import Client
from longtask.core.errors import Refused, WorkspaceError
from longtask.core.model import Json, Question
from longtask.workspace.workspace import Workspace


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


def take(session: Session, client: Client, task: str, step: str, give_back: bool, hours: float, shell: bool) -> int:
    session.outside_only("take")
    tree = client.task(task, steps=0)
    if give_back:
        return _give_back(session, client, tree["id"], step)
    workspace = None if tree["base"] is None else _workspace(session, client)
    taken = client.take(tree["id"], step, hours=hours)
    wt = None
    if workspace is not None and taken["base"] is not None:
        try:
            place = (taken["base"], taken["tree"])
            wt = workspace.checkout(tree["id"], step, taken["attempt"], *place, aside=taken["cache"])
        except BaseException:
            client.give_back(tree["id"], step)
            raise
    return at_work(session, tree["handle"], step, wt, shell, partial(_said, session, taken), tree["id"])


def _give_back(session: Session, client: Client, task: str, step: str) -> int:
    attempt = client.step(task, step)["attempt"]
    acted = client.give_back(task, step)
    text, kept = f"{step} is {client.step(task, step)['state']}, as it was", None
    try:
        workspace = Workspace.open(session.config.home, Path.cwd())
        wt = workspace.find(task, step, attempt)
        if wt is not None and workspace.leftovers(wt):
            kept = str(wt.path)
        elif wt is not None:
            workspace.remove(wt)
    except WorkspaceError as error:
        session.warn(f"note: its folder was not looked for: {error}")
    text += "" if kept is None else f"; what you have changed is in {kept}"
    return _said(session, acted, text, step=step, folder=kept)


def done(
    session: Session,
    client: Client,
    task: str,
    step: str,
    commit: str | None,
    message: str,
    output: list[str] | None,
) -> int:
    session.outside_only("done")
    tree, result = client.task(task, steps=0), outputs_of(output or [])
    id, entry = tree["id"], client.step(tree["id"], step)
    if (entry["question"] or {}).get("kind") == Question.CONFLICT:
        if commit is None:
            raise Refused(f"step {step!r} is in conflict with the head; name a commit that holds both: --commit COMMIT")
        workspace = _workspace(session, client)
        sha = workspace.adopt(id, step, entry["attempt"], commit)
        workspace.need_both(sha, entry["commit"], tree["head"])
        acted = client.decide(client.approval(id, step), "resolve", commit=sha)
    elif tree["base"] is None:
        if commit is not None:
            raise Refused(f"task {tree['handle']!r} has no code: there is nothing to commit; leave --commit out")
        acted = client.done(id, step, outputs=result)
    else:
        workspace = _workspace(session, client)
        mine = entry["state"] == "running" and entry["taken_by"] is not None
        attempt = entry["attempt"] if mine else client.take(id, step)["attempt"]
        try:
            wt, sha_of = made(workspace, id, tree["name"], step, attempt, commit, message)
            acted = client.done(id, step, outputs=result, commit=sha_of, attempt=attempt)
        except BaseException:
            if not mine:
                client.give_back(id, step)
            raise
        if wt is not None:
            workspace.remove(wt)
    return _said(session, acted, f"{step} is {client.step(id, step)['state']}", step=step)


def _said(session: Session, acted: Mapping[str, Any], text: str, **more: object) -> int:
    return _told(session, {**acted, **more}, text)


def _workspace(session: Session, client: Client) -> Workspace:
    """That of the checkout here, which takes code from the hub of the server and gives it there.  Raises Refused."""
    session.config.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    checkout = Workspace.open(session.config.home, Path.cwd())
    named = workspaces.of_checkout(session, client, checkout)
    if named["hub"] is None:
        raise Refused(
            f"workspace {named['id']!r} of {client.url} has no hub that this machine could push to: "
            "LONGTASK_HUB there names one; or work on the step where the server runs"
        )
    return checkout.pushing_to(named["hub"])
