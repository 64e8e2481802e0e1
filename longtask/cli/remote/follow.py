"""Following, at a server: watch, events, logs.  What happens is heard as the server tells it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from typing import Any

from longtask.cli import follow as local
from longtask.cli import telling, viewing
from longtask.cli.pictured import pictured
from longtask.cli.remote.hearing import Heard
from longtask.cli.remote.look import told_reasons
from longtask.cli.session import DETACHED, WAITS, Session
from longtask.client.client import Client
from longtask.client.documents import CloudEvent, TaskTree
from longtask.core.errors import Refused
from longtask.views import reasons
from longtask.views.text import gist
from longtask.views.words import duration

PAUSE_S = 0.3  # without news: then it is looked whether the task waits for somebody
QUIET_S = 15.0  # the same when it was found at work; some moves are told to nobody
NEEDS_SOMEBODY = ("paused", "waiting_budget", "waiting_user")
EXIT_CODES = {"completed": 0, "failed": 1, "cancelled": 4}


def events(session: Session, client: Client, task: str, after: int, follow: bool) -> int:
    shown = pictured(client.task(task, steps=0)).task
    told: Iterator[CloudEvent] = (
        client.events(shown.id, str(after)) if follow else client.journal(shown.id, after=after)
    )
    for event in told:
        if session.json:
            session.give_line(event)
            continue
        when = f"{event['seq']:>5}  {telling.local(_at(event))}"
        for line in telling.cloud_lines(shown, event["type"], event["data"], when, quiet=False):
            session.say(line)
    return 0


def _at(event: CloudEvent) -> int:
    return round(datetime.fromisoformat(event["time"]).timestamp() * 1000)


def logs(session: Session, client: Client, task: str, step: str | None, attempt: int | None, follow: bool) -> int:
    if step is None:
        picture = pictured(client.task(task))
        task, step = picture.task.id, local.latest(session, picture.task, picture.steps).key
    entry = client.step(task, step)
    id = entry["task"]  # @last may be another one by now
    number = attempt or entry["attempt"]
    if not number:
        helps = session.command("why", task, step)
        raise Refused(f"step {step!r} is {entry['state']}: it has not run yet; {helps}")
    say = local.Chunks(session, task)
    if follow:
        with closing(client.stream_output(id, step, attempt=number)) as messages:
            for message in messages:
                if message.kind == "output":
                    say({key: message.data[key] for key in ("n", "at", "stream", "text")})
    else:
        for chunk in client.output(id, step, number):
            say(dict(chunk))
    say.end(step, number)
    return 0


def watch(session: Session, client: Client, task: str, step: str | None) -> int:
    if step is not None:
        return logs(session, client, task, step, None, True)
    return view(session, client, client.task(task, steps=0))


def view(session: Session, client: Client, tree: TaskTree) -> int:
    """Until the task has ended, or waits for somebody, or Ctrl-C; the exit code."""
    try:
        return _watch(session, client, tree)
    except KeyboardInterrupt:
        if session.json:
            session.give_line(_end_map(session, client, client.task(tree["id"], steps=0), DETACHED))
        session.say()
        session.say(f"detached; the work goes on; come back with: {session.command('watch', tree['handle'])}")
        return DETACHED


def _watch(session: Session, client: Client, tree: TaskTree) -> int:
    """It waits for somebody when it does at a few looks in a row: else a step is about to wake it."""
    id, looks, wait_s = tree["id"], 0, PAUSE_S
    with closing(Heard(client.stream(id, "0"))) as heard:
        while True:
            try:
                message = heard.next(wait_s)
            except EOFError:
                return _end(session, client, client.task(id, steps=0))
            if message is None:
                now = client.task(id, steps=0)
                waits = now["status"] in NEEDS_SOMEBODY
                looks, wait_s = (looks + 1, PAUSE_S) if waits else (0, QUIET_S)
                if looks >= viewing.SETTLED_LOOKS:
                    return _end(session, client, now)
            elif message.kind == "event":
                looks, wait_s = 0, PAUSE_S
                _tell(session, tree, message.data)


def _tell(session: Session, tree: TaskTree, event: CloudEvent) -> None:
    if session.json:
        session.give_line(event)
        return
    shown = pictured(tree).task
    when = f"{(_at(event) - tree['created_at']) / 1000:7.1f}s"
    if shown.counts.steps > viewing.MANY_STEPS and event["type"] in viewing.MANY_QUIET:
        return
    for line in telling.cloud_lines(shown, event["type"], event["data"], when, quiet=True):
        session.say(line)


def _end_map(session: Session, client: Client, tree: TaskTree, code: int) -> dict[str, Any]:
    waits = told_reasons(session, client, tree["id"]) if tree["status"] in NEEDS_SOMEBODY else []
    return {
        "type": "view.ended",
        "task": tree["id"],
        "handle": tree["handle"],
        "status": tree["status"],
        "exit_code": code,
        "waits": [reasons.reason_map(reason) for reason in waits],
    }


def _end(session: Session, client: Client, tree: TaskTree) -> int:
    word, name = tree["status"], tree["handle"]
    code = EXIT_CODES.get(word, WAITS)
    if session.json:
        session.give_line(_end_map(session, client, tree, code))
    elif word == "failed":
        session.say([(f"{name} failed", "red")])
        for step in viewing.failed_of(pictured(client.task(tree["id"])).steps):
            session.say(f"  {step.key} {step.state}: {gist(step.reason)}".rstrip(": "))
        session.say([(f"  {session.command('why', name)}", "cyan")])
    elif tree["ended_at"]:
        took = duration(tree["ended_at"] - tree["created_at"])
        session.say([(name, "bold"), (f" {word}", "green" if code == 0 else "red"), (f" after {took}", "")])
        kept = [artifact["name"] for artifact in client.artifacts(tree["id"])]
        if kept:
            session.say([("  artifacts  ", "dim"), (viewing.made_of(session, name, kept), "")])
    else:
        session.say([(f"{name} waits for somebody", "yellow")])
        for reason in told_reasons(session, client, tree["id"]):
            session.say(f"  {reason.what}")
            for text in reason.help:
                session.say([(f"    {text}", "cyan")])
    return code
