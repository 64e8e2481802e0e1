"""The wanted outputs as the JSON Schema that programs of agents are given."""

from __future__ import annotations

from collections.abc import Mapping

from longtask.core.model import JsonMap

_TYPES: Mapping[str, JsonMap] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "list": {"type": "array", "items": {}},
    "map": {"type": "object"},
    "any": {},
}


def schema_of(outputs: Mapping[str, str]) -> JsonMap:
    return {
        "type": "object",
        "properties": {name: dict(_TYPES[word]) for name, word in outputs.items()},
        "required": list(outputs),
        "additionalProperties": False,
    }
