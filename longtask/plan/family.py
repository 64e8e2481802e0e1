"""Plans in plans: the body of a `task:` step, checked with the whole plan before anything is stored.

    task:
      inputs: {module: "${{ item }}"}
      plan: modules/one.yaml          # a file beside the plan, or the plan itself

It works on its parent's code, and what it does not say of `defaults` it takes from there; its own `inputs` say what it
is handed, its `outputs` what it hands over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from longtask.core.codec import form
from longtask.core.errors import BadPlan
from longtask.core.graph import Graph, did_you_mean
from longtask.core.model import Json
from longtask.core.policy import PLAN_BYTES_MAX, TASK_DEPTH_MAX

from .check import Read, Section
from .flow import output_problem
from .model import LANGUAGE, Plan
from .problems import Findings, Loc, Places, Refused
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
    said = {name: getattr(plan.defaults, name) for name in plan.defaults.model_fields_set}
    plan.defaults = outer.defaults.model_copy(update=said)
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


class Files:
    """Plans that are named as files, put in place of their names: those of `task` steps, and of theirs.

    A name is taken from the folder of the plan that names it.  It leads out of the tree by no way, and through no
    symbolic link: who writes a plan need not be who may read all that lies around it.  What is wrong goes to the
    findings, all of it."""

    def __init__(
        self, tree: Path, parse: Parse, findings: Findings, *, base: Path | None = None, bytes_max: int = PLAN_BYTES_MAX
    ) -> None:
        """`tree`: absolute.  `base`: what relative folders are taken from; None: where this process stands.
        `bytes_max`: of all that is read."""
        self._tree = tree
        self._parse = parse
        self._findings = findings
        self._base = base or Path.cwd()
        self._left = bytes_max
        self._too_much = f"the plans that are named as files have more than {bytes_max:,} bytes together"

    def put_in(self, raw: Json, folder: Path, at: Loc = (), depth: int = 0) -> None:
        """`raw`: steps, or stages of them, that stand at `at`.  `folder` stands in messages as it is given."""
        for loc, id, task in list(_tasks(raw)):
            named, here = task.get("plan"), (*at, *loc, "plan")
            if isinstance(named, dict):
                self.put_in(named, folder, here, depth + 1)
            elif isinstance(named, str) and depth < TASK_DEPTH_MAX:  # deeper ones are refused as they stand
                task["plan"] = self._whole(folder / named, named, id, here, depth)

    def _whole(self, path: Path, named: str, id: str, here: Loc, depth: int) -> Json:
        try:
            text = self._read(path, named)
        except BadPlan as error:
            self._findings.add(f"step {shown(id)}: its plan: {error}", here)
            return Refused()
        try:
            inner, its = self._parse(text, str(path))
        except BadPlan as error:
            self._findings.take(error, here)
            return Refused()
        self._findings.places.parts[here] = its
        if not isinstance(inner, dict):
            self._findings.add(f"a plan is a mapping, found {shown(inner)}", here)
            return Refused()
        self.put_in(inner, path.parent, here, depth + 1)
        return inner

    def _read(self, path: Path, named: str) -> bytes:
        """Raises BadPlan."""
        if self._left < 0:  # nothing more is read then, however often it is named
            raise BadPlan(self._too_much)
        where = Path(os.path.normpath(self._base / path))
        if os.path.isabs(named) or not where.is_relative_to(self._tree):
            raise BadPlan(f"{shown(named)} leads out of the tree that it is named in; name a file inside it")
        try:
            step = self._tree
            for part in where.relative_to(self._tree).parts:
                step = step / part
                if step.is_symlink():
                    link = str(step.relative_to(self._tree))
                    raise BadPlan(f"{shown(named)}: {link!r} is a symbolic link, and none is followed; name the file")
            if where.exists() and not where.is_file():
                raise BadPlan(f"{shown(named)} is no file")
            text = read_file(where, str(path))
        except (OSError, ValueError) as error:  # a name that is none: too long, or with a NUL in it
            raise BadPlan(f"cannot read {shown(named)}: {error}") from error
        self._left -= len(text)
        if self._left < 0:
            raise BadPlan(self._too_much)
        return text


def tree_of(folder: Path) -> Path:
    """What plans in a folder may name files of: its repository, or the folder itself if it is in none."""
    whole = Path(os.path.abspath(folder))
    return next((place for place in (whole, *whole.parents) if (place / ".git").exists()), whole)


def _tasks(raw: Json) -> Iterator[tuple[Loc, str, dict[str, Any]]]:
    """Where a step's task stands, and the step's id."""
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
                yield (*loc, n, "task"), str(step.get("id")), step["task"]
