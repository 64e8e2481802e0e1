"""The tool loop: the model's turn, its tool calls, their results, and again, until a turn calls no tool.

A turn without tool calls ends the run; its outputs must be the wanted ones.  If they are not, a model that can be
taught is told so and asked again, a few times.  Whatever happens here between two seams is replayed (see `journal.py`):
this file looks at nothing but the brief and the answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from longtask.agents.contract import AgentOutcome, Brief
from longtask.agents.journal import Answer, Line, Seams
from longtask.agents.outputs import mismatches
from longtask.agents.policy import Verdict
from longtask.agents.spawning import SPAWN, spawn
from longtask.agents.tools import TOOLS, Toolbox, subject
from longtask.core.model import Done, Failed, Json, JsonMap

CORRECTIONS_MAX = 3  # a model that cannot answer in the wanted form after this will not
SHOWN_CHARS_MAX = 2_000


@dataclass(frozen=True, slots=True)
class ToolCall:
    name: str
    args: JsonMap


@dataclass(frozen=True, slots=True)
class Reply:
    text: str
    calls: tuple[ToolCall, ...] = ()
    outputs: JsonMap = field(default_factory=dict)
    tokens_in: int = 0
    tokens_out: int = 0
    micros: int | None = 0


class Model(Protocol):
    name: str
    teachable: bool  # False: asking again brings nothing else

    @property
    def request(self) -> Json:
        """What beside the messages decides its answer: settings, the version of a prompt ..."""

    def reply(self, turn: int, messages: Sequence[JsonMap]) -> Reply:
        """`turn` counts from 1.  Called when the journal has no answer."""


def run(model: Model, brief: Brief, seams: Seams, toolbox: Toolbox, line: Line) -> AgentOutcome:
    talk = Talk(brief, seams, line)
    corrections = 0
    for turn in range(1, brief.requests_max + 1):
        talk.hear_news()
        reply = talk.ask(model, turn)
        if reply.calls:
            for call in reply.calls:
                talk.use(call, toolbox)
            continue
        problems = mismatches(reply.outputs, brief.outputs)
        if not problems:
            return Done(result=dict(reply.outputs))
        wrong = f"the outputs are not the wanted ones: {'; '.join(problems)}"
        if not model.teachable or corrections == CORRECTIONS_MAX:
            return Failed(f"model '{model.name}': {wrong}")
        corrections += 1
        talk.messages.append({"role": "user", "text": f"{wrong}. Answer again with all of them."})
    return Failed(f"request budget: {brief.requests_max} model calls were made and the run has not ended")


class Talk:
    """The messages so far, and what people see of them."""

    def __init__(self, brief: Brief, seams: Seams, line: Line) -> None:
        self.messages: list[JsonMap] = []
        self._brief = brief
        self._seams = seams
        self._line = line
        self._heard = ""
        self._calls = 0
        self._tell(brief.prompt)

    def hear_news(self) -> None:
        """What was told to the run at this point, or has come since and was not told yet."""
        told = True
        while told:
            news = self._brief.news
            told = self._tell(None if news is None or news in self._heard else news)

    def ask(self, model: Model, turn: int) -> Reply:
        def call() -> Answer:
            reply = model.reply(turn, self.messages)
            body = {
                "text": reply.text,
                "calls": [{"tool": call.name, "args": dict(call.args)} for call in reply.calls],
                "outputs": dict(reply.outputs),
            }
            return Answer(body, reply.tokens_in, reply.tokens_out, reply.micros)

        replayed = self._seams.replaying
        body = self._seams.model(model.name, {"messages": self.messages, "settings": model.request}, call)
        if body["text"] and not replayed:
            self._show(f"» {body['text']}\n")
        self.messages.append({"role": "model", **body})
        calls = tuple(ToolCall(call["tool"], call["args"]) for call in body["calls"])
        return Reply(body["text"], calls, body["outputs"])

    def use(self, call: ToolCall, toolbox: Toolbox) -> None:
        tool = TOOLS.get(call.name)
        repeatable = tool is None or (self._brief.repeatable if tool.repeatable is None else tool.repeatable)

        refusal = self._refusal(call)

        def use() -> Answer:
            self._show(title(call))
            refused: JsonMap = {"text": refusal, "failed": True}
            result = refused if refusal is not None else toolbox.use(call.name, call.args)
            if "exit_code" not in result or result["failed"]:
                last = result["text"].rpartition("\n")[2] if "exit_code" in result else result["text"]
                self._show(cut(last) + "\n" if result["failed"] else "")
            return Answer(result)

        if call.name == SPAWN and refusal is None and self._brief.spawned_max:
            result = spawn(self._seams, self._brief.spawned_max, call.args)
        else:
            writes = tool is not None and tool.writes
            result = self._seams.tool(call.name, call.args, use, repeatable=repeatable, writes=writes)
        self._calls += 1
        self._line.send("progress", done=self._calls, total=0, text=call.name)
        self.messages.append({"role": "tool", "tool": call.name, "text": result["text"], "failed": result["failed"]})

    def _refusal(self, call: ToolCall) -> str | None:
        """Why a call is not made: the plan denies it, or a person who was asked did not approve."""
        rules = replace(self._brief.policy, tools=None)  # which tools there are, the toolbox knows
        about = call.args.get("command") or call.args.get("path") or ""
        match rules.of(call.name, str(about)):
            case Verdict.DENY:
                return "the plan does not allow this call"
            case Verdict.ASK:
                asked = f"May the agent do this? {title(call).strip()}"
                decision = self._seams.ask(call.name, {"args": dict(call.args)}, asked)
                if decision["decision"] != "approve":
                    said = f": {decision['text']}" if decision.get("text") else ""
                    return f"{decision['by']} did not allow this call{said}"
        return None

    def _tell(self, text: str | None) -> bool:
        told = self._seams.told(text)
        if told is None:
            return False
        self._heard += told + "\n"
        self.messages.append({"role": "user", "text": told})
        return True

    def _show(self, text: str) -> None:
        if text:
            self._line.send("output", stream="out", text=text)


def title(call: ToolCall) -> str:
    """One line for people: what is about to be done."""
    if call.name == "shell":
        return f"$ {cut(str(call.args.get('command', '')))}\n"
    return f"{call.name} {cut(subject(call.name, call.args))}\n"


def cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"
