"""MCP servers of the repository's `.mcp.json` (`mcp_file.py`), as tools `mcp.SERVER.TOOL`.

- It gets PATH, HOME and the like, and what the file says.
- Which tools it has is asked once in a run, and stands in the journal.  It is started when it is needed first.
- What its tools do is not known here: none is called a second time, and the worktree is saved after each.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from longtask.agents.builtin.offer import Offer
from longtask.agents.firm import Firm
from longtask.agents.journal import Answer
from longtask.agents.mcp_file import NoServer, server_of
from longtask.agents.wire import Wire
from longtask.core.model import Failed, Json, JsonMap

START_S = 60.0
CALL_S = 600.0
TEXT_CHARS_MAX = 64_000
TOOLS_MAX = 200  # of one server


class Servers:
    def __init__(
        self, root: Path, env: Mapping[str, str], names: Sequence[str], wire: Wire, inside: Sequence[str] = ()
    ) -> None:
        """`inside`: words before a server's command that put it into the step's sandbox."""
        self._inside = inside
        self._root = root
        self._env = env
        self._names = names
        self._wire = wire
        self._open: dict[str, Any] = {}  # name -> the client of a server that runs
        self._tasks: list[asyncio.Task[None]] = []

    def offers(self, seams: Firm) -> list[Offer]:
        """Of all servers that the plan names, in its order."""
        offers: list[Offer] = []
        for server in self._names:
            listed = partial(self._listed, server, seams)
            row = seams.tool(f"mcp.{server}", {}, listed, repeatable=True, writes=False)
            offers += [
                Offer(
                    name=f"mcp.{server}.{tool['name']}",
                    about=tool["about"],
                    schema=tool["schema"],
                    use=partial(self._use, server, tool["name"]),
                    family=f"mcp.{server}.{tool['name']}",
                    writes=True,
                    repeatable=False,
                )
                for tool in row["tools"]
            ]
        return offers

    def _listed(self, server: str, seams: Firm) -> Answer:
        try:
            tools = self._wire.do(self._tools(server))
        except NoServer as error:
            raise seams.end(Failed(str(error), retryable=False)) from error
        except Exception as error:
            raise seams.end(Failed(f"MCP server '{server}' does not start: {_why(error)}")) from error
        return Answer({"text": f"{len(tools)} tools", "failed": False, "tools": tools})

    def _use(self, server: str, tool: str, args: JsonMap) -> JsonMap:
        try:
            return self._wire.do(self._called(server, tool, args))
        except Exception as error:  # noqa: BLE001  anybody's server may fail in any way; the model is told
            return {"text": f"MCP server '{server}': {_why(error)}", "failed": True}

    # on the wire

    async def _tools(self, server: str) -> list[Json]:
        client = await self._client(server)
        tools: list[Json] = []
        cursor = None
        while len(tools) < TOOLS_MAX:
            page = await client.list_tools(cursor=cursor)
            tools += [
                {"name": tool.name, "about": tool.description or "", "schema": dict(tool.input_schema)}
                for tool in page.tools
            ]
            cursor = page.next_cursor
            if cursor is None:
                break
        return tools

    async def _called(self, server: str, tool: str, args: JsonMap) -> JsonMap:
        client = await self._client(server)
        result = await client.call_tool(tool, dict(args), read_timeout_seconds=CALL_S)
        text = "\n".join(_text(block) for block in result.content)
        if not text and result.structured_content is not None:
            text = json.dumps(result.structured_content, ensure_ascii=False)
        cut = text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}\n… ({len(text)} characters, cut here)"
        return {"text": cut or "(nothing)", "failed": bool(result.is_error)}

    async def _client(self, server: str) -> Any:
        """A connection is entered and left by one task of its own, which is how its library wants it."""
        if server not in self._open:
            ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._tasks.append(asyncio.create_task(self._serve(server, ready)))
            self._open[server] = await asyncio.wait_for(ready, START_S)
        return self._open[server]

    async def _serve(self, server: str, ready: asyncio.Future[Any]) -> None:
        from mcp import Client

        try:
            async with AsyncExitStack() as stack:
                ready.set_result(await stack.enter_async_context(Client(await self._way_to(server, stack))))
                await asyncio.Event().wait()
        except Exception as error:  # noqa: BLE001  whoever waits for it is told
            if not ready.done():
                ready.set_exception(error)
        finally:
            self._open.pop(server, None)

    async def _way_to(self, server: str, stack: AsyncExitStack) -> Any:
        from httpx2 import AsyncClient, Timeout
        from mcp import StdioServerParameters
        from mcp.client.streamable_http import streamable_http_client

        found = server_of(self._root, server, self._env)
        if found.command:
            words = [*self._inside, *found.command]
            return StdioServerParameters(command=words[0], args=words[1:], env=dict(found.env), cwd=self._root)
        http = AsyncClient(headers=dict(found.headers), timeout=Timeout(30.0, read=CALL_S))
        return streamable_http_client(found.url, http_client=await stack.enter_async_context(http))


def _text(block: Any) -> str:
    if block.type == "text":
        return str(block.text)
    resource = getattr(block, "resource", None)
    text = getattr(resource, "text", None)
    return str(text) if text is not None else f"({block.type}: left out)"


def _why(error: BaseException) -> str:
    """The first cause in a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "it does not answer"
    return str(error) or type(error).__name__
