"""The JSON Schema of plans (draft 2020-12), generated from the model, so that editors complete and check them.

`longtask plan schema` prints it; `make generate` keeps schema.json beside this file fresh.

It describes shapes; what holds between steps (needs, cycles, names) only `longtask plan check` can say.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .model import Plan
from .step import KINDS

FILE = Path(__file__).with_name("schema.json")
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    made = _plain(Plan.model_json_schema())
    parts = made["$defs"]
    _walk(made, _shorthands)
    for part, first in (("Step", "id"), ("Stage", "name")):  # an editor offers them in this order
        properties = parts[part]["properties"]
        parts[part]["properties"] = {first: properties.pop(first), **properties}
    _one_of(parts["Step"], KINDS)
    _one_of(parts["Fix"], KINDS[:3])
    _one_of(parts["Artifact"], ("patch", "report", "files"))
    _one_of(parts["Wait"], ("signal", "timer"))
    _one_of(made, ("stages", "steps"))
    made["required"] = ["longtask", *made["required"]]
    top = {"$schema": {"type": "string", "description": "For editors; not read."}}
    for word in ("longtask", "name", "goal", *made["properties"]):
        top[word] = made["properties"][word]
    del made["properties"]
    return {
        "$schema": DIALECT,
        "title": "LongTask plan",
        "description": made.pop("description"),
        **made,
        "properties": top,
    }


def text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    """Without what only the validator needs: titles, and null, which the language has not."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    out = {key: _plain(one) for key, one in value.items() if not (key == "title" and isinstance(one, str))}
    if "default" in out and out["default"] in (None, {}, []):
        del out["default"]
    kinds = out.get("anyOf")
    if isinstance(kinds, list) and {"type": "null"} in kinds:
        rest = [kind for kind in kinds if kind != {"type": "null"}]
        out["anyOf"] = rest
        if len(rest) == 1:
            del out["anyOf"]
            out = {**rest[0], **out}
    return out


def _walk(value: Any, visit: Callable[[dict[str, Any]], None]) -> None:
    if isinstance(value, dict):
        for one in value.values():
            _walk(one, visit)
        visit(value)  # last: it may put a mapping around a part that was seen
    elif isinstance(value, list):
        for one in value:
            _walk(one, visit)


def _shorthands(value: dict[str, Any]) -> None:
    """`retry: 2` and `workspace: .`: what fields.py and model.py take beside the mapping."""
    for word, short in (("Retry", {"type": "integer", "minimum": 0}), ("Workspace", {"type": "string"})):
        if value.get("$ref") == f"#/$defs/{word}":
            value["anyOf"] = [short, {"$ref": value.pop("$ref")}]


def _one_of(value: dict[str, Any], words: tuple[str, ...]) -> None:
    value["oneOf"] = [{"required": [word]} for word in words]
