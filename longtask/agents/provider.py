"""What a provider of models says when it does not answer, whichever library has asked it: its own words, when a limit
ends, how long to wait before asking again; and what is missing on this machine to ask it at all.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from longtask.core.errors import BadPlan
from longtask.core.model import JsonMap, Parked, WaitingFor

TRIES = 5
STALL_S = 600.0  # without a sign of progress; the client libraries wait no longer for any byte
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

KEY_ADVICE = "look at the key that this worker has, and at what it may use"
NAME_ADVICE = "look at the model's name, and at the base URL"
CREDIT_ADVICE = "the account is used up: add credit or take another key, then try the step again"
FILTER_ADVICE = "the provider's filter stopped it: word the prompt otherwise"
SETTINGS_ADVICE = "it would be refused again: look at the model's settings"
ANOTHER = "end it (its process is in `longtask fleet`), and the next `longtask run` starts another"


def advice(status: int) -> str | None:
    """What to do about an answer that would be the same again; None: asking again may help."""
    match status:
        case 401 | 403:
            return KEY_ADVICE
        case 402:
            return CREDIT_ADVICE
        case 404:
            return NAME_ADVICE
        case 408 | 409 | 429:
            return None
    return SETTINGS_ADVICE if 400 <= status < 500 else None


def missing_key(model: str, key: str) -> BadPlan:
    return BadPlan(
        f"model '{model}': its worker has no {key}; set it where the worker is started.  One in the background keeps "
        f"the environment that it was started with: {ANOTHER}"
    )


def seconds_to_reset(retry_after: float | None, headers: Mapping[str, str], body: Any, now: float) -> float | None:
    """From now until the limit ends, as far as the answer tells: `Retry-After`, else the latest of the limits that
    nothing is left of, else what its body says.  None: it does not tell."""
    if retry_after is not None:
        return _bounded(retry_after)
    spent = [value for name, value in headers.items() if RESETS.match(name) and _spent(headers, name)]
    told = [seconds for seconds in (_until(value, now) for value in spent) if seconds is not None]
    if told:
        return _bounded(max(told))
    resets_at = found(body, "resets_at")
    if isinstance(resets_at, int | float):
        return _bounded(resets_at - now)
    words = TRY_AGAIN.search(str(body))
    return _bounded(_span(words[1])) if words else None


def patience(options: JsonMap, of: str) -> tuple[int, float]:
    """(`tries`: how often a request is made, `stall_s`: how long a model may be silent).  Raises BadPlan."""
    tries, stall_s = options.get("tries", TRIES), options.get("stall_s", STALL_S)
    if not isinstance(tries, int) or isinstance(tries, bool) or not 1 <= tries <= 20:
        raise BadPlan(f"agent runtime '{of}': option 'tries' is to be 1 to 20, found {tries!r}")
    if not isinstance(stall_s, int | float) or isinstance(stall_s, bool) or not 0 < stall_s <= STALL_S:
        raise BadPlan(f"agent runtime '{of}': option 'stall_s' is to be above 0, {STALL_S:.0f} at most: {stall_s!r}")
    return tries, float(stall_s)


def limited(seconds: float, said: str) -> Parked:
    due_at = int((time.time() + seconds + random.uniform(0, JITTER_S)) * 1000)
    return Parked(WaitingFor.TIMER, {"text": f"usage limit: {said}", "reason": "usage limit"}, due_at)


def pause(attempt: int) -> float:
    return float(min(PAUSE_S * 2 ** (attempt - 1), PAUSE_MAX_S))


def detail(status: int | None, body: Any, otherwise: str) -> str:
    """Status and the provider's own words, without the rest."""
    words = found(body, "message", "error", "detail")
    words = words if isinstance(words, str) and words.strip() else otherwise
    text = f"{status}: {words}" if status is not None else words
    return text if len(text) <= DETAIL_CHARS_MAX else f"{text[:DETAIL_CHARS_MAX]}…"


def found(body: Any, *names: str) -> Any:
    """What an error's body holds under one of the names, at its top or in its `error`."""
    for part in (body.get("error"), body) if isinstance(body, dict) else ():
        for name in names:
            if isinstance(part, dict) and part.get(name) is not None:
                return part[name]
    return body if isinstance(body, str) and "message" in names else None


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
