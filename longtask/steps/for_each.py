"""`for_each` steps: the first attempt answers with the list, the second collects the outputs in the list's order.

What failed under `when_failed: continue` is null in the outputs, and told in the artifact `failures/STEP.json`.
The list is kept, so that a retry expands the same one again, and only what has not completed runs.
"""

from __future__ import annotations

import json
from pathlib import Path

from longtask.core.model import Done, Expanded, Failed, StepState, WhenFailed
from longtask.core.policy import ITEMS_MAX
from longtask.steps.contract import Assignment, Desk, Ended, Handle, Records, Render

NAMED_MAX = 20  # failed items named in a message


class ForEachExecutor:
    def __init__(self, expand: Render, records: Records) -> None:
        self._expand_list = expand
        self._records = records

    def start(self, assignment: Assignment, desk: Desk, place: Path | None) -> Handle:
        return Ended(self._collect(assignment, desk) if assignment.items else self._expand(assignment))

    def _expand(self, assignment: Assignment) -> Expanded | Failed:
        listing = assignment.listing
        if listing is None:
            listing = self._expand_list(assignment.spec.items, assignment.scope)
        if not isinstance(listing, list):
            return Failed(f"for_each needs a list, found {type(listing).__name__}", retryable=False)
        if len(listing) > ITEMS_MAX:
            return Failed(f"for_each has {len(listing):,} items, the limit is {ITEMS_MAX:,}", retryable=False)
        return Expanded(len(listing), listing)

    def _collect(self, assignment: Assignment, desk: Desk) -> Done | Failed:
        results: list[object] = [None] * assignment.items
        failures: list[dict[str, object]] = []
        seen = 0
        for row in self._records.items(assignment.task_id, assignment.step):
            assert row.item is not None
            seen += 1
            if row.state is StepState.COMPLETED:
                results[row.item] = self._records.value(assignment.workspace_id, row.result)
            else:
                failures.append({"index": row.item, "step": row.key, "state": str(row.state), "reason": row.reason})
        tolerated = assignment.when_failed is WhenFailed.CONTINUE
        if (failures or seen < assignment.items) and not tolerated:
            named = ", ".join(f"{f['step']} ({f['reason'] or f['state']})" for f in failures[:NAMED_MAX])
            more = f" and {len(failures) - NAMED_MAX} more" if len(failures) > NAMED_MAX else ""
            unbegun = f"; {assignment.items - seen} were not begun" if seen < assignment.items else ""
            return Failed(
                f"{len(failures)} of {assignment.items} items failed: {named}{more}{unbegun}", retryable=False
            )
        if not failures:
            return Done(results)
        told = json.dumps(failures).encode()
        return Done(
            results, artifacts=(desk.put_artifact(f"failures/{assignment.step}.json", told, "application/json"),)
        )
