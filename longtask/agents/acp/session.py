"""The agent's program and its session: begun, or gone on with in a program that is started anew."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import longtask
from longtask.agents.contract import Brief
from longtask.agents.native.program import Launch
from longtask.agents.native.rpc import CallFailed, Peer
from longtask.agents.native.shown import Shown
from longtask.core.errors import BadPlan
from longtask.core.model import JsonMap

from .agents import Agent, Own
from .servers import offered

VERSION = 1  # of the protocol
START_S = 180.0  # of a program that takes seconds on an idle machine
LOAD = "session/load"  # an agent that has the session tells all of it again; one may load what it does not have
TALK = frozenset({"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update"})
NOTHING: JsonMap = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}


class Session:
    """`id`: "" before it was begun.  `model`: as the agent names it; "" it does not say."""

    def __init__(self, name: str, agent: Agent, own: Own, brief: Brief, cwd: Path, program: Path, shown: Shown) -> None:
        self.id = ""
        self.model = brief.model or ""
        self._name = name
        self._agent = agent
        self._own = own
        self._brief = brief
        self._cwd = cwd
        self._program = program
        self._shown = shown
        self._running = contextlib.ExitStack()
        self._peer: Peer | None = None
        self._abilities: JsonMap = {}

    @property
    def peer(self) -> Peer:
        assert self._peer is not None
        return self._peer

    def begin(self) -> None:
        """Raises CallFailed, ProgramError, BadPlan."""
        self._launch()
        opened = self.peer.call("session/new", **self._place())
        self.id = str(opened["sessionId"])
        self._settle(opened)

    def go_on(self) -> bool:
        """False: the agent cannot, or has it no more.  Raises as `begin`."""
        self._launch()
        for method in self._ways_back():
            try:
                opened = self.peer.call(method, sessionId=self.id, **self._place())
            except CallFailed as refused:  # some say that they resume, and know no such method
                self._shown.note(str(refused))
                continue
            told = any((params.get("update") or {}).get("sessionUpdate") in TALK for _, params in self.peer.notices)
            self.peer.notices.clear()  # what was said before
            if method == LOAD and not told:
                self._shown.note(f"{method} has brought nothing back")
                continue
            self._settle(opened)
            return True
        return False

    def _ways_back(self) -> list[str]:
        """Those that the agent says it knows, the cheaper one first."""
        resumes = "resume" in (self._abilities.get("sessionCapabilities") or {})
        return ["session/resume"] * resumes + [LOAD] * bool(self._abilities.get("loadSession"))

    def end(self) -> None:
        """Of its program, with all that it has started."""
        self._running.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def _launch(self) -> None:
        self.end()
        env = self._own.environment()
        command = [*self._brief.inside, str(self._program), *self._agent.words]
        launch = self._running.enter_context(Launch(command, cwd=self._cwd, env=env, feed=None))
        self._peer = Peer(launch, stamp={"jsonrpc": "2.0"}, answer_s=START_S)
        client = {"name": "longtask", "title": "LongTask", "version": longtask.__version__}
        told = self._peer.call("initialize", protocolVersion=VERSION, clientInfo=client, clientCapabilities=NOTHING)
        if told.get("protocolVersion") != VERSION:
            raise BadPlan(f"{self._name}: it speaks version {told.get('protocolVersion')} of ACP, wanted is {VERSION}")
        self._abilities = told.get("agentCapabilities") or {}
        info = told.get("agentInfo") or {}
        self._shown.note(f"{info.get('title') or info.get('name') or self._name} {info.get('version') or ''}".rstrip())

    def _place(self) -> dict[str, Any]:
        servers = offered(self._brief.options.get("mcp", ()), self._cwd, self._abilities.get("mcpCapabilities") or {})
        return {"cwd": str(self._cwd), "mcpServers": servers}

    def _settle(self, opened: JsonMap) -> None:
        """The model, and that the session is there."""
        self._own.opened()
        wanted = self._brief.model
        option = next((o for o in opened.get("configOptions") or () if o.get("category") == "model"), None)
        models = opened.get("models") or {}
        current = str((option or {}).get("currentValue") or models.get("currentModelId") or "")
        self.model = wanted or current
        if wanted is None or self._own.chooses_model or current == wanted:
            return
        if option is not None:
            self.peer.call("session/set_config_option", sessionId=self.id, configId=option["id"], value=wanted)
        elif models:
            self.peer.call("session/set_model", sessionId=self.id, modelId=wanted)
        else:
            raise BadPlan(f"{self._name}: it does not let its model be chosen; leave `model` out")
