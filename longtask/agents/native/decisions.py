"""Calls that a person is asked about, of agents that keep their own session.

A call that is asked about ends the program.  The row that keeps the session names it (`DEFERRED`), the next row is the
question; so a run that goes on knows from its rows alone what waits, and what was decided about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from longtask.agents.journal import ASKED, TOOL, OutcomeUnknown, Seams
from longtask.agents.tools import subject
from longtask.core.model import Json, JsonMap

DEFERRED = "deferred"  # in the body of a row: {id, tool, args}
TEXT_CHARS_MAX = 300


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about one call.  `args`: the call's own, or as the person has changed them."""

    id: str
    tool: str
    args: JsonMap
    allowed: bool
    text: str  # for the model, when it is not allowed
    remark: str  # for the model, when it is
    edited: bool


def pending(rows: Sequence[JsonMap]) -> JsonMap | None:
    """The call that the newest part of the run waits for: asked about, and not yet ended."""
    for row in reversed(rows):
        if row.get(DEFERRED):
            call: JsonMap = row[DEFERRED]
            return call
        if row["kind"] != ASKED:
            return None
    return None


def decide(seams: Seams, rows: Sequence[JsonMap], call: JsonMap, *, repeatable: bool) -> Decision:
    """Raises Asks while nobody has decided, OutcomeUnknown when an earlier attempt was cut off after it was allowed."""
    answers = [row for row in rows if row["kind"] == ASKED]
    if rows and rows[-1]["kind"] == ASKED:
        decision = _decision(call, answers[-1])
        if decision.allowed and not repeatable:
            raise OutcomeUnknown(
                f"outcome unknown: {TOOL} '{call['tool']}' was approved and begun, and its end is not known; it is not "
                f"repeatable: look at what it has done, then answer"
            )
        return decision
    return _decision(call, seams.ask(call["tool"], dict(call["args"]), question(call)))


def question(call: JsonMap) -> str:
    about = " ".join(str(call.get("about") or subject(call["tool"], call["args"])).split())
    cut = about if len(about) <= TEXT_CHARS_MAX else f"{about[:TEXT_CHARS_MAX]}…"
    return f"the agent would use {call['tool']}: {cut}" if cut else f"the agent would use {call['tool']}"


def _decision(call: JsonMap, answer: JsonMap) -> Decision:
    word, text, by = str(answer["decision"]), str(answer.get("text") or "").strip(), str(answer.get("by") or "a person")
    args: JsonMap = call["args"]
    edited = False
    if word == "edit":
        args, edited = _edited(args, answer.get("edited"))
    allowed = word == "approve" or edited
    verb = {"respond": "answers"}.get(word, "has refused this call")
    said = f"{by} {verb}" + (f": {text}" if text else "")
    remark = f"{by} has allowed this call" + (f" and says: {text}" if text else "")
    return Decision(call["id"], call["tool"], args, allowed, said, remark if text or edited else "", edited)


def _edited(args: JsonMap, edited: Json) -> tuple[JsonMap, bool]:
    if isinstance(edited, dict):
        return {**args, **edited}, True
    if isinstance(edited, str) and "command" in args:
        return {**args, "command": edited}, True
    return dict(args), False
