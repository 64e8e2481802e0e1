"""A run of the user's agent: imported, given our seams, asked, and what it hands over.

`options` of a plan:

    agent      import path of an `Agent`, or of a function that makes one
    context    import path of the SDK's context object, or of a function that makes one
    session    import path of a `Session`, or of a function that makes one
    settings   of the model, as the SDK's `ModelSettings` names them
    once       patterns of names of tools that must not run twice, though the step is `repeatable`
    tries      how often a request is made that fails for a while
    stall_s    how long a model may be silent

What the SDK interrupts a run for (`needs_approval`, a hosted server's request) becomes a question to a person: its
`RunState` holds what was decided and goes on.  It is not stored.  A run that goes on elsewhere comes by the same calls
again, each answered from its row, and has the same state then: a stored one would be a second truth, several times as
large, with the context's secrets in it.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import closing
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import openai
from agents import AgentOutputSchemaBase, Runner, RunResult, set_default_openai_client, set_tracing_disabled
from agents.exceptions import (
    InputGuardrailTripwireTriggered,
    ModelBehaviorError,
    OutputGuardrailTripwireTriggered,
    UserError,
)
from agents.run import set_default_agent_runner
from pydantic import TypeAdapter

from longtask.agents import own_code, provider
from longtask.agents.contract import AgentOutcome, Brief, library_version
from longtask.agents.firm import Ends, Firm
from longtask.agents.journal import Diverged, Line, Seams
from longtask.agents.loop import CORRECTIONS_MAX
from longtask.agents.openai_agents.model import KEY, Asker, JournaledModel, JournaledProvider
from longtask.agents.openai_agents.runner import JournaledRunner
from longtask.agents.openai_agents.servers import NoServer
from longtask.agents.openai_agents.session import JournaledSession
from longtask.agents.openai_agents.tools import Instruments
from longtask.agents.outputs import mismatches, schema_of
from longtask.agents.wire import Wire
from longtask.core.errors import BadPlan
from longtask.core.model import Done, Failed, Json, JsonMap

OPTIONS = ("agent", "context", "once", "session", "settings", "stall_s", "tries")


class OpenAIAgents:
    name = "openai-agents"
    version = library_version(name) or ""

    def run(self, brief: Brief, seams: Seams, line: Line) -> AgentOutcome:
        _check(brief.options)
        firm = Firm(seams)
        try:
            with Wire() as wire, closing(Run(brief, firm, line, wire)) as run:
                try:
                    return asyncio.run(run.to_its_end())
                except BaseException as error:  # noqa: BLE001  it may come wrapped, or be lost on its way
                    return run.ended_by(firm.raised or error)
        finally:
            set_default_agent_runner(None)


class Run:
    def __init__(self, brief: Brief, seams: Firm, line: Line, wire: Wire) -> None:
        self._brief = brief
        self._seams = seams
        self._line = line
        self._wire = wire
        self._root = Path(os.path.realpath(brief.cwd))
        self._began: JsonMap | None = None
        self._client: openai.AsyncOpenAI | None = None

    def close(self) -> None:
        if self._client is not None:
            self._wire.do(self._client.close())

    def ended_by(self, error: BaseException) -> AgentOutcome:
        """Raises what is no outcome."""
        match error:
            case Ends():
                return error.outcome
            case Diverged():
                why = own_code.why_diverged(self._began, OpenAIAgents.version, self._root)
                raise Diverged(f"{error}: {why}") from None
            case InputGuardrailTripwireTriggered() | OutputGuardrailTripwireTriggered():
                return Failed(f"guardrail '{error.guardrail_result.guardrail.get_name()}' has stopped the run")
            case ModelBehaviorError() | UserError() | NoServer():
                return Failed(f"agent '{self._brief.options['agent']}': {error}")
        raise error from None

    async def to_its_end(self) -> AgentOutcome:
        prompt = self._seams.told(self._brief.prompt) or ""
        if os.environ.get(KEY):
            self._client = openai.AsyncOpenAI(max_retries=0)  # one place tries again: ours
            set_default_openai_client(self._client, use_for_tracing=False)
        agent = await self._own("agent")
        context, session = await self._own("context"), await self._own("session")
        set_tracing_disabled(True)  # whatever that code has said
        path = str(self._brief.options["agent"])
        self._began = own_code.began_with(self._seams, path, OpenAIAgents.version, self._root)
        instruments = self._instrument(prompt, context)
        instruments.put_into(agent)
        if self._brief.outputs and agent.output_type is None:
            agent.output_type = Outputs(self._brief.outputs)
        more: dict[str, Any] = {"context": context, "max_turns": None}
        if session is not None:
            more["session"] = JournaledSession(session, self._seams, self._wire)
        told: str | list[Any] = prompt
        for _ in range(CORRECTIONS_MAX + 1):
            result = await self._decided(agent, told, instruments, more)
            outputs = _outputs(result.final_output, self._brief.outputs)
            problems = mismatches(outputs, self._brief.outputs)
            if not problems:
                self._show(f"{json.dumps(outputs, ensure_ascii=False)}\n" if self._brief.outputs else "")
                return Done(result=dict(outputs))
            wrong = f"the outputs are not the wanted ones: {'; '.join(problems)}"
            words = f"{wrong}. Answer again with all of them."
            told = words if session is not None else [*result.to_input_list(), {"role": "user", "content": words}]
            agent = result.last_agent
        return Failed(f"agent '{path}': {wrong}")

    async def _decided(self, agent: Any, told: Any, instruments: Instruments, more: dict[str, Any]) -> RunResult:
        """The result of a run, people's decisions included."""
        result = await Runner.run(agent, told, **more)
        while result.interruptions:
            state = result.to_state()
            for item in state.get_interruptions():
                instruments.decide(state, item)
            result = await Runner.run(agent, state, **more)
        if self._seams.raised is not None:
            raise self._seams.raised
        return result

    def _instrument(self, prompt: str, context: Any) -> Instruments:
        brief = self._brief
        asker = Asker(brief, prompt, self._seams, self._wire, self._show, self._note)
        journaled = partial(JournaledModel, asker=asker)
        instruments = Instruments(brief, self._seams, self._wire, journaled, self._show, self._progress, context)
        providers: dict[int, JournaledProvider] = {}

        def provider(inner: Any) -> JournaledProvider:
            if isinstance(inner, JournaledProvider):
                return inner
            return providers.setdefault(id(inner), JournaledProvider(asker, inner))

        settings = brief.options.get("settings", {})
        runner = JournaledRunner(self._seams, instruments.put_into, provider, journaled, brief.model, settings)
        set_default_agent_runner(runner)
        return instruments

    async def _own(self, option: str) -> Any:
        path = self._brief.options.get(option)
        return None if path is None else await own_code.made(own_code.find(path, option, self._root))

    def _show(self, text: str) -> None:
        if text:
            self._line.send("output", stream="out", text=text)

    def _note(self, text: str) -> None:
        self._line.send("note", text=text)

    def _progress(self, done: int, tool: str) -> None:
        self._line.send("progress", done=done, total=0, text=tool)


class Outputs(AgentOutputSchemaBase):
    """The step's outputs, for an agent that has no type of its own for them."""

    def __init__(self, wanted: Any) -> None:
        self._wanted = wanted

    def is_plain_text(self) -> bool:
        return False

    def name(self) -> str:
        return "outputs"

    def json_schema(self) -> dict[str, Any]:
        return dict(schema_of(self._wanted))

    def is_strict_json_schema(self) -> bool:
        return False

    def validate_json(self, json_str: str) -> Any:
        """Text that is no JSON stays text: the model is told then what is wanted."""
        try:
            return json.loads(json_str)
        except ValueError:
            return json_str


def _outputs(final: Any, wanted: Any) -> Json:
    """As JSON.  A value that is no map is the only output that is wanted."""
    if not wanted:
        return {}
    if hasattr(final, "model_dump") or is_dataclass(final):
        final = TypeAdapter(type(final)).dump_python(final, mode="json")
    if not isinstance(final, dict) and len(wanted) == 1:
        return {next(iter(wanted)): final}
    outputs: Json = final
    return outputs


def _check(options: JsonMap) -> None:
    """Raises BadPlan."""
    of = "agent runtime 'openai-agents'"
    for name in options:
        if name not in OPTIONS:
            raise BadPlan(f"{of}: no option '{name}'; there is {', '.join(map(repr, OPTIONS))}")
    if "agent" not in options:
        raise BadPlan(f"{of}: which agent? say `options: {{agent: package.module:name}}`")
    if not isinstance(options.get("settings", {}), dict):
        raise BadPlan(f"{of}: option 'settings' is to be a map")
    provider.patience(options, OpenAIAgents.name)
    once = options.get("once", [])
    if not isinstance(once, list) or not all(isinstance(pattern, str) for pattern in once):
        raise BadPlan(f"{of}: option 'once' is to be a list of patterns of tools' names")
