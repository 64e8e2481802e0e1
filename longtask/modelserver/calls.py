"""Portable calls as calls of the tools that an agent offers.

A tool fits when its name is one that agents give to such a tool and it takes every word of the call under one of the
names that agents give to it; failing that, a tool of any name that takes these words and requires nothing else.  So
Claude Code's `Bash`, opencode's `bash` and the `shell` of `builtin` need no line of their own.  Codex does: codex.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from longtask.modelserver import codex
from longtask.modelserver.asked import Tool
from longtask.modelserver.script import Call

PATH = ("path", "file_path", "filePath", "filepath", "filename", "file")
WORDS: Mapping[str, Mapping[str, Sequence[str]]] = {  # of each portable call: the names that agents give to its words
    "shell": {"command": ("command", "cmd", "script")},
    "write": {"path": PATH, "content": ("content", "contents", "text", "file_text")},
    "edit": {
        "path": PATH,
        "old": ("old", "old_string", "oldString", "old_str", "old_text", "search"),
        "new": ("new", "new_string", "newString", "new_str", "new_text", "replace"),
    },
    "read": {"path": PATH},
}
NAMES = {  # in small letters
    "shell": ("bash", "shell", "shell_command", "run_command", "execute", "terminal", "run"),
    "write": ("write", "write_file", "create", "create_file"),
    "edit": ("edit", "edit_file", "str_replace", "replace"),
    "read": ("read", "read_file", "view"),
}
OUTPUT = ("StructuredOutput", "output", "outputs")  # Claude Code; others
FINAL = "final_result"  # Pydantic AI; the name of the type may follow
MORE = {"description": "as the script says"}  # required by some, of no effect
LISTED_MAX = 30

Arguments = Mapping[str, Any] | str


class NoTool(Exception):
    """The request offers no tool for a call of the script."""


def call_of(call: Call, tools: Mapping[str, Tool]) -> tuple[str, Arguments]:
    """Name and arguments; a text for a tool that takes free text.  Raises NoTool."""
    portable = call.portable
    if portable is None:
        assert call.tool is not None
        return call.tool, call.args
    name, words = portable
    found = _named(name, words, tools) or codex.call_of(name, words, tools) or _any(name, words, tools)
    if found is None:
        offered = ", ".join(sorted(tools)[:LISTED_MAX]) or "none"
        raise NoTool(f"no tool that could {name}; the request offers: {offered}")
    return found


def output_tool(output: Any, tools: Mapping[str, Tool]) -> str | None:
    """The tool by which the structured answer is handed over; None: there is none."""
    if not isinstance(output, Mapping):
        return None
    for name in tools:
        if name in OUTPUT or name.startswith(FINAL):
            return name
    return None


def _named(name: str, words: Mapping[str, str], tools: Mapping[str, Tool]) -> tuple[str, Arguments] | None:
    for wanted in NAMES[name]:
        for tool in tools.values():
            if tool.name.lower() == wanted:
                args = _arguments(name, words, tool)
                if args is not None:
                    return tool.name, args
    return None


def _any(name: str, words: Mapping[str, str], tools: Mapping[str, Tool]) -> tuple[str, Arguments] | None:
    for tool in tools.values():
        if any(part in tool.name.lower() for part in (name, *NAMES[name])):
            args = _arguments(name, words, tool)
            if args is not None:
                return tool.name, args
    return None


def _arguments(name: str, words: Mapping[str, str], tool: Tool) -> Arguments | None:
    """None: the tool does not take them, or requires what we have not."""
    if tool.params is None:
        return None
    args: dict[str, Any] = {}
    for word, text in words.items():
        param = next((known for known in WORDS[name][word] if known in tool.params), None)
        if param is None:
            return None
        many = _kind(tool.params[param]) == "array"
        args[param] = ["bash", "-lc", text] if many else text
    for param in tool.required - args.keys():
        if param not in MORE:
            return None
        args[param] = MORE[param]
    return args


def _kind(schema: Any) -> Any:
    return schema.get("type") if isinstance(schema, Mapping) else None
