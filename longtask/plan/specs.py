"""From a step's words to a `StepSpec`: what its attempts do and how often, defaults filled in, equal ones shared.

What must hold between the words of one step is checked here: exactly one kind, words that fit the kind, templates
where templates are evaluated.  All problems go to the findings; a spec with problems is made all the same, so that the
rest is checked too.

`body` by kind (a key is absent when the plan does not say it; `${{ … }}` is rendered for each attempt):

    run       command (text: a shell's; list: no shell), progress, junit, evidence, sandbox, network, silence_ms, env,
              secrets
    function  function ("package.module:name"), args, inline, progress, evidence, sandbox, network, silence_ms, env,
              secrets
    agent     prompt, runtime, model, recording, tools, ask, deny, options, evidence, sandbox, network, silence_ms, env,
              secrets; of one that may spawn, `item` is the spec of what it spawns, which has no prompt of its own
    approval  ask, show (`diff`, `artifacts.NAME`, or a glob of files), bind, who, expires_ms
    wait      signal, match, timeout_ms   or   timer_ms
    call      url, body, headers, secret_headers (header → name of a variable), timeout_ms (for the callback)
    artifact  kind (patch, report, files), name; of a report: title; of files: paths
    task      graph (of its plan, as `codec` writes it), inputs, results (name → template over the child's steps),
              sources (those steps)
    for_each  nothing: the list is the spec's `items`, the work is the spec with number `item`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from longtask.agents.catalog import ACP, RUNTIMES, TOOLS, named
from longtask.agents.policy import parse
from longtask.agents.spawning import OUTPUTS, SPAWN
from longtask.core.graph import did_you_mean
from longtask.core.model import POOL_DEFAULT, POOL_SYSTEM, Json, Kind, StepSpec
from longtask.core.policy import DEPTH_MAX, FAILURES_MAX, GROWTH_MAX, LOSSES_MAX, ROUNDS_MAX, SPAWNED_MAX, WINDOW_MAX

from . import expressions
from .check import VARIABLE, Checks, Section
from .duration import duration_ms
from .model import ONE_STAGE, Defaults, Plan
from .problems import Findings
from .step import (
    SPAWNED,
    Agent,
    AgentDefaults,
    Approval,
    Artifact,
    Call,
    Evidence,
    Fix,
    Grow,
    Step,
    Subagents,
    SubTask,
    Wait,
    Work,
    kinds_of,
)
from .suspicious import shown

PARALLEL_MAX = 16
PLANNER_TRIES = 2  # more runs of a planner whose steps do not hold, if its plan does not say
INSTEAD = {  # (word, kind): what to do about a word that does not apply
    ("timeout", "approval"): "write `expires` inside the approval",
    ("timeout", "wait"): "write `timeout` inside the wait",
    ("timeout", "call"): "write `timeout` inside the call",
    ("mutex", "approval"): "whoever waits holds none; put it on the steps that need it",
    ("mutex", "wait"): "whoever waits holds none; put it on the steps that need it",
    ("mutex", "call"): "whoever waits holds none; put it on the steps that need it",
    ("timeout", "task"): "write `limits` inside its plan",
    ("retry", "task"): "the steps of its plan have their own",
    ("env", "task"): "write `env` inside its plan",
    ("secrets", "task"): "write `secrets` inside its plan",
    ("outputs", "task"): "write `outputs` inside its plan",
    ("secrets", "call"): "write `secret_headers` inside the call",
}
WORK = ("run", "function", "agent")
FITS = {  # a word that is not here fits every kind
    "args": ("function",),
    "inline": ("function",),
    "progress": ("run", "function"),
    "junit": ("run",),
    "env": WORK,
    "secrets": WORK,
    "silence": WORK,
    "commit": WORK,
    "evidence": WORK,
    "sandbox": WORK,
    "network": WORK,
    "on_failure": WORK,
    "outputs": WORK,
    "grow": WORK,
    "pool": (*WORK, "call"),
    "mutex": WORK,
    "timeout": (*WORK, "artifact"),
    "retry": (*WORK, "artifact", "call"),
}
_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,79}")
_URL = re.compile(r"https?://[^/\s]")
_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
HEADERS_OURS = frozenset(
    "host content-length transfer-encoding connection content-type idempotency-key longtask-callback expect".split()
)
_SHOWN = re.compile(r"diff|artifacts\.[A-Za-z0-9][A-Za-z0-9._-]*|files:\S.*")
CONFLICT_PROMPT = """\
Two changes of this repository were made side by side and cannot be joined by git alone. The working tree holds both:
the files named below have conflict markers. Resolve every conflict so that the purpose of both changes is kept; do not
drop one side, and change nothing that the conflict does not need. Then run the checks that the repository offers for
the files you touched. Leave no conflict marker behind."""


Child = Callable[[SubTask, Section], "dict[str, Any] | None"]  # its body; None: it has problems, and they are told


class Specs(Checks):
    """The specs of one plan, numbered; and what their expressions read."""

    def __init__(self, plan: Plan, findings: Findings, child: Child | None = None) -> None:
        """`child` compiles the plan of a `task` step; None: there can be none."""
        super().__init__(findings)
        self._child = child
        self.plan = plan
        self.defaults: Defaults = plan.defaults
        self.specs: list[StepSpec] = []
        self._numbers: dict[Any, int] = {}
        self._conflicts: dict[str, int] = {}
        self._pool = POOL_DEFAULT  # of the step that is being read, and so of its items, fixes and conflicts

    def number(self, spec: StepSpec) -> int:
        """The number of a spec; equal specs share one."""
        key = repr([getattr(spec, name) for name in StepSpec.__slots__])
        found = self._numbers.setdefault(key, len(self.specs))
        if found == len(self.specs):
            self.specs.append(spec)
        return found

    # --- steps ---

    def step(self, step: Step, place: Section) -> tuple[Kind, int, str]:
        """Kind, spec number and pool of a planned step."""
        pool = step.pool or self.defaults.pool or POOL_DEFAULT
        if pool == POOL_SYSTEM or not _WORD.fullmatch(pool):
            why = "is for schedulers" if pool == POOL_SYSTEM else "is no name of a pool"
            self._add(place, "pool", f"{shown(pool)} {why}; write another word, such as 'default'")
        self._pool = pool
        self._reading = set()
        condition = self._bare(step.if_, place, "if", "an `if` is decided once, before a for_each is expanded")
        if step.for_each is None:
            if step.parallel_max is not None:
                self._add(
                    place, "parallel_max", "is for steps with `for_each`; `limits.parallel` bounds the whole task"
                )
            kind, spec = self.work(step, place)
            spec = replace(spec, condition=condition, reads=self._read()) if condition or self._reading else spec
            return kind, self.number(spec), pool
        items: Json = step.for_each
        if isinstance(items, str):
            items = self._bare(items, place, "for_each", "the list cannot depend on its own items")
        else:
            self.template(items, replace(place, item=False), "for_each")
        reads = self._read()
        if step.parallel_max is not None and step.parallel_max > WINDOW_MAX:
            self._add(place, "parallel_max", f"is {step.parallel_max:,}, the limit is {WINDOW_MAX}")
        self._reading = set()
        kind, spec = self.work(step, replace(place, item=True, depth=1))  # an item is owned, as a fix is
        spec = replace(spec, reads=self._read()) if self._reading else spec
        outer = StepSpec(
            kind=Kind.FOR_EACH,
            losses_max=spec.losses_max,
            condition=condition,
            reads=reads,
            items=items,
            parallel_max=min(step.parallel_max or PARALLEL_MAX, WINDOW_MAX),
            item=self.number(spec),
        )
        return Kind.FOR_EACH, self.number(outer), pool

    def work(self, work: Work, place: Section) -> tuple[Kind, StepSpec]:
        """What the step or fix itself does, without `if` and `for_each`."""
        kinds = kinds_of(work)
        if len(kinds) != 1:
            self._not_one(work, kinds, place)
            return Kind.RUN, StepSpec(Kind.RUN, {"command": "false"})
        kind = kinds[0]
        for word in work.model_fields_set:
            fits = FITS.get(word)
            if fits is not None and kind not in fits and getattr(work, word) not in (None, [], {}, False):
                self._add(place, word, f"does not apply to {kind} steps; {INSTEAD.get((word, kind), 'leave it out')}")
        if kind in WORK:
            return Kind(kind), self._attempted(work, kind, place)
        assert isinstance(work, Step)
        if work.approval is not None:
            return Kind.APPROVAL, self._approval(work, work.approval, place.below("approval"))
        if work.wait is not None:
            return Kind.WAIT, self._wait(work, work.wait, place.below("wait"))
        if work.task is not None:
            return Kind.TASK, self._task(work, work.task, place.below("task"))
        if work.call is not None:
            return Kind.CALL, self._call(work, work.call, replace(place.below("call"), call=True))
        assert work.artifact is not None
        return Kind.ARTIFACT, self._artifact(work, work.artifact, place)

    def _not_one(self, work: Work, kinds: Sequence[str], place: Section) -> None:
        if kinds:
            self._say(place, f"it names {' and '.join(kinds)}; a step does one thing, make it {len(kinds)} steps")
        else:
            known = (
                "run, function, agent, approval, wait, artifact, call or task"
                if isinstance(work, Step)
                else "run, function or agent"
            )
            what = "the step" if isinstance(work, Step) else place.loc[-1]
            self._say(place, f"{what} does nothing; give it one of {known}")

    def _attempted(self, work: Work, kind: str, place: Section) -> StepSpec:
        """run, function, agent: what a worker's attempt does."""
        body = self._environment(work, place)
        outputs = dict(work.outputs) if isinstance(work, Step) else {}
        if work.run is not None:
            body["command"] = self._command(work.run, place)
        elif work.function is not None:
            if not _FUNCTION.fullmatch(work.function):
                self._add(place, "function", f"must be `package.module:name`, found {shown(work.function)}")
            self.template(work.args, place, "args")
            body |= {"function": work.function, "args": work.args, "inline": work.inline}
        else:
            assert work.agent is not None
            body |= self._agent(work.agent, place.below("agent"))
            for name in outputs.keys() & work.agent.outputs.keys():
                self._say(place.below("outputs"), f"output {name!r} is declared twice, in the step and in its agent")
            outputs |= work.agent.outputs
        for name in outputs:
            if not VARIABLE.fullmatch(name):
                self._say(
                    place.below("outputs"), f"output {shown(name)} is no name; write letters, digits and underscores"
                )
        silence_ms = self._given_ms(work.silence, self.defaults.silence, place, "silence")
        if silence_ms is not None:
            body["silence_ms"] = silence_ms
        body |= self._sandbox(work, kind, place)
        if work.evidence is not None:
            body["evidence"] = self._evidence(work, work.evidence, kind, place.below("evidence"))
        if work.mutex is not None and not _WORD.fullmatch(work.mutex):
            self._add(place, "mutex", f"{shown(work.mutex)} is no name; write a word such as 'staging'")
        if work.progress is not None:
            body["progress"] = work.progress
        if work.junit:
            body["junit"] = self._below_the_top(work.junit, place, "junit")
        grows = isinstance(work, Step) and work.grow is not None
        usual = kind == "agent" and self.plan.workspace is not None and not grows
        commits = usual if work.commit is None else work.commit
        if commits and self.plan.workspace is None:
            self._add(
                place, "commit", "needs code to commit, and the plan has no `workspace`; add `workspace: {repo: .}`"
            )
        spec = StepSpec(
            kind=Kind(kind),
            body=body,
            pool=self._pool,
            timeout_ms=self._given_ms(work.timeout, self.defaults.timeout, place, "timeout"),
            repeatable=work.repeatable,
            commits=commits,
            conflict=self._conflict(work.agent) if commits else None,
            mutex=work.mutex,
            outputs=outputs,
            **self._tries(work),
        )
        if isinstance(work, Step) and work.grow is not None:
            spec = self._planner(spec, work, work.grow, place)
        if work.agent is not None and work.agent.subagents is not None:
            spec = self._with_subagents(spec, work.agent.subagents, place)
        return self._with_fix(spec, work, place)

    def _planner(self, spec: StepSpec, work: Step, grow: Grow, place: Section) -> StepSpec:
        """Its result is a part of a plan; what is wrong with it goes back to the planner, a few times."""
        inner = place.below("grow")
        names = [stage.name for stage in self.plan.stages] or [ONE_STAGE]
        if grow.stage is not None and grow.stage not in names:
            hint = did_you_mean(grow.stage, names) or f"; the plan has {', '.join(names)}"
            self._add(inner, "stage", f"{shown(grow.stage)} is no stage{hint}")
        if (grow.steps_max or 0) > GROWTH_MAX:
            self._add(inner, "steps_max", f"is {grow.steps_max}, the limit is {GROWTH_MAX}")
        if spec.commits:
            self._add(place, "commit", "does not fit a planner: what it hands over are steps; they change the code")
        if place.item:
            self._say(inner, "an item of a for_each cannot be a planner; let one step plan for all of them")
        if spec.outputs.get("steps", "list") != "list":
            self._say(place.below("outputs"), f"output 'steps' of a planner is a list, not {spec.outputs['steps']!r}")
        return replace(
            spec,
            body={**spec.body, "grow": grow.model_dump(exclude_none=True, exclude_defaults=True)},
            outputs={**spec.outputs, "steps": "list"},
            failures_max=spec.failures_max or (PLANNER_TRIES if work.retry is None else 0),
        )

    def _with_subagents(self, spec: StepSpec, subagents: Subagents, place: Section) -> StepSpec:
        """What the plan says of the agent holds of what it spawns, but that it spawns and that it changes something.

        The prompt is what the agent gives out."""
        inner = place.below("agent", "subagents")
        runtime = spec.body.get("runtime")
        if runtime in RUNTIMES and not RUNTIMES[runtime].spawns:
            able = ", ".join(f"`{name}`" for name, entry in RUNTIMES.items() if entry.spawns)
            self._say(inner, f"runtime `{runtime}` cannot give out work as steps of the task; {able} can")
        if place.item and place.depth == 1:
            self._say(inner, "an item of a for_each has no items of its own; leave out one of the two")
        most = subagents.max or SPAWNED
        if most > SPAWNED_MAX:
            self._add(inner, "max", f"is {most}, the limit is {SPAWNED_MAX}")
        body = {name: value for name, value in spec.body.items() if name != "prompt"}
        if subagents.model is not None:
            body["model"] = subagents.model
        evidence = {name: value for name, value in body.pop("evidence", {}).items() if name != "change"}
        body |= {"evidence": evidence} if evidence else {}
        item = replace(spec, body=body, outputs=dict(OUTPUTS), reads=self._read())
        return replace(spec, item=self.number(item), parallel_max=min(most, SPAWNED_MAX))

    def _with_fix(self, spec: StepSpec, work: Work, place: Section) -> StepSpec:
        if work.on_failure is None:
            return spec
        rounds = self._rounds(work.on_failure.rounds_max, work.on_failure.fix, place.below("on_failure", "fix"))
        inner = place.below("on_failure", "fix", depth=1)
        if inner.depth > DEPTH_MAX:
            self._say(inner, f"fixes of fixes go {DEPTH_MAX} deep at most")
            return spec
        return replace(spec, fix=self._owned(work.on_failure.fix, inner), fix_rounds_max=rounds)

    def _owned(self, work: Work, place: Section) -> int:
        """The number of a fix's spec; what it reads is told apart from what its owner reads."""
        before, self._reading = self._reading, set()
        spec = self.work(work, place)[1]
        number = self.number(replace(spec, reads=self._read()))
        self._reading = before
        return number

    def _rounds(self, outer: int | None, fix: Fix, place: Section) -> int:
        if outer is not None and fix.rounds_max is not None and outer != fix.rounds_max:
            self._add(place, "rounds_max", f"says {fix.rounds_max}, beside it stands {outer}; write one of them")
        return outer or fix.rounds_max or ROUNDS_MAX

    def _task(self, step: Step, task: SubTask, place: Section) -> StepSpec:
        """What its child has merged may conflict with what was merged beside it, as a change of its own."""
        self.template(task.inputs, place, "inputs")
        body = None if self._child is None else self._child(task, place)
        if self._child is None:
            self._say(place, "a task in a task cannot be added to one that is under way")
        spec = StepSpec(
            kind=Kind.TASK,
            body=body or {},
            losses_max=self._losses(step),
            conflict=None if self.plan.workspace is None else self._conflict(None),
            outputs=dict.fromkeys((body or {}).get("results", ()), "any"),
        )
        return self._with_fix(spec, step, place)

    def _approval(self, step: Step, approval: Approval, place: Section) -> StepSpec:
        self.template(approval.ask, place, "ask")
        for n, what in enumerate(approval.show):
            if not _SHOWN.fullmatch(what):
                hint = did_you_mean(what, ("diff",)) or "; write `diff`, `artifacts.NAME` or `files:GLOB`"
                self._say(place.below("show", n), f"cannot show {shown(what)}{hint}")
            elif what == "diff" and self.plan.workspace is None:
                self._say(place.below("show", n), "cannot show a diff: the plan has no `workspace`")
        body: dict[str, Json] = {
            "ask": approval.ask,
            "show": [what.removeprefix("files:") for what in approval.show],
            "bind": approval.bind,
        }
        if approval.who:
            body["who"] = list(approval.who)
        if approval.expires is not None:
            body["expires_ms"] = self._ms(approval.expires, place, "expires")
        spec = StepSpec(Kind.APPROVAL, body, losses_max=self._losses(step), repeatable=step.repeatable)
        if approval.on_reject is None:
            return spec
        revise = approval.on_reject.revise
        inner = place.below("on_reject", "revise", depth=1)
        rounds = self._rounds(approval.on_reject.rounds_max, revise, inner)
        return replace(spec, revise=self._owned(revise, inner), revise_rounds_max=rounds)

    def _wait(self, step: Step, wait: Wait, place: Section) -> StepSpec:
        body: dict[str, Json] = {}
        if (wait.signal is None) == (wait.timer is None):
            self._say(place, "a wait has either `signal` or `timer`")
        elif wait.timer is not None:
            body["timer_ms"] = self._ms(wait.timer, place, "timer")
            for word in ("match", "timeout"):
                if getattr(wait, word):
                    self._add(place, word, "belongs to a `signal`; a timer has only its time")
        else:
            if not _WORD.fullmatch(str(wait.signal)):
                self._add(place, "signal", f"{shown(wait.signal)} is no name; write a word such as 'ci.completed'")
            self.template(wait.match, place, "match")
            body |= {"signal": wait.signal, "match": wait.match}
            if wait.timeout is not None:
                body["timeout_ms"] = self._ms(wait.timeout, place, "timeout")
        return StepSpec(Kind.WAIT, body, losses_max=self._losses(step), repeatable=step.repeatable)

    def _call(self, step: Step, call: Call, place: Section) -> StepSpec:
        for word in ("url", "body", "headers"):
            self.template(getattr(call, word), place, word)
        begins = call.url.split("${{", 1)[0]  # an expression may yield the rest, or all of it
        if "${{" not in call.url and not _URL.match(call.url):
            self._add(place, "url", f"{shown(call.url)} is no address; write https://HOST/PATH")
        elif "@" in begins.partition("://")[2].partition("/")[0]:
            self._add(place, "url", "holds a name or a password; write them as `secret_headers`")
        for word in ("headers", "secret_headers"):
            for name in getattr(call, word):
                if not _HEADER.fullmatch(name):
                    self._add(place, word, f"{shown(name)} is no name of a header; write letters, digits and dashes")
                elif name.lower() in HEADERS_OURS:
                    self._add(place, word, f"{shown(name)} is set by longtask itself; leave it out")
        for name in {header.lower() for header in call.headers} & {header.lower() for header in call.secret_headers}:
            self._add(place, "secret_headers", f"and headers both set {name!r}; one name, one value")
        for name in call.secret_headers.values():
            if not VARIABLE.fullmatch(name):
                self._add(
                    place,
                    "secret_headers",
                    "must name variables of the worker's environment, which hold the values; one of them is no name",
                    # which is not shown: it may be the secret itself
                )
        body: dict[str, Json] = {"url": call.url}
        if "body" in call.model_fields_set:
            body["body"] = call.body
        if call.headers:
            body["headers"] = dict(call.headers)
        if call.secret_headers:
            body["secret_headers"] = dict(call.secret_headers)
        if call.timeout is not None:
            body["timeout_ms"] = self._ms(call.timeout, place, "timeout")
        repeatable = step.repeatable if "repeatable" in step.model_fields_set else False
        return StepSpec(Kind.CALL, body, pool=self._pool, repeatable=repeatable, **self._tries(step))

    def _artifact(self, step: Step, artifact: Artifact, outer: Section) -> StepSpec:
        place = outer.below("artifact")
        given = [word for word in ("patch", "report", "files") if getattr(artifact, word) is not None]
        if len(given) != 1:
            self._say(place, f"an artifact is one of patch, report, files; found {' and '.join(given) or 'none'}")
            return StepSpec(Kind.ARTIFACT)
        what = getattr(artifact, given[0]).model_dump(exclude_none=True)
        what.setdefault("name", step.id)
        for word in ("name", "title"):
            if word in what:
                self.template(what[word], place.below(given[0]), word)
        if not expressions.has_expression(what["name"]) and not _WORD.fullmatch(what["name"]):
            self._add(
                place.below(given[0]),
                "name",
                f"{shown(what['name'])} is no name; write letters, digits, dots and dashes",
            )
        for n, path in enumerate(what.get("paths", ())):
            if path.startswith("/") or ".." in path.split("/"):
                self._say(
                    place.below("files", "paths", n), f"path {shown(path)} leaves the repository; write it from its top"
                )
        if given[0] != "report" and self.plan.workspace is None:
            self._say(place, f"a {given[0]} artifact is made of the code, and the plan has no `workspace`")
        return StepSpec(
            Kind.ARTIFACT,
            {"kind": given[0], **what},
            timeout_ms=self._given_ms(step.timeout, None, outer, "timeout"),
            repeatable=step.repeatable,
            **self._tries(step),
        )

    # --- parts ---

    def _below_the_top(self, globs: list[str], place: Section, word: str) -> list[str]:
        for glob in globs:
            if not glob.strip("/.") or glob.startswith("/") or ".." in glob.split("/"):
                self._add(place, word, f"{shown(glob)} is no path below the top of the repository")
        return globs

    def _command(self, command: str | list[str], place: Section) -> str | list[str]:
        if any("${{" in word for word in ([command] if isinstance(command, str) else command)):
            self._add(
                place,
                "run",
                "holds `${{ … }}`; what it yields would be read by the shell. Pass the value by `env` "
                'and use it as "$NAME"',
            )
            told = [(*place.loc, "run"), *((*place.loc, "run", n) for n in range(len(command)))]
            self.templates.update(told)  # so that nothing more is said about them
        return command

    def _environment(self, work: Work, place: Section) -> dict[str, Json]:
        body: dict[str, Json] = {}
        self.template(work.env, place, "env")
        self.variables(work.env, place.where, (*place.loc, "env"))
        if env := {**self.defaults.env, **work.env}:
            body["env"] = env
        if work.secrets:
            self.variables(work.secrets, place.where, (*place.loc, "secrets"))
            body["secrets"] = list(work.secrets)
            for name in set(work.secrets) & env.keys():
                self._add(place, "secrets", f"and env both set {name!r}; one name, one value")
        return body

    def _sandbox(self, work: Work, kind: str, place: Section) -> dict[str, Json]:
        sandbox = work.sandbox or self.defaults.sandbox or "none"
        network = self.defaults.network if work.network is None else work.network
        if sandbox == "none":
            if work.network is not None:
                self._add(
                    place, "network", "is a matter of the sandbox, and there is none; write `sandbox: bubblewrap`"
                )
            return {}
        if work.inline:
            self._add(place, "inline", "runs inside the worker: no sandbox is around it; leave one of the two out")
        if network is False and kind == "agent":
            runtime = self.settings(work.agent).get("runtime")
            if runtime == ACP or (runtime in RUNTIMES and RUNTIMES[runtime].program is not None):
                self._add(place, "network", f"runtime `{runtime}` is a program of its own and needs its model: true")
            elif runtime in RUNTIMES and RUNTIMES[runtime].own_code:
                self._add(place, "network", f"runtime `{runtime}` asks its model from inside of the sandbox: true")
        return {"sandbox": sandbox, **({} if network is None else {"network": network})}

    def _evidence(self, work: Work, evidence: Evidence, kind: str, place: Section) -> dict[str, Json]:
        """Numbers are shown by a command, changes are made by what commits; a word that could not fail is a mistake."""
        for word in ("tests_min", "coverage"):
            if getattr(evidence, word) is not None and kind != "run":
                self._say(
                    place, f"{word} is read from a command, this is a step of kind {kind}; put it on a `run` step"
                )
        if evidence.tests_min is not None and work.progress in (None, "n/m") and not work.junit:
            self._say(
                place, "tests_min is read from a test runner's output; write `progress: pytest` beside it, or another"
            )
        commits = work.commit if work.commit is not None else kind == "agent"
        for word in ("protect", "change"):
            if getattr(evidence, word) and not commits:
                self._say(place, f"{word} is about changes, and what this step changes is not committed")
        return evidence.model_dump(exclude_none=True)

    def _agent(self, agent: Agent, place: Section) -> dict[str, Json]:
        self.template(agent.prompt, place, "prompt")
        settings = self.settings(agent)
        self.agent_settings(agent, place)
        if agent.subagents is None and SPAWN in (agent.tools or ()):
            self._add(place, "tools", f"names `{SPAWN}`; that an agent may give out work, `subagents: {{max: 4}}` says")
        if agent.recording is not None:
            self.template(agent.recording, place, "recording")
        if settings.get("runtime") is None:
            known = ", ".join(RUNTIMES)
            self._say(
                place,
                f"no agent runtime is named; write `runtime` here or in `defaults.agent` (this version knows {known})",
            )
        elif settings["runtime"] == "recorded" and "recording" not in settings:
            self._say(place, "runtime `recorded` replays a recording; name its file: `recording: PATH`")
        return {"prompt": agent.prompt, **_bounded(settings)}

    def agent_settings(self, agent: AgentDefaults, place: Section) -> None:
        """What must hold of an agent's runtime and tools, in a step or in the defaults."""
        runtime = agent.runtime
        if runtime is not None and runtime not in RUNTIMES:
            hint = did_you_mean(runtime, RUNTIMES) or f"; this version knows {', '.join(RUNTIMES)}"
            self._add(place, "runtime", f"{shown(runtime)} is not known{hint}")
        entry = RUNTIMES.get(str(self.settings(agent).get("runtime")))
        if agent.notes and entry is not None and not entry.notes:
            able = ", ".join(f"`{name}`" for name, entry in RUNTIMES.items() if entry.notes)
            self._add(place, "notes", f"are kept by {able} only")
        for word in ("tools", "ask", "deny"):
            rules = getattr(agent, word) or ()
            if rules and entry is not None and not entry.heeds_rules:
                self._add(place, word, "would not hold: a graph calls its tools itself; ask by `interrupt` in it")
            for n, rule in enumerate(rules):
                self._rule(rule, place.below(word, n), any_tool=entry is not None and entry.own_code)

    def _rule(self, rule: str, place: Section, *, any_tool: bool) -> None:
        try:
            tool, _ = parse(rule)
        except ValueError as error:
            self._say(place, str(error))
            return
        if not any_tool and "*" not in tool and "." not in tool and tool not in TOOLS:
            hint = did_you_mean(tool, TOOLS) or f"; there are {', '.join(TOOLS)}"
            self._say(place, f"tool {shown(tool)} is not known{hint}")

    def settings(self, agent: AgentDefaults | None) -> dict[str, Json]:
        """What is set of an agent beside its prompt: by the step, else by the defaults."""
        out: dict[str, Json] = {}
        for source in (self.defaults.agent, agent):
            if source is not None:
                out |= source.model_dump(include=set(AgentDefaults.model_fields), exclude_none=True)
        return named(out)

    def _conflict(self, agent: Agent | None) -> int | None:
        """The spec that resolves a merge conflict; None without any agent: then a person is asked."""
        settings = self.settings(agent)
        if settings.get("runtime") not in RUNTIMES:
            return None
        key = repr((settings, self._pool))
        if key not in self._conflicts:
            timeout = self.defaults.timeout
            number = self._conflicts[key] = len(self.specs)
            spec = StepSpec(
                kind=Kind.AGENT,
                body={
                    "prompt": CONFLICT_PROMPT,
                    **_bounded(settings),
                    **({"env": self.defaults.env} if self.defaults.env else {}),
                },
                pool=self._pool,
                timeout_ms=None if timeout is None else duration_ms(timeout),
                commits=True,
                conflict=number,  # its own merge may conflict as well
                **self._tries(None),
            )
            self.specs.append(spec)
        return self._conflicts[key]

    def _tries(self, work: Work | None) -> dict[str, Any]:
        retry = (work.retry if work is not None else None) or self.defaults.retry
        tries: dict[str, Any] = {"losses_max": self._losses(work), "failures_max": FAILURES_MAX}
        if retry is not None:
            tries |= {"failures_max": retry.max, "retry_delay_ms": duration_ms(retry.delay)}
        return tries

    def _losses(self, work: Work | None) -> int:
        for given in (work.losses_max if work is not None else None, self.defaults.losses_max):
            if given is not None:
                return given
        return LOSSES_MAX


def _bounded(settings: dict[str, Json]) -> dict[str, Json]:
    """Limits as the machine counts them: tokens, millionths of a dollar; requests are the agent's own."""
    given = settings.get("limits")
    if not isinstance(given, dict):
        return settings
    limits: dict[str, Json] = {"tokens": given["tokens"]} if "tokens" in given else {}
    limits |= {"micros": round(float(str(given["cost_usd"])) * 1_000_000)} if "cost_usd" in given else {}
    requests = {"requests_max": given["requests"]} if "requests" in given else {}
    others = {name: value for name, value in settings.items() if name != "limits"}
    return {**others, **({"limits": limits} if limits else {}), **requests}
