"""What Codex calls its tools and what they do, as plans and rows name it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from longtask.core.model import JsonMap

TOOLS = {
    "commandExecution": "shell",
    "fileChange": "edit",
    "webSearch": "web_search",
    "collabAgentToolCall": "subagent",
    "imageView": "read",
}
TEXT_CHARS_MAX = 20_000
READS = frozenset({"read", "web_search"})


def tool_of(item: JsonMap) -> str | None:
    """None: it is no tool."""
    if item["type"] == "mcpToolCall":
        return f"mcp.{item.get('server')}.{item.get('tool')}"
    return TOOLS.get(item["type"])


def args_of(item: JsonMap, cwd: Path) -> JsonMap:
    """The same on every machine: paths are relative to the worktree."""
    match item["type"]:
        case "commandExecution":
            return {"command": command_of(str(item.get("command") or ""))}
        case "fileChange":
            changes = item.get("changes") or ()
            return {"changes": [
                {"path": _within(str(change["path"]), cwd), "kind": _kind(change.get("kind")),
                 "diff": str(change.get("diff") or "")}
                for change in changes
            ]}  # fmt: skip
        case "mcpToolCall":
            return {"arguments": item.get("arguments")}
        case "webSearch":
            return {"query": item.get("query")}
    return {}


def abouts_of(args: JsonMap) -> list[str]:
    """What rules are about: a command, or each path."""
    if "changes" in args:
        return [change["path"] for change in args["changes"]]
    return [str(args.get("command") or args.get("query") or "")]


def end_of(item: JsonMap) -> tuple[str, bool]:
    """(what the tool says, whether it has failed)."""
    failed = item.get("status") in ("failed", "declined")
    said = item.get("aggregatedOutput") or item.get("error") or item.get("result") or ""
    text = said if isinstance(said, str) else str(said)
    code = item.get("exitCode")
    if isinstance(code, int) and code:
        text = f"{text.rstrip()}\nexit code {code}".strip()
    return (text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}…"), failed


def command_of(line: str) -> str:
    """What the model has asked for, without the shell that Codex puts around it."""
    try:
        words = shlex.split(line)
    except ValueError:
        return line
    return words[2] if len(words) == 3 and words[1] in ("-lc", "-c") else line


def _kind(kind: object) -> str:
    return str(kind.get("type")) if isinstance(kind, dict) else str(kind)


def _within(path: str, cwd: Path) -> str:
    full = os.path.normpath(cwd / path)
    return os.path.relpath(full, cwd) if Path(full).is_relative_to(cwd) else full
