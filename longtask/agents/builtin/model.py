"""The model seam: every request of the run goes through the journal, finished turns are read from it.

Here the talk also gets what the framework does not know of: what was told to the run on its way, and what is left out
when it has become too long.  Both are decided by rows of the journal, never by the hour.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from longtask.agents import provider
from longtask.agents.builtin import compaction, request
from longtask.agents.builtin.turn import TOO_LONG, answer_of, did_not_fit, gained, response_of
from longtask.agents.contract import Brief
from longtask.agents.firm import Firm
from longtask.agents.journal import BOUND, Answer
from longtask.agents.wire import Wire
from longtask.core.model import Failed, Json

Show = Callable[[str], None]


class JournaledModel(WrapperModel):
    """`settings` is what the plan says of the model; it decides the answers, so it is in the fingerprint.  `opening` is
    what the run was told first."""

    def __init__(
        self,
        model: Model,
        settings: Json,
        brief: Brief,
        opening: str,
        seams: Firm,
        wire: Wire,
        show: Show,
        note: Show,
    ) -> None:
        super().__init__(model)
        self._said_settings = settings
        self._brief = brief
        self._heard = opening
        self._seams = seams
        self._wire = wire
        self._show = show
        self._note = note
        self._turns = 0
        self._news: list[tuple[int, str]] = []  # (before which message it stands, what was told)
        self._level, self._until = 0, 0  # of the compaction

    async def __aenter__(self) -> Self:
        """The model's connections belong to the wire's event loop, not to the run's."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        self._hear_news(len(messages))
        while True:
            self._count()
            talk = compaction.compacted(self._with_news(messages), self._level, self._until)
            asked = {"since": gained(talk), "settings": self._said_settings, "level": self._level}
            call = partial(self._turn, talk, model_settings, model_request_parameters)
            body = self._seams.model(self.model_id, asked, call)
            if TOO_LONG not in body:
                return response_of(body)
            self._leave_out(len(talk), str(body[TOO_LONG]))

    def _turn(
        self, talk: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> Answer:
        try:
            patience = provider.patience(self._brief.options, "builtin")
            return answer_of(
                request.turn(self._wire, self.wrapped, talk, settings, parameters, self._show, self._note, *patience)
            )
        except request.TooLong as error:
            return did_not_fit(str(error))
        except request.GaveUp as gave_up:
            raise self._seams.end(gave_up.outcome) from gave_up

    def _count(self) -> None:
        most = self._brief.requests_max
        if self._turns == most:
            raise self._seams.end(Failed(f"request budget: {most} model calls were made and the run has not ended"))
        self._turns += 1

    def _leave_out(self, messages: int, reason: str) -> None:
        if self._level == compaction.LEVELS:
            raise self._seams.end(
                Failed(f"model '{self.model_id}': {reason}; nothing more can be left out: take smaller steps", False)
            )
        self._level, self._until = self._level + 1, messages
        self._note(f"the talk is too long: results of tools are left out (level {self._level})\n")

    def _hear_news(self, position: int) -> None:
        """What was told to the run at this point, or has come since and was not told yet."""
        told: str | None = ""
        while told is not None:
            news = self._brief.news
            decided = BOUND in (self._brief.cause or {})  # the call that it decides is told of it
            told = self._seams.told(None if news is None or decided or news in self._heard else news)
            if told is not None:
                self._news.append((position, told))
                self._heard += f"\n{told}"

    def _with_news(self, messages: Sequence[ModelMessage]) -> list[ModelMessage]:
        talk = list(messages)
        for position, text in reversed(self._news):
            talk.insert(position, ModelRequest(parts=[UserPromptPart(text)]))
        return talk
