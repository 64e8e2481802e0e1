"""One turn of the model on the wire: asked, streamed to who watches, asked again when that may help.

What an error means, and what becomes of the attempt:

    429 with a time of reset    a short one is waited for here; a longer one parks the step until then
    5xx, 529, no connection,    asked again after a pause that doubles; then the attempt fails and may be tried again
    a stream that is cut,
    malformed or silent
    the talk is too long        `TooLong`: something of it is left out, then it is asked again (`compaction.py`)
    400, 401, 403, 404, quota   the attempt fails for good and says what to do

The client libraries try nothing again by themselves (`max_retries` 0): nobody could count or stop that.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pydantic_ai import exceptions as errors
from pydantic_ai.messages import ModelMessage, ModelResponse, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from longtask.agents import provider
from longtask.agents.contract import AgentOutcome
from longtask.agents.wire import Silent, Wire, awake
from longtask.core.model import Failed

FOR_GOOD = (
    errors.ModelRequestRejectedError,
    errors.ModelQuotaExceededError,
    errors.ContentFilterError,
    errors.UserError,
)


class TooLong(Exception):
    """The talk does not fit into the model's context."""


class GaveUp(Exception):
    """The turn does not come; `outcome` is what becomes of the attempt."""

    def __init__(self, outcome: AgentOutcome) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome


class Cut(errors.UnexpectedModelBehavior):
    """The stream has ended before the turn has."""


def turn(
    wire: Wire,
    model: Model,
    messages: list[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
    show: Callable[[str], None],
    note: Callable[[str], None],
    tries: int = provider.TRIES,
    stall_s: float = provider.STALL_S,
) -> ModelResponse:
    """`show` hears the text as it comes, `note` what goes wrong meanwhile.  Raises TooLong, GaveUp."""
    for attempt in range(1, tries + 1):
        try:
            return wire.do(_stream(model, messages, settings, parameters, show, stall_s))
        except errors.ModelContextWindowExceededError as error:
            raise TooLong(_detail(error)) from error
        except errors.ModelRateLimitError as error:
            reset_s = seconds_to_reset(error, time.time())
            last = attempt == tries
            if last or (reset_s is not None and reset_s > provider.IN_PLACE_S):
                seconds = provider.UNKNOWN_RESET_S if reset_s is None else reset_s
                raise GaveUp(provider.limited(seconds, _detail(error))) from error
            pause_s = provider.pause(attempt) if reset_s is None else reset_s
            note(f"the model is limited: {_detail(error)}; asked again in {pause_s:.1f} s\n")
        except FOR_GOOD as error:
            raise GaveUp(Failed(f"model '{model.model_id}': {_advice(error)}", retryable=False)) from error
        except (errors.ModelAPIError, errors.UnexpectedModelBehavior, Silent) as error:
            what = f"model '{model.model_id}': {_detail(error)}"
            if attempt == tries:
                raise GaveUp(Failed(f"{what} ({tries} times)")) from error
            told = error.retry_after if isinstance(error, errors.ModelAPIError) else None
            pause_s = provider.pause(attempt) if told is None else min(told, provider.PAUSE_MAX_S)
            note(f"{what}; asked again in {pause_s:.1f} s\n")
        time.sleep(pause_s)
    raise AssertionError("the last try returns or raises")


async def _stream(
    model: Model,
    messages: list[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
    show: Callable[[str], None],
    stall_s: float,
) -> ModelResponse:
    shown = False

    def said(text: str) -> None:
        nonlocal shown
        if text:
            show(text if shown else f"» {text}")
            shown = True

    async with awake(stall_s) as progress, model, model.request_stream(messages, settings, parameters) as stream:
        try:
            async for event in stream:
                progress()
                match event:
                    case PartStartEvent(part=TextPart(content=text)):
                        said(text)
                    case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                        said(text)
        finally:
            if shown:
                show("\n")
        response = stream.get()
    if response.state == "incomplete" or response.finish_reason is None:
        raise Cut("the stream was cut in the middle of the turn")
    if response.finish_reason == "error":
        raise Cut("the turn ended with an error")
    return response


def seconds_to_reset(error: errors.ModelAPIError, now: float) -> float | None:
    """See `provider.seconds_to_reset`."""
    return provider.seconds_to_reset(error.retry_after, getattr(error, "headers", None) or {}, error.body, now)


def _advice(error: errors.AgentRunError | errors.UserError) -> str:
    match error:
        case errors.ModelAuthenticationError():
            return f"{_detail(error)}; {provider.KEY_ADVICE}"
        case errors.ModelNotFoundError():
            hint = getattr(error, "suggested_model_id", None)
            asked = f"; did you mean '{hint}'?" if hint else f"; {provider.NAME_ADVICE}"
            return f"{_detail(error)}{asked}"
        case errors.ModelQuotaExceededError():
            return f"{_detail(error)}; {provider.CREDIT_ADVICE}"
        case errors.ContentFilterError():
            return f"{_detail(error)}; {provider.FILTER_ADVICE}"
    return f"{_detail(error)}; {provider.SETTINGS_ADVICE}"


def _detail(error: BaseException) -> str:
    return provider.detail(getattr(error, "status_code", None), getattr(error, "body", None), str(error))
