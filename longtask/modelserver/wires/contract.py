"""What a wire is: a request's body read, an answer written, whole or as the events of a stream, and errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from longtask.core.model import JsonMap
from longtask.modelserver.asked import Asked
from longtask.modelserver.said import Said


class Event(NamedTuple):
    """Of a stream (SSE).  `name` "": it has none.  `data`: JSON, or a text that is sent as it stands."""

    name: str
    data: JsonMap | str


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as the wire tells it."""

    body: JsonMap
    headers: Mapping[str, str] = field(default_factory=dict)


class Wire(Protocol):
    name: str

    def read(self, body: Mapping[str, Any]) -> Asked:
        """Raises asked.Unreadable."""

    def document(self, said: Said, asked: Asked) -> JsonMap:
        """The whole answer."""

    def events(self, document: JsonMap, asked: Asked) -> Iterator[Event]:
        """The same answer as a stream, what ends it included."""

    def failure(self, status: int, message: str, resets_at: int | None = None) -> Failure:
        """`resets_at`: seconds since 1970, when a limit is lifted."""

    def broken(self, document: JsonMap, status: int, message: str) -> Event:
        """An error inside a stream."""
