"""What passes between a worker elsewhere and its server, as JSON, read at both ends.

A worker is told no more than it looks at; a key that it does not know comes from a newer server, and is passed over.
An outcome is what a plan's own steps may come to; whether it is one of this step, the dispatch looks at.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from longtask.core.codec import form, load
from longtask.core.errors import BadPlan
from longtask.core.model import (
    Done,
    Expanded,
    Failed,
    JsonMap,
    Outcome,
    Parked,
    Released,
    Step,
    StepSpec,
    StepState,
    Stopped,
    Task,
    TaskOptions,
)
from longtask.steps.contract import Assignment

from .dispatcher import Claimed, Held, Report, Reported
from .scope import ARTIFACT

OUTCOMES: dict[str, type[Any]] = {
    "done": Done,
    "failed": Failed,
    "parked": Parked,
    "expanded": Expanded,
    "released": Released,
    "stopped": Stopped,
}
WORDS = {kind: word for word, kind in OUTCOMES.items()}


def outcome_map(outcome: Outcome) -> JsonMap:
    """{"outcome": word, …}: the fields that differ from their defaults."""
    return {"outcome": WORDS[type(outcome)], **form(type(outcome)).dump(outcome)}


def outcome_of(body: JsonMap) -> Outcome:
    """Raises BadPlan."""
    kind = OUTCOMES.get(str(body.get("outcome")))
    names = set() if kind is None else {field.name for field in fields(kind)}
    given = {name: value for name, value in body.items() if name != "outcome"}
    if kind is None or not set(given) <= names or not form(kind).needed <= set(given):
        raise BadPlan(f"outcome {body.get('outcome')!r} has no such fields: {', '.join(sorted(given)) or 'none'}")
    found: Outcome = load(kind, given)
    if isinstance(found, Expanded) and not _lists(found):
        raise BadPlan(f"outcome 'expanded': its listing is to be the run, its call and {found.items} tasks")
    return found


def _lists(expanded: Expanded) -> bool:
    """As a child says it (`steps/child.py`): {run, bound, tasks: [{name, prompt}]}."""
    listing = expanded.listing
    if not isinstance(listing, dict) or listing.keys() != {"run", "bound", "tasks"}:
        return False
    tasks = listing["tasks"]
    if not isinstance(listing["run"], int) or not isinstance(listing["bound"], str):
        return False
    if isinstance(tasks, dict):  # they stand as an artifact
        return list(tasks) == [ARTIFACT]
    return len(tasks) == expanded.items and all(isinstance(task.get("prompt"), str) for task in tasks)


def held_map(held: Held) -> JsonMap:
    return {"task": held.ref.task_id, "step": held.ref.step, "attempt": held.attempt}


def report_map(report: Report) -> JsonMap:
    named = held_map(Held(report.ref, report.attempt))
    how = {"pool": report.pool, "next": report.next, "alone": report.alone}
    return {**named, **how, "outcome": outcome_map(report.outcome)}


def claimed_map(claimed: Claimed) -> JsonMap:
    task, step = claimed.task, claimed.step
    return {
        "task": task.id,
        "name": task.name,
        "workspace": task.workspace_id,
        "step": step.key,
        "attempt": step.attempt,
        "run": step.run,
        "pool": step.pool,
        "began_at": step.began_at,
        "spec": form(StepSpec).dump(claimed.spec),
    }


def claimed_of(body: JsonMap) -> Claimed:
    spec = load(StepSpec, body["spec"])
    task = Task(body["task"], body["name"], TaskOptions(), workspace_id=body["workspace"])
    step = Step(
        body["step"],
        spec.kind,
        pool=body["pool"],
        state=StepState.RUNNING,
        attempt=body["attempt"],
        run=body["run"],
        began_at=body["began_at"],
    )
    return Claimed(task, step, spec)


def reported_map(reported: Reported) -> JsonMap:
    claimed = None if reported.claimed is None else claimed_map(reported.claimed)
    return {"over": reported.over, "refused": reported.refused, "claimed": claimed}


def reported_of(body: JsonMap) -> Reported:
    claimed = None if body["claimed"] is None else claimed_of(body["claimed"])
    return Reported(body["over"], body["refused"], claimed)


def assignment_map(assignment: Assignment) -> JsonMap:
    return form(Assignment).dump(assignment)


def assignment_of(body: JsonMap) -> Assignment:
    known = {field.name for field in fields(Assignment)}
    return load(Assignment, {name: value for name, value in body.items() if name in known})
