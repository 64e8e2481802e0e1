"""The agents that are known to speak the protocol, and what is peculiar to each: a table that the runtime asks, so that
it has no branches for them.

What an agent keeps to itself (where its sessions are, what a turn has cost, how a request has failed) it tells through
`Own`; one that is only known by its command has nothing but the protocol (`Own` itself).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from longtask.agents.contract import Brief
from longtask.agents.witness import VARIABLE
from longtask.core.model import JsonMap


@dataclass(frozen=True, slots=True)
class Spent:
    """A turn is over.  `turn`: as its messages name it; "" it is not shown.  `end`: why it is not whole, in the agent's
    word; "" it is."""

    turn: str
    tokens_in: int
    tokens_out: int
    micros: int | None
    end: str = ""


@dataclass(frozen=True, slots=True)
class Retried:
    """The program could not ask its model, and asks again by itself.  `next_at` in ms since 1970."""

    number: int
    text: str
    next_at: int


@dataclass(frozen=True, slots=True)
class Broken:
    """The program has given up to ask its model.  `status`: of HTTP, 0 if it was none."""

    text: str
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


News = Spent | Retried | Broken


class Own:
    """What an agent does beside the protocol.  `folder`: the run's own, kept from attempt to attempt as far as `kept`
    says."""

    databases: Sequence[str] = ()  # SQLite files in `folder` that hold its sessions
    tells_turns = False  # each turn by a Spent, soon after its end

    def __init__(self, folder: Path, brief: Brief, cwd: Path) -> None:
        self._folder = folder
        self._brief = brief
        self._cwd = cwd

    def moved(self) -> None:
        """Its databases were put back, and may be of another folder, on another machine."""

    def environment(self) -> dict[str, str]:
        """Of its program, which is about to be started."""
        return {name: value for name, value in os.environ.items() if name != VARIABLE}

    def opened(self) -> None:
        """Its session is there: what was only needed for the start may go."""

    def news(self) -> Sequence[News]:
        """What it has told since the last time."""
        return ()

    @property
    def chooses_model(self) -> bool:
        """By what `environment` has set up; else the protocol is asked for it."""
        return False


@dataclass(frozen=True, slots=True)
class Agent:
    """`words`: after its program.  `tools`: its names of tools as plans have them, "" for those that are nobody's
    business; others are known by their kind.  `answers`: to requests that it sends although nobody offers them.

    `options`: of the plan, beside those that all have."""

    program: str
    words: tuple[str, ...] = ()
    tools: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, JsonMap] = field(default_factory=dict)
    own: Callable[[Path, Brief, Path], Own] = Own
    options: tuple[str, ...] = ()


# Known by their command alone: they go on elsewhere only as far as their own folders do.
AGENTS: Mapping[str, Agent] = {
    "auggie": Agent("auggie", ("--acp",)),
    "copilot": Agent("copilot", ("--acp", "--stdio")),
    "gemini": Agent("gemini", ("--acp",)),
    "goose": Agent("goose", ("acp",)),
    "kimi": Agent("kimi", ("acp",)),
    "qwen": Agent("qwen", ("--acp",)),
}
