"""The step: what it does (`run`, `function`, `agent`, `approval`, `wait`, `artifact`, `call`) and when and how often.

Shapes only.  What must hold between words (exactly one kind, which word fits which kind) is checked in specs.py and
bodies.py, where all of it is told at once.  The descriptions go into the JSON Schema: they are what an editor shows.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from longtask.agents.catalog import REQUESTS_MAX, RUNTIMES
from longtask.core.policy import GROWTH_MAX, LOSSES_MAX, ROUNDS_MAX, SPAWNED_MAX, WEIGHT, WINDOW_MAX

from .fields import (
    Command,
    Condition,
    Count,
    Duration,
    Env,
    Id,
    Items,
    Money,
    Names,
    Needs,
    Percent,
    Positive,
    RetryWord,
    RunWhenWord,
    Text,
    TypeWord,
    WhenFailedWord,
    Words,
)

KINDS = ("run", "function", "agent", "approval", "wait", "artifact", "call", "task")
SPAWNED = 4  # at once, if a plan does not say how many
Outputs = dict[str, TypeWord]
Sandbox = Literal["none", "bubblewrap"]


class AgentLimits(Words):
    """Bounds of one step's agent, all its runs together.  Reaching one asks a person: raise it, or give up."""

    cost_usd: Money | None = Field(default=None, description="Money for models, in US dollars.")
    tokens: Positive | None = Field(default=None, description="Tokens, in and out.")
    requests: Positive | None = Field(
        default=None,
        description=f"Model requests of one run; {REQUESTS_MAX} if absent.  More is going round in circles.",
    )


class AgentDefaults(Words):
    """Which agent, and how it is set up."""

    runtime: Text | None = Field(
        default=None,
        description=f"The agent runtime; this version knows {', '.join(f'`{name}`' for name in RUNTIMES)}.",
    )
    model: Text | None = Field(default=None, description="The model, as its runtime names it.")
    recording: Text | None = Field(
        default=None, description="For runtime `recorded`: the recording to replay, a path beside the plan."
    )
    tools: Names | None = Field(
        default=None,
        description="The tools that it may use, of `read, write, edit, shell, search`; absent: all of them.  "
        "With what it is about in brackets, only such calls: `shell(pytest *)`.",
    )
    ask: Names | None = Field(
        default=None, description="Calls that a person allows or not, each time: `shell(git push *)`, `mcp.*`."
    )
    deny: Names | None = Field(default=None, description="Calls that it may not make.")
    limits: AgentLimits | None = Field(default=None, description="What a step may spend on its agent.")
    notes: bool | None = Field(
        default=None,
        description="true: it may leave notes for later runs in the same workspace, and is told those of earlier ones.",
    )
    options: dict[str, Any] | None = Field(default=None, description="Settings of this runtime alone.")


class Subagents(Words):
    """The agent may give out work to others like it: each task becomes a step of its own, and they run side by side."""

    max: Positive | None = Field(
        default=None, description=f"How many at once; {SPAWNED} if absent, at most {SPAWNED_MAX}."
    )
    model: Text | None = Field(default=None, description="Their model; the agent's own if absent.")


class Agent(AgentDefaults):
    """A run of a coding agent.  What is not given comes from `defaults.agent`."""

    prompt: Text = Field(description="What to do.  May hold `${{ … }}`.")
    outputs: Outputs = Field(
        default_factory=dict,
        description="What it must hand over, by name and type; later steps read `steps.ID.outputs.NAME`.",
    )
    subagents: Subagents | None = Field(
        default=None,
        description="Whether it may give out work; absent: it may not.  What it says of tools, limits and sandbox "
        "holds for each of them.",
    )


class Grow(Words):
    """The step is a planner: its output `steps` is a list of steps in this language, and they are added to the task."""

    stage: Text | None = Field(default=None, description="The stage that they enter; absent: the one under way.")
    before: Id | None = Field(default=None, description="The step that they go in front of.")
    steps_max: Positive | None = Field(default=None, description=f"How many at most; {GROWTH_MAX} if absent.")
    approve: bool = Field(default=False, description="true: a person sees them first, and approves or rejects them.")


Progress = Literal["pytest", "unittest", "jest", "vitest", "cargo", "go", "maven", "gradle", "tap", "n/m"]


class Coverage(Words):
    """Lines that the tests must reach."""

    report: Text = Field(
        description="The file that the command writes, from the top of the repository: Cobertura XML, LCOV, or "
        "coverage.py's JSON."
    )
    min: Percent = Field(description="Per cent of the lines.")


class Evidence(Words):
    """What must hold of the work before the step is completed; else it has failed, and is told what was missing."""

    protect: Names | None = Field(
        default=None,
        description="Paths or globs: what stands there already may be neither changed nor deleted; files may be added.",
    )
    change: bool | None = Field(default=None, description="true: an agent that has changed nothing has failed.")
    tests_min: Positive | None = Field(
        default=None,
        description="How many tests must have passed: as the output tells, with `progress: pytest` or another test "
        "runner, or as reports do, with `junit`.",
    )
    coverage: Coverage | None = Field(default=None, description="A floor under the coverage of lines.")


class Work(Words):
    """What a worker's attempt does, and how often; common to steps and fixes."""

    run: Command | None = Field(default=None, description="A shell command, or a list of words that no shell touches.")
    function: Text | None = Field(default=None, description="A Python function, `package.module:name`.")
    args: dict[str, Any] = Field(
        default_factory=dict, description="For `function`: its arguments by name.  May hold `${{ … }}`."
    )
    inline: bool = Field(
        default=False, description="For `function`: call it inside the worker; for trusted functions of milliseconds."
    )
    agent: Agent | None = Field(default=None, description="A run of a coding agent.")
    env: Env = Field(
        default_factory=dict,
        description="Environment variables.  The way to hand values to a command: may hold `${{ … }}`.",
    )
    secrets: Names = Field(
        default_factory=list,
        description="Names of secrets; the worker puts them into the environment and stores them nowhere.",
    )
    retry: RetryWord | None = Field(
        default=None, description="How often to try again after a failure: a number, or `{max, delay}`."
    )
    timeout: Duration | None = Field(
        default=None, description="Longest running time of one attempt; waiting does not count."
    )
    silence: Duration | None = Field(
        default=None, description="Stop an attempt that has written nothing for so long; a failure like any other."
    )
    losses_max: Count | None = Field(
        default=None,
        description=f"How often in a row its worker may die before the step has failed; {LOSSES_MAX} if absent.",
    )
    mutex: Text | None = Field(
        default=None,
        description="A name, such as `staging`: of all steps with the same name, in whatever task, one runs at a time, "
        "first come, first served.",
    )
    progress: Progress | None = Field(
        default=None,
        description="Whose output it is, to read progress from: a test runner's, or `n/m` (the last such pair).  "
        "Absent: a test runner that is recognised is read all the same.",
    )
    junit: Names = Field(
        default_factory=list,
        description="Reports in JUnit's XML that the command writes, from the top of the repository; may hold `*` and "
        "`**`.  They tell which tests have passed and failed.",
    )
    commit: bool | None = Field(
        default=None,
        description="Whether its changes of the code are committed and merged; agents: true, others: false.",
    )
    sandbox: Sandbox | None = Field(
        default=None,
        description="`bubblewrap`: what it runs writes in its worktree only, and reads no credentials; else `none`.",
    )
    network: bool | None = Field(
        default=None, description="With a sandbox, false: no connection to anywhere; true if absent."
    )
    evidence: Evidence | None = Field(
        default=None, description="What must hold before the step is completed: words of an agent are none."
    )
    repeatable: bool = Field(
        default=True,
        description="Whether an attempt with an unknown outcome may simply run again; false: a person is asked.  "
        "Of a call: false if absent; write true if the other side heeds `Idempotency-Key`.",
    )
    on_failure: OnFailure | None = Field(
        default=None, description="What to do about a failure before the same step runs again."
    )


class Fix(Work):
    """Work that is put in front of a step: it has no id, no needs and no end of its own."""

    rounds_max: Positive | None = Field(default=None, description=f"How many rounds; {ROUNDS_MAX} if absent.")


class OnFailure(Words):
    """A failing step asks for a fix; then the same step runs again, on the mended code."""

    fix: Fix = Field(description="The work that mends: an agent, a command or a function.  It is told the failure.")
    rounds_max: Positive | None = Field(
        default=None,
        description=f"How many rounds; {ROUNDS_MAX} if absent.  It ends earlier when a round changed nothing.",
    )


class OnReject(Words):
    """What a rejection leads to."""

    revise: Fix = Field(
        description="The work that revises, told the reviewer's words; then the approval is asked again."
    )
    rounds_max: Positive | None = Field(default=None, description=f"How many rounds; {ROUNDS_MAX} if absent.")


class Approval(Words):
    """A person decides.  What is shown is frozen when it is asked."""

    ask: Text = Field(description="The question.  May hold `${{ … }}`.")
    show: Names = Field(
        default_factory=list, description="What is shown with it: `diff`, `artifacts.NAME`, `files:GLOB`."
    )
    bind: Literal["frozen", "head"] = Field(
        default="frozen",
        description="`frozen`: the answer counts for what was shown.  `head`: if the code has changed since, ask anew.",
    )
    who: Names = Field(default_factory=list, description="Who may decide; absent: anybody who may decide on this task.")
    expires: Duration | None = Field(
        default=None, description="When to stop waiting; the step then fails as `expired`."
    )
    on_reject: OnReject | None = Field(
        default=None, description="What to do on a rejection; absent: the step fails with the reason."
    )


class Wait(Words):
    """Waits for a signal or for a time; holds nothing meanwhile."""

    signal: Text | None = Field(default=None, description="Name of the signal, such as `ci.completed`.")
    match: dict[str, Any] = Field(
        default_factory=dict, description="Fields of the signal that must be equal.  May hold `${{ … }}`."
    )
    timeout: Duration | None = Field(
        default=None, description="How long to wait for the signal; the step then fails as `deadline`."
    )
    timer: Duration | None = Field(default=None, description="Wait so long, and go on.")


class Patch(Words):
    """The task's changes of the code as a patch file."""

    name: Text | None = Field(default=None, description="Name of the artifact; the step's id if absent.")


class Report(Words):
    """What was done by which step, evidence and cost, in Markdown."""

    name: Text | None = Field(default=None, description="Name of the artifact; the step's id if absent.")
    title: Text | None = Field(default=None, description="Its heading.  May hold `${{ … }}`.")


class Files(Words):
    """Files of the workspace."""

    name: Text | None = Field(default=None, description="Name of the artifact; the step's id if absent.")
    paths: Names = Field(description="Paths or globs, from the top of the repository.")


class Artifact(Words):
    """Bytes that outlive the task: exactly one of `patch`, `report`, `files`."""

    patch: Patch | None = Field(default=None, description="The changes of the code.")
    report: Report | None = Field(default=None, description="A report of the task.")
    files: Files | None = Field(default=None, description="Files of the workspace.")


class Call(Words):
    """Work that is done elsewhere: a POST, and a wait for its callback; holds nothing meanwhile.

    Whoever is called answers with a POST of JSON to `callback.url`, within the call or days later; that JSON is the
    step's result.
    """

    url: Text = Field(description="Where to send it: https, or http inside.  May hold `${{ … }}`.")
    body: Any = Field(
        default=None,
        description="The JSON to send; may hold `${{ … }}`, `callback.url` and `callback.key` too.  Absent: the ids of "
        "task, step and run, the key and the address of the callback.",
    )
    headers: dict[str, str] = Field(default_factory=dict, description="More headers.  May hold `${{ … }}`.")
    secret_headers: dict[str, str] = Field(
        default_factory=dict,
        description="Headers whose value is in the worker's environment, by the name of the variable: "
        "`{Authorization: DEPLOY_AUTH}`.",
    )
    timeout: Duration | None = Field(
        default=None, description="How long to wait for the callback; the step then fails as `deadline`."
    )


class SubTask(Words):
    """A task of its own: its steps, limits and journal, on the code of this one.  Its cost counts here too."""

    plan: Text | dict[str, Any] = Field(
        description="The plan itself, or a file beside this one.  It has no `workspace`: it begins from what is merged "
        "so far, and what it merges becomes the step's change."
    )
    inputs: dict[str, Any] = Field(
        default_factory=dict,
        description="What is handed down, by the names that the plan declares as `inputs`.  May hold `${{ … }}`.",
    )


class Step(Work):
    """A node of the graph: exactly one of `run, function, agent, approval, wait, artifact, call, task`."""

    id: Id = Field(description="Unique within the plan: small letters, digits and underscores.")
    approval: Approval | None = Field(default=None, description="Ask a person.")
    wait: Wait | None = Field(default=None, description="Wait for a signal or a time.")
    artifact: Artifact | None = Field(default=None, description="Make an artifact.")
    call: Call | None = Field(default=None, description="Have it done elsewhere, and wait for the callback.")
    task: SubTask | None = Field(default=None, description="Have it done by a task of its own.")
    needs: Needs | None = Field(
        default=None,
        description="Ids of the steps that it needs.  Absent: all earlier stages.  `[]`: nothing, it starts at once.",
    )
    if_: Condition | None = Field(
        default=None, alias="if", description="A CEL expression; false: the step is skipped, and so is what needs it."
    )
    for_each: Items | None = Field(
        default=None,
        description="Do the work once for each: an expression that yields a list, or a list.  "
        "`item` and `index` are known in the work.",
    )
    parallel_max: Positive | None = Field(
        default=None, description=f"With `for_each`: how many items at once; 16 if absent, at most {WINDOW_MAX}."
    )
    outputs: Outputs = Field(default_factory=dict, description="What it hands over, by name and type.")
    grow: Grow | None = Field(
        default=None, description="A planner: its output `steps` is added to the task, checked as this plan is."
    )
    pool: Text | None = Field(default=None, description="Which workers may take it; `default` if absent.")
    run_when: RunWhenWord = Field(
        default="success",
        description="`success`: when what it needs went well.  `failure`: only when something failed.  "
        "`always`: in any case.",
    )
    when_failed: WhenFailedWord | None = Field(
        default=None,
        description="`stop`: what needs it is skipped and the task fails.  `continue`: go on as if it had worked.  "
        "`ask`: a person decides; the default when somebody watches.",
    )
    weight: Count = Field(default=WEIGHT, description="Its share of the progress bar.")

    def output(self, name: str) -> str:
        """The template that reads this step's output `name`."""
        return f"${{{{ steps.{self.id}.outputs.{name} }}}}"


def kinds_of(work: Work) -> list[str]:
    """The kinds that it names; exactly one, in a plan that holds."""
    return [kind for kind in KINDS if getattr(work, kind, None) is not None]


for _model in (Work, Fix, Step):
    _model.model_rebuild()  # a fix may have a fix
