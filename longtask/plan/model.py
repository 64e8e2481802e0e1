"""The plan: one model, written as YAML, as JSON, or in Python.

Shapes only; compile.py checks what must hold between the parts and makes the graph of it.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationError

from longtask.core.policy import LOSSES_MAX, PARALLEL

from .builder import Adds
from .fields import (
    Count,
    Duration,
    Env,
    Money,
    Names,
    Positive,
    RetryWord,
    Text,
    TypeWord,
    WhenFailedWord,
    Words,
)
from .problems import Places
from .shape import bad_plan
from .step import AgentDefaults, Sandbox, Step

LANGUAGE = 1
ONE_STAGE = "steps"  # name of the stage of a plan that has none


def _workspace(value: Any) -> Any:
    return {"repo": value} if isinstance(value, str) else value


class Workspace(Words):
    """The git repository that the steps work on.  Absent: the steps have no code."""

    repo: Text = Field(default=".", description="Path of the repository, from the folder of the plan.")
    base: Text | None = Field(
        default=None, description="Branch, tag or commit to begin from; the current one if absent."
    )
    setup: Text | None = Field(
        default=None,
        description="Command that prepares a fresh worktree, such as `npm ci`; run once per state of the lock files.",
    )
    cache: Names = Field(
        default_factory=list, description="Paths that setup fills and that worktrees share, such as `node_modules`."
    )
    dirty: Annotated[str, Field(pattern="^(ignore|include)$")] | None = Field(
        default=None,
        description="What to do with changes that are not committed: `ignore` or `include`; absent: refuse.",
    )


class Defaults(Words):
    """What steps take when they do not say otherwise."""

    agent: AgentDefaults | None = Field(default=None, description="The agent of steps, fixes and merge conflicts.")
    timeout: Duration | None = Field(default=None, description="Of one attempt of run, function and agent steps.")
    silence: Duration | None = Field(default=None, description="Stop an attempt that has written nothing for so long.")
    retry: RetryWord | None = Field(
        default=None, description="How often run, function, agent and artifact steps try again."
    )
    losses_max: Count | None = Field(
        default=None,
        description=f"How often in a row a worker may die before the step has failed; {LOSSES_MAX} if absent.",
    )
    env: Env = Field(
        default_factory=dict, description="Environment of run, function and agent steps.  May hold `${{ … }}`."
    )
    sandbox: Sandbox | None = Field(default=None, description="Of run, function and agent steps.")
    network: bool | None = Field(default=None, description="Whether sandboxes have the network; true if absent.")
    pool: Text | None = Field(default=None, description="Which workers may take the steps.")
    when_failed: WhenFailedWord | None = Field(default=None, description="`stop`, `continue` or `ask`.")


class Limits(Words):
    """Bounds of the whole task.  Reaching one pauses the work; raising it goes on."""

    cost_usd: Money | None = Field(default=None, description="Money for models, in US dollars.")
    tokens: Positive | None = Field(default=None, description="Tokens, in and out, of all models.")
    active: Duration | None = Field(default=None, description="Time in which at least one attempt ran, here or below.")
    parallel: Positive = Field(default=PARALLEL, description="Attempts at the same time.")


class StageLimits(Words):
    """Bounds of one stage, all its agents together.  An agent that reaches one asks a person: raise it, or give up."""

    cost_usd: Money | None = Field(default=None, description="Money for models, in US dollars.")
    tokens: Positive | None = Field(default=None, description="Tokens, in and out.")


class Stage(Words, Adds):
    """An ordered group of steps: the next stage begins when all of it has ended."""

    name: Text = Field(description="Shown to people; unique within the plan.")
    limits: StageLimits | None = Field(default=None, description="What its agents may spend, all together.")
    steps: list[Step] = Field(
        default_factory=list, description="Its steps; they run side by side unless `needs` says otherwise."
    )


class Plan(Words, Adds):
    """A whole engineering goal, as stages of steps."""

    longtask: int = Field(
        default=LANGUAGE, description="Version of the language.", json_schema_extra={"const": LANGUAGE}
    )
    name: Text = Field(description="Short name: letters, digits, dots, dashes and underscores.")
    goal: str = Field(default="", description="What the whole is for, in a sentence or two; agents are told it.")
    workspace: Annotated[Workspace, BeforeValidator(_workspace)] | None = Field(
        default=None, description="The repository, or its path."
    )
    defaults: Defaults = Field(default_factory=Defaults, description="For all steps that do not say otherwise.")
    limits: Limits = Field(default_factory=Limits, description="Bounds of the whole task.")
    env: Env = Field(default_factory=dict, description="Environment of every step.  Literal values only.")
    secrets: Names = Field(default_factory=list, description="Names of secrets that every step gets.")
    fail_fast: bool = Field(default=False, description="End the whole task at the first step that fails for good.")
    priority: int = Field(default=0, description="Tasks of higher priority are served first.")
    stages: list[Stage] = Field(default_factory=list, description="In order.")
    steps: list[Step] = Field(default_factory=list, description="Instead of `stages`, for a plan of one stage.")
    inputs: dict[str, TypeWord] = Field(
        default_factory=dict,
        description="Of the plan of a `task` step: what it is handed, by name and type; read as `inputs.NAME`.",
    )
    outputs: dict[str, Any] = Field(
        default_factory=dict,
        description="Of the plan of a `task` step: what it hands over when it has completed.  May hold `${{ … }}`.",
    )
    _places: Places = PrivateAttr(default_factory=Places)

    def stage(self, name: str) -> Stage:
        """Append a stage and return it, to add steps to."""
        try:
            stage = Stage(name=name)
        except ValidationError as error:
            raise bad_plan(error, Stage, f"stage {name!r}") from None
        self.stages.append(stage)
        return stage

    def dump(self) -> dict[str, Any]:
        """As plain values, defaults left out: what JSON and YAML hold."""
        made = self.model_dump(exclude_defaults=True, exclude={"longtask"})
        for stage in made.get("stages", ()):
            if "steps" in stage:
                stage["steps"] = [_id_first(step) for step in stage.pop("steps")]
        if "steps" in made:
            made["steps"] = [_id_first(step) for step in made.pop("steps")]
        return {"longtask": self.longtask, **made}


def _id_first(step: dict[str, Any]) -> dict[str, Any]:
    return {"id": step.pop("id"), **step}
