"""MCP servers of an agent, as function tools: so their calls go through the rules and the journal like all others.

A server is connected when its agent is given the seams, and lives as long as the run, on the wire.  What it offers is
asked for in each attempt: the list decides nothing that was done.
"""

from __future__ import annotations

import asyncio
from typing import Any

from agents import Agent, FunctionTool
from agents.mcp import MCPServer, MCPUtil
from agents.run_context import RunContextWrapper

from longtask.agents.wire import Wire
from longtask.core.errors import BadPlan, LongTaskError

START_S = 60.0


class NoServer(LongTaskError):
    """It does not start, or does not answer."""


def tools_of(agent: Agent[Any], context: Any, wire: Wire) -> list[tuple[str, FunctionTool]]:
    """(`mcp.SERVER.TOOL`, the tool) of each server of the agent.  Raises BadPlan, NoServer."""
    found = []
    for server in agent.mcp_servers:
        if getattr(server, "session", None) is not None:
            raise BadPlan(
                f"MCP server '{server.name}' of agent '{agent.name}' is connected already: leave that to the run"
            )
        try:
            tools = wire.do(_started(server, agent, context))
        except Exception as error:
            raise NoServer(
                f"MCP server '{server.name}' of agent '{agent.name}' does not start: {_why(error)}"
            ) from error
        found += [(f"mcp.{server.name}.{tool.name}", tool) for tool in tools if isinstance(tool, FunctionTool)]
    return found


async def _started(server: MCPServer, agent: Agent[Any], context: Any) -> list[Any]:
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    _LIVING.add(asyncio.create_task(_live(server, ready)))
    await asyncio.wait_for(ready, START_S)
    strict = bool(agent.mcp_config.get("convert_schemas_to_strict", False))
    return await MCPUtil.get_function_tools(server, strict, RunContextWrapper(context=context), agent)


_LIVING: set[asyncio.Task[None]] = set()  # a loop holds its tasks loosely


async def _live(server: MCPServer, ready: asyncio.Future[None]) -> None:
    """A connection is entered and left by one task, which is how its library wants it."""
    try:
        await server.connect()  # type: ignore[no-untyped-call]
        ready.set_result(None)
        await asyncio.Event().wait()
    except Exception as error:  # noqa: BLE001  whoever waits for it is told
        if not ready.done():
            ready.set_exception(error)
    finally:
        await server.cleanup()  # type: ignore[no-untyped-call]


def _why(error: BaseException) -> str:
    """The first cause in a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "it does not answer"
    return str(error) or type(error).__name__
