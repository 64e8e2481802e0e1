"""A person's decision about one call of a tool, in the words that the model is told."""

from __future__ import annotations

import json

from longtask.agents.firm import Firm
from longtask.agents.loop import ToolCall, title
from longtask.core.model import Json, JsonMap


def decided(seams: Firm, name: str, schema: JsonMap, args: JsonMap) -> tuple[JsonMap, str] | JsonMap:
    """(the arguments that it is called with, a note for the model), or the result when it is not called at all: it has
    failed if the call was refused.  `schema`: of its arguments."""
    asked = f"May the agent do this? {title(ToolCall(name, args)).strip()}"
    decision = seams.ask(name, {"args": args}, asked)
    by, words = who(decision), str(decision.get("text") or "").strip()
    match decision["decision"]:
        case "approve":
            return args, f"({by} allowed it{more(words)})" if words else ""
        case "edit":
            edited = _edited(schema, decision.get("edited"))
            if edited is None:
                return {"text": f"{by} changed this call into something that is no call of it", "failed": True}
            return edited, f"({by} changed this call to {text(edited)}{more(words)})"
        case "respond":
            return said(words)
    return {"text": f"{by} refused this call{more(words)}. Do not make it again in other words.", "failed": True}


def _edited(schema: JsonMap, edited: Json) -> JsonMap | None:
    """The arguments, alone or below `args`; a bare text is the only one that a call needs."""
    if isinstance(edited, dict):
        inner = edited.get("args")
        return dict(inner) if isinstance(inner, dict) and "args" not in schema.get("properties", {}) else dict(edited)
    required = schema.get("required", [])
    return {required[0]: edited} if isinstance(edited, str) and len(required) == 1 else None


def who(decision: JsonMap) -> str:
    return str(decision.get("by") or "a person")


def more(words: str) -> str:
    return f": {words}" if words else ""


def text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def said(text: str) -> JsonMap:
    return {"text": text, "failed": False}
