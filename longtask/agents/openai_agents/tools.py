"""The tool seam: function tools go through the plan's rules and then through the journal.

What the model is told of a call is what stands in its row.  Three kinds of tools there are:

- function tools, which are wrapped where they stand, so that whoever holds them holds the wrapped ones; those of MCP
  servers are such tools, too (`servers.py`);
- agents as tools: not one call, but a run inside of the run, whose own calls have their rows;
- tools that the provider runs: they are part of the model's turn.

Others are run by the SDK itself, without a seam, and are refused.  A function tool that asks a model by itself is one
call with all that it does.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from agents import (
    Agent,
    CodeInterpreterTool,
    FileSearchTool,
    FunctionTool,
    Handoff,
    HostedMCPTool,
    ImageGenerationTool,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    WebSearchTool,
)
from agents.items import ToolApprovalItem
from agents.run_context import RunContextWrapper
from agents.run_state import RunState
from agents.sandbox import SandboxAgent
from agents.tool import invoke_function_tool
from agents.tool_context import ToolContext

from longtask.agents.contract import Brief
from longtask.agents.decisions import decided
from longtask.agents.firm import Firm
from longtask.agents.journal import Answer
from longtask.agents.loop import ToolCall, cut, title
from longtask.agents.openai_agents import servers
from longtask.agents.openai_agents.model import INSIDE, JournaledModel, Spent
from longtask.agents.openai_agents.turn import args_of
from longtask.agents.policy import Verdict
from longtask.agents.wire import Wire
from longtask.core.errors import BadPlan
from longtask.core.model import JsonMap

OF_THE_PROVIDER = (WebSearchTool, FileSearchTool, CodeInterpreterTool, ImageGenerationTool, HostedMCPTool)
STRUCTURED = (ToolOutputText, ToolOutputImage, ToolOutputFileContent)
DENIED = "the plan does not allow this call: take another way, or leave it"


class Instruments:
    """Puts the seams into agents, once into each: into its model, its tools, and the agents that it hands over to."""

    def __init__(
        self,
        brief: Brief,
        seams: Firm,
        wire: Wire,
        journaled: Callable[[Any], JournaledModel],
        show: Callable[[str], None],
        progress: Callable[[int, str], None],
        context: Any,
    ) -> None:
        self._brief = brief
        self._seams = seams
        self._wire = wire
        self._journaled = journaled
        self._show = show
        self._progress = progress
        self._context = context
        self._calls = 0
        self._seen: dict[int, Any] = {}  # by id; held, so that no id comes twice
        self._schemas: dict[str, JsonMap] = {}  # by a tool's name
        self._approved: dict[str, tuple[JsonMap, str] | JsonMap] = {}  # by a call's id: what a person made of it

    def put_into(self, agent: Any) -> None:
        """Raises BadPlan for what cannot be journaled."""
        if id(agent) in self._seen:
            return
        self._seen[id(agent)] = agent
        if isinstance(agent, SandboxAgent) or not isinstance(agent, Agent):
            raise BadPlan(f"agent '{getattr(agent, 'name', agent)}': is no `Agent` but a {type(agent).__name__}")
        if agent.model is not None and not isinstance(agent.model, str | JournaledModel):
            agent.model = self._journaled(agent.model)
        served = servers.tools_of(agent, self._context, self._wire)
        agent.mcp_servers = []
        agent.tools = [
            *(tool for tool in agent.tools if self._offered(agent, tool)),
            *(tool for name, tool in served if self._wrapped(tool, name, repeatable=False)),
        ]
        for guard in agent.input_guardrails:
            guard.run_in_parallel = False  # else its calls and the model's would come in any order
        for handoff in agent.handoffs:
            if isinstance(handoff, Handoff):
                self._follow(handoff)
            else:
                self.put_into(handoff)

    def decide(self, state: RunState[Any], item: ToolApprovalItem) -> None:
        """Raises Asks while nobody has."""
        args = args_of(item.arguments or "")
        name = item.name or ""
        args = args if isinstance(args, dict) else {"arguments": args}
        decision = decided(self._seams, name, self._schemas.get(name, {}), args)
        if isinstance(decision, tuple) or not decision["failed"]:
            self._approved[str(item.call_id)] = decision
            state.approve(item)
        else:
            state.reject(item, rejection_message=decision["text"])

    def _follow(self, handoff: Handoff[Any, Any]) -> None:
        if id(handoff) in self._seen:
            return
        self._seen[id(handoff)] = handoff
        inner = handoff.on_invoke_handoff

        async def invoke(context: RunContextWrapper[Any], arguments: str) -> Any:
            agent = await inner(context, arguments)
            self.put_into(agent)
            return agent

        handoff.on_invoke_handoff = invoke

    def _offered(self, agent: Agent[Any], tool: Any) -> bool:
        """Whether some call of it could be made; wraps it."""
        rules = self._brief.policy
        if isinstance(tool, OF_THE_PROVIDER):
            if rules.of(tool.name) is Verdict.ASK:
                raise BadPlan(f"tool '{tool.name}' of agent '{agent.name}' is run by the provider: nobody can be asked")
            return rules.offers(tool.name)
        if not isinstance(tool, FunctionTool):
            raise BadPlan(
                f"tool '{tool.name}' of agent '{agent.name}' is run by the SDK itself, past the journal; make it a "
                f"function tool"
            )
        once = any(fnmatchcase(tool.name, pattern) for pattern in self._brief.options.get("once", ()))
        return self._wrapped(tool, tool.name, repeatable=self._brief.repeatable and not once)

    def _wrapped(self, tool: FunctionTool, name: str, *, repeatable: bool) -> bool:
        """False: no call of it could be made.  `name`: the journal's and the rules'."""
        if not self._brief.policy.offers(name):
            return False
        if id(tool) not in self._seen:
            original = copy.copy(tool)
            self._seen[id(tool)] = tool
            self._schemas[tool.name] = tool.params_json_schema

            async def invoke(context: ToolContext[Any], arguments: str) -> Any:
                return await self._invoke(original, name, repeatable, context, arguments)

            tool.on_invoke_tool = invoke
            tool.timeout_seconds = None  # it is the original's, inside of the seam
        return True

    async def _invoke(
        self, tool: FunctionTool, name: str, repeatable: bool, context: ToolContext[Any], arguments: str
    ) -> Any:
        if INSIDE.get() is not None:
            return await invoke_function_tool(function_tool=tool, context=context, arguments=arguments)
        given = args_of(arguments)
        args: JsonMap = given if isinstance(given, dict) else {"arguments": given}
        note = ""
        decision = self._approved.get(context.tool_call_id)
        if decision is None:
            match self._brief.policy.of(name, _about(args)):
                case Verdict.DENY:
                    return self._deny(name, args)
                case Verdict.ASK:
                    decision = decided(self._seams, name, tool.params_json_schema, args)
                    self._approved[context.tool_call_id] = decision  # a run inside of the run may come back to it
        if decision is not None:
            if not isinstance(decision, tuple):
                return decision["text"]
            edited, note = decision
            arguments, args = (arguments, args) if edited == args else (json.dumps(edited), edited)
        if getattr(tool, "_is_agent_tool", False):
            output = await tool.on_invoke_tool(context, arguments)
        else:
            use = partial(self._use, tool, name, args, context, arguments)
            body = self._seams.tool(name, args, use, repeatable=repeatable, writes=True)
            output = body.get("output", body["text"])
        self._calls += 1
        self._progress(self._calls, name)
        return f"{note}\n{output}" if note and isinstance(output, str) else output

    def _use(self, tool: FunctionTool, name: str, args: JsonMap, context: ToolContext[Any], arguments: str) -> Answer:
        self._show(title(ToolCall(name, args)))
        spent = Spent()
        body = _body(self._wire.do(_inside(spent, tool, context, arguments)))
        return Answer(body, spent.tokens_in, spent.tokens_out, spent.micros)

    def _deny(self, name: str, args: JsonMap) -> str:
        def deny() -> Answer:
            self._show(f"denied: {title(ToolCall(name, args))}")
            return Answer({"text": DENIED, "failed": True})

        return str(self._seams.tool(name, args, deny, repeatable=True, writes=False)["text"])


async def _inside(spent: Spent, tool: FunctionTool, context: ToolContext[Any], arguments: str) -> Any:
    INSIDE.set(spent)  # of this task alone
    return await invoke_function_tool(function_tool=tool, context=context, arguments=arguments)


def _body(output: Any) -> JsonMap:
    """`output` where the SDK makes more of it than its text: images, files, lists of them, values of a final tool."""
    plain = _plain(output)
    try:
        if not isinstance(plain, str):
            return {"text": cut(str(output)), "failed": False, "output": json.loads(json.dumps(plain, allow_nan=False))}
    except (TypeError, ValueError):
        plain = str(output)
    return {"text": plain, "failed": False}


def _plain(output: Any) -> Any:
    if isinstance(output, STRUCTURED):
        return output.model_dump(mode="json", exclude_none=True)
    if isinstance(output, Sequence) and not isinstance(output, str | bytes):
        return [_plain(item) for item in output]
    return output


def _about(args: JsonMap) -> str:
    """The command or the path; of other tools, their only text."""
    texts = [value for value in args.values() if isinstance(value, str)]
    about = args.get("command") or args.get("path") or (texts[0] if len(texts) == 1 else "")
    return str(about)
