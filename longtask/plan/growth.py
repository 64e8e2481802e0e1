"""A part of a plan that is added to a task which is under way: steps of one stage, in the plan's own words.

    stage: change          # absent: the stage that is under way
    before: integration    # absent: nothing waits for them but the end of their stage
    steps:
      - {id: sessions, run: pytest tests/sessions}

What of the running task stands in its way is judged when it is added (`core.grow`).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import Field, ValidationError

from longtask.core import grow as core
from longtask.core.errors import BadPlan
from longtask.core.model import Json, Task

from .compile import TEXT_UNDER, Fragment, moved, parsed
from .family import Files, tree_of
from .fields import Id, Text, Words
from .model import Defaults, Plan, Stage, Workspace
from .problems import Findings, Loc, Places, Refused
from .shape import misfits, nulls
from .step import Step
from .suspicious import shown
from .yaml import DEPTH_MAX, parse, shallow

PLANNED_BYTES_MAX = 500_000  # of the files that a planner names: they are read while its worker waits
# Of a whole plan that is added: the task has its own.
OF_A_PLAN = frozenset("longtask name goal workspace limits priority fail_fast $schema".split())


class Growth(Words):
    """Steps that are added to a task."""

    stage: Text | None = Field(default=None, description="The stage that they enter; absent: the one under way.")
    before: Id | None = Field(default=None, description="The step that they go in front of.")
    after: Id | None = Field(default=None, description="What those without `needs` wait for, beside their stage.")
    steps: list[Step] = Field(default_factory=list, description="Each may need those that stand before it.")
    stages: list[Stage] = Field(
        default_factory=list, description="Instead of `steps`: in order.  They become needs: all enter one stage."
    )
    defaults: Defaults | None = Field(default=None, description="Of the new steps; absent: those of the task's plan.")

    def ordered(self) -> dict[Loc, Step]:
        """The steps by where they stand, with what they wait for: `after`, or all of the stage before."""
        found: dict[Loc, Step] = {}
        earlier = [self.after] if self.after is not None else []
        parts: list[tuple[Loc, list[Step]]] = [(("stages", n, "steps"), s.steps) for n, s in enumerate(self.stages)]
        for loc, steps in parts or [(("steps",), self.steps)]:
            for n, step in enumerate(steps):
                found[(*loc, n)] = step
                if step.needs is None and earlier:
                    step.needs = list(earlier)
            earlier = [step.id for step in steps] or earlier
        return found


def growth_of(
    text: str | bytes,
    file: str,
    task: Task,
    *,
    folder: Path | None = None,
    stage: str | None = None,
    before: str | None = None,
    after: str | None = None,
) -> core.Growth:
    """Read and check a fragment, YAML or JSON.  The defaults of the task's plan hold for the new steps.  `folder`: from
    which it may name the plans of its `task` steps, and its recordings; None: it names no files.  What is given beside
    the text stands in for what it says.  Raises BadPlan with every problem, by line where the text has lines."""
    raw, findings = _read(text, file, folder)
    given = {"stage": stage, "before": before, "after": after}
    if isinstance(raw, dict):
        raw = {**raw, **{word: value for word, value in given.items() if value is not None}}
    growth = _growth(raw, findings, task)
    return growth if folder is None else replace(growth, specs=tuple(moved(spec, folder) for spec in growth.specs))


def without_head(raw: Mapping[str, Json]) -> dict[str, Json]:
    """A whole plan as steps that are added: without what only a task has."""
    return {word: value for word, value in raw.items() if word not in OF_A_PLAN}


def words_of(text: str | bytes, file: str, folder: Path) -> dict[str, Json]:
    """A fragment as plain values, with the plans that it names as files in it.  Raises BadPlan."""
    raw, findings = _read(text, file, folder)
    findings.raise_if_any()
    if not isinstance(raw, dict):
        raise BadPlan(f"{file}: growth is a mapping with `steps`, found {shown(raw)}")
    return raw


def growth_from(raw: Json, task: Task) -> core.Growth:
    """The same from plain values: a request's body, or what a planner has handed over (a mapping, or a list of
    steps)."""
    return _growth({"steps": raw} if isinstance(raw, list) else raw, Findings(Places("")), task)


def with_plans(steps: Json, tree: Path) -> Json:
    """Steps as a planner has handed them over, with the plans that it has written as files in place of their names,
    which are taken from its folder.  Raises BadPlan with every file that cannot be read."""
    findings = Findings(Places(""))
    if not shallow(steps):
        raise BadPlan(f"the steps are nested deeper than {DEPTH_MAX} levels; hand over steps as a plan has them")
    raw = copy.deepcopy({"steps": steps})
    Files(tree.resolve(), parsed, findings, base=tree.resolve(), bytes_max=PLANNED_BYTES_MAX).put_in(raw, Path())
    findings.raise_if_any()
    return raw["steps"]


def _read(text: str | bytes, file: str, folder: Path | None) -> tuple[Json, Findings]:
    raw, _, findings = parse(text, file, text_under=TEXT_UNDER, empty="the growth is empty; begin with `steps:`")
    if folder is not None:
        Files(tree_of(folder), parsed, findings).put_in(raw, folder)
    return raw, findings


def _growth(raw: Json, findings: Findings, task: Task) -> core.Growth:
    if isinstance(raw, Refused):
        findings.raise_if_any()
    if not isinstance(raw, dict):
        findings.add(f"growth is a mapping with `steps`, found {shown(raw)}")
        findings.raise_if_any()
    raw = without_head(raw)
    nulls(raw, findings)
    try:
        grown = Growth.model_validate(raw)
    except ValidationError as error:
        misfits(error, Growth, raw, findings)
        findings.raise_if_any()
        raise
    if grown.steps and grown.stages:
        findings.add("steps: it has `stages` too; write either", ("steps",))
    for n, stage in enumerate(grown.stages):
        if stage.limits is not None:
            findings.add("limits: the stage is none of the task's; put limits on its agents", ("stages", n, "limits"))
    findings.raise_if_any()
    stand = host(task)
    placed = grown.ordered()
    stand.steps = list(placed.values())
    stand.defaults = grown.defaults or stand.defaults
    planned, specs = fragment(stand, findings, task).steps(list(placed))
    findings.raise_if_any()
    return core.Growth(planned, specs, grown.before, grown.stage)


def fragment(stand: Plan, findings: Findings, task: Task) -> Fragment:
    return Fragment(stand, findings, task.options.attended, depth=len(task.ancestors) or None)


def host(task: Task) -> Plan:
    """What new words stand in: the head of the plan that the task has."""
    workspace = task.options.workspace
    return Plan(
        name=task.name,
        defaults=Defaults.model_validate(task.options.defaults),
        workspace=Workspace.model_validate(workspace) if workspace is not None else None,
        inputs=dict.fromkeys(task.options.inputs, "any"),
        env=dict(task.options.environment),
        secrets=list(task.options.secrets),
    )
