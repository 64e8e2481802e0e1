"""Looking, at a server: ls, show, why, artifacts, files, diff, fleet, trace, plan check."""

from __future__ import annotations

import shlex
from pathlib import Path

from longtask import plan
from longtask.cli import decide, fleet
from longtask.cli import look as local
from longtask.cli.files import say_files
from longtask.cli.left import left, lines_left, paged
from longtask.cli.pictured import now_ms, number_of, pictured
from longtask.cli.remote import answered
from longtask.cli.session import Session
from longtask.cli.trace import say_trace
from longtask.cli.tree import WHOLE, lines
from longtask.client.client import Client
from longtask.client.documents import Reason as Told
from longtask.core.errors import NotFound
from longtask.views import reasons
from longtask.views.text import clean, counted

STEPS_JSON_MAX = 200_000


def ls(session: Session, client: Client, open_only: bool, limit: int, before: int, children: bool) -> int:
    tasks = list(client.tasks(open=open_only, limit=limit, before=before or None, children=children))
    if session.json:
        session.give(tasks)
        return 0
    if not tasks:
        session.say(f"no tasks at {client.url}")
        return 0
    for line in local.table(tasks, now_ms()):
        session.say(line, crop=True)
    if len(tasks) == limit:
        session.say([(f"older ones: {session.command('ls', '--before', str(number_of(tasks[-1])))}", "dim")])
    return 0


def show(
    session: Session,
    client: Client,
    task: str,
    all_steps: bool,
    only_left: bool,
    limit: int | None,
    skip: int | None,
) -> int:
    begin, many = paged(only_left, limit, skip)
    whole = all_steps or only_left or session.json
    tree = client.task(task, steps=STEPS_JSON_MAX if whole else None)
    if only_left and session.json:
        entries = {entry["key"]: entry for entry in tree["steps"]}
        page = left(pictured(tree).steps)[begin : begin + many]
        tree["steps"] = [entries[step.key] for step in page]
    if session.json:
        session.give(tree)
        return 0
    if only_left:
        for line in lines_left(pictured(tree), begin, many, session.out.columns):
            session.say(line)
        return 0
    for line in lines(pictured(tree), detail=WHOLE if all_steps else None, width=session.out.columns):
        session.say(line)
    return 0


def why(session: Session, client: Client, task: str, step: str | None) -> int:
    told = told_reasons(session, client, task, step)
    if session.json:
        session.give([reasons.reason_map(reason) for reason in told])
        return 0
    local.say_reasons(session, told, now_ms())
    return 0


def told_reasons(session: Session, client: Client, task: str, step: str | None = None) -> list[reasons.Reason]:
    """The commands that help, as they are to be typed here."""
    return [reason_of(session, told) for told in client.why(task, step)]


def reason_of(session: Session, told: Told) -> reasons.Reason:
    return reasons.Reason(
        told["what"],
        told["since"] or 0,
        tuple(_here(session, text) for text in told["help"]),
        told["step"],
        tuple(told["who"]),
        tuple(told.get("details", ())),  # an older server does not say
    )


def _here(session: Session, text: str) -> str:
    """A command that helps on the server's machine, as it is to be typed here, if a server answers it."""
    words = shlex.split(text)
    return session.command(*words[1:]) if len(words) > 1 and answered(words[1:]) else text


def artifacts(session: Session, client: Client, task: str, name: str | None, output: Path | None) -> int:
    kept = client.artifacts(task, all=True)
    if name is None:
        if session.json:
            session.give(kept)
            return 0
        local.say_artifacts(session, kept)
        return 0
    one = next((artifact for artifact in kept if artifact["name"] == name), None)
    if one is None:
        raise NotFound(f"task {task!r} has no artifact {name!r}; list them: {session.command('artifacts', task)}")
    if output is None:
        session.out.content(client.artifact(task, name, digest=one["digest"]))
        return 0
    client.download(task, name, output, digest=one["digest"])
    if session.json:
        session.give({**one, "file": str(output)})
    session.say(f"wrote {output} ({one['size_bytes']:,} bytes)")
    return 0


def files(session: Session, client: Client, task: str, path: str | None, match: str, at: str) -> int:
    if path is not None:
        session.out.content(client.file(task, path, at=at))
        return 0
    say_files(session, list(client.files(task, match, at=at)))
    return 0


def diff(session: Session, client: Client, task: str, step: str | None, stat: bool, since: str | None) -> int:
    if not stat and not session.json:
        decide.show_patch(session, client.diff(task, step, since=since))
        return 0
    shown = client.changes(task, step, since=since)
    if session.json:
        session.give(shown)
    for file in shown["files"]:
        session.say(f"{clean(file['path'])}  +{file['insertions']} -{file['deletions']}")
    return 0


def show_fleet(session: Session, client: Client) -> int:
    found = client.fleet()
    if session.json:
        session.give(found)
        return 0
    for line in fleet.lines(dict(found), "longtask worker"):
        session.say(line)
    return 0


def trace(session: Session, client: Client, task: str, all_spans: bool) -> int:
    return say_trace(session, client.trace(task), now_ms(), all_spans)


def plan_check(session: Session, client: Client, file: Path) -> int:
    """The server's release may know other words than this one."""
    if not file.is_file():
        raise NotFound(f"plan {str(file)!r}: no such file; write a starter with: longtask init")
    whole = plan.whole_text(plan.load_file(file), file.read_text(encoding="utf-8", errors="replace"))
    told = client.check_plan(whole.encode())
    if session.json:
        session.give(told)
    for note in told["notes"]:
        session.say(f"note: {note}")
    size = f"{counted(told['steps'], 'step')} in {counted(len(told['stages']), 'stage')}"
    session.say(f"{file}: {size}, nothing wrong")
    return 0
