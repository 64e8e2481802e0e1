"""A user's own graph, in a step's worktree as `mine.py`: a model, and the tools that the suite's scripts call.

Its state names the calls that a person is asked about (`ask`), since a graph calls its tools itself.
"""

import inspect
import json
import subprocess
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, TypedDict

import openai
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt


def shell(command: str) -> str:
    command_line = ["/bin/bash", "-c", command]
    return subprocess.run(command_line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def read(path: str) -> str:
    return Path(path).read_text()


def write(path: str, content: str) -> str:
    Path(path).write_text(content)
    return "written"


def edit(path: str, old: str, new: str) -> str:
    Path(path).write_text(Path(path).read_text().replace(old, new))
    return "edited"


TOOLS: dict[str, Callable[..., str]] = {"shell": shell, "read": read, "write": write, "edit": edit}


def offer(name: str) -> Any:
    words = list(inspect.signature(TOOLS[name]).parameters)
    schema = {"type": "object", "properties": {word: {"type": "string"} for word in words}, "required": words}
    return {"type": "function", "function": {"name": name, "parameters": {**schema, "additionalProperties": False}}}


class Streamed(BaseChatModel):
    """`max_retries`: it asks again by itself after an error of HTTP, but not after a stream that was cut."""

    model_name: str = "gpt-5"

    @property
    def _llm_type(self) -> str:
        return "streamed"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        text, calls, usage, reason = "", dict[int, dict[str, str]](), None, None
        with openai.OpenAI(max_retries=1) as client:
            said: Any = convert_to_openai_messages(messages)
            pieces = client.chat.completions.create(
                model=self.model_name, messages=said, tools=[offer(name) for name in TOOLS], stream=True,
                stream_options={"include_usage": True},
            )  # fmt: skip
            for piece in pieces:
                usage = piece.usage or usage
                for choice in piece.choices:
                    reason = choice.finish_reason or reason
                    text += choice.delta.content or ""
                    for part in choice.delta.tool_calls or ():
                        call = calls.setdefault(part.index, {"id": part.id or "", "name": "", "args": ""})
                        if part.function is not None:
                            call["name"] += part.function.name or ""
                            call["args"] += part.function.arguments or ""
        if reason is None or usage is None:
            raise ConnectionError("the stream of the model was cut")
        message = AIMessage(
            content=text,
            tool_calls=[{**call, "args": json.loads(call["args"]), "type": "tool_call"} for call in calls.values()],
            usage_metadata={
                "input_tokens": usage.prompt_tokens,
                "output_tokens": usage.completion_tokens,
                "total_tokens": usage.total_tokens,
            },
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


class State(TypedDict, total=False):
    messages: Annotated[list[BaseMessage], add_messages]
    ask: list[str]
    files: list[str]
    count: int


def model(state: State) -> dict[str, Any]:
    message = Streamed().invoke(state["messages"])
    text = str(message.content)
    outputs = json.loads(text[text.index("{") :]) if "{" in text else {}
    return {"messages": [message], **outputs}


def tools(state: State) -> dict[str, Any]:
    said = state["messages"][-1]
    assert isinstance(said, AIMessage)
    calls = [(call, carried_out(call["name"], call["args"], state.get("ask", []))) for call in said.tool_calls]
    return {"messages": [ToolMessage(text, tool_call_id=str(call["id"])) for call, text in calls]}


def carried_out(name: str, args: dict[str, Any], ask: list[str]) -> str:
    about = f"{name}({args.get('command', args.get('path'))})"
    if not any(fnmatchcase(about, pattern) for pattern in ask):
        return TOOLS[name](**args)
    decision = interrupt({"question": f"May I use {name}?", **args})
    said = f"{decision['by']}: {decision['decision']}, {decision['text']}"
    if decision["decision"] == "reject":
        return said
    return f"{said}\n{TOOLS[name](**{**args, **decision.get('edited', {})})}"


def next_after(state: State) -> str:
    said = state["messages"][-1]
    return "tools" if isinstance(said, AIMessage) and said.tool_calls else END


graph = StateGraph(State).add_node("model", model).add_node("tools", tools)
graph.add_edge(START, "model").add_edge("tools", "model").add_conditional_edges("model", next_after, ["tools", END])
