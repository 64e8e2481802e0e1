"""A run of the coding agent: the prompt, the agent of Pydantic AI between our two seams, and how it ends.

`options` of a plan: `settings` (of the model, as Pydantic AI names them: temperature, max_tokens, thinking …), `tries`
(how often a request is made that fails for a while), `stall_s` (how long a model may be silent), `mcp` (names of
servers of `.mcp.json`).
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.exceptions import OutputTokenLimitExceeded, UnexpectedModelBehavior

from longtask.agents import provider
from longtask.agents.builtin.asking import ASK_PERSON, spawn_offer
from longtask.agents.builtin.choice import model_of, settings_of
from longtask.agents.builtin.index import CodeIndex, find_tool
from longtask.agents.builtin.memory import skill_tool
from longtask.agents.builtin.model import JournaledModel
from longtask.agents.builtin.offer import offer_of, offers_of
from longtask.agents.builtin.opening import instructions
from longtask.agents.builtin.output import fitting, output_type, whole
from longtask.agents.builtin.servers import Servers
from longtask.agents.builtin.toolset import JournaledToolset
from longtask.agents.catalog import KEYS
from longtask.agents.contract import AgentOutcome, Brief, library_version
from longtask.agents.firm import Ends, Firm
from longtask.agents.journal import Line, Seams
from longtask.agents.loop import CORRECTIONS_MAX
from longtask.agents.notes import NOTE
from longtask.agents.tools import Toolbox
from longtask.agents.wire import Wire
from longtask.agents.witness import VARIABLE
from longtask.core.errors import BadPlan
from longtask.core.model import Done, Failed, JsonMap

OPTIONS = ("mcp", "settings", "stall_s", "tries")


class Builtin:
    name = "builtin"
    version = library_version(name) or ""

    def run(self, brief: Brief, seams: Seams, line: Line) -> AgentOutcome:
        _check(brief.options)
        firm = Firm(seams)
        try:
            with Wire() as wire, closing(CodeIndex()) as index:
                return Run(brief, firm, line, wire, index).to_its_end()
        except BaseException as error:  # noqa: BLE001  what a seam has raised may come wrapped, or be lost on its way
            raised = firm.raised or error
            if isinstance(raised, Ends):
                return raised.outcome
            if isinstance(raised, UnexpectedModelBehavior):
                longer = "; let it say more in a turn: `options: {settings: {max_tokens: …}}`"
                advice = longer if isinstance(raised, OutputTokenLimitExceeded) else ""
                return Failed(f"model '{brief.model}': {raised.message.rstrip('.')}{advice}")
            raise raised from None


class Run:
    def __init__(self, brief: Brief, seams: Firm, line: Line, wire: Wire, index: CodeIndex) -> None:
        self._brief = brief
        self._seams = seams
        self._line = line
        self._wire = wire
        self._index = index
        self._root = Path(os.path.realpath(brief.cwd))

    def to_its_end(self) -> AgentOutcome:
        brief = self._brief
        model = model_of(brief.model)
        prompt = self._seams.told(brief.prompt) or ""
        told = self._seams.told(instructions(self._root, brief.notes or ())) or ""
        settings = brief.options.get("settings", {})
        journaled = JournaledModel(model, settings, brief, prompt, self._seams, self._wire, self._show, self._note)
        agent: Agent[None, Any] = Agent(
            journaled,
            deps_type=type(None),
            name="builtin",
            instructions=told,
            output_type=output_type(brief.outputs),
            model_settings=settings_of(model, settings),
            toolsets=[self._toolset()],
            retries=CORRECTIONS_MAX,
        )
        agent.output_validator(partial(fitting, brief.outputs) if brief.outputs else whole)
        with agent.parallel_tool_call_execution_mode("sequential"):
            ended = asyncio.run(agent.run(prompt, usage_limits=UsageLimits(request_limit=None)))
        if self._seams.raised is not None:
            raise self._seams.raised
        if brief.outputs:
            self._show(f"{json.dumps(ended.output, ensure_ascii=False)}\n")
            return Done(result=dict(ended.output))
        return Done(result={})

    def _toolset(self) -> JournaledToolset:
        brief = self._brief
        servers = Servers(self._root, self._environment(), brief.options.get("mcp", ()), self._wire, brief.inside)
        box = Toolbox(
            self._root,
            self._environment(),
            self._show,
            more=(find_tool(self._index), skill_tool(self._root), *([NOTE] if brief.notes is not None else [])),
            inside=brief.inside,
        )
        offers = [
            *offers_of(box, brief.repeatable),
            offer_of(ASK_PERSON, box, brief.repeatable, free=True),
            *servers.offers(self._seams),
        ]
        most = brief.spawned_max
        offers += [spawn_offer(most)] if most else []
        return JournaledToolset(offers, brief.policy, self._root, self._seams, self._show, self._progress, most)

    def _environment(self) -> dict[str, str]:
        """What tools see of this process's: no key of a model."""
        return {name: value for name, value in os.environ.items() if name != VARIABLE and name not in KEYS}

    def _show(self, text: str) -> None:
        self._line.send("output", stream="out", text=text)

    def _note(self, text: str) -> None:
        self._line.send("note", text=text)

    def _progress(self, done: int, tool: str) -> None:
        self._line.send("progress", done=done, total=0, text=tool)


def _check(options: JsonMap) -> None:
    """Raises BadPlan."""
    for name in options:
        if name not in OPTIONS:
            raise BadPlan(f"agent runtime 'builtin': no option '{name}'; there is {', '.join(map(repr, OPTIONS))}")
    if not isinstance(options.get("settings", {}), dict):
        raise BadPlan("agent runtime 'builtin': option 'settings' is to be a map")
    provider.patience(options, "builtin")
    servers = options.get("mcp", [])
    if not isinstance(servers, list) or not all(isinstance(name, str) for name in servers):
        raise BadPlan("agent runtime 'builtin': option 'mcp' is to be a list of names of servers")
