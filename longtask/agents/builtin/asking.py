"""What is put to others: questions to people, in the words that the model is told, and work that is given out."""

from __future__ import annotations

from longtask.agents.builtin.offer import Offer
from longtask.agents.decisions import more, said, text, who
from longtask.agents.firm import Firm
from longtask.agents.spawning import ABOUT, SPAWN, schema
from longtask.agents.tools import Param, Tool
from longtask.core.model import JsonMap

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
    by, words = who(decision), str(decision.get("text") or "").strip()
    match decision["decision"]:
        case "approve":
            return said(f"{by}: yes{more(words)}")
        case "reject":
            return said(f"{by}: no{more(words)}")
        case "edit":
            return said(f"{by}: {text(decision.get('edited'))}{more(words)}")
    return said(f"{by}: {words}")


def spawn_offer(most: int) -> Offer:
    return Offer(SPAWN, ABOUT, schema(most), lambda args: {"text": "", "failed": True}, SPAWN, free=True)
