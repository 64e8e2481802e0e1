"""What nearly every block writes, as one statement for all blocks of a group: headers, steps, events, leases.

Five statements cost the server twice what one does that says all five, and sixty blocks at once a third of sixty; none
of them reads what another writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from longtask.core.codec import dump_json

NAME = "save"
UPDATED = (
    "state", "seq", "admits", "priority", "served_at", "ended_at", "steps", "open", "ready", "ready_system", "running",
    "running_system", "merging", "wait_user", "wait_ci", "wait_event", "wait_timer", "wait_task", "wait_mutex", "bad",
    "untold", "gates", "weight", "weight_done", "rest",
)  # fmt: skip
CLOSE, OPEN = "close_leases", "open_leases"
PARTS = (
    "update_task",
    "upsert_steps",
    "insert_events",
    CLOSE,
    OPEN,
)  # the last is the statement, the others its `with`


def own(part: str) -> str:
    """The list of a part, under a name that no other part has."""
    return f"{part}_rows"


def fused(queries: Mapping[str, str]) -> str:
    *texts, last = [re.sub(r":rows\b", f":{own(part)}", queries[part]) for part in PARTS]
    before = ", ".join(f"part_{n} as (\n{text}\n)" for n, text in enumerate(texts))
    return f"with {before}\n{last}"


class Parts:
    """What waits to be written by one statement."""

    def __init__(self) -> None:
        self._blocks: dict[str, list[str]] = {part: [] for part in PARTS}
        self._leases: dict[str, set[tuple[int, str]]] = {CLOSE: set(), OPEN: set()}

    def __bool__(self) -> bool:
        return any(self._blocks.values())

    def add(self, part: str, params: Mapping[str, Any]) -> None:
        if part == "update_task":
            task_n, rows = params["n"], dump_json([[params[column] for column in UPDATED]])
        else:
            task_n, rows = params["task_n"], params["keys" if part == CLOSE else "rows"]
        block = f"[{task_n},{params.get('at', 0)},{json.dumps(params.get('actor', ''))},{rows}]"
        self._blocks[part].append(block)
        if part in self._leases:
            self._leases[part] |= {(task_n, row if part == CLOSE else row[0]) for row in json.loads(rows)}

    def statements(self) -> list[tuple[str, dict[str, str]]]:
        """In their order, with their parameters."""
        lists = {part: f"[{','.join(blocks)}]" for part, blocks in self._blocks.items()}
        first: list[tuple[str, dict[str, str]]] = []
        if self._leases[CLOSE] & self._leases[OPEN]:  # one statement would not see its own deletion
            first = [(CLOSE, {"rows": lists[CLOSE]})]
            lists[CLOSE] = "[]"
        return [*first, (NAME, {own(part): rows for part, rows in lists.items()})]
