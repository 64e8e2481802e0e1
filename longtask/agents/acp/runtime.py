"""The runtimes of agents that speak the Agent Client Protocol: opencode by its own name, others by their command."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from longtask.agents.contract import AgentOutcome, Brief
from longtask.agents.journal import Line, Seams
from longtask.agents.native.rpc import CallFailed
from longtask.agents.native.shown import Shown
from longtask.core.errors import BadPlan

from . import kept, outcome
from .run import Run
from .session import Session
from .table import agent_of


class Acp:
    def __init__(self, name: str = "acp") -> None:
        self.name = name
        self.version = ""  # its program's, which whoever has found it knows

    def run(self, brief: Brief, seams: Seams, line: Line) -> AgentOutcome:
        title, agent = agent_of(self.name, brief.options)
        program = brief.program or shutil.which(agent.program)
        if program is None:
            raise BadPlan(f"agent runtime '{self.name}': {agent.program!r} is not on the PATH of the worker")
        folder, cwd = Path(line.call("session.restore")["folder"]), Path(os.path.realpath(brief.cwd))
        own = agent.own(folder, brief, cwd)
        if kept.put_back(folder, own.databases):
            own.moved()
        shown = Shown(line)
        with Session(title, agent, own, brief, cwd, Path(program), shown) as session:
            try:
                return Run(title, agent, own, session, folder, cwd, brief, seams, shown).carry_out()
            except CallFailed as refused:
                return outcome.failure(title, outcome.refused(refused.error), time.time_ns() // 1_000_000)


def opencode() -> Acp:
    return Acp("opencode")
