"""What is asked of a server, as a value; and how an answer is read."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from longtask.client.documents import Page
from longtask.core.errors import LongTaskError

JSON = "application/json"
KEY = "Idempotency-Key"
PAGE = 200

T = TypeVar("T")


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


def document(answer: Answer) -> Any:
    try:
        return json.loads(answer.body)
    except ValueError as error:
        raise LongTaskError(f"the answer ({len(answer.body):,} bytes) is no JSON: {error}; is it LongTask's?") from None


def items(answer: Answer) -> Any:
    """Of a list that comes whole."""
    return document(answer)["items"]


def text(answer: Answer) -> str:
    return answer.body.decode("utf-8", "replace")


def content(answer: Answer) -> bytes:
    return answer.body


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """`path`: below the server's address, quoted.  Each is safe to repeat: it asks only, or it bears a key of its own,
    by which the server knows it again."""

    method: str
    path: str
    read: Callable[[Answer], T]
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Pages(Generic[T]):
    """A list that comes in pages.  `at_most`: items in all; None: all there are.  `start`: the cursor to begin with."""

    first: Request[Page[T]]
    at_most: int | None = None
    start: str | None = None

    def after(self, cursor: str | None) -> Request[Page[T]]:
        if cursor is None:
            return self.first
        joint = "&" if "?" in self.first.path else "?"
        return replace(self.first, path=f"{self.first.path}{joint}{urlencode({'cursor': cursor})}")


class Turning(Generic[T]):
    """Turns pages: `page(answer)` tells the items, and `wanted` what to ask for next; None: that was all.

    A page whose `next` is where it began says that nothing more has happened so far."""

    def __init__(self, pages: Pages[T]) -> None:
        self._pages, self._left, self._cursor = pages, pages.at_most, pages.start
        self.wanted: Request[Page[T]] | None = pages.after(pages.start)

    def page(self, page: Page[T]) -> Sequence[T]:
        found, next_ = page["items"], page["next"]
        if self._left is not None:
            found = found[: self._left]
            self._left -= len(found)
        over = next_ is None or next_ == (self._cursor or "0") or self._left == 0
        self._cursor = next_
        self.wanted = None if over else self._pages.after(next_)
        return found


def path(*parts: str, query: Mapping[str, object] | None = None) -> str:
    """Under /v1.  What is None or empty is left out of the query; a list is said again and again."""
    found = "/".join(["/v1", *(quote(part, safe="@") for part in parts)])
    wanted = {name: _query(value) for name, value in (query or {}).items() if value not in (None, (), [], "")}
    return f"{found}?{urlencode(wanted, doseq=True)}" if wanted else found


def _query(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return list(value) if isinstance(value, tuple) else value


def get(path: str, read: Callable[[Answer], T], **headers: str) -> Request[T]:
    return Request("GET", path, read, headers)


def post(
    path: str, read: Callable[[Answer], T], value: Any = None, *, key: str | None = None, **headers: str
) -> Request[T]:
    """`value`: sent as JSON; None: no body.  `key`: else one is made, for this request and its repetitions."""
    return post_bytes(path, read, None if value is None else json.dumps(value).encode(), JSON, key=key, **headers)


def post_bytes(
    path: str, read: Callable[[Answer], T], body: bytes | None, media_type: str, *, key: str | None = None, **more: str
) -> Request[T]:
    headers = {KEY: key or secrets.token_urlsafe(24), **more}
    if body is not None:
        headers["Content-Type"] = media_type
    return Request("POST", path, read, headers, body)
