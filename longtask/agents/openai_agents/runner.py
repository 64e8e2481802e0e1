"""Every run of an agent in this process goes through here: the one of the plan, agents as tools, and those that
guardrails and the user's other code start.  Each gets the seams; inside of a call that has a row, they only count.

The SDK has this place for integrations such as ours, and calls it experimental.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agents import RunConfig, RunResult, RunResultStreaming
from agents.model_settings import ModelSettings
from agents.run import AgentRunner
from agents.run_config import ToolExecutionConfig

from longtask.agents.firm import Firm
from longtask.agents.openai_agents.model import INSIDE, NESTED, JournaledModel, JournaledProvider


class JournaledRunner(AgentRunner):
    """`put_into` gives an agent its seams; `model` and `settings` are the plan's."""

    def __init__(
        self,
        seams: Firm,
        put_into: Callable[[Any], None],
        provider: Callable[[Any], JournaledProvider],
        journaled: Callable[[Any], JournaledModel],
        model: str | None,
        settings: Any,
    ) -> None:
        self._seams = seams
        self._put_into = put_into
        self._provider = provider
        self._journaled = journaled
        self._model = model
        self._settings = settings
        self._runs = 0

    async def run(self, starting_agent: Any, input: Any, **more: Any) -> RunResult:
        self._prepare(starting_agent, more)
        nested = NESTED.set(self._runs > 0)
        self._runs += 1
        try:
            return await super().run(starting_agent, input, **more)
        finally:
            self._runs -= 1
            NESTED.reset(nested)

    def run_streamed(self, starting_agent: Any, input: Any, **more: Any) -> RunResultStreaming:
        self._prepare(starting_agent, more)
        nested = NESTED.set(True)  # its task takes this along; the plan's own run is not streamed
        try:
            return super().run_streamed(starting_agent, input, **more)
        finally:
            NESTED.reset(nested)

    def _prepare(self, agent: Any, more: dict[str, Any]) -> None:
        given = more.get("run_config")
        config = RunConfig(**given) if isinstance(given, dict) else given or RunConfig()
        more["run_config"] = self._with_seams(config)
        if INSIDE.get() is None:
            try:
                self._put_into(agent)
            except BaseException as error:
                self._seams.raised = self._seams.raised or error
                raise

    def _with_seams(self, config: RunConfig) -> RunConfig:
        model = self._model or config.model
        tools = config.tool_execution or ToolExecutionConfig()
        settings = ModelSettings(
            **{"include_usage": True, **self._settings}
        )  # Chat Completions tell none by themselves
        return replace(
            config,
            model=model if model is None or isinstance(model, str | JournaledModel) else self._journaled(model),
            model_provider=self._provider(config.model_provider),
            model_settings=config.model_settings.resolve(settings) if config.model_settings else settings,
            tool_execution=replace(tools, max_function_tool_concurrency=1),  # calls in the order of the journal
            tracing_disabled=True,
        )
