"""Changing the work of a task, at a server."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from longtask.cli.fork import say_foreseen
from longtask.cli.hands import at_work
from longtask.cli.remote import workspaces
from longtask.cli.remote.act import _told
from longtask.cli.session import Session
from longtask.cli.taken import else_given_back, folder, made, no_answer
from longtask.cli.words import growth_words, outputs_of, words_of
from longtask.client import documents
from longtask.client.client import Client
from longtask.core.errors import Refused, WorkspaceError
from longtask.core.hands import need_own
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
    workspace = None if tree["base"] is None else _workspace(session, client, tree)
    held = client.step(tree["id"], step)["taken_by"] is not None
    taken, wt = client.take(tree["id"], step, hours=hours), None
    with ExitStack() as stack:
        if not held:
            stack.enter_context(else_given_back(partial(client.give_back, tree["id"], step)))
        if workspace is not None and taken["base"] is not None:
            place = (taken["base"], taken["tree"], taken["cache"])
            wt = folder(workspace, tree["id"], step, taken["attempt"], *place)
    acted = {key: taken[key] for key in ("task", "handle", "status")}
    return at_work(session, tree["handle"], step, wt, shell, partial(_said, session, acted), tree["id"])


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
        workspace, seen = _workspace(session, client, tree), client.approval(id, step)
        if commit is None:
            raise Refused(no_answer(workspace, id, step, entry["attempt"]))
        which = (id, step, entry["attempt"], seen["ask"])
        sha = workspace.resolve(*which, commit, own=entry["commit"], head=tree["head"])
        acted = client.decide(seen, "resolve", commit=sha)
    elif tree["base"] is None:
        if commit is not None:
            raise Refused(f"task {tree['handle']!r} has no code: there is nothing to commit; leave --commit out")
        acted = client.done(id, step, outputs=result)
    else:
        me = client.whoami()["name"]
        need_own(step, entry["taken_by"], me)
        workspace, attempt = _workspace(session, client, tree), entry["attempt"]
        with ExitStack() as stack:
            if entry["taken_by"] is None:
                attempt = client.take(id, step)["attempt"]
                stack.enter_context(else_given_back(partial(client.give_back, id, step)))
            wt, sha_of = made(workspace, id, tree["name"], step, attempt, commit, message)
            acted = client.done(id, step, outputs=result, commit=sha_of, attempt=attempt)
        if wt is not None:
            workspace.remove(wt)
    return _said(session, acted, f"{step} is {client.step(id, step)['state']}", step=step)


def _said(session: Session, acted: Mapping[str, Any], text: str, **more: object) -> int:
    return _told(session, {**acted, **more}, text)


def _workspace(session: Session, client: Client, tree: documents.TaskTree) -> Workspace:
    """That of the checkout here, which takes code from the hub of the server and gives it there.  Raises Refused: it is
    not the task's, or has no such hub."""
    session.config.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    checkout = Workspace.open(session.config.home, Path.cwd())
    named = client.workspace(str(tree["workspace"]))
    if not workspaces.belongs(session, client, checkout, named):
        whose = f"workspace {named['id']!r}, repository {named['url'] or named['repository']!r}"
        raise Refused(
            f"task {tree['handle']!r} is of {whose}; '{checkout.hub.folder}' is no checkout of that: go to one, and "
            "say it there"
        )
    if named["hub"] is None:
        raise Refused(
            f"workspace {named['id']!r} of {client.url} has no hub that this machine could push to: "
            "LONGTASK_HUB there names one; or work on the step where the server runs"
        )
    return checkout.pushing_to(named["hub"])
