"""`task` steps: the first attempt asks for a task of its own, the next one takes over what has come of it.

The child is made from the plan in the spec's body, with the inputs that this attempt has rendered; while it works, the
step waits and holds nothing.  What the child's plan hands over as `outputs` are the step's outputs, and its head is the
step's commit, which joins the parent's head as any other commit.
"""

from __future__ import annotations

from pathlib import Path

from longtask.core.family import END_NAME
from longtask.core.model import Done, Failed, JsonMap, SubTask, TaskState
from longtask.steps.contract import Assignment, Desk, Ended, Handle, Records, Render

NAMED_MAX = 5  # failed steps named in a message


class TaskExecutor:
    def __init__(self, render: Render, records: Records) -> None:
        self._render = render
        self._records = records

    def start(self, assignment: Assignment, desk: Desk, place: Path | None) -> Handle:
        cause = assignment.cause or {}
        name = str(cause.get("signal", ""))
        if name.startswith(END_NAME):
            return Ended(self._taken(assignment, name.removeprefix(END_NAME), cause["payload"]))
        return Ended(SubTask(self._render(assignment.spec.body.get("inputs") or {}, assignment.scope)))

    def _taken(self, assignment: Assignment, child: str, end: JsonMap) -> Done | Failed:
        if end["state"] != TaskState.COMPLETED:
            return Failed(self._why(child, end["state"]), retryable=False)
        body = assignment.spec.body
        outputs = self._render(body.get("results") or {}, self._records.scope(child, body.get("sources") or ()))
        if end["head"] == end["base"]:
            return Done(outputs)
        return Done(outputs, commit=end["head"], base=end["base"])

    def _why(self, child: str, state: str) -> str:
        failed = self._records.failures(child, NAMED_MAX + 1)
        named = "; ".join(f"{row.key}: {row.reason or row.state}" for row in failed[:NAMED_MAX])
        more = " and others" if len(failed) > NAMED_MAX else ""
        return f"its task {child} has {'failed' if state == TaskState.FAILED else f'been {state}'}" + (
            f": {named}{more}" if named else ""
        )
