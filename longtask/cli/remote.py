"""Commands that are answered by a server: `longtask --server URL …`.

What a command is called, takes and says of itself stands in its own module and nowhere else; `take_over` puts another
body under it, which asks the server's documents and draws them with the same functions.  A command without such a body
refuses: nothing is done here, on this machine's own database, that was meant for elsewhere.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from longtask.cli import act, decide, fleet, follow, look, telling, viewing
from longtask.cli.pictured import now_ms, number_of, pictured
from longtask.cli.session import DETACHED, WAITS, Session
from longtask.cli.trace import say_trace
from longtask.cli.tree import WHOLE, lines
from longtask.client.client import Client
from longtask.client.documents import Approval, CloudEvent, TaskTree
from longtask.core.errors import NotFound, Refused
from longtask.core.model import Question
from longtask.views import reasons
from longtask.views.text import clean, gist
from longtask.views.words import duration

STEPS_JSON_MAX = 200_000
LOOK_EVERY_S = 0.5
NEEDS_SOMEBODY = ("paused", "waiting_budget", "waiting_user")
EXIT_CODES = {"completed": 0, "failed": 1, "cancelled": 4}


def take_over(app: typer.Typer) -> None:
    """Puts the bodies of this module under the commands of the app."""
    for command in app.registered_commands:
        name, local = command.name or getattr(command.callback, "__name__", ""), command.callback
        if name in BODIES and local is not None:
            command.callback = _asking(BODIES[name], local)


def _asking(body: Callable[..., int], local: Callable[..., Any]) -> Callable[..., int]:
    @wraps(local)  # its arguments
    def command(ctx: typer.Context, **given: Any) -> int:
        return body(ctx.obj, ctx.obj.client, **given)

    return command


# --- looking ------------------------------------------------------------------------------------------------------


def ls(session: Session, client: Client, open_only: bool, limit: int, before: int) -> int:
    tasks = list(client.tasks(open=open_only, limit=limit, before=before or None))
    if session.json:
        session.give(tasks)
        return 0
    if not tasks:
        session.say(f"no tasks at {client.url}")
        return 0
    for line in look.table(tasks, now_ms()):
        session.say(line, crop=True)
    if len(tasks) == limit:
        session.say([(f"older ones: {session.command('ls', '--before', str(number_of(tasks[-1])))}", "dim")])
    return 0


def show(session: Session, client: Client, task: str, all_steps: bool) -> int:
    whole = all_steps or session.json
    tree = client.task(task, steps=STEPS_JSON_MAX if whole else None)
    if session.json:
        session.give(tree)
        return 0
    for line in lines(pictured(tree), detail=WHOLE if all_steps else None, width=session.out.columns):
        session.say(line)
    return 0


def why(session: Session, client: Client, task: str, step: str | None) -> int:
    told = _reasons(session, client, task, step)
    if session.json:
        session.give([reasons.reason_map(reason) for reason in told])
        return 0
    look.say_reasons(session, told, now_ms())
    return 0


def _reasons(session: Session, client: Client, task: str, step: str | None = None) -> list[reasons.Reason]:
    """The commands that help, as they are to be typed here."""
    return [
        reasons.Reason(
            told["what"],
            told["since"] or 0,
            tuple(_here(session, text) for text in told["help"]),
            told["step"],
            tuple(told["who"]),
        )
        for told in client.why(task, step)
    ]


def _here(session: Session, text: str) -> str:
    """A command that helps on the server's machine, as it is to be typed here, if a server answers it."""
    words = shlex.split(text)
    return session.command(*words[1:]) if len(words) > 1 and words[1] in BODIES else text


def artifacts(session: Session, client: Client, task: str, name: str | None, output: Path | None) -> int:
    kept = client.artifacts(task, all=True)
    if name is None:
        if session.json:
            session.give(kept)
            return 0
        look.say_artifacts(session, kept)
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


def diff(session: Session, client: Client, task: str, step: str | None, stat: bool) -> int:
    if not stat and not session.json:
        decide.show_patch(session, client.diff(task, step))
        return 0
    shown = client.changes(task, step)
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


# --- following ----------------------------------------------------------------------------------------------------


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
    return _logs(session, client, task, step, attempt, follow)


def _logs(session: Session, client: Client, task: str, step: str | None, attempt: int | None, follow_: bool) -> int:
    if step is None:
        picture = pictured(client.task(task))
        task, step = picture.task.id, follow.latest(session, picture.task, picture.steps).key
    entry = client.step(task, step)
    id = entry["task"]  # @last may be another one by now
    number = attempt or entry["attempt"]
    if not number:
        helps = session.command("why", task, step)
        raise Refused(f"step {step!r} is {entry['state']}: it has not run yet; {helps}")
    say = follow.Chunks(session, task)
    if follow_:
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
        return _logs(session, client, task, step, None, follow_=True)
    tree = client.task(task, steps=0)
    try:
        return _watch(session, client, tree)
    except KeyboardInterrupt:
        if session.json:
            session.give_line(_end_map(session, client, client.task(tree["id"], steps=0), DETACHED))
        session.say()
        session.say(f"detached; the work goes on; come back with: {session.command('watch', tree['handle'])}")
        return DETACHED


def _watch(session: Session, client: Client, tree: TaskTree) -> int:
    """Until the task has ended, or waits for somebody, at a few looks in a row."""
    id, after, looks = tree["id"], 0, 0
    while True:
        heard = False
        tree = client.task(id, steps=0)  # before its events: they tell all that led to it
        shown = pictured(tree).task
        for event in client.journal(id, after=after):
            after, heard = event["seq"], True
            if session.json:
                session.give_line(event)
                continue
            when = f"{(_at(event) - tree['created_at']) / 1000:7.1f}s"
            for line in telling.cloud_lines(shown, event["type"], event["data"], when, quiet=True):
                session.say(line)
        looks = looks + 1 if tree["status"] in NEEDS_SOMEBODY and not heard else 0
        if (tree["ended_at"] and not heard) or looks >= viewing.SETTLED_LOOKS:
            return _end(session, client, tree)
        if not heard:
            time.sleep(LOOK_EVERY_S)


def _end_map(session: Session, client: Client, tree: TaskTree, code: int) -> dict[str, Any]:
    waits = _reasons(session, client, tree["id"]) if tree["status"] in NEEDS_SOMEBODY else []
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
    else:
        session.say([(f"{name} waits for somebody", "yellow")])
        for reason in _reasons(session, client, tree["id"]):
            session.say(f"  {reason.what}")
            for text in reason.help:
                session.say([(f"    {text}", "cyan")])
    return code


# --- acting -------------------------------------------------------------------------------------------------------


def _told(session: Session, acted: Mapping[str, Any], text: str) -> int:
    if session.json:
        session.give(dict(acted))
    session.say(text)
    return 0


def pause(session: Session, client: Client, task: str, now: bool) -> int:
    session.outside_only("pause")
    acted = client.pause(task, now=now)
    helps = session.command("resume", acted["handle"])
    return _told(session, acted, f"{acted['handle']} is paused; go on with: {helps}")


def resume(session: Session, client: Client, task: str, cost_usd: float | None, tokens: int | None) -> int:
    session.outside_only("resume")
    acted = client.resume(task, cost_usd=cost_usd, tokens=tokens)
    return _told(session, acted, f"{acted['handle']} goes on; watch: {session.command('watch', acted['handle'])}")


def cancel(session: Session, client: Client, task: str, step: str | None, reason: str) -> int:
    session.outside_only("cancel")
    if step is None:
        acted = client.cancel(task, reason=reason)
        return _told(session, acted, f"{acted['handle']} is being cancelled")
    acted = client.cancel_step(task, step)
    word = "is being stopped" if client.step(acted["task"], step)["state"] == "running" else "is cancelled"
    return _told(session, acted, f"{step} {word}")


def retry(session: Session, client: Client, task: str, step: str | None) -> int:
    session.outside_only("retry")
    if step is None:
        picture = pictured(client.task(task))
        task, step = picture.task.id, act.one_to_retry(session, picture.task, picture.steps).key
    entry = client.step(task, step)
    task = entry["task"]  # @last may be another one by now
    if entry["state"] == "waiting" and entry["waiting_for"] == "user":
        acted = client.decide(client.approval(task, step), "again")
        acted = {"task": acted["task"], "handle": acted["handle"], "status": acted["status"], "step": step}
    else:
        acted = client.retry(task, step)
    return _told(session, acted, f"{step} is {client.step(task, step)['state']} again")


def skip(session: Session, client: Client, task: str, step: str) -> int:
    session.outside_only("skip")
    return _told(session, client.skip(task, step), f"{step}: the task goes on without it")


def signal(
    session: Session,
    client: Client,
    task: str,
    name: str,
    pairs: list[str] | None,
    data: str | None,
    delivery: str | None,
) -> int:
    sent = client.signal(task, name, act.payload_of(pairs or [], data), delivery=delivery)
    return _told(session, sent, f"signal {name!r} is number {sent['number']} of {sent['handle']}")


def approve(session: Session, client: Client, task: str, step: str | None, digest: str | None, text: str) -> int:
    session.outside_only("approve")
    return _decide(session, client, task, step, True, text, digest)


def reject(session: Session, client: Client, task: str, step: str | None, reason: str, digest: str | None) -> int:
    session.outside_only("reject")
    return _decide(session, client, task, step, False, reason, digest)


def _decide(
    session: Session, client: Client, task: str, key: str | None, yes: bool, text: str, digest: str | None
) -> int:
    seen = client.approval(task, key) if key is not None else _one_asking(session, client, task)
    word = decide.word_for(session, seen["handle"], seen["step"], seen["answers"], _is_approval(seen), yes, text)
    shown = seen["question"].get("digest")
    if digest is not None and digest != shown:
        raise Refused(f"step {seen['step']!r} shows {shown!r} now, not {digest!r}; look at it again")
    acted = client.decide(seen, word, text=text)
    helps = session.command("watch", acted["handle"])
    return _told(session, acted, f"{seen['step']}: {word.replace('_', ' ')}, recorded; watch: {helps}")


def _is_approval(seen: Approval) -> bool:
    return seen["kind"] == Question.APPROVAL


def _one_asking(session: Session, client: Client, task: str) -> Approval:
    asking = client.task_approvals(task, limit=reasons.ASKING_MAX)
    if len(asking) == 1:
        return asking[0]
    if not asking:
        entry = client.task(task, steps=0)
        helps = session.command("why", entry["handle"])
        raise Refused(f"task {entry['handle']!r} is {entry['status']}: nothing asks for a decision; {helps}")
    names = ", ".join(repr(one["step"]) for one in asking)
    raise Refused(f"task {asking[0]['handle']!r}: several steps ask ({names}); name one")


BODIES: dict[str, Callable[..., int]] = {
    "ls": ls,
    "show": show,
    "why": why,
    "watch": watch,
    "events": events,
    "logs": logs,
    "trace": trace,
    "diff": diff,
    "artifacts": artifacts,
    "approve": approve,
    "reject": reject,
    "signal": signal,
    "pause": pause,
    "resume": resume,
    "cancel": cancel,
    "retry": retry,
    "skip": skip,
    "fleet": show_fleet,
}
