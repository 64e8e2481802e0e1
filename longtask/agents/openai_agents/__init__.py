"""The runtime `openai-agents`: the user's own agent on OpenAI's Agents SDK, with our journal at its seams.

    runtime    a run: the agent, what it is asked, people's decisions, its outputs
    runner     every run of an agent in this process, that of the plan and those inside it
    model      the model seam; `turn` what a turn is in the journal, `request` one turn on the wire
    tools      the tool seam: the plan's rules, people's decisions, function tools; `servers` MCP servers
    session    the SDK's memory of a conversation, through the journal

Imported in the child of an attempt only.  Of the SDK it leans on: `AgentRunner` and `set_default_agent_runner`,
`Model`, `ModelProvider`, `FunctionTool`, `RunState`, the `Session` protocol, and the errors of the `openai` package;
`tests/agents/test_openai_agents_leans.py` holds it to them.
"""

import os

# Looked at while the SDK is imported: it would send traces of all that is said to its maker.
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from longtask.agents.openai_agents.runtime import OpenAIAgents

__all__ = ["OpenAIAgents"]
