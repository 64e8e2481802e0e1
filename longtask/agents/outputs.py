"""What a step hands over: names and types, as the plan words them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longtask.core.model import Json, JsonMap

TYPES: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "string": ("text", (str,)),
    "integer": ("a whole number", (int,)),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", (bool,)),
    "list": ("a list", (list,)),
    "map": ("a map", (dict,)),
    "any": ("any value", (object,)),
}
SCHEMAS: Mapping[str, JsonMap] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "list": {"type": "array", "items": {}},
    "map": {"type": "object", "additionalProperties": True},
    "any": {},
}


def schema_of(wanted: Mapping[str, str]) -> JsonMap:
    return {
        "type": "object",
        "properties": {name: {**SCHEMAS[word], "description": TYPES[word][0]} for name, word in wanted.items()},
        "required": list(wanted),
        "additionalProperties": False,
    }


def mismatches(outputs: Json, wanted: Mapping[str, str]) -> list[str]:
    """What is wrong with the outputs, in the order of what is wanted.  More than is wanted is wrong, too."""
    if not isinstance(outputs, Mapping):
        return [] if outputs is None and not wanted else [f"to be a map of names, found {type(outputs).__name__}"]
    found = []
    for name, word in wanted.items():
        if name not in outputs:
            found.append(f"'{name}' ({word}) is missing")
        elif not fits(outputs[name], word):
            found.append(f"'{name}' is to be {TYPES[word][0]}, found {type(outputs[name]).__name__}")
    listed = ", ".join(repr(name) for name in wanted) or "none"
    found += [f"'{name}' is not wanted (wanted: {listed})" for name in outputs if name not in wanted]
    return found


def fits(value: Any, word: str) -> bool:
    assert word in TYPES, f"type word '{word}'"
    return isinstance(value, TYPES[word][1]) and (word in ("boolean", "any") or not isinstance(value, bool))
