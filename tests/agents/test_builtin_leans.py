"""What the runtime `builtin` leans on in Pydantic AI: one that fails after an upgrade says what to look at."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, ModelMessagesTypeAdapter, RunContext, UsageLimits, exceptions
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import infer_model
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_ai.usage import RequestUsage

from longtask.agents.builtin.toolset import AN_OBJECT
from longtask.agents.builtin.turn import answer_of, gained, response_of
from longtask.agents.journal import Halted

ROOT = Path(__file__).parents[2]


class Seam(WrapperModel):
    """Sees the requests of a run, and answers them itself."""

    def __init__(self, *answers: ModelResponse) -> None:
        super().__init__(FunctionModel(_never))
        self.answers = list(answers)
        self.seen: list[list[ModelMessage]] = []
        self.entered = 0

    async def __aenter__(self) -> "Seam":
        self.entered += 1
        return self

    async def __aexit__(self, *error: Any) -> None:
        return None

    async def request(self, messages: list[ModelMessage], settings: Any, parameters: Any) -> ModelResponse:
        self.seen.append(list(messages))
        return self.answers.pop(0)


class Tools(AbstractToolset[None]):
    def __init__(self, use: Callable[[str], str]) -> None:
        self.use = use

    @property
    def id(self) -> str:
        return "tools"

    async def get_tools(self, ctx: RunContext[None]) -> dict[str, ToolsetTool[None]]:
        told = ToolDefinition(name="say", description="", parameters_json_schema={"type": "object"}, sequential=True)
        return {"say": ToolsetTool(toolset=self, tool_def=told, max_retries=3, args_validator=AN_OBJECT)}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[None], tool: ToolsetTool[None]
    ) -> str:
        return self.use(tool_args["word"])


def _never(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    raise AssertionError("the wrapped model is not asked")


def says(*words: str) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart("say", {"word": word}, tool_call_id=f"id-{word}") for word in words])


def run(seam: Seam, use: Callable[[str], str]) -> Any:
    agent: Agent[None, str] = Agent(seam, deps_type=type(None), instructions="Be kind.", toolsets=[Tools(use)])
    with agent.parallel_tool_call_execution_mode("sequential"):
        return asyncio.run(agent.run("Go.", usage_limits=UsageLimits(request_limit=None)))


def test_a_wrapped_model_sees_every_request_and_tools_are_called_one_after_another():
    order: list[str] = []

    def use(word: str) -> str:
        order.append(word)
        return f"said {word}"

    seam = Seam(says("a", "b"), says("c"), ModelResponse(parts=[TextPart("Done.")]))
    result = run(seam, use)
    assert result.output == "Done." and order == ["a", "b", "c"]
    assert [len(messages) for messages in seam.seen] == [1, 3, 5]


def test_what_a_request_has_gained_is_what_was_told_and_what_the_tools_answered():
    def use(word: str) -> str:
        if word == "b":
            raise ToolFailed("no b")
        return f"said {word}"

    seam = Seam(says("a", "b"), ModelResponse(parts=[TextPart("Done.")]))
    run(seam, use)
    assert gained(seam.seen[0]) == [{"user": "Go."}]
    assert gained(seam.seen[1]) == [{"tool": "say", "text": "said a"}, {"tool": "say", "text": "no b"}]


@pytest.mark.parametrize("where", ["model", "tool"])
def test_what_no_handler_may_survive_comes_through(where):
    called: list[str] = []

    def stop(word: str) -> str:
        called.append(word)
        raise Halted("pause")

    class Stopping(Seam):
        async def request(self, *args: Any) -> ModelResponse:
            if where == "model":
                raise Halted("pause")
            return await super().request(*args)

    with pytest.raises(BaseException) as raised:
        run(Stopping(says("a", "b")), stop)
    assert "Halted" in repr(raised.value) or isinstance(raised.value, Halted)
    expected = [] if where == "model" else ["a"]
    assert called == expected


def test_a_turn_is_read_back_from_the_journal_as_it_was_with_signatures():
    turn = ModelResponse(
        parts=[
            ThinkingPart("hm", signature="abc", provider_name="anthropic"),
            TextPart("So."),
            ToolCallPart("say", '{"word": "a"}', tool_call_id="x"),
        ],
        usage=RequestUsage(input_tokens=1_000, cache_read_tokens=900, output_tokens=50),
        model_name="claude-sonnet-4-6",
        provider_name="anthropic",
        finish_reason="tool_call",
    )
    answer = answer_of(turn)
    assert response_of(answer.body) == turn
    assert (answer.tokens_in, answer.tokens_out, answer.body["text"]) == (1_000, 50, "So.")
    assert answer.body["calls"] == [{"tool": "say", "args": {"word": "a"}}]
    assert answer.body["usage"] == {"cache_read": 900}
    # 100 at 3 dollars a million, 900 from the cache at a tenth of that, 50 at 15.
    assert answer.micros == 300 + 270 + 750


def test_a_turn_of_today_is_read_for_ever():
    """The form in which turns stand in journals that are out there."""
    parts = [{"part_kind": "text", "content": "So."}]
    calls = [{"part_kind": "tool-call", "tool_name": "say", "args": '{"word": "a"}', "tool_call_id": "x"}]
    stored = {"kind": "response", "parts": [*parts, *calls], "usage": {"input_tokens": 3}, "model_name": "m"}
    read = response_of({"response": {**stored, "timestamp": "2026-11-30T04:00:00Z", "a_new_field": 1}})
    assert read.parts == [TextPart("So."), ToolCallPart("say", '{"word": "a"}', tool_call_id="x")]


def test_a_message_with_what_came_meanwhile_may_follow_another():
    talk: list[ModelMessage] = [
        ModelRequest(parts=[ToolReturnPart("say", "said", "x")]),
        ModelRequest(parts=[UserPromptPart("And?")]),
    ]
    assert gained(talk) == [{"tool": "say", "text": "said"}, {"user": "And?"}]
    assert ModelMessagesTypeAdapter.validate_python(ModelMessagesTypeAdapter.dump_python(talk, mode="json")) == talk


def test_the_tree_of_errors_says_what_may_be_tried_again():
    limited = exceptions.ModelHTTPError.for_category(
        category=exceptions.ModelRateLimitError, status_code=429, model_name="m", headers={"Retry-After": "7"}
    )
    assert isinstance(limited, exceptions.ModelRateLimitError) and limited.retry_after == 7
    for kind in (exceptions.ModelUnavailableError, exceptions.ModelServerError, exceptions.ModelConnectionError):
        assert issubclass(kind, exceptions.ModelAPIError)
        assert not issubclass(kind, exceptions.ModelRequestRejectedError)
    for final in (
        exceptions.ModelAuthenticationError,
        exceptions.ModelNotFoundError,
        exceptions.ModelContextWindowExceededError,
    ):
        assert issubclass(final, exceptions.ModelRequestRejectedError)
    assert issubclass(exceptions.ContentFilterError, exceptions.UnexpectedModelBehavior)


def test_a_worker_tells_its_version_without_importing_it():
    program = (
        "import sys, pathlib; from longtask import boot; from longtask.core.model import Kind, StepSpec;"
        "print(boot.runtime_of(pathlib.Path('.'), StepSpec(Kind.AGENT, {'runtime': 'builtin'})));"
        "assert 'pydantic_ai' not in sys.modules"
    )
    told = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    assert told.stdout.startswith("builtin pydantic-ai-slim 2.")


def test_names_of_models_choose_the_wire(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key")
    wires = {name: type(infer_model(name)).__name__ for name in ("openai:m", "openai-chat:m", "anthropic:m")}
    assert wires == {
        "openai:m": "OpenAIResponsesModel",
        "openai-chat:m": "OpenAIChatModel",
        "anthropic:m": "AnthropicModel",
    }
