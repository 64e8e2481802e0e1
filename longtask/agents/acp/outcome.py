"""How a prompt has ended badly, and what that means for the attempt.  `end_turn` alone is never believed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime

from longtask.agents.contract import AgentOutcome
from longtask.agents.native.limits import reset_of, until
from longtask.core.model import Failed, JsonMap

from .agents import Broken

AUTH_REQUIRED = -32_000
REASON_CHARS_MAX = 1_000
STOPS: Mapping[str, tuple[str, bool]] = {  # what it means, and whether another run may help
    "max_tokens": ("an answer was cut off at the limit of its tokens", True),
    "max_turn_requests": ("it has made all the requests that it allows itself", True),
    "refusal": ("the model refuses this work", False),
    "cancelled": ("it was cancelled, and not by LongTask", True),
}
ENDS: Mapping[str, str] = {"length": "max_tokens", "content-filter": "refusal"}  # of a turn, as such
_STATUS: Mapping[int, tuple[str, bool]] = {
    400: ("the model's API has refused the request", False),
    401: ("the model's API has refused the key; set one that is valid where the worker is started", False),
    402: ("the account has no credit", False),
    403: ("the model's API has refused the key; set one that is valid where the worker is started", False),
    404: ("the model's API does not know the model", False),
    413: ("the conversation has grown too long", True),
    422: ("the model's API has refused the request", False),
    429: ("the model's API asks for a pause", True),
}
_WORDS = (  # where no status is told
    (401, r"\b401\b|unauthori[sz]ed|invalid.{0,10}api.?key|authenticat|not logged in|\blog ?in\b"),
    (402, r"\b402\b|no credit|insufficient.{0,10}(credit|balance|quota)|billing"),
    (413, r"context.{0,20}(length|window|limit)|too long|maximum context"),
    (429, r"\b429\b|rate.?limit|too many requests|usage limit|quota"),
    (404, r"\b404\b|model.{0,40}not (found|exist|available|supported)|unknown model"),
    (400, r"\b400\b|invalid.request|bad request"),
)


def failure(name: str, broken: Broken, now: int) -> AgentOutcome:
    """`now` in ms since 1970."""
    status = broken.status or _status(broken.text)
    resets_at = _resets_at(broken, now) or reset_of(broken.text, now)
    if status == 429 and resets_at > now:
        return until(resets_at, text(name, "the usage limit is reached", broken.text))
    what, retryable = _STATUS.get(status, ("the model's API did not answer", True))
    if status == 400 and _status(broken.text) == 413:
        what, retryable = _STATUS[413]
    return Failed(text(name, what, broken.text), retryable)


def refused(error: JsonMap) -> Broken:
    """An error in the place of the prompt's answer."""
    about = error.get("data")
    more = next((str(about[key]) for key in ("details", "message") if isinstance(about, dict) and about.get(key)), "")
    said = f"{error.get('message')}" + (f": {more}" if more and more not in str(error.get("message")) else "")
    return Broken(said, 401 if error.get("code") == AUTH_REQUIRED else 0)


def stopped(name: str, reason: str) -> Failed:
    what, retryable = STOPS.get(reason, (f"it ended with {reason!r}, which is not known", True))
    return Failed(text(name, what, ""), retryable)


def cut(name: str, end: str) -> Failed:
    """`end`: of the last turn, in the agent's word."""
    if end in ENDS:
        return stopped(name, ENDS[end])
    return Failed(text(name, f"its last answer is not whole ({end})", ""))


def text(name: str, what: str, told: str) -> str:
    told = " ".join(told.split())
    said = told if len(told) <= REASON_CHARS_MAX else f"{told[:REASON_CHARS_MAX]}…"
    return f"{name}: {what}" + (f": {said}" if said else "")


def _status(said: str) -> int:
    return next((status for status, words in _WORDS if re.search(words, said, re.IGNORECASE)), 0)


def _resets_at(broken: Broken, now: int) -> int:
    """By what the model's API has said beside; 0: it has not."""
    headers = {name.lower(): value for name, value in broken.headers.items()}
    try:
        if (told := headers.get("anthropic-ratelimit-unified-reset")) is not None:
            return int(told) * 1000
        if (told := headers.get("retry-after")) is not None:
            return now + round(float(told) * 1000)
        if (told := headers.get("anthropic-ratelimit-requests-reset")) is not None:
            return round(datetime.fromisoformat(told).timestamp() * 1000)
        error = json.loads(broken.body or "{}").get("error") or {}
        return int(error.get("resets_at") or 0) * 1000
    except (ValueError, AttributeError, TypeError):
        return 0
