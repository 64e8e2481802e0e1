"""What a graph interrupts itself for (`interrupt`), as a question to a person; and the decision as what it returns.

    approve     true                         reject     false
    respond     the person's words           edit       what the person has written, as JSON

With `options: {resume: decision}` it is the whole decision: {decision, by, text, edited}.  An interrupt of LangChain's
`HumanInTheLoopMiddleware` gets one decision for each of its requests.  Where the graph names a form of the answer
(`response_schema`), words that are JSON are taken as such, and an answer that does not fit is asked for again.

A decision belongs to the newest question of its interrupt: a node that asks twice has one id for both.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langgraph.types import Interrupt, StateSnapshot
from pydantic import TypeAdapter

from longtask.agents.journal import ASKED
from longtask.agents.langgraph.rows import Rows
from longtask.agents.langgraph.saver import INTERRUPTS
from longtask.core.model import Json, JsonMap

TEXT_CHARS_MAX = 500
WORDS = ("question", "text", "message", "description", "ask")  # of a map: what the person is asked
ANY: TypeAdapter[Any] = TypeAdapter(Any)
MISFIT = "interrupt.misfit"


def answers(rows: Rows, snapshot: StateSnapshot, *, whole: bool) -> dict[str, Any]:
    """Of all that the graph waits for, by its ids.  Raises Asks as long as one of them is not decided."""
    return {
        one.id: resumed(one, _decision(rows, task.name, one), whole=whole)
        for task in snapshot.tasks
        for one in task.interrupts
    }


def _decision(rows: Rows, node: str, one: Interrupt[Any]) -> JsonMap:
    name = f"{node}.{one.id}"
    before = since(rows.seen, one.id)
    found = [row for row in before if row["kind"] == ASKED and row["name"] == name]
    if found:
        return found[-1]
    misfit = next((str(row["text"]) for row in reversed(rows.seen) if one.id in row.get(INTERRUPTS, ())), "")
    value = ANY.dump_python(one.value, mode="json", fallback=str)
    request: dict[str, Json] = {"args": value if isinstance(value, dict) else {"value": value}}
    if one.response_schema is not None:
        request["answer"] = one.response_schema if isinstance(one.response_schema, dict) else {}
    text = question(value)
    return rows.ask(name, request, f"{text} ({misfit})" if misfit.startswith("the answer") else text)


def since(rows: Sequence[JsonMap], interrupt: str) -> Sequence[JsonMap]:
    """What has come after the newest time that the graph has asked this."""
    newest = max((n for n, row in enumerate(rows) if interrupt in row.get(INTERRUPTS, ())), default=-1)
    return rows[newest + 1 :]


def question(value: Json) -> str:
    if isinstance(value, dict):
        actions = value.get("action_requests")
        if isinstance(actions, list):
            value = "May the agent do this? " + "; ".join(
                f"{one.get('name')} {json.dumps(one.get('args'), ensure_ascii=False)}" for one in actions
            )
        else:
            value = next((value[word] for word in WORDS if isinstance(value.get(word), str)), value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}…"


def resumed(one: Interrupt[Any], decision: JsonMap, *, whole: bool) -> Any:
    if isinstance(one.value, dict) and isinstance(one.value.get("action_requests"), list):
        return {"decisions": [_of_request(action, decision) for action in one.value["action_requests"]]}
    if whole:
        return {name: decision[name] for name in ("decision", "by", "text", "edited") if name in decision}
    match decision["decision"]:
        case "approve":
            return True
        case "reject":
            return False
        case "edit":
            return decision.get("edited")
    words = str(decision.get("text") or "")
    if one.response_schema is not None:
        try:
            return json.loads(words)
        except ValueError:
            pass
    return words


def _of_request(action: JsonMap, decision: JsonMap) -> JsonMap:
    words = str(decision.get("text") or "")
    match decision["decision"]:
        case "approve":
            return {"type": "approve"}
        case "edit":
            edited = decision.get("edited")
            args = edited.get("args", edited) if isinstance(edited, dict) else action.get("args")
            return {"type": "edit", "edited_action": {"name": action.get("name"), "args": args}}
        case "respond":
            return {"type": "respond", "message": words}
    return {"type": "reject", "message": words or "a person refused this call"}
