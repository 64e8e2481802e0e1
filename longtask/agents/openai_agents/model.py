"""The model seam: every request of a run goes through the journal, finished turns are read from it.

What was told to the run on its way stands in the talk from then on: the SDK does not know of it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import openai
from agents import Model, ModelProvider, ModelResponse, MultiProvider, OpenAIProvider, Usage
from agents.exceptions import UserError
from agents.items import TResponseInputItem
from agents.models.fake_id import FAKE_RESPONSES_ID
from openai.types.responses import Response, ResponseCompletedEvent, ResponseUsage

from longtask.agents import provider
from longtask.agents.contract import Brief
from longtask.agents.firm import Firm
from longtask.agents.journal import BOUND, Answer
from longtask.agents.openai_agents import request
from longtask.agents.openai_agents.turn import answer_of, gained, price_of, response_of
from longtask.agents.wire import Wire
from longtask.core.model import Failed

Show = Callable[[str], None]
PREFIXES = {"openai": True, "openai-chat": False}  # as plans name models; whether it is the Responses API
NESTED: ContextVar[bool] = ContextVar("nested", default=False)  # a run inside of the plan's
KEY = "OPENAI_API_KEY"


@dataclass(slots=True)
class Spent:
    """By models that a call of a tool asks on its own account."""

    tokens_in: int = 0
    tokens_out: int = 0
    micros: int | None = 0

    def add(self, model: str, usage: Usage) -> None:
        self.tokens_in += usage.input_tokens
        self.tokens_out += usage.output_tokens
        price = price_of(model, usage)
        self.micros = None if price is None or self.micros is None else self.micros + price


INSIDE: ContextVar[Spent | None] = ContextVar("inside", default=None)  # of a call that has a row of its own


class Asker:
    """What all models of one run share: who asks, how often, and what the run was told meanwhile."""

    def __init__(self, brief: Brief, opening: str, seams: Firm, wire: Wire, show: Show, note: Show) -> None:
        self._brief = brief
        self._heard = opening
        self.seams = seams
        self._wire = wire
        self._show = show
        self._note = note
        self._turns = 0
        self._news: list[tuple[int, str]] = []  # (before which item it stands, what was told)

    def ask(self, name: str, input: str | list[TResponseInputItem], asked: Callable[[Any], request.Ask]) -> Any:
        talk: list[TResponseInputItem] = [{"role": "user", "content": input}] if isinstance(input, str) else input
        if not NESTED.get():
            self._hear_news(len(talk))
            talk = self._with_news(talk)
        self._count()
        since = {"since": gained(talk), "settings": self._brief.options.get("settings", {})}
        return response_of(self.seams.model(name, since, partial(self._turn, name, asked(talk))))

    def _turn(self, name: str, ask: request.Ask) -> Answer:
        try:
            patience = provider.patience(self._brief.options, "openai-agents")
            return answer_of(name, request.turn(self._wire, ask, self._show, self._note, *patience))
        except request.GaveUp as gave_up:
            raise self.seams.end(gave_up.outcome) from gave_up

    def _count(self) -> None:
        most = self._brief.requests_max
        if self._turns == most:
            raise self.seams.end(Failed(f"request budget: {most} model calls were made and the run has not ended"))
        self._turns += 1

    def _hear_news(self, position: int) -> None:
        """What was told to the run at this point, or has come since and was not told yet."""
        told: str | None = ""
        while told is not None:
            news = self._brief.news
            decided = BOUND in (self._brief.cause or {})  # the call that it decides is told of it
            told = self.seams.told(None if news is None or decided or news in self._heard else news)
            if told is not None:
                self._news.append((position, told))
                self._heard += f"\n{told}"

    def _with_news(self, items: list[TResponseInputItem]) -> list[TResponseInputItem]:
        talk = list(items)
        for position, text in reversed(self._news):
            talk.insert(position, {"role": "user", "content": text})
        return talk


class JournaledModel(Model):
    def __init__(self, inner: Model, asker: Asker) -> None:
        self._inner = inner
        self._asker = asker
        self._name = str(getattr(inner, "model", None) or type(inner).__name__)

    async def get_response(self, system_instructions: str | None, input: Any, *args: Any, **more: Any) -> ModelResponse:
        """Its other arguments are passed on as they came."""
        spent = INSIDE.get()
        if spent is not None:
            response = await self._inner.get_response(system_instructions, input, *args, **more)
            spent.add(self._name, response.usage)
            return response

        def asked(talk: Any) -> request.Ask:
            stream = partial(self._inner.stream_response, system_instructions, talk, *args, **more)
            whole = partial(self._inner.get_response, system_instructions, talk, *args, **more)
            return request.Ask(self._name, stream, whole)

        answered: ModelResponse = self._asker.ask(self._name, input, asked)
        return answered

    async def stream_response(
        self, system_instructions: str | None, input: Any, *args: Any, **more: Any
    ) -> AsyncIterator[Any]:
        """The turn in one piece: what comes from a row has no pieces."""
        turn = await self.get_response(system_instructions, input, *args, **more)
        usage = turn.usage
        response = Response(
            id=turn.response_id or FAKE_RESPONSES_ID,
            created_at=time.time(),
            model=self._name,
            object="response",
            output=turn.output,
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=False,
            usage=ResponseUsage(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                total_tokens=usage.total_tokens,
                input_tokens_details=usage.input_tokens_details,
                output_tokens_details=usage.output_tokens_details,
            ),
        )
        yield ResponseCompletedEvent(type="response.completed", sequence_number=0, response=response)


class JournaledProvider(ModelProvider):
    """Models by their names: `openai:NAME` and `openai-chat:NAME` as in every plan, others as the SDK names them."""

    def __init__(self, asker: Asker, inner: ModelProvider | None = None) -> None:
        self._asker = asker
        self._inner = inner or MultiProvider()
        self._models: dict[str | None, Model] = {}

    def get_model(self, model_name: str | None) -> Model:
        if model_name not in self._models:
            self._models[model_name] = JournaledModel(self._found(model_name), self._asker)
        return self._models[model_name]

    def _found(self, name: str | None) -> Model:
        prefix, _, rest = (name or "").partition(":")
        try:
            if rest and prefix in PREFIXES:
                return OpenAIProvider(use_responses=PREFIXES[prefix]).get_model(rest)
            return self._inner.get_model(name)
        except openai.OpenAIError as error:
            shown = name or "of the agent"
            plan = provider.missing_key(shown, KEY) if KEY in str(error) else f"model '{shown}': {error}"
            raise self._asker.seams.end(Failed(str(plan), retryable=False)) from error
        except (UserError, ImportError) as error:
            raise self._asker.seams.end(Failed(f"model '{name}': {error}", retryable=False)) from error
