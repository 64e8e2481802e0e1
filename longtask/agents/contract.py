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

A runtime is found by its name in `RUNTIMES`, and imported when it is chosen; `package.module:Class` names one that is
not ours.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

from longtask.agents.journal import Line, Seams
from longtask.core.errors import BadPlan
from longtask.core.model import Done, Failed, JsonMap, Parked

REQUESTS_MAX = 200  # model calls of one run: an agent that needs more is going round in circles

AgentOutcome = Done | Failed | Parked  # `Done.result` holds the outputs; the commit is the worker's business


@dataclass(frozen=True, slots=True)
class Brief:
    """All that a run is told.  `prompt` is the whole opening, composed; its parts stand beside it."""

    step: str
    run: int
    attempt: int
    prompt: str
    cwd: Path
    outputs: Mapping[str, str] = field(default_factory=dict)  # name -> type word, see `outputs.TYPES`
    tools: tuple[str, ...] | None = None  # None: all that the runtime has
    model: str | None = None
    repeatable: bool = True  # of the step; its shell commands follow it
    news: str | None = None  # told to a run that goes on: what a person answered, what woke it
    cause: JsonMap | None = None
    failure: str | None = None
    requests_max: int = REQUESTS_MAX
    options: JsonMap = field(default_factory=dict)  # of this runtime alone


class Runtime(Protocol):
    name: str
    version: str  # of the agent, kept with the attempt

    def run(self, brief: Brief, seams: Seams, line: Line) -> AgentOutcome: ...


RUNTIMES = {"recorded": "longtask.agents.recorded:Recorded"}


def runtime(name: str) -> Runtime:
    """Raises BadPlan for a name that is not known or cannot be imported."""
    path = RUNTIMES.get(name, name if ":" in name else "")
    module, _, attribute = path.partition(":")
    if not path:
        known = ", ".join(f"'{known}'" for known in RUNTIMES)
        raise BadPlan(
            f"agent runtime '{name}': no such runtime; there is {known}, or your own as 'package.module:Class'"
        )
    try:
        return cast(Runtime, getattr(importlib.import_module(module), attribute)())
    except (ImportError, AttributeError) as error:
        raise BadPlan(f"agent runtime '{name}': cannot be imported: {error}") from error
