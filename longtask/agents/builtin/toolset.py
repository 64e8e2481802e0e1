"""The tool seam: every call of a tool goes through the plan's rules and then through the journal.

What the model is told of a call is what stands in its row, so that it is told the same in a replay.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from longtask.agents.builtin.asking import ASK_PERSON, question_to_person
from longtask.agents.builtin.memory import MEMORY, folders_to, memory_of
from longtask.agents.builtin.offer import Offer, offered, verdict
from longtask.agents.decisions import decided
from longtask.agents.firm import Firm
from longtask.agents.journal import Answer
from longtask.agents.loop import ToolCall, cut, title
from longtask.agents.policy import Policy, Verdict
from longtask.agents.spawning import SPAWN, spawn
from longtask.core.model import JsonMap

MALFORMED_MAX = 5  # calls of one tool in a row whose arguments are no JSON object, or that name no tool
AN_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))


class JournaledToolset(AbstractToolset[None]):
    """`show` hears what people see of it, `progress` how many calls have been made, and the last one's name.
    `spawned_max`: tasks that may be given out at once."""

    def __init__(
        self,
        offers: Iterable[Offer],
        policy: Policy,
        root: Path,
        seams: Firm,
        show: Callable[[str], None],
        progress: Callable[[int, str], None],
        spawned_max: int = 0,
    ) -> None:
        self._spawned_max = spawned_max
        self._offers = {offer.called: offer for offer in offers if offered(policy, offer)}
        self._policy = policy
        self._root = root
        self._seams = seams
        self._show = show
        self._progress = progress
        self._calls = 0
        self._remembered: set[str] = set()  # folders whose memory has been told

    @property
    def id(self) -> str:
        return "longtask"

    async def get_tools(self, ctx: RunContext[None]) -> dict[str, ToolsetTool[None]]:
        return {
            called: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=called, description=offer.about, parameters_json_schema=dict(offer.schema), sequential=True
                ),
                max_retries=MALFORMED_MAX,
                args_validator=AN_OBJECT,
            )
            for called, offer in self._offers.items()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[None], tool: ToolsetTool[None]
    ) -> str:
        result = self._call(self._offers[name], tool_args)
        self._calls += 1
        self._progress(self._calls, self._offers[name].name)
        if result["failed"]:
            raise ToolFailed(result["text"])
        text: str = result["text"]
        return text

    def _call(self, offer: Offer, args: JsonMap) -> JsonMap:
        if offer.name == ASK_PERSON.name:
            return question_to_person(self._seams, args)
        note = ""
        match verdict(self._policy, offer, args, self._root):
            case Verdict.DENY:
                return self._denied(offer, args)
            case Verdict.ASK:
                decision = decided(self._seams, offer.name, offer.schema, args)
                if not isinstance(decision, tuple):
                    return decision
                args, note = decision
        if offer.name == SPAWN:
            result = spawn(self._seams, self._spawned_max, args)
        else:
            result = self._seams.tool(
                offer.name, args, lambda: self._use(offer, args), repeatable=offer.repeatable, writes=offer.writes
            )
        self._remembered |= set(result.get("memory", ()))
        return {**result, "text": f"{note}\n{result['text']}"} if note else result

    def _use(self, offer: Offer, args: JsonMap) -> Answer:
        self._show(title(ToolCall(offer.name, args)))
        result = offer.use(args)
        if result["failed"]:
            last = result["text"].rpartition("\n")[2] if "exit_code" in result else result["text"]
            self._show(f"{cut(last)}\n")
        return Answer(self._with_memory(result, args.get("path")))

    def _denied(self, offer: Offer, args: JsonMap) -> JsonMap:
        def deny() -> Answer:
            self._show(f"denied: {title(ToolCall(offer.name, args))}")
            return Answer({"text": "the plan does not allow this call: take another way, or leave it", "failed": True})

        return self._seams.tool(offer.name, args, deny, repeatable=True, writes=False)

    def _with_memory(self, result: JsonMap, path: Any) -> JsonMap:
        """With what the folders on the way to `path` have to say, told once in a run."""
        if not isinstance(path, str) or "\0" in path:
            return result
        told, texts = [], [result["text"]]
        for folder in folders_to(os.path.relpath(os.path.realpath(self._root / path), self._root)):
            text = memory_of(self._root, folder) if folder not in self._remembered else None
            if text is not None:
                told.append(folder)
                texts.append(f"\n{folder}/{MEMORY} says, for everything below {folder}:\n{text.strip()}")
        return {**result, "text": "\n".join(texts), "memory": told} if told else result
