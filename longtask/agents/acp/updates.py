"""What an agent shows of its work (`session/update`), as turns of the model and calls of tools.

The protocol has no word for a turn.  One is over when its calls have ended and something else comes, or when a message
with another id begins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from longtask.core.model import JsonMap

ENDED = ("completed", "failed")
ASIDE = frozenset({"cwd", "description", "diff"})  # in the input of a call, but not what is done
TEXT_CHARS_MAX = 20_000


@dataclass(slots=True)
class Call:
    """`name`: as it was called first, mostly the tool's own name.  `input`: what the model has given it."""

    id: str
    name: str
    kind: str = "other"
    input: dict[str, Any] = field(default_factory=dict)
    informed: bool = False  # `input` is all of it, as far as the agent tells
    paths: tuple[str, ...] = ()
    ended: bool = False
    failed: bool = False
    text: str = ""

    def ask(self, told: JsonMap) -> None:
        """What a permission is asked for says less, and in other words, than the call's own updates."""
        if not self.informed:
            self._learn(told)

    def learn(self, told: JsonMap) -> None:
        self._learn(told)
        self.informed = self.informed or bool(self.input.keys() - ASIDE)
        if told.get("status") in ENDED:
            self.ended, self.failed = True, told["status"] == "failed"
            self.text = _text(told.get("content")) or self.text

    def _learn(self, told: JsonMap) -> None:
        self.kind = str(told.get("kind") or self.kind)
        self.paths = tuple(str(place["path"]) for place in told.get("locations") or ()) or self.paths
        if isinstance(raw := told.get("rawInput"), dict) and raw:
            self.input = dict(raw)


@dataclass(slots=True)
class Turn:
    id: str = ""
    text: str = ""
    calls: list[Call] = field(default_factory=list)
    begun: bool = False  # its calls, as whoever keeps rows has written down
    number: int = 0  # of the run
    usage: JsonMap = field(default_factory=dict)  # its own, of agents that tell it beside what they say

    @property
    def done(self) -> bool:
        """It has made calls, and they have ended."""
        return bool(self.calls) and all(call.ended for call in self.calls)

    def __bool__(self) -> bool:
        return bool(self.text.strip() or self.calls)


@dataclass(frozen=True, slots=True)
class Over:
    turn: Turn


@dataclass(frozen=True, slots=True)
class Ended:
    call: Call
    turn: Turn


class Updates:
    """`turn`: the one under way, or the last."""

    def __init__(self) -> None:
        self.turn = Turn()
        self._calls: dict[str, tuple[Call, Turn]] = {}
        self.alive = False  # the newest was progress of the model or of a tool

    def feed(self, update: JsonMap) -> list[Over | Ended]:
        self.alive = True
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                id = str(update.get("messageId") or "")
                over = self._over_by(id)
                self.turn.id = self.turn.id or id
                self.turn.text += _text([update])
                self.turn.usage = (update.get("_meta") or {}).get("usage") or self.turn.usage
                return over
            case "agent_thought_chunk":
                return self.close() if self.turn.done else []
            case "tool_call":
                over = self.close() if self.turn.done and self._known(update) is None else []
                return [*over, *self._learn(update)]
            case "tool_call_update":
                return [*self._learn(update)]
        self.alive = False
        return []

    def call(self, told: JsonMap) -> tuple[Call, Turn]:
        """The call that a permission is asked for, with what that tells of it."""
        found = self._known(told)
        if found is None:
            if self.turn.done:
                self.turn = Turn()
            call = Call(str(told["toolCallId"]), str(told.get("title") or ""))
            self.turn.calls.append(call)
            found = self._calls[call.id] = call, self.turn
        found[0].ask(told)
        return found

    def close(self) -> list[Over | Ended]:
        """The turn under way, taken out as one that is over."""
        turn, self.turn = self.turn, Turn()
        return [Over(turn)] if turn else []

    def forget(self) -> None:
        """The model is asked again for the turn under way."""
        if not self.turn.begun:
            self.turn = Turn()

    def _over_by(self, id: str) -> list[Over | Ended]:
        other = id != self.turn.id if id and self.turn.id else self.turn.done
        return self.close() if other else []

    def _known(self, told: JsonMap) -> tuple[Call, Turn] | None:
        return self._calls.get(str(told.get("toolCallId")))

    def _learn(self, told: JsonMap) -> list[Over | Ended]:
        found = self._known(told)
        if found is None:
            call = Call(str(told["toolCallId"]), str(told.get("title") or ""))
            self.turn.calls.append(call)
            found = self._calls[call.id] = call, self.turn
        call, turn = found
        ended = call.ended
        call.learn(told)
        return [Ended(call, turn)] if call.ended and not ended else []


def _text(content: object) -> str:
    blocks = content if isinstance(content, list) else []
    inner = [block.get("content") for block in blocks if isinstance(block, dict)]
    text = "\n".join(str(block["text"]) for block in inner if isinstance(block, dict) and block.get("text"))
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}…"
