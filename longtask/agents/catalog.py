"""The agent runtimes that there are: what each is called, where it lives, and what it takes from its surroundings.

Nothing heavy is imported here: a runtime comes in when a step runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OPENAI, ANTHROPIC = ("OPENAI_API_KEY",), ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
KEYS = (
    *OPENAI,
    *ANTHROPIC,
    "OPENROUTER_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
)
SETTINGS = ("OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "ANTHROPIC_BASE_URL", "OLLAMA_BASE_URL")


REQUESTS_MAX = 200  # model calls of one run: an agent that needs more is going round in circles


@dataclass(frozen=True, slots=True)
class Entry:
    """`keys` and `settings`: variables that it takes from its worker's environment if they are there, beyond what every
    step is given; `keys` are secrets, and are hidden like those that a plan names.  `extra`: of our package, to be
    installed with it.  `program`: of the agent, to be found or fetched (`programs.py`).  `library`: whose version is
    told of it; it takes seconds to import, and is imported in an agent's child only.  `spawns`: its runs may give out
    work as steps of their own (`spawning.py`); `notes`: they may leave notes for later ones (`notes.py`).  `own_code`:
    the agent is the user's own code, so its tools have names that no plan knows, and the child itself stands in the
    step's sandbox.  `heeds_rules`: those of the plan about calls of tools."""

    path: str
    keys: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    extra: str | None = None
    program: str | None = None
    library: str | None = None
    spawns: bool = False
    notes: bool = False
    own_code: bool = False
    heeds_rules: bool = True


RUNTIMES = {
    "recorded": Entry("longtask.agents.recorded:Recorded", spawns=True),
    "claude-code": Entry(
        "longtask.agents.claude_code.runtime:ClaudeCode",
        keys=(*ANTHROPIC, "CLAUDE_CODE_OAUTH_TOKEN"),
        settings=("ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "ANTHROPIC_CUSTOM_HEADERS"),
        program="claude-code",
    ),
    "codex": Entry("longtask.agents.codex.runtime:Codex", keys=OPENAI, settings=("OPENAI_BASE_URL",), program="codex"),
    "opencode": Entry(
        "longtask.agents.acp.runtime:opencode",
        keys=(*KEYS, "OPENCODE_API_KEY"),
        settings=SETTINGS,
        program="opencode",
    ),
    "acp": Entry("longtask.agents.acp.runtime:Acp", KEYS, SETTINGS),
    "builtin": Entry(
        "longtask.agents.builtin:Builtin",
        KEYS,
        SETTINGS,
        extra="builtin",
        library="pydantic-ai-slim",
        spawns=True,
        notes=True,
    ),
    "openai-agents": Entry(
        "longtask.agents.openai_agents:OpenAIAgents",
        KEYS,
        SETTINGS,
        extra="openai-agents",
        library="openai-agents",
        own_code=True,
    ),
    "langgraph": Entry(
        "longtask.agents.langgraph:LangGraph",
        KEYS,
        SETTINGS,
        extra="langgraph",
        library="langgraph",
        own_code=True,
        heeds_rules=False,
    ),
}
ACP, NAMED_OF_ACP = "acp", ("opencode",)  # agents of `acp` that are runtimes by their own name, too
TOOLS = ("read", "write", "edit", "shell", "search", "ask_person", "spawn", "note")


def named(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of an agent; `runtime: acp, options: {agent: opencode}` is another way to say `runtime: opencode`."""
    options = settings.get("options") or {}
    if settings.get("runtime") != ACP or options.get("agent") not in NAMED_OF_ACP:
        return dict(settings)
    others = {name: value for name, value in options.items() if name != "agent"}
    return {**settings, "runtime": options["agent"], "options": others}
