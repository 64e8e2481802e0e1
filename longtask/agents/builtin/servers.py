"""MCP servers of the repository's `.mcp.json`, as tools `mcp.SERVER.TOOL`.

    {"mcpServers": {
        "tickets": {"command": "tickets-mcp", "args": ["--all"], "env": {"TOKEN": "${TOKEN}"}},
        "wiki": {"type": "http", "url": "https://…/mcp", "headers": {"Authorization": "Bearer ${WIKI}"}}
    }}

- Whoever can write to the repository can write that file: a server runs only if the plan names it (`options.mcp`).
- It gets PATH, HOME and the like, and what the file says.  `${NAME}` and `${NAME:-else}` are of the step's environment;
  a key of a model is not in there.
- Which tools it has is asked once in a run, and stands in the journal.  It is started when it is needed first.
- What its tools do is not known here: none is called a second time, and the worktree is saved after each.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from longtask.agents.builtin.firm import Firm
from longtask.agents.builtin.offer import Offer
from longtask.agents.builtin.wire import Wire
from longtask.agents.journal import Answer
from longtask.core.model import Failed, Json, JsonMap

FILE = ".mcp.json"
START_S = 60.0
CALL_S = 600.0
TEXT_CHARS_MAX = 64_000
TOOLS_MAX = 200  # of one server
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class NoServer(Exception):
    """Told to whoever has written the plan or the file."""


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

        entry = self._entry(server)
        if "command" in entry:
            env = {name: self._filled(str(value)) for name, value in entry.get("env", {}).items()}
            args = [self._filled(str(arg)) for arg in entry.get("args", ())]
            words = [*self._inside, self._filled(entry["command"]), *args]
            return StdioServerParameters(command=words[0], args=words[1:], env=env, cwd=self._root)
        headers = {name: self._filled(str(value)) for name, value in entry.get("headers", {}).items()}
        http = await stack.enter_async_context(AsyncClient(headers=headers, timeout=Timeout(30.0, read=CALL_S)))
        return streamable_http_client(self._filled(entry["url"]), http_client=http)

    def _entry(self, server: str) -> JsonMap:
        """Raises NoServer."""
        try:
            servers = json.loads((self._root / FILE).read_bytes())["mcpServers"]
            entry = servers[server]
        except FileNotFoundError as error:
            raise NoServer(f"MCP server '{server}': there is no {FILE} at the top of the repository") from error
        except (ValueError, TypeError, KeyError) as error:
            raise NoServer(f"MCP server '{server}' is not in {FILE}, below `mcpServers`") from error
        if not isinstance(entry, dict) or not isinstance(entry.get("command", entry.get("url")), str):
            raise NoServer(f"MCP server '{server}' in {FILE}: has neither a `command` nor a `url`")
        return entry

    def _filled(self, text: str) -> str:
        """Raises NoServer for a variable that is not there."""

        def value(match: re.Match[str]) -> str:
            found = self._env.get(match[1], match[2])
            if found is None:
                raise NoServer(
                    f"{FILE} names ${{{match[1]}}}: the step has no such variable; add it to `env` or `secrets`"
                )
            return found

        return _VARIABLE.sub(value, text)


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
