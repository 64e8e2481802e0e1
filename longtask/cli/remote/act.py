"""Acting and deciding, at a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longtask.cli import act, decide
from longtask.cli.fork import say_foreseen
from longtask.cli.pictured import pictured
from longtask.cli.session import Session
from longtask.client.client import Client
from longtask.client.documents import Approval
from longtask.core.errors import Refused
from longtask.views import reasons


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


def resume(
    session: Session, client: Client, task: str, cost_usd: float | None, tokens: int | None, active: str | None
) -> int:
    session.outside_only("resume")
    active_ms = None if active is None else act.ms_of(active)
    acted = client.resume(task, cost_usd=cost_usd, tokens=tokens, active_ms=active_ms)
    return _told(session, acted, f"{acted['handle']} goes on; watch: {session.command('watch', acted['handle'])}")


def cancel(session: Session, client: Client, task: str, step: str | None, reason: str) -> int:
    session.outside_only("cancel")
    if step is None:
        acted = client.cancel(task, reason=reason)
        return _told(session, acted, f"{acted['handle']} is being cancelled")
    acted = client.cancel_step(task, step)
    word = "is being stopped" if client.step(acted["task"], step)["state"] == "running" else "is cancelled"
    return _told(session, acted, f"{step} {word}")


def retry(session: Session, client: Client, task: str, step: str | None, dry_run: bool) -> int:
    if not dry_run:
        session.outside_only("retry")
    if step is None:
        picture = pictured(client.task(task))
        task, step = picture.task.id, act.one_to_retry(session, picture.task, picture.steps).key
    if dry_run:
        return say_foreseen(session, client.foresee(task, step, "retry"))
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


def approve(
    session: Session, client: Client, task: str, step: str | None, digest: str | None, text: str, stage: bool
) -> int:
    session.outside_only("approve")
    return _decide(session, client, task, step, True, text, digest, stage=stage)


def reject(
    session: Session, client: Client, task: str, step: str | None, reason: str, digest: str | None, dry_run: bool
) -> int:
    if dry_run:
        seen = client.approval(task, step) if step is not None else _one_asking(session, client, task)
        return say_foreseen(session, client.foresee(seen["task"], seen["step"], "reject"))
    session.outside_only("reject")
    return _decide(session, client, task, step, False, reason, digest)


def _decide(
    session: Session,
    client: Client,
    task: str,
    key: str | None,
    yes: bool,
    text: str,
    digest: str | None,
    *,
    stage: bool = False,
) -> int:
    seen = client.approval(task, key) if key is not None else _one_asking(session, client, task)
    word = decide.word_for(session, seen["handle"], seen["step"], seen["answers"], yes, text, stage=stage)
    shown = seen["question"].get("digest")
    if digest is not None and digest != shown:
        raise Refused(f"step {seen['step']!r} shows {shown!r} now, not {digest!r}; look at it again")
    acted = client.decide(seen, word, text=text)
    helps = session.command("watch", acted["handle"])
    return _told(session, acted, f"{seen['step']}: {word.replace('_', ' ')}, recorded; watch: {helps}")


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
