"""The wanted outputs as the JSON Schema that programs of agents are given."""

from __future__ import annotations

import json
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


def asked_for(outputs: Mapping[str, str]) -> str:
    """What follows the prompt of an agent that takes no schema; empty without outputs."""
    if not outputs:
        return ""
    schema = json.dumps(schema_of(outputs))
    return (
        f"\n\nYour last message is to end with one JSON object that follows this schema, and nothing after it: {schema}"
    )


def outputs_in(text: str) -> JsonMap | None:
    """The last JSON object of a message, whatever stands around it; None: there is none."""
    decoder = json.JSONDecoder()
    found, at = None, 0
    while (at := text.find("{", at)) >= 0:
        try:
            found, at = decoder.raw_decode(text, at)
        except ValueError:
            at += 1
    return found
