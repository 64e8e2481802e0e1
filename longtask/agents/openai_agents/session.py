"""The SDK's memory of a conversation (`Session`), through the journal: a run that goes on is told again what it was
told, and what it has added is not added twice.

Items that were being added when the run was killed may be there or not: whoever adds them again looks first.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from agents.items import TResponseInputItem
from agents.memory import Session
from agents.memory.session_settings import SessionSettings

from longtask.agents.firm import Firm
from longtask.agents.journal import Answer
from longtask.agents.wire import Wire
from longtask.core.errors import BadPlan
from longtask.core.model import Json, JsonMap

WORDS = ("get_items", "add_items", "pop_item", "clear_session")


class JournaledSession:
    """A `Session`.  Raises BadPlan for what is none."""

    def __init__(self, inner: Session, seams: Firm, wire: Wire) -> None:
        missing = [word for word in WORDS if not hasattr(inner, word)]
        if missing:
            raise BadPlan(f"option 'session': a {type(inner).__name__} is no session: it has no {missing[0]}")
        self._inner = inner
        self._seams = seams
        self._wire = wire
        self.session_id: str = inner.session_id
        self.session_settings: SessionSettings | None = getattr(inner, "session_settings", None)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        items = self._call("get_items", {"limit": limit}, lambda: self._inner.get_items(limit))
        return list(items)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        if not items:
            return

        async def add() -> None:
            there = await self._inner.get_items(limit=len(items))
            if [dict(item) for item in there] != [dict(item) for item in items]:
                await self._inner.add_items(items)

        self._call("add_items", {"count": len(items)}, add)

    async def pop_item(self) -> TResponseInputItem | None:
        item: TResponseInputItem | None = self._call("pop_item", {}, self._inner.pop_item, repeatable=False)
        return item

    async def clear_session(self) -> None:
        self._call("clear_session", {}, self._inner.clear_session)

    def _call(
        self, word: str, args: JsonMap, call: Callable[[], Coroutine[Any, Any, Json]], *, repeatable: bool = True
    ) -> Any:
        def use() -> Answer:
            value = self._wire.do(call())
            return Answer({"text": self.session_id, "failed": False, "value": value})

        writes = word != "get_items"
        return self._seams.tool(f"session.{word}", args, use, repeatable=repeatable, writes=writes)["value"]
