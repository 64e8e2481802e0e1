"""What an agent runtime promises, and what it is given.

A runtime carries one run of an agent to its end, in a child process of its own: it gets a brief, talks to a model and
to tools, and answers with the outcome.  It knows nothing of tasks, leases and stores.

1. Every model call and every tool call goes through `Seams`: that, and only that, lets a killed run go on without
   buying a finished turn or running a finished tool again.  An agent that is a program of its own keeps its own session
   instead; what that needs (its id, stored before the launch) goes through the same seams as a tool of the runtime.
2. Between two seams a runtime is a pure function of its brief and of the answers of the seams, so that a replay makes
   the same calls in the same order: no clock, no chance, no look at the worktree outside a tool.
3. What people see goes through `line.send("output", stream=…, text=…)`, `progress` and `note`.
4. `Halted` passes through it untouched.  Any other exception is a failure of the attempt.

A runtime is found by its name in `catalog.py`, and imported when it is chosen; `package.module:Class` names one that is
not ours.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Protocol, cast

from longtask.agents.catalog import REQUESTS_MAX, RUNTIMES
from longtask.agents.journal import Line, Seams
from longtask.agents.policy import Policy
from longtask.core.errors import BadPlan
from longtask.core.model import Done, Expanded, Failed, JsonMap, Parked

AgentOutcome = Done | Failed | Parked | Expanded  # `Done.result` holds the outputs; the commit is the worker's business


@dataclass(frozen=True, slots=True)
class Brief:
    """All that a run is told.  `prompt` is the whole opening, composed; its parts stand beside it."""

    step: str
    run: int
    attempt: int
    prompt: str
    cwd: Path
    outputs: Mapping[str, str] = field(default_factory=dict)  # name -> type word, see `outputs.TYPES`
    policy: Policy = field(default_factory=Policy)  # which calls of tools may be made, which are asked about
    model: str | None = None
    repeatable: bool = True  # of the step; its shell commands follow it
    news: str | None = None  # told to a run that goes on: what a person answered, what woke it
    cause: JsonMap | None = None
    failure: str | None = None
    requests_max: int = REQUESTS_MAX
    notes: tuple[JsonMap, ...] | None = None  # that earlier runs have left, newest first; None: its plan keeps none
    spawned_max: int = 0  # tasks that it may give out at once (`Seams.spawn`); 0: none, its plan says nothing of it
    inside: tuple[str, ...] = ()  # the words before whatever the agent runs: they put it into its sandbox
    options: JsonMap = field(default_factory=dict)  # of this runtime alone
    program: Path | None = None  # of an agent that is a program of its own


class Runtime(Protocol):
    name: str
    version: str  # of the agent, kept with the attempt

    def run(self, brief: Brief, seams: Seams, line: Line) -> AgentOutcome: ...


def library_version(name: str) -> str | None:
    """Of a runtime that is a library, without importing it: `pydantic-ai-slim 2.68.0`; None: of the others."""
    library = RUNTIMES[name].library if name in RUNTIMES else None
    if library is None:
        return None
    try:
        return f"{library} {metadata.version(library)}"
    except metadata.PackageNotFoundError:
        return f"{library}, which is not installed"


def runtime(name: str) -> Runtime:
    """Raises BadPlan for a name that is not known or cannot be imported."""
    path = RUNTIMES[name].path if name in RUNTIMES else name if ":" in name else ""
    module, _, attribute = path.partition(":")
    if not path:
        known = ", ".join(f"'{known}'" for known in RUNTIMES)
        raise BadPlan(
            f"agent runtime '{name}': no such runtime; there is {known}, or your own as 'package.module:Class'"
        )
    try:
        return cast(Runtime, getattr(importlib.import_module(module), attribute)())
    except (ImportError, AttributeError) as error:
        extra = RUNTIMES[name].extra if name in RUNTIMES else None
        hint = f"; this worker needs `pip install 'longtask[{extra}]'`" if extra else ""
        raise BadPlan(f"agent runtime '{name}': cannot be imported: {error}{hint}") from error
