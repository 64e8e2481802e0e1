"""From a step's words to a `StepSpec`: what its attempts do and how often, defaults filled in, equal ones shared.

What must hold between the words of one step is checked here (exactly one kind, words that fit the kind) and in
bodies.py (what a kind itself says).  All problems go to the findings; a spec with problems is made all the same, so
that the rest is checked too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from longtask.agents.catalog import RUNTIMES
from longtask.agents.spawning import OUTPUTS
from longtask.core.graph import did_you_mean
from longtask.core.model import POOL_DEFAULT, POOL_SYSTEM, Json, Kind, StepSpec
from longtask.core.policy import DEPTH_MAX, FAILURES_MAX, GROWTH_MAX, LOSSES_MAX, ROUNDS_MAX, SPAWNED_MAX, WINDOW_MAX

from .bodies import WORD, Bodies, bounded
from .check import VARIABLE, Section
from .duration import duration_ms
from .model import ONE_STAGE, Plan
from .problems import Findings
from .step import (
    SPAWNED,
    Agent,
    Approval,
    Fix,
    Grow,
    Step,
    Subagents,
    SubTask,
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
CONFLICT_PROMPT = """\
Two changes of this repository were made side by side and cannot be joined by git alone. The working tree holds both:
the files named below have conflict markers. Resolve every conflict so that the purpose of both changes is kept; do not
drop one side, and change nothing that the conflict does not need. Then run the checks that the repository offers for
the files you touched. Leave no conflict marker behind."""


Child = Callable[[SubTask, Section], "dict[str, Any] | None"]  # its body; None: it has problems, and they are told


class Specs(Bodies):
    """The specs of one plan, numbered; and what their expressions read."""

    def __init__(self, plan: Plan, findings: Findings, child: Child | None = None) -> None:
        """`child` compiles the plan of a `task` step; None: there can be none."""
        super().__init__(plan, findings)
        self._child = child
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
        if pool == POOL_SYSTEM or not WORD.fullmatch(pool):
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
            return Kind.APPROVAL, self._asked(work, work.approval, place.below("approval"))
        if work.wait is not None:
            body = self._wait(work.wait, place.below("wait"))
            return Kind.WAIT, StepSpec(Kind.WAIT, body, losses_max=self._losses(work), repeatable=work.repeatable)
        if work.task is not None:
            return Kind.TASK, self._task(work, work.task, place.below("task"))
        if work.call is not None:
            body = self._call(work.call, replace(place.below("call"), call=True))
            repeatable = "repeatable" in work.model_fields_set and work.repeatable
            return Kind.CALL, StepSpec(Kind.CALL, body, self._pool, repeatable=repeatable, **self._tries(work))
        assert work.artifact is not None
        body = self._artifact(work.artifact, work.id, place.below("artifact"))
        timeout_ms = self._given_ms(work.timeout, None, place, "timeout")
        tries = self._tries(work)
        return Kind.ARTIFACT, StepSpec(Kind.ARTIFACT, body, timeout_ms=timeout_ms, repeatable=work.repeatable, **tries)

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
        if work.mutex is not None and not WORD.fullmatch(work.mutex):
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

    def _asked(self, step: Step, approval: Approval, place: Section) -> StepSpec:
        """An approval, and what is done when it is refused."""
        body = self._approval(approval, place)
        spec = StepSpec(Kind.APPROVAL, body, losses_max=self._losses(step), repeatable=step.repeatable)
        if approval.on_reject is None:
            return spec
        revise = approval.on_reject.revise
        inner = place.below("on_reject", "revise", depth=1)
        rounds = self._rounds(approval.on_reject.rounds_max, revise, inner)
        return replace(spec, revise=self._owned(revise, inner), revise_rounds_max=rounds)

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
                    **bounded(settings),
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
