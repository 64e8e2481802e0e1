"""What agents call their tools and what those are about, as plans and rows name it."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from longtask.core.model import Json, JsonMap

from .updates import ASIDE, Call

KINDS: Mapping[str, str] = {
    "read": "read", "edit": "edit", "delete": "write", "move": "write", "search": "search", "execute": "shell",
    "fetch": "web_fetch",
}  # fmt: skip
READS = frozenset({"read", "search", "web_fetch", "web_search", "skill"})
ALONE = frozenset({"shell", "edit", "write"})  # one at a time, so that the worktree is saved between them
_ABOUT = ("command", "query", "url", "pattern", "name")


def tool_of(call: Call, tools: Mapping[str, str], servers: Collection[str]) -> str:
    """ "": it is nobody's business."""
    if call.name in tools:
        return tools[call.name]
    for server in servers:
        for mark in (f"mcp__{server}__", f"{server}_"):
            if call.name.startswith(mark):
                return f"mcp.{server}.{call.name.removeprefix(mark)}"
    return KINDS.get(call.kind, call.name)


def args_of(call: Call, cwd: Path) -> JsonMap:
    """The same on every machine: paths are relative to the worktree."""
    return {name: _within(value, name, cwd) for name, value in call.input.items() if name not in ASIDE}


def abouts_of(tool: str, args: JsonMap, paths: Collection[str], cwd: Path) -> list[str]:
    """What rules are about: a command, or each path."""
    if tool in ("read", "edit", "write") and paths:
        return [within(path, cwd) for path in paths]
    return [about_of(args)]


def about_of(args: JsonMap) -> str:
    named = (args[name] for name in args if name in _ABOUT or _is_path(name))
    return next((str(value) for value in named if isinstance(value, str)), "")


def within(path: str, cwd: Path) -> str:
    full = os.path.normpath(cwd / path)
    return os.path.relpath(full, cwd) if Path(full).is_relative_to(cwd) else full


def _within(value: Json, name: str, cwd: Path) -> Json:
    return within(value, cwd) if isinstance(value, str) and _is_path(name) else value


def _is_path(name: str) -> bool:
    return name.lower().replace("_", "") in ("path", "filepath", "file", "filename")
