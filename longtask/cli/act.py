"""Acting on a task: signal, pause, resume, cancel, retry, skip."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import typer

from longtask.cli.background import ensure_worker
from longtask.cli.fork import foresee
from longtask.cli.help import commands
from longtask.cli.session import TASK, Session
from longtask.core.errors import BadPlan, Refused
from longtask.core.machine import status
from longtask.core.model import Json, Step, StepState, Task, TaskState, WaitingFor
from longtask.store.contract import Ref
from longtask.views.documents import acted_map
from longtask.views.picture import look
from longtask.views.words import handle

RETRIED_SHOWN = 10


def told(session: Session, task: Task, text: str, **more: Json) -> int:
    """What was done: a sentence, or the map that all acting commands answer."""
    if session.json:
        session.give(acted_map(task, **more))
    session.say(text)
    return 0


def register(app: typer.Typer) -> None:
    command = commands(app, "Act")

    @command()
    def signal(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        name: Annotated[str, typer.Argument(help="such as ci.completed")],
        pairs: Annotated[
            list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="the payload, as texts")
        ] = None,
        data: Annotated[str | None, typer.Option(metavar="JSON", help="the payload as a JSON map")] = None,
        delivery: Annotated[str | None, typer.Option(metavar="ID", help="the same id counts once")] = None,
    ) -> int:
        """Send a named message; what waits for it goes on. It is kept if nothing waits yet.

        Examples:
            longtask signal @last ci.completed sha=4f2a91c conclusion=success
            longtask signal @last deploy.done --data '{"version": 7}' --delivery d-1
        """
        session: Session = ctx.obj
        found = session.task(task)
        kept = session.parts.desk.signal(
            found.id, name, payload_of(pairs or [], data), delivery=delivery, sender=session.me
        )
        ensure_worker(session)
        text = f"signal {name!r} is number {kept.number} of {handle(found)}"
        return told(session, session.task(found.id), text, number=kept.number)

    @command()
    def pause(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        now: Annotated[
            bool,
            typer.Option("--now", help="running steps give back too, here and in all tasks below; that costs no retry"),
        ] = False,
    ) -> int:
        """Claim nothing new; what runs goes on to its end.

        Examples:
            longtask pause @last
            longtask pause @last --now
        """
        session: Session = ctx.obj
        session.outside_only("pause")
        found = session.parts.desk.pause(session.task(task).id, session.me, now=now)
        return told(
            session, found, f"{handle(found)} is paused; go on with: {session.command('resume', handle(found))}"
        )

    @command()
    def resume(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        cost_usd: Annotated[
            float | None, typer.Option(metavar="N", help="raise the limit of cost to this", min=0)
        ] = None,
        tokens: Annotated[
            int | None, typer.Option(metavar="N", help="raise the limit of tokens to this", min=0)
        ] = None,
        active: Annotated[
            str | None, typer.Option(metavar="DURATION", help="raise the limit of active time to this, such as 12h")
        ] = None,
    ) -> int:
        """Go on with a paused task, or with one that has reached a limit.

        Examples:
            longtask resume @last
            longtask resume @last --cost-usd 30
        """
        session: Session = ctx.obj
        session.outside_only("resume")
        found = session.task(task)
        raised = (cost_usd, tokens, active) != (None, None, None)
        if raised:
            micros = None if cost_usd is None else round(cost_usd * 1_000_000)
            active_ms = None if active is None else ms_of(active)
            desk = session.parts.desk
            found = desk.raise_budget(found.id, session.me, micros=micros, tokens=tokens, active_ms=active_ms)
        if found.state is TaskState.PAUSED or not raised:
            found = session.parts.desk.resume(found.id, session.me)
        ensure_worker(session)
        return told(session, found, f"{handle(found)} goes on; watch: {session.command('watch', handle(found))}")

    @command()
    def cancel(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        step: Annotated[str | None, typer.Argument(help="only this step")] = None,
        reason: Annotated[str, typer.Option("-m", "--message", metavar="TEXT", help="for the record")] = "",
    ) -> int:
        """Cancel a task, or one step of it.

        Running processes are stopped; steps with `run_when: always` do not run. A cancelled task is never taken up
        again; a cancelled step is, by retry.

        Examples:
            longtask cancel @last -m "wrong base"
            longtask cancel @last lint
        """
        session: Session = ctx.obj
        session.outside_only("cancel")
        found = session.task(task)
        if step is None:
            found = session.parts.desk.cancel(found.id, session.me, reason)
            ensure_worker(session)
            return told(session, found, f"{handle(found)} is being cancelled")
        row = session.parts.desk.cancel_step(Ref(found.id, session.step(found, step).key), session.me)
        ensure_worker(session)
        word = "is being stopped" if row.state is StepState.RUNNING else "is cancelled"
        return told(session, session.task(found.id), f"{row.key} {word}", step=row.key)

    register_steps(app)


def register_steps(app: typer.Typer) -> None:
    command = commands(app, "Act")

    @command()
    def retry(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        step: Annotated[str | None, typer.Argument(help="may be left out if only one can be retried")] = None,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="only tell what would come back")] = False,
    ) -> int:
        """Take up a failed or cancelled step again, in place; to a question of the machine: try again.

        What was skipped because of it comes back by itself; what has completed is never touched.

        Examples:
            longtask retry @last tests
        """
        session: Session = ctx.obj
        if not dry_run:
            session.outside_only("retry")
        found = session.task(task)
        row = (
            session.step(found, step)
            if step
            else one_to_retry(session, found, look(session.parts.store, found.id).steps)
        )
        if dry_run:
            return foresee(session, Ref(found.id, row.key), "retry")
        if row.state is StepState.WAITING and row.waiting_for is WaitingFor.USER:
            row = session.parts.desk.answer(Ref(found.id, row.key), "again", session.me, ask=row.ask)
        else:
            row = session.parts.desk.retry(Ref(found.id, row.key), session.me)
        ensure_worker(session)
        return told(session, session.task(found.id), f"{row.key} is {row.state} again", step=row.key)

    @command()
    def skip(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        step: Annotated[str, typer.Argument(help="failed, cancelled, or not begun")],
    ) -> int:
        """Go on without a step.

        A failed or cancelled one counts as tolerated, and what needs it runs. One that has not begun is not wanted any
        more, and what needs it is not wanted either.

        Examples:
            longtask skip @last lint
        """
        session: Session = ctx.obj
        session.outside_only("skip")
        found = session.task(task)
        row = session.parts.desk.skip(Ref(found.id, session.step(found, step).key), session.me)
        ensure_worker(session)
        return told(session, session.task(found.id), f"{row.key}: the task goes on without it", step=row.key)


def one_to_retry(session: Session, task: Task, rows: Sequence[Step]) -> Step:
    """Raises Refused when there is none, or more than one."""
    asking = [r for r in rows if r.state is StepState.WAITING and "again" in ((r.question or {}).get("answers") or ())]
    bad = [r for r in rows if r.state in (StepState.FAILED, StepState.CANCELLED) and not r.tolerated and not r.owner]
    found = asking or bad
    if len(found) == 1:
        return found[0]
    name = handle(task)
    if not found:
        raise Refused(
            f"task {name!r} is {status(task)}: no step has failed or was cancelled; {session.command('why', name)}"
        )
    names = ", ".join(repr(r.key) for r in found[:RETRIED_SHOWN])
    raise Refused(f"task {name!r}: {len(found)} steps could be retried ({names}); name one")


def ms_of(text: str) -> int:
    """Raises BadPlan."""
    from longtask.plan.duration import duration_ms

    return duration_ms(text)


def payload_of(pairs: list[str], data: str | None) -> dict[str, Json]:
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
        if not equals or not key:
            raise BadPlan(f"argument {pair!r}: write KEY=VALUE, or --data JSON")
        payload[key] = value
    return payload
