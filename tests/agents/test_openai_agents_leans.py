"""What the runtime `openai-agents` leans on in OpenAI's Agents SDK: one that fails after an upgrade says what to look
at."""

import asyncio
import copy
import inspect
from typing import Any

import openai
from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    RunResult,
    RunState,
    Usage,
    function_tool,
)
from agents.handoffs import Handoff
from agents.memory import SQLiteSession
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner
from agents.run_config import ToolExecutionConfig
from agents.tool import invoke_function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from longtask.agents.openai_agents.session import WORDS
from longtask.agents.openai_agents.turn import answer_of, gained, response_of


def said(text: str) -> ResponseOutputMessage:
    content: list[Any] = [ResponseOutputText(type="output_text", text=text, annotations=[])]
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=content)


def called(name: str, arguments: str = "{}") -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(type="function_call", name=name, call_id=f"c-{name}", arguments=arguments)


class Told(Model):
    def __init__(self, *turns: Any) -> None:
        self.turns = list(turns)

    async def get_response(self, *args: Any, **more: Any) -> ModelResponse:
        usage = Usage(requests=1, input_tokens=7, output_tokens=3, total_tokens=10)
        return ModelResponse(output=[self.turns.pop(0)], usage=usage, response_id="r")

    def stream_response(self, *args: Any, **more: Any) -> Any:
        raise NotImplementedError


class Seeing(AgentRunner):
    def __init__(self) -> None:
        self.seen: list[str] = []

    async def run(self, starting_agent: Any, input: Any, **more: Any) -> RunResult:
        self.seen.append(starting_agent.name)
        return await super().run(starting_agent, input, **more)


OFF = RunConfig(tracing_disabled=True, tool_execution=ToolExecutionConfig(max_function_tool_concurrency=1))


def run(agent: Any, told: Any = "Do it.") -> RunResult:
    return asyncio.run(Runner.run(agent, told, max_turns=None, run_config=OFF))


def test_every_run_goes_through_the_runner_that_was_set_agents_as_tools_too():
    inner = Agent(name="inner", model=Told(said("in")))
    outer = Agent(
        name="outer", model=Told(called("ask", '{"input": "x"}'), said("out")), tools=[inner.as_tool("ask", "")]
    )
    seeing = Seeing()
    set_default_agent_runner(seeing)
    try:
        assert run(outer).final_output == "out"
    finally:
        set_default_agent_runner(None)
    assert seeing.seen == ["outer", "inner"] and type(get_default_agent_runner()) is AgentRunner


def test_what_a_tool_is_made_of_can_be_put_in_its_place():
    @function_tool
    def one() -> str:
        return "one"

    agent = Agent(name="a", model=Told(called("one"), said("end")), tools=[one])
    original = copy.copy(one)

    async def invoke(context: Any, arguments: str) -> Any:
        return "seen " + await invoke_function_tool(function_tool=original, context=context, arguments=arguments)

    one.on_invoke_tool = invoke
    assert {"timeout_seconds", "needs_approval", "params_json_schema"} <= set(FunctionTool.__dataclass_fields__)
    talk: list[Any] = run(agent).to_input_list()
    assert [item["output"] for item in talk if item.get("type") == "function_call_output"] == ["seen one"]
    assert "on_invoke_handoff" in Handoff.__dataclass_fields__


def test_an_interruption_is_decided_in_the_state_and_the_run_goes_on():
    done = []

    @function_tool(needs_approval=True)
    def pay() -> str:
        done.append("paid")
        return "paid"

    agent = Agent(name="a", model=Told(called("pay"), said("end")), tools=[pay])
    result = run(agent)
    state = result.to_state()
    (item,) = state.get_interruptions()
    assert (item.name, item.call_id, item.arguments, done) == ("pay", "c-pay", "{}", [])
    state.approve(item)
    assert run(agent, state).final_output == "end" and done == ["paid"]
    assert "rejection_message" in inspect.signature(RunState.reject).parameters


def test_a_turn_is_read_back_from_the_journal_as_it_was():
    usage = Usage(requests=1, input_tokens=1_000, output_tokens=50, total_tokens=1_050)
    usage.input_tokens_details.cached_tokens = 900
    turn = ModelResponse(output=[said("So."), called("say", '{"word": "a"}')], usage=usage, response_id="r")
    answer = answer_of("gpt-5", turn)
    assert response_of(answer.body) == turn
    assert (answer.tokens_in, answer.tokens_out, answer.body["text"]) == (1_000, 50, "So.")
    assert answer.body["calls"] == [{"tool": "say", "args": {"word": "a"}}]
    assert answer.body["usage"] == {"cache_read": 900} and answer.micros is not None
    assert answer_of("my-own-model", turn).micros is None


def test_a_turn_of_today_is_read_for_ever():
    """The form in which turns stand in journals that are out there."""
    output = [
        {"type": "message", "id": "m", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "So.", "annotations": []}]},
        {"type": "function_call", "name": "say", "call_id": "x", "arguments": '{"word": "a"}'},
    ]  # fmt: skip
    read = response_of({"usage": {}, "response": {"id": "r", "output": output, "tokens": [1, 3, 4]}})
    assert [item.type for item in read.output] == ["message", "function_call"] and read.usage.total_tokens == 7


def test_what_a_talk_has_gained_is_what_came_after_the_models_last_turn():
    talk: list[Any] = [
        {"role": "user", "content": "Do it."},
        {"type": "function_call", "name": "say", "call_id": "x", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "x", "output": "said"},
        {"role": "user", "content": "And?"},
    ]
    assert gained(talk) == [{"result": "said"}, {"user": "And?"}]


def test_a_session_has_the_words_that_are_journaled():
    assert all(inspect.iscoroutinefunction(getattr(SQLiteSession, word)) for word in WORDS)


def test_the_errors_of_the_client_say_what_may_be_tried_again():
    assert issubclass(openai.RateLimitError, openai.APIStatusError)
    assert issubclass(openai.APITimeoutError, openai.APIConnectionError)
    assert issubclass(openai.APIStatusError, openai.APIError) and issubclass(openai.APIConnectionError, openai.APIError)
