"""The runtimes as data: how each is run, how it differs from the others, and what a kill may cost it.

A test asks no runtime for its name: what it has to know stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a kill.  `requests`: of the model, beyond those of a run that nobody kills.  `begun`: how often the tool that
    it hit was begun again, without a word of the model."""

    requests: int = 0
    begun: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """Of an attempt: `kind` and `retryable` as in its outcome, and what its reason says."""

    kind: str
    retryable: bool | None = None
    says: str = ""


def fails(says: str) -> End:
    return End("Failed", True, says)


def refused(says: str) -> End:
    return End("Failed", False, says)


DONE = End("Done")
FAULTS: Mapping[str, dict[str, Any]] = {
    "400": {"status": 400},
    "401": {"status": 401},
    "404": {"status": 404},
    "429": {"status": 429},
    "500": {"status": 500},
    "529": {"status": 529},
    "cut": {"cut": 3},
    "malformed": {"malformed": 2},
    "silent": {"hang": "always"},
}
ASKED_BY_US = {  # of a fault that stays
    "400": refused("look at the model's settings"),
    "401": refused("look at the key"),
    "404": refused("look at the model's name"),
    "429": End("Parked", None, "usage limit: 429"),
    "500": fails("500"),
    "529": fails("529"),
    "cut": fails("(2 times)"),
    "malformed": fails("(2 times)"),
    "silent": fails("silent for more than"),
}
ASKED_BY_PROGRAM = {
    "400": refused("has refused the request"),
    "401": refused("has refused the key"),
    "404": refused("the model's API"),
    "429": fails("asks for a pause"),
    "500": fails("did not answer"),
    "529": fails("did not answer"),
    "cut": fails("did not answer"),
    "malformed": fails("did not answer"),
    "silent": fails("silent for more than"),
}


@dataclass(frozen=True, slots=True)
class Runtime:
    """How it is run:
    `models`      the first in every test, all of them where wires or models may differ
    `program`     of the agent, to be found; `code`: the user's own, in the worktree as `mine.py`
    `options`     of every plan; `impatient`: of one that gives up soon; `stall_s`: None, it watches no model

    What a kill costs, and what of it is not known:
    `in_tool`, `in_stream`, `while_asked`
    `cut_off`     what the model is told of a tool that was cut off; `counts_cut`: the tokens of its turn are known

    Rules and people:
    `rules`       the plan's hold; `refusal`: what the model is told of a call that they deny
    `loses_asked` a call that a person was asked about is lost; the model is told, and makes it again

    What goes wrong:
    `ends`        by faults that stay; `mends`: those that pass unseen in an attempt
    `limit`       a fault that says when a usage limit ends; None: it hears of none
    `corrects`    outputs that do not fit are asked for again

    What is seen:
    `tools`       names of rows, where they are not those of the calls
    `hides_keys`  of models, from what the model's calls run
    `priced`      what turns have cost is known
    """

    name: str
    models: Sequence[str]
    in_tool: Cost
    in_stream: Cost = field(default=Cost(requests=1))
    while_asked: Cost = field(default=Cost())
    ends: Mapping[str, End] = field(default_factory=lambda: ASKED_BY_US)
    program: str | None = None
    code: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    impatient: Mapping[str, Any] = field(default_factory=lambda: {"tries": 2})
    stall_s: int | None = 2
    rules: bool = True
    refusal: str = "the plan does not allow"
    tools: Mapping[str, str] = field(default_factory=dict)
    cut_off: str = ""
    counts_cut: bool = True
    loses_asked: bool = False
    hides_keys: bool = True
    corrects: bool = True
    priced: bool = True
    limit: Mapping[str, Any] | None = field(default_factory=lambda: {"status": 429, "retry_after": "2h"})
    mends: frozenset[str] = frozenset({"500", "529", "cut", "malformed"})


BUILTIN = Runtime(
    "builtin",
    models=("anthropic:claude-sonnet-4-6", "openai:gpt-5", "openai-chat:gpt-5"),
    in_tool=Cost(begun=1),
    limit={"status": 429, "resets_in": "2h"},
)
OPENAI_AGENTS = Runtime(
    "openai-agents",
    models=("openai-chat:gpt-5", "openai:gpt-5"),
    in_tool=Cost(begun=1),
    code=HERE / "own_agent.py",
    options={"agent": "mine:agent"},
    hides_keys=False,
)
LANGGRAPH = Runtime(
    "langgraph",
    models=("gpt-5",),
    in_tool=Cost(begun=1),
    ends={
        **ASKED_BY_US,
        **dict.fromkeys(("429", "500", "529", "cut", "malformed"), fails("agent runtime 'langgraph': ")),
    },
    code=HERE / "own_graph.py",
    options={"graph": "mine:graph", "resume": "decision"},
    impatient={},
    stall_s=None,  # its client's own business
    rules=False,
    tools=dict.fromkeys(("read", "shell", "edit"), "node.tools"),
    hides_keys=False,
    corrects=False,
    mends=frozenset({"500", "529"}),
)
CLAUDE_CODE = Runtime(
    "claude-code",
    models=("claude-sonnet-4-5",),
    in_tool=Cost(),
    ends=ASKED_BY_PROGRAM,
    program="claude-code",
    options={"retries": 1},
    impatient={"retries": 1},
    stall_s=5,
    cut_off="outcome is unknown",
    limit=None,  # it tells none with a key
)
CODEX = Runtime(
    "codex",
    models=("gpt-5.5", "gpt-6-sol"),  # one with tools, and one that calls them from JavaScript
    in_tool=Cost(),
    while_asked=Cost(requests=1),
    ends={**ASKED_BY_PROGRAM, "malformed": DONE},  # it leaves out what it cannot read
    program="codex",
    options={"retries": 1},
    impatient={"retries": 1},
    stall_s=5,
    tools={"read": "shell"},
    cut_off="aborted",
    loses_asked=True,
    priced=False,
    limit={"status": 429, "resets_in": "2h"},
)
OPENCODE = Runtime(
    "opencode",
    models=("anthropic/claude-sonnet-4-5",),
    in_tool=Cost(),
    while_asked=Cost(requests=1),
    ends=ASKED_BY_PROGRAM,
    program="opencode",
    impatient={"retries": 1},
    stall_s=20,
    counts_cut=False,  # it tells them after the tools
    refusal="rejected permission",
    cut_off="interrupted",
    loses_asked=True,
)
RUNTIMES = (BUILTIN, OPENAI_AGENTS, LANGGRAPH, CLAUDE_CODE, CODEX, OPENCODE)


def each(
    that: Callable[[Runtime], Any] = lambda runtime: True,
    *,
    models: Sequence[Runtime] = (),
    slow: Sequence[Runtime] = (),
) -> pytest.MarkDecorator:
    """The test, on each runtime of which `that` is true.  `models`: on all models of these.  `slow`: on these it takes
    more than 20 s."""
    cases = [
        pytest.param(runtime, model, id=runtime.name if n == 0 else f"{runtime.name}-{model}", marks=marks)
        for runtime in RUNTIMES
        if that(runtime)
        for marks in [[pytest.mark.slow] if runtime in slow else []]
        for n, model in enumerate(runtime.models)
        if n == 0 or runtime in models
    ]
    return pytest.mark.parametrize(("runtime", "model"), cases)
