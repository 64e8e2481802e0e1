"""What the process tree of an attempt is given: a scratch folder, a working folder, and an allow-listed environment.

Beside the plan's `env` and the secrets that it names: TMPDIR, and LONGTASK_TASK, _STEP, _ATTEMPT, _BASE (the commit
that the task began from) and _HEAD (the commit of the attempt's claim); and TRACEPARENT, the span of the attempt.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from longtask.core.errors import NotFound
from longtask.core.model import Json, Kind
from longtask.steps import sandbox
from longtask.steps.contract import Assignment, Render
from longtask.steps.process import allowed_environment
from longtask.steps.scratch import make_scratch
from longtask.telemetry import ids


@dataclass(frozen=True, slots=True)
class Surroundings:
    env: dict[str, str]
    folder: Path  # where it works: the worktree, or an empty folder
    scratch: Path  # ends with the attempt
    inside: tuple[str, ...] = ()  # the words before a command that put it into its sandbox

    def remove(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)


def surround(assignment: Assignment, place: Path | None, render: Render, readable: Sequence[Path] = ()) -> Surroundings:
    """`readable`: what is seen from inside its sandbox, wherever it lies.

    Raises NotFound for a secret that this worker does not have, and what `render` raises; then nothing is left."""
    given = {**assignment.environment, **(assignment.spec.body.get("env") or {})}
    env = {name: as_text(render(value, assignment.scope)) for name, value in given.items()}
    env = allowed_environment(env, assignment.secrets)
    scratch = make_scratch()
    for name in ("tmp", "work"):
        (scratch / name).mkdir()
    if place is not None:  # git must not look above a worktree: should its `.git` get lost, it would find another
        env["GIT_CEILING_DIRECTORIES"] = str(place.parent)
    env |= {
        "TMPDIR": str(scratch / "tmp"),
        "LONGTASK_TASK": assignment.task_id,
        "LONGTASK_STEP": assignment.step,
        "LONGTASK_ATTEMPT": str(assignment.attempt),
        "LONGTASK_BASE": assignment.first_commit or "",
        "LONGTASK_HEAD": assignment.base or "",
        ids.VARIABLE: traceparent_of(assignment),
    }
    folder = place or scratch / "work"
    try:
        inside = _sandbox(assignment, folder, place, scratch, readable)
    except NotFound:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return Surroundings(env, folder, scratch, inside)


def _sandbox(
    assignment: Assignment, folder: Path, place: Path | None, scratch: Path, readable: Sequence[Path]
) -> tuple[str, ...]:
    body = assignment.spec.body
    if body.get("sandbox") != sandbox.BUBBLEWRAP:
        return ()
    home = (
        place.parents[2] if place is not None else Path(given) if (given := os.environ.get("LONGTASK_HOME")) else None
    )
    return tuple(
        sandbox.prefix(
            folder,
            writable=[scratch],
            readable=[*readable, *(sandbox.borrowed(place) if place is not None else ())],
            home=home,
            network=body.get("network", True),
        )
    )


def mark_of(assignment: Assignment) -> str:
    """What its processes carry, so that they are found whatever becomes of their parents."""
    return f"{assignment.task_id}/{assignment.step}/{assignment.attempt}"


def traceparent_of(assignment: Assignment) -> str:
    """An agent's own calls hang under its run."""
    run = assignment.run if assignment.spec.kind is Kind.AGENT else None
    return ids.traceparent(assignment.task_id, assignment.step, assignment.attempt, run)


def as_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
