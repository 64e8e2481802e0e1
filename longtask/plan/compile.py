"""From a plan to a checked graph.  Every problem is told, not the first only; what warns does not refuse.

    plan = load(text, "longtask.yaml")      # raises BadPlan: file:line:column for each problem
    graph = compile_plan(plan, attended=True)

`load` checks all that `compile_plan` does, so that a plan which was loaded compiles.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from longtask.core import codec
from longtask.core import graph as core
from longtask.core.errors import BadPlan, Problem
from longtask.core.graph import SYSTEM_KINDS, Graph, Planned
from longtask.core.model import POOL_SYSTEM, Json, JsonMap, Kind, RunWhen, StepSpec, TaskOptions, WhenFailed
from longtask.core.policy import KEY_LENGTH_MAX, NAME_LENGTH_MAX

from . import expressions, family
from .check import Section
from .duration import duration_ms
from .flow import BESIDE_SHOWN, beside, reading_problems
from .model import LANGUAGE, ONE_STAGE, Plan, Stage
from .problems import Findings, Loc, Places, Refused, in_order, path_text
from .shape import fitting, misfits, nulls
from .specs import Specs
from .step import Step, SubTask
from .suspicious import key_in, key_under, shown
from .yaml import parse, place_all, read_file

_ID = re.compile(r"[a-z][a-z0-9_]*")
_RUN_WHEN = {word.value: word for word in RunWhen}
_WHEN_FAILED = {word.value: word for word in WhenFailed}
_APART = frozenset(("id", "needs", "weight", "run_when", "when_failed"))  # of the row, not of the spec
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.|$))*")
TEXT_UNDER = ("env", "run")  # `env: {PORT: 8080}` and `run: true` are text, as written
BEGIN = f"begin with `longtask: {LANGUAGE}`"
PLACED_BYTES_MAX = 500_000  # about three seconds


@dataclass(frozen=True, slots=True)
class Given:
    """What is said beside a plan."""

    attended: bool = False
    name: str | None = None
    parallel: int | None = None


def load_file(path: str | os.PathLike[str]) -> Plan:
    """Read and check a plan file, and the files that it names as plans of its `task` steps.  Raises BadPlan."""
    return compiled(read_file(path), os.fspath(path), folder=Path(path).parent)[0]


def load(text: str | bytes, file: str = "plan") -> Plan:
    """Read and check a plan: YAML, or JSON.  `file` names it in messages.  Raises BadPlan with every problem."""
    return compiled(text, file)[0]


def compiled(
    text: str | bytes,
    file: str = "plan",
    *,
    attended: bool = False,
    name: str | None = None,
    parallel: int | None = None,
    folder: Path | None = None,
) -> tuple[Plan, Graph]:
    """`load` and `compile_plan` in one pass.  `name` and `parallel` stand in for the plan's own.  `folder`: from which
    it may name the plans of its `task` steps; None: it names no files."""
    raw, places, findings = parse(text, file, text_under=TEXT_UNDER, empty=f"the plan is empty; {BEGIN}")
    if folder is not None:
        family.Files(family.tree_of(folder), parsed, findings).put_in(raw, folder)
    unread = dict(findings.found)
    given = Given(attended, name, parallel)
    try:
        return _plan_of(raw, findings, given)
    except BadPlan:
        # JSON was read without places; a plan with problems is worth a slower look, unless it is very large.
        if not places.values and len(text) <= PLACED_BYTES_MAX:
            place_all(text if isinstance(text, str) else text.decode("utf-8"), places)
            if places.values:
                fresh = Findings(places)
                fresh.found |= unread
                _plan_of(raw, fresh, given)
        raise


def files_of(plan: Plan) -> list[Path]:
    """Those that it names as plans of its `task` steps, and those that they name."""
    return [Path(part.file).resolve() for part in plan._places.all_parts()]


def whole_text(plan: Plan, text: str) -> str:
    """What is kept of a plan, and sent: its text, and if it names files, all of it as JSON."""
    return json.dumps(plan.dump(), ensure_ascii=False, indent=2) if plan._places.parts else text


def parsed(text: bytes, file: str) -> tuple[Json, Places]:
    """A plan as plain values, and their places.  Raises BadPlan."""
    raw, places, findings = parse(text, file, text_under=TEXT_UNDER, empty=f"the plan is empty; {BEGIN}")
    findings.raise_if_any()
    return raw, places


def from_values(raw: Json, file: str = "") -> Plan:
    """A plan from plain values, such as a request's body.  Raises BadPlan."""
    return _plan_of(raw, Findings(Places(file)))[0]


def compile_plan(plan: Plan, *, attended: bool = False) -> Graph:
    """The graph of a plan.  `attended`: somebody watches, so a failing step asks.  Raises BadPlan."""
    findings = Findings(plan._places)
    graph = _Compiler(plan, findings, attended).graph()
    findings.raise_if_any()
    return graph


def warnings(plan: Plan) -> list[Problem]:
    """What may surprise, though it is allowed, in the order of the text.  Raises BadPlan for a plan with problems."""
    findings = Findings(plan._places)
    compiler = _Compiler(plan, Findings(plan._places), attended=False)
    graph = compiler.graph()
    compiler.findings.raise_if_any()
    for step, others in beside(graph.planned, graph.specs, max(len(graph.options.stages), 1)):
        named = ", ".join(repr(key) for key in others[:BESIDE_SHOWN])
        more = f" and {len(others) - BESIDE_SHOWN} more" if len(others) > BESIDE_SHOWN else ""
        findings.add(
            f"step {step.key!r}: {named}{more} may change the code while it is asked; the answer counts for what "
            "was shown. Use `needs` or stages to order them, or `bind: head` to ask anew",
            compiler.locs[step.path],
        )
    for step in graph.planned:
        if step.run_when is RunWhen.ALWAYS:
            message = f"step {step.key!r} has `run_when: always`, but it does not run in a task that is cancelled"
            findings.add(message, (*compiler.locs[step.path], "run_when"))
    return in_order(findings.found.values())


def _plan_of(raw: Json, findings: Findings, given: Given = Given()) -> tuple[Plan, Graph]:
    if isinstance(raw, Refused):
        findings.raise_if_any()
    if not isinstance(raw, dict):
        findings.add(f"a plan is a mapping that begins with `longtask: {LANGUAGE}`, found {shown(raw)}")
        findings.raise_if_any()
    _language(raw, findings)
    # Editors put `$schema` into JSON files.  A wrong version is told already; the rest is read as ours.
    raw = {key: value for key, value in raw.items() if key != "$schema"} | {"longtask": LANGUAGE}
    touched = nulls(raw, findings)
    plan: Plan | None
    try:
        plan = Plan.model_validate(raw)
    except ValidationError as error:
        misfits(error, Plan, raw, findings)
        plan, removed = fitting(raw, error, Plan)
        touched |= removed
        if plan is None:
            findings.raise_if_any()
            raise
    plan._places = findings.places
    if given.name is not None:
        plan.name = given.name
    if given.parallel is not None:
        plan.limits.parallel = given.parallel
    more = Findings(findings.places)
    graph = _Compiler(plan, more, given.attended, whole=not touched).graph()
    for key, problem in more.found.items():
        loc = key[0]
        if not any(loc[: len(part)] == part[: len(loc)] for part in touched):  # a consequence of what was taken away
            findings.found.setdefault(key, problem)
    findings.raise_if_any()
    return plan, graph


def _language(raw: dict[str, Any], findings: Findings) -> None:
    version = raw.get("longtask")
    if "longtask" not in raw:
        findings.add(f"the version of the language is missing; {BEGIN}")
    elif isinstance(version, int) and not isinstance(version, bool) and version > LANGUAGE:
        findings.add(
            f"longtask: {version} is newer than this version reads ({LANGUAGE}); update longtask", ("longtask",)
        )
        findings.found = {key: p for key, p in findings.found.items() if key[0] == ("longtask",)}
        findings.raise_if_any()  # what else a newer language says is not for us to judge
    elif version != LANGUAGE or isinstance(version, bool):
        findings.add(f"longtask must be {LANGUAGE}, the version of the language; found {shown(version)}", ("longtask",))


class _Compiler:
    """One pass over a plan.  `whole`: no part was taken away, so that what a step waits for is as written."""

    def __init__(
        self, plan: Plan, findings: Findings, attended: bool, whole: bool = True, depth: int | None = None
    ) -> None:
        """`depth`: of a plan in a plan; None: it stands by itself."""
        self.plan = plan
        self.depth = depth
        self.findings = findings
        self.attended = attended
        self.whole = whole
        self.specs = Specs(plan, findings, self._child)
        self.specs.inputs = None if depth is None else frozenset(plan.inputs)
        self.planned: list[Planned] = []
        self.locs: dict[str, Loc] = {}
        self.alike: dict[str, tuple[Kind, int, str]] = {}

    def graph(self) -> Graph:
        plan = self.plan
        dumped = plan.dump()
        self._head()
        self._literals({key: value for key, value in dumped.items() if key not in ("stages", "steps", "outputs")}, ())
        stages = self._stages(dumped)
        for number, (steps, values, loc) in enumerate(stages, 1):
            prefix = path_text(loc)
            for n, step in enumerate(steps):
                self._step(step, values[n], (*loc, n), f"{prefix}[{n}]", number)
        if not self.planned:
            self.findings.add("the plan has no steps; give it `stages`, or `steps` for a single stage")
        for problem in core.check(self.planned, max(len(stages), 1)):
            self._graph_problem(problem)
        if self.whole and not self.findings.found:
            for read, message in reading_problems(self.planned, self.specs.specs, self.specs.reads, len(stages)):
                self.findings.add(f"{read.where}: {message}", read.loc)
        names = tuple(stage.name for stage in plan.stages) or (ONE_STAGE,)
        text = json.dumps(dumped, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return Graph(
            name=plan.name,
            options=self._options(names, digest),
            specs=tuple(self.specs.specs),
            planned=tuple(self.planned),
            parallel=plan.limits.parallel,
            priority=plan.priority,
        )

    def _child(self, task: SubTask, place: Section) -> dict[str, Any] | None:
        """The body of a `task` step."""
        depth = (self.depth or 0) + 1
        found = family.embedded(task.plan, self.plan, self.findings, place, depth)
        if found is None:
            return None
        plan, below = found
        family.handed_down(task.inputs, plan, self.findings, place)
        compiler = _Compiler(plan, below, self.attended, depth=depth)
        graph = compiler.graph()
        compiler.specs.reads.clear()
        compiler.specs.template(plan.outputs, Section("", "", ("outputs",)))
        compiler._literals(plan.outputs, ("outputs",))
        sources = family.handed_over(plan, graph, compiler.specs.reads, below)
        return None if below.found else family.body_of(graph, task.inputs, plan, sources)

    def _stages(self, dumped: dict[str, Any]) -> list[tuple[list[Step], list[Any], Loc]]:
        """For each stage its steps, the same as plain values, and where they stand."""
        plan = self.plan
        if plan.stages and plan.steps:
            self.findings.add(
                "the plan has both `stages` and `steps`; move the steps into a stage", ("steps",), key=True
            )
        seen: dict[str, int] = {}
        for n, stage in enumerate(plan.stages):
            self._stage_name(stage, ("stages", n, "name"), seen.get(stage.name))
            self._literals(stage.name, ("stages", n, "name"))
            seen.setdefault(stage.name, n + 1)
        if not plan.stages:
            return [(plan.steps, dumped.get("steps", []), ("steps",))]
        return [
            (stage.steps, dumped["stages"][n].get("steps", []), ("stages", n, "steps"))
            for n, stage in enumerate(plan.stages)
        ]

    def _stage_name(self, stage: Stage, loc: Loc, twice: int | None) -> None:
        if twice:
            self.findings.add(f"stage {shown(stage.name)} is there twice; stage {twice} has the same name", loc)
        if len(stage.name) > NAME_LENGTH_MAX or "\n" in stage.name:
            self.findings.add(
                f"stage {shown(stage.name)}: a name is one line of {NAME_LENGTH_MAX} characters at most", loc
            )

    def _head(self) -> None:
        """What stands above the steps."""
        plan, specs = self.plan, self.specs
        if not _NAME.fullmatch(plan.name) or len(plan.name) > NAME_LENGTH_MAX:
            better = re.sub(r"[^a-z0-9_]+", "-", plan.name.lower()).strip("-_")[:NAME_LENGTH_MAX] or "my-task"
            self.findings.add(
                f"name {shown(plan.name)}: letters, digits, dots, dashes and underscores, at most {NAME_LENGTH_MAX}; "
                f"write {shown(better)}",
                ("name",),
            )
        for word in ("inputs", "outputs") if self.depth is None else ():
            if getattr(plan, word):
                self.findings.add(f"{word} are for the plan of a `task` step: nobody hands them to this one", (word,))
        specs.variables(plan.env, "", ("env",))
        specs.variables(plan.secrets, "", ("secrets",))
        specs.variables(plan.defaults.env, "defaults", ("defaults", "env"))
        for name in sorted(set(plan.secrets) & {*plan.env, *plan.defaults.env}):
            self.findings.add(f"secrets and env both set {name!r}; one name, one value", ("secrets",))
        if plan.defaults.agent is not None:
            specs.agent_settings(plan.defaults.agent, Section("", "", ("defaults", "agent")))
        for name, text in plan.defaults.env.items():
            self._task_only(text, ("defaults", "env", name))
        durations: dict[Loc, str | None] = {
            ("limits", "active"): plan.limits.active,
            ("defaults", "timeout"): plan.defaults.timeout,
            ("defaults", "silence"): plan.defaults.silence,
        }
        for loc, duration in durations.items():
            if duration is not None and duration_ms(duration) == 0:
                self.findings.add(f"{path_text(loc)} must be longer than nothing; leave it out for no limit", loc)

    def _task_only(self, text: str, loc: Loc) -> None:
        """The environment of all steps may name the task and nothing else: no step is before every step."""
        specs = self.specs
        specs.templates.add(loc)
        try:
            for expression in expressions.expressions(text):
                if strange := sorted(expressions.checked(expression).roots - {"task"}):
                    raise BadPlan(f"{strange[0]!r} is not known here; only `task.` is")
        except BadPlan as error:
            self.findings.add(f"{path_text(loc)}: {error}", loc)

    def _step(self, step: Step, values: dict[str, Any], loc: Loc, path: str, stage: int) -> None:
        if not _ID.fullmatch(step.id) or len(step.id) > KEY_LENGTH_MAX:
            self.findings.add(_id_problem(step.id), (*loc, "id"))
        kind, spec, pool = self._spec(step, values, loc)
        self.locs[path] = loc
        given = step.when_failed or self.plan.defaults.when_failed or ("ask" if self.attended else "stop")
        self.planned.append(
            Planned(
                key=step.id,
                kind=kind,
                stage=stage,
                spec=spec,
                needs=None if step.needs is None else tuple(step.needs),
                weight=step.weight,
                run_when=_RUN_WHEN[step.run_when],
                when_failed=_WHEN_FAILED[given],
                conditional=step.if_ is not None,
                pool=POOL_SYSTEM if kind in SYSTEM_KINDS else pool,
                path=path,
            )
        )

    def _spec(self, step: Step, values: dict[str, Any], loc: Loc) -> tuple[Kind, int, str]:
        """Kind, spec and pool.  A step that says the same as one before, without a problem, is not looked at again."""
        key = repr([item for item in values.items() if item[0] not in _APART])
        if (known := self.alike.get(key)) is not None:
            return known
        specs, before = self.specs, self._noted()
        where = f"step {shown(step.id)}"
        made = specs.step(step, Section(step.id, where, loc))
        self._literals(_without_plan(values), loc, where)
        if self._noted() == before and step.artifact is None:  # an artifact is named after its step
            self.alike[key] = made
        return made

    def _noted(self) -> tuple[int, int, int]:
        """What was noted with a step's own place: problems, expressions, templates."""
        return len(self.findings.found), len(self.specs.reads), len(self.specs.templates)

    def _graph_problem(self, problem: Problem) -> None:
        loc = self.locs.get(problem.path, ())
        word = "id" if "is there twice" in problem.message else "needs" if " needs " in problem.message else ""
        self.findings.add(problem.message, (*loc, word) if word and loc else loc)

    def _literals(self, value: Json, at: Loc, where: str = "") -> None:
        """Keys that must not be in a plan, and expressions where none is evaluated."""
        for loc, text in _texts(value, at):
            name = f"{where}: {path_text(loc[len(at) :])}" if where else path_text(loc)
            kind = key_in(text)
            if kind is None and len(loc) > 1 and loc[-2] == "env" and key_under(str(loc[-1]), text):
                kind = "a key"
            if kind is not None:
                self.findings.add(
                    f"{name} holds what looks like {kind}; a plan is stored and shown: put its name under "
                    "`secrets:` and the value into the worker's environment",
                    loc,
                )
            if "${{" in text and loc not in self.specs.templates and expressions.has_expression(text):
                self.findings.add(f"{name}: no expression is evaluated here; write the value", loc)

    def _options(self, stages: tuple[str, ...], digest: str) -> TaskOptions:
        plan = self.plan
        limits = plan.limits
        money = limits.cost_usd
        return TaskOptions(
            goal=plan.goal,
            fail_fast=plan.fail_fast,
            attended=self.attended,
            workspace=None
            if plan.workspace is None
            else plan.workspace.model_dump(exclude_none=True, exclude_defaults=True) | {"repo": plan.workspace.repo},
            stages=stages,
            budget_micros=None if money is None else int(Decimal(str(money)) * 1_000_000),
            budget_tokens=limits.tokens,
            active_max_ms=None if limits.active is None else duration_ms(limits.active),
            stage_limits=_stage_limits(plan.stages),
            environment=dict(plan.env),
            defaults=plan.defaults.model_dump(mode="json", exclude_none=True, exclude_defaults=True),
            secrets=tuple(plan.secrets),
            plan_digest=digest,
        )


def _stage_limits(stages: list[Stage]) -> tuple[dict[str, int], ...]:
    found = []
    for stage in stages:
        limits = stage.limits
        tokens = {} if limits is None or limits.tokens is None else {"tokens": limits.tokens}
        money = None if limits is None else limits.cost_usd
        found.append(tokens if money is None else {**tokens, "micros": int(Decimal(str(money)) * 1_000_000)})
    return tuple(found) if any(found) else ()


class Fragment(_Compiler):
    """Steps alone, to be added to a task that is there: what they need and read is judged beside it."""

    def steps(self, locs: Sequence[Loc]) -> tuple[tuple[Planned, ...], tuple[StepSpec, ...]]:
        """Rows and specs; problems are in the findings.  `locs`: where each step stands in its text."""
        for step, values, loc in zip(self.plan.steps, self.plan.dump().get("steps", []), locs, strict=True):
            self._step(step, values, loc, path_text(loc), 1)
        return tuple(self.planned), tuple(self.specs.specs)


def all_specs(graph: Graph) -> Iterator[StepSpec]:
    """Those of the plans of its `task` steps too."""
    for spec in graph.specs:
        yield spec
        if spec.kind is Kind.TASK:
            yield from all_specs(codec.load(Graph, spec.body["graph"]))


def placed(graph: Graph, folder: Path) -> Graph:
    """A plan names its recordings from its own folder; a worker may stand anywhere."""
    defaults = graph.options.defaults
    if agent := defaults.get("agent"):
        defaults = {**defaults, "agent": _from(folder, agent)}
    specs = tuple(moved(spec, folder) for spec in graph.specs)
    return replace(graph, specs=specs, options=replace(graph.options, defaults=defaults))


def moved(spec: StepSpec, folder: Path) -> StepSpec:
    if spec.kind is Kind.TASK:
        child = placed(codec.load(Graph, spec.body["graph"]), folder)
        return replace(spec, body={**spec.body, "graph": codec.form(Graph).dump(child)})
    return replace(spec, body=_from(folder, spec.body)) if spec.kind is Kind.AGENT else spec


def _from(folder: Path, agent: JsonMap) -> JsonMap:
    given = agent.get("recording")
    return agent if not given or "${{" in given else {**agent, "recording": str((folder / given).resolve())}


def _without_plan(values: dict[str, Any]) -> dict[str, Any]:
    """A plan in a plan is looked at by itself."""
    if "task" not in values:
        return values
    return {**values, "task": {name: value for name, value in values["task"].items() if name != "plan"}}


def _texts(value: Json, loc: Loc) -> Iterator[tuple[Loc, str]]:
    if isinstance(value, str):
        yield loc, value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _texts(one, (*loc, key))
    elif isinstance(value, list):
        for n, one in enumerate(value):
            yield from _texts(one, (*loc, n))


def _id_problem(id: str) -> str:
    if len(id) > KEY_LENGTH_MAX:
        return f"step id {shown(id)} has {len(id)} characters, the limit is {KEY_LENGTH_MAX}"
    better = re.sub(r"[^a-z0-9_]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", id).lower()).strip("_")
    better = better if better[:1].isalpha() else f"step_{better}".rstrip("_")
    return f"step id {shown(id)}: ids are [a-z][a-z0-9_]*; write {shown(better[:KEY_LENGTH_MAX])}"
