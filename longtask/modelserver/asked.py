"""What a request asks for, whatever wire it came over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the agent offers.  `params`: their JSON Schemas by name; None: it takes free text, no arguments."""

    name: str
    params: Mapping[str, Any] | None = field(default_factory=dict)
    required: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Asked:
    """`user`: all that the user has said so far.  `replies`: how often the model has spoken in the request's history.

    `as_json`: the answer is to be JSON, by the request's own format.  `counted`: the stream is to tell its usage.
    """

    model: str
    stream: bool
    tools: Mapping[str, Tool]
    user: str
    replies: int
    as_json: bool = False
    counted: bool = True


class Unreadable(Exception):
    """The body is none that its wire takes."""


def tool_of(name: Any, schema: Any) -> Tool:
    """From the JSON Schema of its arguments."""
    schema = schema if isinstance(schema, Mapping) else {}
    return Tool(str(name), dict(schema.get("properties") or {}), frozenset(schema.get("required") or ()))


def texts(content: Any) -> str:
    """The text of a message's content: a text, or parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, Mapping) and "text" in part)


def runs(spoken: Iterable[bool]) -> int:
    """How often the model has spoken: what it says in one go may be several entries of the history."""
    return sum(1 for by_model, _ in groupby(spoken) if by_model)


def entries(body: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """A list of mappings out of the body; absent: an empty one.  Raises Unreadable."""
    found = body.get(name) or []
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        raise Unreadable(f"'{name}' is to be a list of objects")
    return found
