"""The repository's `.mcp.json`: which MCP servers there are, and how they are reached.

    {"mcpServers": {
        "tickets": {"command": "tickets-mcp", "args": ["--all"], "env": {"TOKEN": "${TOKEN}"}},
        "wiki": {"type": "http", "url": "https://…/mcp", "headers": {"Authorization": "Bearer ${WIKI}"}}
    }}

Whoever can write to the repository can write that file: a server runs only if the plan names it (`options.mcp`).
`${NAME}` and `${NAME:-else}` are of the step's environment; a key of a model is not in there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from longtask.core.model import JsonMap

FILE = ".mcp.json"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class NoServer(Exception):
    """Told to whoever has written the plan or the file."""


@dataclass(frozen=True, slots=True)
class Server:
    """One that is started by `command`, or one that is reached at `url`."""

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


def server_of(root: Path, name: str, env: Mapping[str, str]) -> Server:
    """Raises NoServer for one that is not there, and for a variable that is not in `env`."""
    entry = _entry(root, name)

    def filled(value: object) -> str:
        return _filled(str(value), env)

    if "command" in entry:
        command = (filled(entry["command"]), *map(filled, entry.get("args", ())))
        return Server(name, command, {key: filled(value) for key, value in entry.get("env", {}).items()})
    headers = {key: filled(value) for key, value in entry.get("headers", {}).items()}
    return Server(name, url=filled(entry["url"]), headers=headers)


def _entry(root: Path, name: str) -> JsonMap:
    try:
        entry = json.loads((root / FILE).read_bytes())["mcpServers"][name]
    except FileNotFoundError as error:
        raise NoServer(f"MCP server '{name}': there is no {FILE} at the top of the repository") from error
    except (ValueError, TypeError, KeyError) as error:
        raise NoServer(f"MCP server '{name}' is not in {FILE}, below `mcpServers`") from error
    if not isinstance(entry, dict) or not isinstance(entry.get("command", entry.get("url")), str):
        raise NoServer(f"MCP server '{name}' in {FILE}: has neither a `command` nor a `url`")
    return entry


def _filled(text: str, env: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        found = env.get(match[1], match[2])
        if found is None:
            raise NoServer(f"{FILE} names ${{{match[1]}}}: the step has no such variable; add it to `env` or `secrets`")
        return found

    return _VARIABLE.sub(value, text)
