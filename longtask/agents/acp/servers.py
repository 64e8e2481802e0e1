"""MCP servers that the plan names, as the protocol hands them to an agent, which starts them itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from longtask.agents.catalog import KEYS
from longtask.agents.mcp_file import NoServer, Server, server_of
from longtask.core.errors import BadPlan
from longtask.core.model import Json, JsonMap


def offered(names: Sequence[str], root: Path, abilities: JsonMap) -> list[Json]:
    """`abilities`: what the agent can reach.  Raises BadPlan."""
    env = {name: value for name, value in os.environ.items() if name not in KEYS}
    try:
        servers = [server_of(root, name, env) for name in names]
    except NoServer as error:
        raise BadPlan(str(error)) from error
    far = next((server for server in servers if server.url and not abilities.get("http")), None)
    if far is not None:
        raise BadPlan(f"MCP server '{far.name}' is reached by HTTP, which this agent cannot")
    return [_told(server) for server in servers]


def _told(server: Server) -> Json:
    if server.url:
        return {"type": "http", "name": server.name, "url": server.url, "headers": _pairs(server.headers)}
    command, *args = server.command
    return {"name": server.name, "command": command, "args": args, "env": _pairs(server.env)}


def _pairs(values: JsonMap) -> list[Json]:
    return [{"name": name, "value": value} for name, value in values.items()]
