"""`wait` steps: for a signal with a match, or for a time.  While they wait they hold nothing.

A wait for a signal that is woken by its deadline looks into the inbox once more (`late`), under the task's lock; only
then it has failed.  A timer whose deadline comes has completed.
"""

from __future__ import annotations

from pathlib import Path

from longtask.core.model import Done, Parked, WaitingFor
from longtask.steps.contract import Assignment, Desk, Ended, Handle, Render


class WaitExecutor:
    def __init__(self, render: Render) -> None:
        self._render = render

    def start(self, assignment: Assignment, desk: Desk, place: Path | None) -> Handle:
        body, cause = assignment.spec.body, assignment.cause or {}
        if "timer_ms" in body:
            if cause.get("deadline"):
                return Ended(Done({}))
            return Ended(Parked(WaitingFor.TIMER, {"timer_ms": body["timer_ms"]}, desk.now() + body["timer_ms"]))
        if "signal" in cause:
            return Ended(Done(dict(cause["payload"])))
        name = body["signal"]
        match = self._render(body.get("match") or {}, assignment.scope)
        question = {"name": name, "match": match}
        waiting_for = WaitingFor.CI if name.startswith("ci.") else WaitingFor.EVENT
        if cause.get("deadline"):
            return Ended(Parked(waiting_for, {**question, "late": True}, desk.now()))
        timeout_ms = body.get("timeout_ms")
        return Ended(Parked(waiting_for, question, desk.now() + timeout_ms if timeout_ms else 0))
