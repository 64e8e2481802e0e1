"""How a run of Claude Code has ended, from its result line; an exit code and `success` alone are never believed."""

from __future__ import annotations

from longtask.agents.contract import AgentOutcome
from longtask.agents.native.limits import reset_of, until
from longtask.core.model import Failed, JsonMap

from .stream import Limit, Said

NAME = "claude-code"
REASON_CHARS_MAX = 1_000


def failure(result: JsonMap, said: Said | None, limit: Limit | None, now: int) -> AgentOutcome | None:
    """None: the run has ended well.  `result`: the last line; `now` in ms since 1970."""
    if result.get("is_error") is False and result.get("subtype") == "success":
        return None
    text = str(result.get("result") or "") or "; ".join(map(str, result.get("errors") or ()))
    text = text or (said.text if said else "") or str(result.get("subtype"))
    status, word = result.get("api_error_status"), said.error if said else ""
    if result.get("subtype") == "error_max_budget_usd":
        return Failed(_text("its own budget was reached", text), retryable=False)
    if status == 429 or word == "rate_limit" or (limit is not None and limit.rejected):
        return _limited(text, limit, now)
    if status in (401, 403) or word in ("authentication_failed", "oauth_org_not_allowed"):
        why = "the model's API has refused the key; set ANTHROPIC_API_KEY of the worker to one that is valid"
        return Failed(_text(why, text), retryable=False)
    if status == 402 or word == "billing_error":
        return Failed(_text("the account has no credit", text), retryable=False)
    if status in (400, 404, 413, 422) or word in ("invalid_request", "model_not_found"):
        too_long = "too long" in text.lower()
        why = "the conversation has grown too long" if too_long else "the model's API has refused the request"
        return Failed(_text(why, text), retryable=too_long)
    return Failed(_text("the model's API did not answer", text) if status or word else _text("it failed", text))


def _limited(text: str, limit: Limit | None, now: int) -> AgentOutcome:
    resets_at = (limit.resets_at if limit is not None and limit.rejected else 0) or reset_of(text, now)
    if resets_at <= now:
        return Failed(_text("the model's API asks for a pause", text))
    return until(resets_at, _text("the usage limit is reached", text))


def _text(what: str, told: str) -> str:
    told = " ".join(told.split())
    said = told if len(told) <= REASON_CHARS_MAX else f"{told[:REASON_CHARS_MAX]}…"
    return f"{NAME}: {what}" + (f": {said}" if said else "")
