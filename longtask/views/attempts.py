"""The attempts of a step, from the task's journal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from longtask.core import events as e
from longtask.core.policy import BATCH_MAX
from longtask.store.contract import Ref, Store

# What an attempt came to, by the fact that ended it.
OUTCOMES: dict[type[e.Fact], str] = {
    e.StepCompleted: "completed",
    e.StepDelivered: "delivered",
    e.StepFailed: "failed",
    e.StepRetried: "failed",
    e.StepLost: "lost",
    e.StepReleased: "released",
    e.StepParked: "parked",
    e.HelpAsked: "asked",
    e.FixRequested: "failed",
    e.StepExpanded: "expanded",
    e.StepCancelled: "cancelled",
}


def attempt_maps(store: Store, ref: Ref) -> Iterator[dict[str, Any]]:
    """Oldest first.  Reads the whole journal of the task."""
    begun: dict[str, Any] | None = None
    for event in _journal(store, ref.task_id):
        fact = event.fact
        if getattr(fact, "step", None) != ref.step:
            continue
        if isinstance(fact, e.StepClaimed):
            begun = {
                "attempt": fact.attempt,
                "worker": fact.worker,
                "runtime": fact.runtime,
                "began_at": event.at,
                "ended_at": None,
                "outcome": None,
                "reason": None,
            }
        elif begun is not None and type(fact) in OUTCOMES:
            reason = getattr(fact, "reason", None)
            yield {**begun, "ended_at": event.at, "outcome": OUTCOMES[type(fact)], "reason": reason}
            begun = None
    if begun is not None:
        yield begun


def _journal(store: Store, task_id: str) -> Iterator[e.Event]:
    after = 0
    while page := store.events(task_id, after, BATCH_MAX):
        yield from page
        after = page[-1].seq
