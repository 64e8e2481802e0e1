"""What a planner hands over, as a whole: the plans that its steps name may be files that it has written.

They are read where it wrote them, before its folder goes, and stand in its result from then on: what is checked, shown
to a person and added is what is stored, and no file that changes later can make it another plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from longtask.core.errors import BadPlan
from longtask.core.grow import refusal, steps_in
from longtask.core.model import Done, Json, Outcome
from longtask.redaction import mask_of
from longtask.steps.contract import Assignment

# (steps, folder) -> the steps with the plans in place of their files; raises BadPlan with every problem
ReadPlans = Callable[[Json, Path], Json]


def as_handed_over(steps: Json, folder: Path) -> Json:
    """For plans without files."""
    return steps


def whole(outcome: Outcome, assignment: Assignment, folder: Path | None, read: ReadPlans) -> Outcome:
    """`folder`: in which it has worked; None: it had none, and names no files."""
    if not isinstance(outcome, Done) or "grow" not in assignment.spec.body:
        return outcome
    try:
        steps = steps_in(outcome.result)
        if folder is not None:
            steps = read(steps, folder)
    except BadPlan as error:
        return replace(refusal(error), artifacts=outcome.artifacts)
    assert isinstance(outcome.result, dict)
    return replace(outcome, result={**outcome.result, "steps": mask_of(assignment.secrets).value(steps)})
