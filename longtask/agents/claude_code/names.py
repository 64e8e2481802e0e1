"""What Claude Code calls its tools, and what plans call them."""

from __future__ import annotations

import os
from pathlib import Path

from longtask.agents.policy import Policy
from longtask.core.model import JsonMap

CANONICAL = {
    "Bash": "shell",
    "BashOutput": "shell",
    "KillShell": "shell",
    "Read": "read",
    "Write": "write",
    "Edit": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
    "Grep": "search",
    "Glob": "search",
    "LS": "search",
    "WebFetch": "web_fetch",
    "WebSearch": "web_search",
    "Task": "subagent",
    "Agent": "subagent",
    "Skill": "skill",
}
# Its own business: what it answers with, what it notes down, how it finds its tools.
OWN = frozenset({"StructuredOutput", "TodoWrite", "ToolSearch"})
# What would outlive the run, wait for what nobody sends, or leave the worktree; and its other ways to work aside.
NEVER = (
    "AskUserQuestion", "CronCreate", "CronDelete", "CronList", "EnterPlanMode", "EnterWorktree", "ExitPlanMode",
    "ExitWorktree", "ListAgents", "Monitor", "RemoteTrigger", "ReportFindings", "ScheduleWakeup", "SendMessage",
    "TaskStop", "Workflow",
)  # fmt: skip
SUBAGENT = "subagent"
READS = frozenset({"read", "search", "web_fetch", "web_search", "skill"})
_ABOUT = ("command", "file_path", "notebook_path", "path", "url", "query", "skill", "pattern")


def canonical(name: str) -> str:
    """`mcp__SERVER__TOOL` is `mcp.SERVER.TOOL`."""
    if name.startswith("mcp__"):
        return name.replace("__", ".")
    return CANONICAL.get(name, name.lower())


def about(args: JsonMap, cwd: Path) -> str:
    """What a call is about, as rules name it: a command, a path within the worktree, an address."""
    for key in _ABOUT:
        if isinstance(args.get(key), str):
            return _within(args[key], cwd) if key.endswith("path") else str(args[key])
    return ""


def not_offered(policy: Policy) -> list[str]:
    """Tools that the model is not to be shown.  Subagents only when a plan names them: what one of them has done is
    one call, and lost as a whole when it is cut off."""
    shown = {name: policy.offers(plain) for name, plain in CANONICAL.items()}
    subagents = policy.tools is not None and shown["Task"]
    return [*NEVER, *(name for name, offered in shown.items() if not offered or (name in _SUBAGENTS and not subagents))]


_SUBAGENTS = ("Task", "Agent")


def _within(path: str, cwd: Path) -> str:
    full = os.path.normpath(cwd / path)
    return os.path.relpath(full, cwd) if Path(full).is_relative_to(cwd) else full
