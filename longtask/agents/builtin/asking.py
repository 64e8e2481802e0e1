"""People's decisions about calls of tools, and questions to people, in the words that the model is told."""

from __future__ import annotations

import json

from longtask.agents.builtin.firm import Firm
from longtask.agents.builtin.offer import Offer
from longtask.agents.loop import ToolCall, title
from longtask.agents.tools import Param, Tool
from longtask.core.model import Json, JsonMap

ASK_PERSON = Tool(
    "ask_person",
    "Ask a person and wait for the answer. For what is not yours to decide: what is wanted, lost or spent.",
    {"question": Param(str, "the question, with all that is needed to answer it")},
    lambda box, args: {"text": "", "failed": True},  # answered by a person, never used
)


def question_to_person(seams: Firm, args: JsonMap) -> JsonMap:
    question = args.get("question")
    if not isinstance(question, str) or not question.strip():
        return {"text": "ask_person: 'question' is missing (the question)", "failed": True}
    decision = seams.ask(ASK_PERSON.name, {"args": args}, question)
    who, words = _who(decision), str(decision.get("text") or "").strip()
    match decision["decision"]:
        case "approve":
            return _said(f"{who}: yes{_more(words)}")
        case "reject":
            return _said(f"{who}: no{_more(words)}")
        case "edit":
            return _said(f"{who}: {_text(decision.get('edited'))}{_more(words)}")
    return _said(f"{who}: {words}")


def decided(seams: Firm, offer: Offer, args: JsonMap) -> tuple[JsonMap, str] | JsonMap:
    """(the arguments that it is called with, a note for the model), or the result when it is not called at all."""
    asked = f"May the agent do this? {title(ToolCall(offer.name, args)).strip()}"
    decision = seams.ask(offer.name, {"args": args}, asked)
    who, words = _who(decision), str(decision.get("text") or "").strip()
    match decision["decision"]:
        case "approve":
            return args, f"({who} allowed it{_more(words)})" if words else ""
        case "edit":
            edited = _edited(offer, decision.get("edited"))
            if edited is None:
                return {"text": f"{who} changed this call into something that is no call of it", "failed": True}
            return edited, f"({who} changed this call to {_text(edited)}{_more(words)})"
        case "respond":
            return _said(words)
    return {"text": f"{who} refused this call{_more(words)}. Do not make it again in other words.", "failed": True}


def _edited(offer: Offer, edited: Json) -> JsonMap | None:
    """The arguments, alone or below `args`; a bare text is the only one that a call needs."""
    if isinstance(edited, dict):
        inner = edited.get("args")
        return dict(inner) if isinstance(inner, dict) and "args" not in offer.schema["properties"] else dict(edited)
    required = offer.schema.get("required", [])
    return {required[0]: edited} if isinstance(edited, str) and len(required) == 1 else None


def _who(decision: JsonMap) -> str:
    return str(decision.get("by") or "a person")


def _more(words: str) -> str:
    return f": {words}" if words else ""


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _said(text: str) -> JsonMap:
    return {"text": text, "failed": False}
