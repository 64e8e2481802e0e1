"""How a turn of Codex has failed, and what that means for the attempt."""

from __future__ import annotations

from collections.abc import Mapping

from longtask.agents.contract import AgentOutcome
from longtask.agents.native.limits import reset_of, until
from longtask.core.model import Failed, JsonMap

NAME = "codex"
REASON_CHARS_MAX = 1_000
FULL_PERCENT = 100
INVALID = "invalid_request_error"  # in a message that Codex does not sort

# By its own word: what is to be done, and whether another run may help.
_WORDS: Mapping[str, tuple[str, bool]] = {
    "unauthorized": (
        "the model's API has refused the key; set OPENAI_API_KEY of the worker to one that is valid",
        False,
    ),
    "badRequest": ("the model's API has refused the request", False),
    "modelNotFound": ("the model's API does not know the model", False),
    "contextWindowExceeded": ("the conversation has grown too long", True),
    "rateLimitExceeded": ("the model's API asks for a pause", True),
    "usageLimitExceeded": ("the usage limit is reached", True),
    "sessionBudgetExceeded": ("the account's budget is reached", False),
    "tooManyDenials": ("it went on making calls that are not allowed", False),
    "sandboxError": ("its sandbox does not work on this machine; see option `sandbox`", False),
    "cyberPolicy": ("the model's provider does not allow this work", False),
    "bioPolicy": ("the model's provider does not allow this work", False),
}
_STATUS: Mapping[int, str] = {
    400: "badRequest", 401: "unauthorized", 403: "unauthorized", 404: "modelNotFound", 422: "badRequest",
    429: "rateLimitExceeded",
}  # fmt: skip


def failure(error: JsonMap | None, limits: JsonMap, now: int) -> AgentOutcome:
    """`error`: of the turn; `limits`: the newest that the account was told."""
    message = str((error or {}).get("message") or "the turn failed and does not say why")
    word, status = _word((error or {}).get("codexErrorInfo"))
    word = _STATUS.get(status or 0, word)
    if word == "other" and INVALID in message:
        word = "badRequest"
    resets_at = _lifted(limits, now) or reset_of(message, now)
    if word in ("usageLimitExceeded", "rateLimitExceeded") and resets_at:
        return until(resets_at, _text(_WORDS["usageLimitExceeded"][0], message))
    what, retryable = _WORDS.get(word, ("the model's API did not answer", True))
    return Failed(_text(what, message), retryable)


def _lifted(limits: JsonMap, now: int) -> int:
    """When the limit that is reached is lifted, in ms; 0: none is known to be reached."""
    ends = [
        int(window["resetsAt"]) * 1000
        for window in (limits.get("primary"), limits.get("secondary"))
        if isinstance(window, dict) and window.get("resetsAt") and (window.get("usedPercent") or 0) >= FULL_PERCENT
    ]
    return max((end for end in ends if end > now), default=0)


def _word(info: object) -> tuple[str, int | None]:
    """(its word, the status of HTTP that it came from)."""
    if isinstance(info, dict) and info:
        word, more = next(iter(info.items()))
        status = more.get("httpStatusCode") if isinstance(more, dict) else None
        return str(word), status if isinstance(status, int) else None
    return str(info or ""), None


def _text(what: str, told: str) -> str:
    told = " ".join(told.split())
    said = told if len(told) <= REASON_CHARS_MAX else f"{told[:REASON_CHARS_MAX]}…"
    return f"{NAME}: {what}: {said}"
