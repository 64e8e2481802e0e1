"""What nearly every block writes, as one statement: header, steps, events, leases.

Five statements cost the server twice what one does that says all five; none of them reads what another writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

NAME = "save"
LISTS = {"upsert_steps": "rows", "insert_events": "rows", "close_leases": "keys", "open_leases": "rows"}
PARTS = ("update_task", *LISTS)  # the last one is the statement, those before it its `with`


def own(part: str) -> str:
    """The list of a part, under a name that no other part has."""
    return f"{part}_{LISTS[part]}"


def fused(queries: Mapping[str, str]) -> str:
    texts = [re.sub(rf":{LISTS[part]}\b", f":{own(part)}", queries[part]) if part in LISTS else queries[part]
             for part in PARTS]  # fmt: skip
    before = ", ".join(f"part_{n} as (\n{text}\n)" for n, text in enumerate(texts[:-1]))
    return f"with {before}\n{texts[-1]}"


def together(params: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Parameters of the one statement; None: it does not fit, and the parts go by themselves."""
    if "update_task" not in params or len(params) < 2:
        return None
    if "close_leases" in params and "open_leases" in params and _touches_twice(params):
        return None
    task_n = params["update_task"]["n"]
    whole: dict[str, Any] = {"task_n": task_n, "at": 0, "actor": ""} | {own(part): "[]" for part in LISTS}
    for part, its in params.items():
        whole.update({own(part) if name == LISTS.get(part) else name: value for name, value in its.items()})
    return whole


def _touches_twice(params: Mapping[str, Mapping[str, Any]]) -> bool:
    """A lease that is closed and opened at once: one statement would not see its own deletion."""
    closed = set(json.loads(params["close_leases"]["keys"]))
    return any(row[0] in closed for row in json.loads(params["open_leases"]["rows"]))
