"""Plans in plans: the body of a `task:` step, checked with the whole plan before anything is stored.

    task:
      inputs: {module: "${{ item }}"}
      plan: modules/one.yaml          # a file beside the plan, or the plan itself

It works on its parent's code, and what it does not say of `defaults` it takes from there; its own `inputs` say what it
is handed, its `outputs` what it hands over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from longtask.core.codec import form
from longtask.core.errors import BadPlan
from longtask.core.graph import Graph, did_you_mean
from longtask.core.model import Json
from longtask.core.policy import TASK_DEPTH_MAX

from .check import Read, Section
from .flow import output_problem
from .model import LANGUAGE, Plan
from .problems import Findings, Loc, Places, path_text
from .shape import misfits
from .suspicious import shown
from .yaml import read_file

Parse = Callable[[bytes, str], tuple[Json, Places]]  # (text, file): raises BadPlan


class Below(Findings):
    """What is wrong with a plan in a plan, told where it stands in the whole."""

    def __init__(self, outer: Findings, loc: Loc, where: str) -> None:
        super().__init__(outer.places)
        self._outer, self._loc, self._where = outer, loc, where

    def add(self, message: str, loc: Loc = (), key: bool = False, place: tuple[int, int] | None = None) -> None:
        super().add(message, loc, key, place)
        self._outer.add(f"{self._where}: {message}", (*self._loc, *loc), key, place)


def embedded(raw: Json, outer: Plan, findings: Findings, place: Section, depth: int) -> tuple[Plan, Below] | None:
    """The plan of a `task` step; None: what is wrong with it stands in the findings.  `depth`: of the child."""
    below = Below(findings, (*place.loc, "plan"), f"{place.where}: its plan")
    if depth > TASK_DEPTH_MAX:
        below.add(f"tasks in tasks go {TASK_DEPTH_MAX} deep at most")
        return None
    if isinstance(raw, str):
        below.add(f"{shown(raw)} is a file, and this plan was not read from one; write the plan itself there")
        return None
    assert isinstance(raw, dict)
    if "workspace" in raw:
        below.add("it works on its parent's code; leave `workspace` out", ("workspace",), key=True)
    if raw.get("longtask", LANGUAGE) != LANGUAGE:
        below.add(f"longtask must be {LANGUAGE}, the version of the language", ("longtask",))
    head = {"longtask": LANGUAGE, "name": place.step.replace("_", "-")}
    try:
        plan = Plan.model_validate({**head, **{k: v for k, v in raw.items() if k not in ("workspace", "longtask")}})
    except ValidationError as error:
        misfits(error, Plan, raw, below)
        return None
    plan.workspace = outer.workspace
    if "defaults" not in raw:
        plan.defaults = outer.defaults
    plan.env = {**outer.env, **plan.env}
    plan.secrets = list(dict.fromkeys([*outer.secrets, *plan.secrets]))
    return plan, below


def handed_down(given: dict[str, Any], plan: Plan, findings: Findings, place: Section) -> None:
    """The inputs of the step are those that its plan names."""
    for name in given:
        if name not in plan.inputs:
            hint = did_you_mean(name, plan.inputs) or f"; it has {', '.join(plan.inputs) or 'none'}"
            findings.add(f"{place.where}: its plan has no input {name!r}{hint}", (*place.loc, "inputs", name), key=True)
    for name in plan.inputs:
        if name not in given:
            findings.add(f"{place.where}: its plan has an input {name!r}; hand it down in `inputs`", place.loc)


def handed_over(plan: Plan, graph: Graph, reads: list[Read], findings: Findings) -> tuple[str, ...]:
    """The steps that a plan's `outputs` read: all have ended by then, so they need only be there."""
    by_key = {row.key: row for row in graph.planned}
    sources: set[str] = set()
    for read in reads:
        key = read.reading.step
        if key not in by_key:
            findings.add(f"outputs: steps.{key}: no such step{did_you_mean(key, by_key)}", read.loc)
        elif message := output_problem(read, by_key[key], graph.specs):
            findings.add(f"outputs: {message}", read.loc)
        sources.add(key)
    return tuple(sorted(sources))


def body_of(graph: Graph, inputs: dict[str, Any], plan: Plan, sources: tuple[str, ...]) -> dict[str, Any]:
    body: dict[str, Any] = {"graph": form(Graph).dump(graph)}
    body |= {"inputs": inputs} if inputs else {}
    body |= {"results": plan.outputs, "sources": list(sources)} if plan.outputs else {}
    return body


# --- files ------------------------------------------------------------------------------------------------------------


def read_files(raw: Json, places: Places, folder: Path, parse: Parse, at: Loc = (), depth: int = 0) -> Json:
    """The plan with the files in place of their names: those of its `task` steps, and of theirs.  Raises BadPlan.

    `places`: of the text that holds it, at `at`."""
    for loc, task in list(_tasks(raw)):
        named, here = task.get("plan"), (*at, *loc, "plan")
        if isinstance(named, dict):
            task["plan"] = read_files(named, places, folder, parse, here, depth + 1)
        elif isinstance(named, str) and depth < TASK_DEPTH_MAX:  # deeper ones are refused as they stand
            path = folder / named
            try:
                text = read_file(path)
            except BadPlan as error:
                findings = Findings(places)
                findings.add(f"{path_text(here)}: {error}", here)
                findings.raise_if_any()
                raise
            inner, its = parse(text, str(path))
            if not isinstance(inner, dict):
                raise BadPlan(f"{path}: a plan is a mapping, found {shown(inner)}")
            places.parts[here] = its
            task["plan"] = read_files(inner, its, path.parent, parse, (), depth + 1)
    return raw


def _tasks(raw: Json) -> Iterator[tuple[Loc, dict[str, Any]]]:
    if not isinstance(raw, dict):
        return
    groups: list[tuple[Loc, Json]] = [(("steps",), raw.get("steps"))]
    stages = raw.get("stages")
    for n, stage in enumerate(stages if isinstance(stages, list) else ()):
        if isinstance(stage, dict):
            groups.append((("stages", n, "steps"), stage.get("steps")))
    for loc, steps in groups:
        for n, step in enumerate(steps if isinstance(steps, list) else ()):
            if isinstance(step, dict) and isinstance(step.get("task"), dict):
                yield (*loc, n, "task"), step["task"]
