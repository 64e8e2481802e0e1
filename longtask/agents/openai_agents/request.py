"""One turn of the model on the wire: asked, streamed to who watches, asked again when that may help.

What an error means is as in `builtin` (docs/agents.md); here it is read from the errors of the `openai` package, which
the SDK's adapters of other providers raise, too.  Another error, of a model class of the user's own, ends the attempt.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import openai
from agents import ModelResponse, Usage
from agents.exceptions import ModelBehaviorError
from openai.types.responses import Response, ResponseUsage

from longtask.agents import provider
from longtask.agents.contract import AgentOutcome
from longtask.agents.wire import Wire, awake
from longtask.core.model import Failed

Stream = Callable[[], AsyncIterator[Any]]
WENT_WRONG_ON_THE_WAY = (openai.APIError, ModelBehaviorError, ValueError, OSError)  # a stream's end, no JSON
TOO_LONG = "take smaller steps, or shorten the talk (`call_model_input_filter`, handoff filters)"


class GaveUp(Exception):
    """The turn does not come; `outcome` is what becomes of the attempt."""

    def __init__(self, outcome: AgentOutcome) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Ask:
    """One request.  `whole` makes it in one piece, for a model that has no streams."""

    model: str
    stream: Stream
    whole: Callable[[], Any]


def turn(
    wire: Wire,
    ask: Ask,
    show: Callable[[str], None],
    note: Callable[[str], None],
    tries: int = provider.TRIES,
    stall_s: float = provider.STALL_S,
) -> ModelResponse:
    """`show` hears the text as it comes, `note` what goes wrong meanwhile.  Raises GaveUp."""
    for attempt in range(1, tries + 1):
        try:
            return wire.do(_stream(ask, show, stall_s))
        except openai.RateLimitError as error:
            if error.code == "insufficient_quota":
                raise GaveUp(_for_good(ask.model, error, provider.CREDIT_ADVICE)) from error
            reset_s = _seconds_to_reset(error)
            if attempt == tries or (reset_s is not None and reset_s > provider.IN_PLACE_S):
                seconds = provider.UNKNOWN_RESET_S if reset_s is None else reset_s
                raise GaveUp(provider.limited(seconds, detail(error))) from error
            pause_s = provider.pause(attempt) if reset_s is None else reset_s
            note(f"the model is limited: {detail(error)}; asked again in {pause_s:.1f} s\n")
        except WENT_WRONG_ON_THE_WAY as error:
            advice = _advice(error)
            if advice is not None:
                raise GaveUp(_for_good(ask.model, error, advice)) from error
            what = f"model '{ask.model}': {detail(error)}"
            if attempt == tries:
                raise GaveUp(Failed(f"{what} ({tries} times)")) from error
            pause_s = provider.pause(attempt)
            note(f"{what}; asked again in {pause_s:.1f} s\n")
        time.sleep(pause_s)
    raise AssertionError("the last try returns or raises")


async def _stream(ask: Ask, show: Callable[[str], None], stall_s: float) -> ModelResponse:
    async with awake(stall_s) as progress:
        return await _heard(ask, show, progress)


async def _heard(ask: Ask, show: Callable[[str], None], progress: Callable[[], None]) -> ModelResponse:
    shown = False
    ended: Response | None = None
    try:
        async for event in ask.stream():
            progress()
            if event.type == "response.output_text.delta" and event.delta:
                show(event.delta if shown else f"» {event.delta}")
                shown = True
            elif event.type in ("response.completed", "response.incomplete"):
                ended = event.response
            elif event.type in ("response.failed", "error"):
                raise ModelBehaviorError(_said(event))
    except NotImplementedError:
        response = await ask.whole()
        assert isinstance(response, ModelResponse)
        return response
    finally:
        if shown:
            show("\n")
    if ended is None:
        raise ModelBehaviorError("the stream was cut in the middle of the turn")
    return ModelResponse(output=ended.output, usage=_usage(ended.usage), response_id=ended.id)


def _usage(usage: ResponseUsage | None) -> Usage:
    if usage is None:
        return Usage(requests=1)
    return Usage(
        requests=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        input_tokens_details=usage.input_tokens_details,
        output_tokens_details=usage.output_tokens_details,
    )


def _said(event: Any) -> str:
    error = getattr(getattr(event, "response", None), "error", None) or event
    return str(getattr(error, "message", None) or "the turn ended with an error")


def _seconds_to_reset(error: openai.APIStatusError) -> float | None:
    headers: Mapping[str, str] = error.response.headers
    retry_ms, retry = headers.get("retry-after-ms"), headers.get("retry-after")
    try:
        retry_after = float(retry_ms) / 1000 if retry_ms else float(retry) if retry else None
    except ValueError:
        retry_after = None
    return provider.seconds_to_reset(retry_after, headers, error.body, time.time())


def _advice(error: BaseException) -> str | None:
    """What to do about an error that comes again; None: asking again may help."""
    match error:
        case openai.APIStatusError() if error.code == "context_length_exceeded":
            return TOO_LONG
        case openai.APIStatusError() if error.code == "content_filter":
            return provider.FILTER_ADVICE
        case openai.APIStatusError():
            return provider.advice(error.status_code)
    return None


def _for_good(model: str, error: BaseException, advice: str) -> Failed:
    return Failed(f"model '{model}': {detail(error)}; {advice}", retryable=False)


def detail(error: BaseException) -> str:
    return provider.detail(getattr(error, "status_code", None), getattr(error, "body", None), str(error))
