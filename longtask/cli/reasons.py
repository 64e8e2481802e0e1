"""`longtask why`: what blocks, since when, and the command that helps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from longtask.cli.background import live_workers
from longtask.cli.session import Session, handle
from longtask.cli.tree import duration, waits_for
from longtask.core.machine import status
from longtask.core.model import Role, Step, StepState, Task, TaskState, WaitingFor
from longtask.store.contract import Ref

S = StepState
SHOWN_MAX = 10


@dataclass(frozen=True, slots=True)
class Reason:
    """`since`: an instant, 0 when it is not known.  `help`: commands."""

    what: str
    since: int = 0
    help: tuple[str, ...] = ()


def why_lines(session: Session, task: Task, step: Step | None) -> list[Reason]:
    found = list(_of_task(session, task) if step is None else _of_step(session, task, step))
    return found or [Reason(f"{handle(task)} is {status(task)}: nothing is in the way")]


def _of_task(session: Session, task: Task) -> Iterator[Reason]:
    name, c = handle(task), task.counts
    if task.state is TaskState.COMPLETED or task.state is TaskState.CANCELLED:
        yield Reason(f"{name} is {task.state}", task.ended_at)
        return
    steps = session.parts.records.steps(task.id)
    if task.state is TaskState.FAILED:
        bad = [s for s in steps if s.state in (S.FAILED, S.CANCELLED) and not s.tolerated and s.role is Role.OWN]
        for step in bad[:SHOWN_MAX]:
            yield _failed(name, step)
        return
    if task.loading:
        yield Reason(f"{name} is still being submitted; submit the same plan with the same key to continue it")
    if task.state is TaskState.PAUSED:
        yield Reason(f"{name} is paused: nothing new is claimed", 0, (f"longtask resume {name}",))
    if not task.within_budget:
        yield Reason(f"{name} has reached its limit ({task.exceeded or 'budget'}): nothing new is claimed")
    moving = c.running or c.running_system or c.ready or c.merging or c.untold
    if moving and not live_workers(session):
        yield Reason("no worker is alive: nothing works on it", 0, ("longtask worker",))
    for step in [s for s in steps if s.state in (S.FAILED, S.CANCELLED) and not s.tolerated and s.role is Role.OWN][:3]:
        yield _failed(name, step)
    active = [s for s in steps if s.state in (S.WAITING, S.RUNNING, S.MERGING, S.READY)]
    for step in sorted(active, key=lambda s: s.state is not S.WAITING)[:SHOWN_MAX]:
        yield from _of_step(session, task, step)


def _failed(name: str, step: Step) -> Reason:
    first = (step.reason or "").splitlines()[0] if step.reason else "no reason given"
    commands = (
        f"longtask logs {name} {step.key}",
        f"longtask retry {name} {step.key}",
        f"longtask skip {name} {step.key}",
    )
    return Reason(f"{step.key} {step.state}: {first}", step.ended_at, commands)


def _of_step(session: Session, task: Task, step: Step) -> Iterator[Reason]:
    name, now = handle(task), session.parts.store.now()
    match step.state:
        case S.WAITING:
            yield _waiting(name, step)
        case S.RUNNING:
            yield Reason(
                f"{step.key} runs (attempt {step.attempt}, worker {step.worker})",
                step.began_at,
                (f"longtask logs {name} {step.key} -f",),
            )
        case S.READY if step.due_at > now:
            tries = f" after {step.failures or step.losses} failed attempt(s)" if step.failures or step.losses else ""
            yield Reason(f"{step.key} is tried again in {duration(step.due_at - now)}{tries}: {_first(step)}")
        case S.READY:
            full = task.admits < 2 and task.state is TaskState.ACTIVE and task.within_budget
            why = f"all {task.parallel} places of the task are taken" if full else "it waits for a free worker"
            yield Reason(f"{step.key} is ready: {why} (pool {step.pool})", step.due_at)
        case S.MERGING:
            yield Reason(f"{step.key} is done; its commit {str(step.commit)[:12]} is being merged")
        case S.BLOCKED:
            yield from _blocked(session, task, step)
        case S.SKIPPED:
            cause = "it was not wanted" if step.benign else f"{step.because!r} did not succeed"
            commands = () if step.benign else (f"longtask why {name} {step.because}",)
            yield Reason(f"{step.key} was skipped: {cause}", step.ended_at, commands)
        case S.FAILED | S.CANCELLED:
            yield _failed(name, step)
        case _:
            yield Reason(f"{step.key} has completed", step.ended_at)


def _first(step: Step) -> str:
    return (step.reason or "").splitlines()[0] if step.reason else ""


def _waiting(name: str, step: Step) -> Reason:
    question = step.question or {}
    text = f"{step.key} {waits_for(step)}"
    if step.waiting_for is WaitingFor.USER:
        who = f" (who may decide: {', '.join(question['who'])})" if question.get("who") else ""
        if question.get("kind") == "approval":
            commands: tuple[str, ...] = (
                f"longtask diff {name} {step.key}",
                f"longtask approve {name} {step.key}",
                f"longtask reject {name} {step.key} -m REASON",
            )
        else:
            words = {"again": "retry", "accept": "approve", "give_up": "reject"}
            answers = [words[a] for a in question.get("answers", ()) if a in words]
            commands = tuple(f"longtask {word} {name} {step.key}" for word in answers)
        return Reason(text + who, step.began_at, commands)
    if "name" in question:
        data = " ".join(f"{k}={v}" for k, v in (question.get("match") or {}).items())
        return Reason(text, step.began_at, (f"longtask signal {name} {question['name']} {data}".rstrip(),))
    return Reason(text, step.began_at)


def _blocked(session: Session, task: Task, step: Step) -> Iterator[Reason]:
    store = session.parts.store
    needs = store.needs(Ref(task.id, step.key), 200)
    rows = store.results(task.id, needs)
    open_needs = [row for row in rows.values() if row.open or row.told == ""]
    for row in open_needs[:SHOWN_MAX]:
        shown = f"stage {task.options.stages[row.stage - 1]!r}" if row.gate and task.options.stages else repr(row.key)
        yield Reason(
            f"{step.key} waits for {shown}, which is {row.state}", 0, (f"longtask why {handle(task)} {row.key}",)
        )
