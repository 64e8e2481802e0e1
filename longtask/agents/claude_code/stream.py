"""What Claude Code writes in print mode, as turns, ends of tools and a result.

One turn of the model comes as events of the wire (`stream_event`, with `--include-partial-messages`) and, block by
block, as `assistant` lines, which alone hold the arguments of tools whole.  What a turn has cost in tokens is told by
its `message_delta`; the `assistant` lines repeat the beginning's.  Subagents' lines name the call that they belong to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from longtask.core.model import JsonMap

SYNTHETIC = "<synthetic>"  # the model of what the program says itself, such as an error of the API
RESULT_CHARS_MAX = 20_000


@dataclass(slots=True)
class Turn:
    """A turn of the model.  `counted`: its cost was told; `whole`: then it has ended as it should."""

    id: str
    model: str = ""
    texts: list[str] = field(default_factory=list)
    calls: list[JsonMap] = field(default_factory=list)  # {id, tool, args}
    tokens_in: int = 0
    tokens_out: int = 0
    counted: bool = False
    whole: bool = False

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


@dataclass(frozen=True, slots=True)
class ToolEnd:
    id: str
    text: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Said:
    """An error that the program tells in the model's place.  `error`: its own word, such as `rate_limit`."""

    text: str
    error: str


@dataclass(frozen=True, slots=True)
class Limit:
    """The account's usage limit.  `resets_at` in ms since 1970, 0 unknown; `rejected`: it is reached."""

    rejected: bool
    resets_at: int


@dataclass(frozen=True, slots=True)
class Result:
    """The last line, whole."""

    line: JsonMap


Event = Turn | ToolEnd | Said | Limit | Result


class Stream:
    def __init__(self) -> None:
        self._turns: dict[str, Turn] = {}  # under way, by the call that they belong to
        self.alive = False  # the newest line was progress, no sign of life

    def feed(self, line: JsonMap) -> list[Event]:
        """A Turn is told when the next thing shows that it is over, or its own end does."""
        owner = str(line.get("parent_tool_use_id") or "")
        self.alive = True
        match line.get("type"):
            case "stream_event":
                return self._wire(owner, line["event"])
            case "assistant":
                return self._blocks(owner, line)
            case "user":
                return [*self._over(owner), *_ends(line["message"].get("content"))]
            case "result":
                over = [event for owner in list(self._turns) for event in self._over(owner)]
                return [*over, Result(line)]
            case "rate_limit_event":
                told = line.get("rate_limit_info") or {}
                return [Limit(told.get("status") == "rejected", _instant(told.get("resetsAt")))]
            case "system" if line.get("subtype") == "init":
                return []
            case _:
                self.alive = False
                return []

    def _wire(self, owner: str, event: JsonMap) -> list[Event]:
        match event.get("type"):
            case "message_start":
                before = self._over(owner)
                message = event["message"]
                turn = self._turns[owner] = Turn(message["id"], str(message.get("model") or ""))
                _count(turn, message.get("usage"))
                return before
            case "message_delta" if owner in self._turns:
                _count(self._turns[owner], event.get("usage"))
                self._turns[owner].counted = True
            case "message_stop" if owner in self._turns:
                self._turns[owner].whole = self._turns[owner].counted
        return []

    def _blocks(self, owner: str, line: JsonMap) -> list[Event]:
        message = line["message"]
        blocks = [block for block in message.get("content") or [] if isinstance(block, dict)]
        if message.get("model") == SYNTHETIC:
            text = "\n".join(str(block.get("text", "")) for block in blocks)
            return [*self._over(owner), *([Said(text, str(line["error"]))] if line.get("error") else [])]
        over: list[Event] = []
        turn = self._turns.get(owner)
        if turn is None or turn.id != message["id"]:
            over = self._over(owner)
            # not streamed: the program has fallen back to asking for the answer in one piece
            turn = self._turns[owner] = Turn(message["id"], str(message.get("model") or ""), whole=True)
            _count(turn, message.get("usage"))
        for block in blocks:
            if block.get("type") == "text" and block.get("text"):
                turn.texts.append(str(block["text"]))
            elif block.get("type") == "tool_use":
                turn.calls.append({"id": block["id"], "tool": block["name"], "args": block["input"]})
        return over

    def under_way(self, call: str, *, late: bool = False) -> Turn | None:
        """The turn that has made this call, taken out: it is told now.  Before its end has come, with what it has cost,
        it is not, unless it is `late`."""
        for owner, turn in self._turns.items():
            if any(made["id"] == call for made in turn.calls) and (turn.whole or late):
                return self._turns.pop(owner)
        return None

    def _over(self, owner: str) -> list[Event]:
        """A turn that was cut off is none: it is not in the session either, and will be made again."""
        turn = self._turns.pop(owner, None)
        return [turn] if turn is not None and turn.whole else []


def _ends(content: object) -> list[Event]:
    blocks = content if isinstance(content, list) else []
    return [
        ToolEnd(block["tool_use_id"], _text(block.get("content")), bool(block.get("is_error")))
        for block in blocks
        if isinstance(block, dict) and block.get("type") == "tool_result"
    ]


def _text(content: object) -> str:
    if isinstance(content, list):
        content = "\n".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    text = str(content or "")
    left = len(text) - RESULT_CHARS_MAX
    return text if left <= 0 else f"{text[:RESULT_CHARS_MAX]}\n… ({left} characters left out)"


def _count(turn: Turn, usage: JsonMap | None) -> None:
    """Cumulative within the turn."""
    usage = usage or {}
    read = sum(
        int(usage.get(name) or 0) for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    )
    turn.tokens_in = max(turn.tokens_in, read)
    turn.tokens_out = max(turn.tokens_out, int(usage.get("output_tokens") or 0))


def _instant(seconds: object) -> int:
    return int(seconds * 1000) if isinstance(seconds, int | float) and not isinstance(seconds, bool) else 0
