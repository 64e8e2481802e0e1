"""What the run journal is told of a graph: each end of a node, each turn of a model and each call of a tool.

Nodes may run side by side, in threads of their own; their rows come one after another.  A worker that wants no more is
heeded at the end of the nodes that are at work (`request_drain`); where the money is spent, no further model is asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langgraph.runtime import RunControl

from longtask.agents.journal import TOOL, TURN, Answer, Halted, Seams
from longtask.agents.loop import ToolCall, cut, title
from longtask.agents.prices import micros
from longtask.core.decide import STOP_LIMIT
from longtask.core.model import JsonMap

SPENT = frozenset({STOP_LIMIT, "budget"})  # reasons of a stop after which nothing may be spent


class Stop(Exception):
    """No further model is asked.  A node may swallow it; the run remembers."""


class Rows:
    """Those of the run so far stand in `seen`.  `halted`: the worker wants no more."""

    def __init__(self, seams: Seams, control: RunControl) -> None:
        self._seams = seams
        self._control = control
        self._turn = threading.RLock()
        self.seen: list[JsonMap] = seams.pass_over()
        self.halted: Halted | None = None

    def tell(self, kind: str, name: str, answer: Answer, *, writes: bool = False, session: Sequence[str] = ()) -> None:
        with self._turn:
            self.seen.append({**answer.body, "kind": kind, "name": name})
            try:
                self._seams.saw(kind, name, answer, writes=writes, session=session)
            except Halted as halted:
                self._seams.position += 1  # what is over is written down all the same
                self.halted = self.halted or halted
                self._control.request_drain(str(halted))

    def ask(self, name: str, request: JsonMap, text: str) -> JsonMap:
        """Raises Asks."""
        decision = self._seams.ask(name, request, text)
        self.seen.append({**decision, "kind": "asked", "name": name})
        return decision


class Watch(BaseCallbackHandler):
    """Hears LangChain's models and tools.  `names`: of nodes, by the ids of their tasks."""

    raise_error = True
    run_inline = True

    def __init__(self, rows: Rows, requests_max: int, show: Callable[[str], None]) -> None:
        self._rows = rows
        self._requests_max = requests_max
        self._show = show
        self._asked = sum(row["kind"] == TURN for row in rows.seen)
        self._tools: dict[UUID, tuple[str, JsonMap]] = {}
        self._models: dict[UUID, str] = {}
        self.names: dict[str, str] = {}
        self.over = ""  # why no further model is asked

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, metadata: dict[str, Any] | None = None, **more: Any
    ) -> None:
        told = metadata or {}
        node, namespace = told.get("langgraph_node"), str(told.get("langgraph_checkpoint_ns") or "")
        if node and ":" in namespace:
            self.names[namespace.rpartition(":")[2]] = str(node)

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: UUID, **more: Any) -> None:
        self._begin(run_id, more)

    def on_llm_start(self, serialized: Any, prompts: Any, *, run_id: UUID, **more: Any) -> None:
        self._begin(run_id, more)

    def _begin(self, run_id: UUID, more: dict[str, Any]) -> None:
        if self._rows.halted is not None and str(self._rows.halted) in SPENT:
            raise Stop(str(self._rows.halted))
        if self._asked == self._requests_max:
            self.over = f"request budget: {self._requests_max} model calls were made and the run has not ended"
            raise Stop(self.over)
        self._asked += 1
        self._models[run_id] = str((more.get("metadata") or {}).get("ls_model_name") or "model")

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **more: Any) -> None:
        chosen = response.generations[0][0]
        message = chosen.message if isinstance(chosen, ChatGeneration) else None
        model = self._models.pop(run_id, "model")
        text = str(chosen.text)
        if text:
            self._show(f"» {text}\n")
        self._rows.tell(TURN, model, _turn(model, text, message))

    def on_tool_start(
        self, serialized: Any, input_str: str, *, run_id: UUID, inputs: dict[str, Any] | None = None, **more: Any
    ) -> None:
        name = str(more.get("name") or (serialized or {}).get("name") or "tool")
        args = {key: value for key, value in (inputs or {}).items() if isinstance(value, str | int | float | bool)}
        self._tools[run_id] = name, args
        self._show(title(ToolCall(name, args)))

    def on_tool_end(self, output: Any, *, run_id: UUID, **more: Any) -> None:
        self._tool(run_id, str(getattr(output, "content", output)), failed=getattr(output, "status", "") == "error")

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        self._tool(run_id, f"{type(error).__name__}: {error}", failed=True)

    def _tool(self, run_id: UUID, text: str, *, failed: bool) -> None:
        name, args = self._tools.pop(run_id, ("tool", {}))
        self._rows.tell(TOOL, name, Answer({"text": cut(text), "failed": failed, "args": args}))


def _turn(model: str, text: str, message: BaseMessage | None) -> Answer:
    usage: Any = message.usage_metadata if isinstance(message, AIMessage) else None
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    body: JsonMap = {"text": text, "calls": [{"tool": call["name"], "args": dict(call["args"])} for call in calls]}
    if not usage:
        return Answer(body, micros=None)
    details = usage.get("input_token_details") or {}
    read, written = int(details.get("cache_read") or 0), int(details.get("cache_creation") or 0)
    parts = {"cache_read": read, "cache_write": written}
    tokens_in, tokens_out = int(usage["input_tokens"]), int(usage["output_tokens"])
    price = micros(model, tokens_in, tokens_out, read, written)
    return Answer({**body, "usage": {n: c for n, c in parts.items() if c}}, tokens_in, tokens_out, price)
