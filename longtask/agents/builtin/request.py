"""One turn of the model on the wire: asked, streamed to who watches, asked again when that may help.

What an error means, and what becomes of the attempt:

    429 with a time of reset    a short one is waited for here; a longer one parks the step until then
    5xx, 529, no connection,    asked again after a pause that doubles; then the attempt fails and may be tried again
    a stream that is cut or
    malformed
    the talk is too long        `TooLong`: something of it is left out, then it is asked again (`compaction.py`)
    400, 401, 403, 404, quota   the attempt fails for good and says what to do

The client libraries try nothing again by themselves (`max_retries` 0): nobody could count or stop that.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from pydantic_ai import exceptions as errors
from pydantic_ai.messages import ModelMessage, ModelResponse, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from longtask.agents.builtin.wire import Wire
from longtask.agents.contract import AgentOutcome
from longtask.core.model import Failed, Parked, WaitingFor

TRIES = 5
PAUSE_S, PAUSE_MAX_S = 0.5, 30.0  # before the second try; it doubles
IN_PLACE_S = 20.0  # a reset that is nearer than this is waited for with the slot in hand
UNKNOWN_RESET_S = 300.0  # of a limit that does not say when it ends
RESET_MAX_S = 8 * 24 * 3600.0  # a week's limit is the longest that providers have
JITTER_S = 15.0  # not everybody comes back in the same second
DETAIL_CHARS_MAX = 500

RESETS = re.compile(r"^(?:anthropic-ratelimit(?:-unified)?-.*reset|x-ratelimit-reset.*|ratelimit-reset)$")
SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
TRY_AGAIN = re.compile(r"(?:try again|retry|resets?) (?:in|after) (\d+(?:\.\d+)?(?:ms|s|m|h)[\dhms.]*)", re.IGNORECASE)

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
    tries: int = TRIES,
) -> ModelResponse:
    """`show` hears the text as it comes, `note` what goes wrong meanwhile.  Raises TooLong, GaveUp."""
    for attempt in range(1, tries + 1):
        try:
            return wire.do(_stream(model, messages, settings, parameters, show))
        except errors.ModelContextWindowExceededError as error:
            raise TooLong(_detail(error)) from error
        except errors.ModelRateLimitError as error:
            reset_s = seconds_to_reset(error, time.time())
            last = attempt == tries
            if last or (reset_s is not None and reset_s > IN_PLACE_S):
                raise GaveUp(_limited(UNKNOWN_RESET_S if reset_s is None else reset_s, error)) from error
            pause_s = _pause(attempt) if reset_s is None else reset_s
            note(f"the model is limited: {_detail(error)}; asked again in {pause_s:.1f} s\n")
        except FOR_GOOD as error:
            raise GaveUp(Failed(f"model '{model.model_id}': {_advice(error)}", retryable=False)) from error
        except (errors.ModelAPIError, errors.UnexpectedModelBehavior) as error:
            what = f"model '{model.model_id}': {_detail(error)}"
            if attempt == tries:
                raise GaveUp(Failed(f"{what} ({tries} times)")) from error
            told = error.retry_after if isinstance(error, errors.ModelAPIError) else None
            pause_s = _pause(attempt) if told is None else min(told, PAUSE_MAX_S)
            note(f"{what}; asked again in {pause_s:.1f} s\n")
        time.sleep(pause_s)
    raise AssertionError("the last try returns or raises")


async def _stream(
    model: Model,
    messages: list[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
    show: Callable[[str], None],
) -> ModelResponse:
    shown = False

    def said(text: str) -> None:
        nonlocal shown
        if text:
            show(text if shown else f"» {text}")
            shown = True

    async with model, model.request_stream(messages, settings, parameters) as stream:
        try:
            async for event in stream:
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
    """From now until the limit ends, as far as the answer tells: `Retry-After`, else the latest of the limits that
    nothing is left of, else what its body says.  None: it does not tell."""
    if error.retry_after is not None:
        return _bounded(error.retry_after)
    headers: Mapping[str, str] = getattr(error, "headers", None) or {}
    spent = [value for name, value in headers.items() if RESETS.match(name) and _spent(headers, name)]
    told = [seconds for seconds in (_until(value, now) for value in spent) if seconds is not None]
    if told:
        return _bounded(max(told))
    resets_at = _found(error.body, "resets_at")
    if isinstance(resets_at, int | float):
        return _bounded(resets_at - now)
    words = TRY_AGAIN.search(str(error.body))
    return _bounded(_span(words[1])) if words else None


def _spent(headers: Mapping[str, str], reset: str) -> bool:
    return headers.get(reset.replace("reset", "remaining"), "0") == "0"


def _until(value: str, now: float) -> float | None:
    """An instant (RFC 3339, or seconds since 1970), a span (`6m0s`), or a number of seconds."""
    try:
        number = float(value)
        return number - now if number > 1e9 else number
    except ValueError:
        pass
    try:
        instant = datetime.fromisoformat(value)
        return instant.timestamp() - now if instant.tzinfo is not None else None
    except ValueError:
        return _span(value) if SPAN.match(value) else None


def _span(text: str) -> float:
    return sum(float(number) * SECONDS[unit] for number, unit in SPAN.findall(text))


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), RESET_MAX_S)


def _limited(seconds: float, error: errors.ModelAPIError) -> Parked:
    due_at = int((time.time() + seconds + random.uniform(0, JITTER_S)) * 1000)
    return Parked(WaitingFor.TIMER, {"text": f"usage limit: {_detail(error)}", "reason": "usage limit"}, due_at)


def _pause(attempt: int) -> float:
    return float(min(PAUSE_S * 2 ** (attempt - 1), PAUSE_MAX_S))


def _advice(error: errors.AgentRunError | errors.UserError) -> str:
    match error:
        case errors.ModelAuthenticationError():
            return f"{_detail(error)}; look at the key that this worker has, and at what it may use"
        case errors.ModelNotFoundError():
            hint = getattr(error, "suggested_model_id", None)
            asked = f"; did you mean '{hint}'?" if hint else "; look at the model's name, and at the base URL"
            return f"{_detail(error)}{asked}"
        case errors.ModelQuotaExceededError():
            return f"{_detail(error)}; the account is used up: add credit or take another key, then try the step again"
        case errors.ContentFilterError():
            return f"{_detail(error)}; the provider's filter stopped it: word the prompt otherwise"
    return f"{_detail(error)}; it would be refused again: look at the model's settings"


def _detail(error: BaseException) -> str:
    """Status and the provider's own words, without the rest."""
    status = getattr(error, "status_code", None)
    words = _found(getattr(error, "body", None), "message", "error", "detail")
    words = words if isinstance(words, str) and words.strip() else str(error)
    text = f"{status}: {words}" if status is not None else words
    return text if len(text) <= DETAIL_CHARS_MAX else f"{text[:DETAIL_CHARS_MAX]}…"


def _found(body: Any, *names: str) -> Any:
    """What an error's body holds under one of the names, at its top or in its `error`."""
    for part in (body.get("error"), body) if isinstance(body, dict) else ():
        for name in names:
            if isinstance(part, dict) and part.get(name) is not None:
                return part[name]
    return body if isinstance(body, str) and "message" in names else None
