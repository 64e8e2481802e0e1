"""The agent runtimes that there are: what each is called, where it lives, and what it takes from its surroundings.

Nothing heavy is imported here: a runtime comes in when a step runs it.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    told of it; it takes seconds to import, and is imported in an agent's child only."""

    path: str
    keys: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    extra: str | None = None
    program: str | None = None
    library: str | None = None


RUNTIMES = {
    "recorded": Entry("longtask.agents.recorded:Recorded"),
    "claude-code": Entry(
        "longtask.agents.claude_code.runtime:ClaudeCode",
        keys=(*ANTHROPIC, "CLAUDE_CODE_OAUTH_TOKEN"),
        settings=("ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "ANTHROPIC_CUSTOM_HEADERS"),
        program="claude-code",
    ),
    "codex": Entry("longtask.agents.codex.runtime:Codex", keys=OPENAI, settings=("OPENAI_BASE_URL",), program="codex"),
    "builtin": Entry("longtask.agents.builtin:Builtin", KEYS, SETTINGS, extra="builtin", library="pydantic-ai-slim"),
}
LATER = ("acp", "openai-agents", "langgraph")  # a plan that names one is told so
TOOLS = ("read", "write", "edit", "shell", "search", "ask_person")
