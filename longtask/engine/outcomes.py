"""What of an outcome is kept in rows and events: no secret, nothing large."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from longtask.core.model import Done, Expanded, Failed, Json, Outcome, Parked, Released, SubTask
from longtask.core.policy import INLINE_BYTES_MAX, REASON_LENGTH_MAX
from longtask.redaction import redact, redact_value

from .scope import ARTIFACT


def bounded(outcome: Outcome, put: Callable[[Json], str]) -> Outcome:
    """Large values go to the artifact store, before any lock is taken; reasons are cut.  `put` answers the digest."""
    match outcome:
        case Done(result=result) if result is not None:
            return replace(outcome, result=_inline(result, put))
        case Expanded(listing=dict(listing)):  # an agent's: which call it was stays in sight
            return replace(outcome, listing={**listing, "tasks": _inline(listing["tasks"], put)})
        case SubTask(inputs=inputs):
            return SubTask({name: _inline(value, put) for name, value in inputs.items()})
        case Expanded():
            return replace(outcome, listing=_inline(outcome.listing, put))
        case Failed() if len(outcome.reason) > REASON_LENGTH_MAX:
            cut = outcome.reason[:REASON_LENGTH_MAX] + " … (cut)"
            return Failed(cut, outcome.retryable, outcome.digest, outcome.artifacts, outcome.revise)
    return outcome


def _inline(value: Json, put: Callable[[Json], str]) -> Json:
    if isinstance(value, (int, float, bool)) or value is None or len(json.dumps(value)) <= INLINE_BYTES_MAX:
        return value
    return {ARTIFACT: put(value)}


def masked(outcome: Outcome) -> Outcome:
    """Without secrets: an outcome stands in events and rows, and is shown to everybody."""
    match outcome:
        case Done(result=result) if result is not None and (shown := redact_value(result)) != result:
            return replace(outcome, result=shown)
        case Failed(reason=reason) | Released(reason=reason) if (shown := redact(reason)) != reason:
            return replace(outcome, reason=shown)
        case Parked(question=question) if (shown := redact_value(question)) != question:
            return replace(outcome, question=shown)
        case SubTask(inputs=inputs) if (shown := redact_value(inputs)) != inputs:
            return SubTask(shown)
        case Expanded(listing=listing) if (shown := redact_value(listing)) != listing:
            return replace(outcome, listing=shown)
    return outcome
