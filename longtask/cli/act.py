"""Acting on a task: signal, pause, resume, cancel, retry, skip."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from longtask.cli.background import ensure_worker
from longtask.cli.session import Session, handle
from longtask.core.errors import BadPlan, Refused
from longtask.core.machine import status
from longtask.core.model import Json, Step, StepState, Task, WaitingFor
from longtask.store.contract import Ref

TASK = "a task: id, prefix, NAME-n or @last"
PANEL = "Act"


def _told(session: Session, task: Task, text: str, **more: Json) -> int:
    if session.json:
        session.give({"task": task.id, "status": status(task), **more})
    session.say(text)
    return 0


def register(app: typer.Typer) -> None:
    @app.command(rich_help_panel=PANEL)
    def signal(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        name: Annotated[str, typer.Argument(help="such as ci.completed")],
        pairs: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...")] = None,
        data: Annotated[str | None, typer.Option(help="the payload as a JSON map")] = None,
        delivery: Annotated[str | None, typer.Option(help="an id: the same one counts once")] = None,
    ) -> int:
        """Send a named message; what waits for it goes on.  It is kept if nothing waits yet.

        Example: longtask signal @last ci.completed sha=4f2a91c conclusion=success
        """
        session: Session = ctx.obj
        found = session.task(task)
        payload = _payload(pairs or [], data)
        kept = session.parts.desk.signal(found.id, name, payload, delivery=delivery, sender=session.me)
        ensure_worker(session)
        return _told(session, found, f"signal {name!r} is number {kept.number} of {handle(found)}", number=kept.number)

    @app.command(rich_help_panel=PANEL)
    def pause(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        now: Annotated[bool, typer.Option("--now", help="running steps give back too")] = False,
    ) -> int:
        """Claim nothing new; what runs goes on to its end.

        Example: longtask pause @last --now
        """
        session: Session = ctx.obj
        session.outside_only("pause")
        found = session.parts.desk.pause(session.task(task).id, session.me, now=now)
        return _told(session, found, f"{handle(found)} is paused; go on with: longtask resume {handle(found)}")

    @app.command(rich_help_panel=PANEL)
    def resume(ctx: typer.Context, task: Annotated[str, typer.Argument(help=TASK)]) -> int:
        """Go on with a paused task.

        Example: longtask resume @last
        """
        session: Session = ctx.obj
        session.outside_only("resume")
        found = session.parts.desk.resume(session.task(task).id, session.me)
        ensure_worker(session)
        return _told(session, found, f"{handle(found)} goes on: longtask watch {handle(found)}")

    @app.command(rich_help_panel=PANEL)
    def cancel(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        step: Annotated[str | None, typer.Argument(help="only this step")] = None,
        reason: Annotated[str, typer.Option("--message", "-m")] = "",
    ) -> int:
        """Cancel a task, or one step.  Running processes are stopped; steps with `run_when: always` do not run.

        Example: longtask cancel @last -m "wrong base"
        """
        session: Session = ctx.obj
        session.outside_only("cancel")
        found = session.task(task)
        if step is None:
            found = session.parts.desk.cancel(found.id, session.me, reason)
            ensure_worker(session)
            return _told(session, found, f"{handle(found)} is being cancelled")
        row = session.parts.desk.cancel_step(Ref(found.id, session.step(found, step).key), session.me)
        ensure_worker(session)
        word = "is being stopped" if row.state is StepState.RUNNING else "is cancelled"
        return _told(session, found, f"{row.key} {word}", step=row.key)

    @app.command(rich_help_panel=PANEL)
    def retry(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        step: Annotated[str | None, typer.Argument(help="may be left out if only one has failed")] = None,
    ) -> int:
        """Take up a failed or cancelled step again; to a question of the machine: again.

        Example: longtask retry @last tests
        """
        session: Session = ctx.obj
        session.outside_only("retry")
        found = session.task(task)
        row = session.step(found, step) if step else _one_to_retry(session, found)
        if row.state is StepState.WAITING and row.waiting_for is WaitingFor.USER:
            row = session.parts.desk.answer(Ref(found.id, row.key), "again", session.me, ask=row.ask)
        else:
            row = session.parts.desk.retry(Ref(found.id, row.key), session.me)
        ensure_worker(session)
        return _told(session, session.task(found.id), f"{row.key} is {row.state} again", step=row.key)

    @app.command(rich_help_panel=PANEL)
    def skip(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        step: Annotated[str, typer.Argument()],
    ) -> int:
        """Go on without a step: a failed one counts as tolerated, one that has not begun is not wanted any more.

        Example: longtask skip @last lint
        """
        session: Session = ctx.obj
        session.outside_only("skip")
        found = session.task(task)
        row = session.parts.desk.skip(Ref(found.id, session.step(found, step).key), session.me)
        ensure_worker(session)
        return _told(session, session.task(found.id), f"{row.key}: the task goes on without it", step=row.key)


def _one_to_retry(session: Session, task: Task) -> Step:
    rows = session.parts.records.steps(task.id)
    asking = [r for r in rows if r.state is StepState.WAITING and "again" in ((r.question or {}).get("answers") or ())]
    bad = [r for r in rows if r.state in (StepState.FAILED, StepState.CANCELLED) and not r.tolerated and not r.owner]
    found = asking or bad
    if len(found) != 1:
        names = ", ".join(repr(r.key) for r in found) or "none"
        raise Refused(f"task {handle(task)!r}: steps that could be retried: {names}; name one")
    return found[0]


def _payload(pairs: list[str], data: str | None) -> dict[str, Json]:
    payload: dict[str, Json] = {}
    if data is not None:
        try:
            given = json.loads(data)
        except json.JSONDecodeError as error:
            raise BadPlan(f"--data is not JSON: {error}") from error
        if not isinstance(given, dict):
            raise BadPlan(f"--data must be a JSON map, found {type(given).__name__}")
        payload.update(given)
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise BadPlan(f"argument {pair!r}: write KEY=VALUE, or --data JSON")
        payload[key] = value
    return payload
