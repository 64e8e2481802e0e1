"""A refusal of the server becomes an error of the one tree (core/errors), with the server's own words.

Its `__cause__` is the `Answered` that it was made of: status, word, and all members of the problem document.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from longtask.core.errors import (
    BadPlan,
    HubUnreachable,
    LeaseLost,
    LongTaskError,
    NotFound,
    Problem,
    Refused,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    WorkspaceError,
)

URN = "urn:longtask:problem:"
SHOWN_MAX = 200


class NotAllowed(Refused):
    """Who asks is not known to the server, or may not (HTTP 401, 403)."""


class Changed(Refused):
    """What is asked is not what was seen (HTTP 412); `current`: the approval as it stands now."""

    def __init__(self, text: str, current: Mapping[str, Any]) -> None:
        super().__init__(text)
        self.current = dict(current)


class Answered(Exception):
    """An answer that is a problem, as it came.  `slug`: the word of its type; "" when something else answered."""

    def __init__(self, status: int, slug: str, detail: str, members: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {slug}".strip())
        self.status, self.slug, self.detail, self.members = status, slug, detail, dict(members)


OF_WORD: dict[str, type[LongTaskError]] = {
    "bad-plan": BadPlan,
    "bad-value": BadPlan,
    "bad-request": BadPlan,
    "bad-key": BadPlan,
    "bad-cursor": BadPlan,
    "bad-json": BadPlan,
    "headers": BadPlan,
    "if-match-required": BadPlan,
    "key-reused": BadPlan,
    "media-type": BadPlan,
    "range": BadPlan,
    "reason-needed": BadPlan,
    "target": BadPlan,
    "token-in-address": BadPlan,
    "too-large": BadPlan,
    "not-found": NotFound,
    "unauthenticated": NotAllowed,
    "forbidden": NotAllowed,
    "foreign": NotAllowed,
    "refused": Refused,
    "in-flight": Refused,
    "told-once": Refused,
    "lease-lost": LeaseLost,
    "busy": StoreBusy,
    "slow": StoreBusy,
    "too-many-requests": StoreBusy,
    "store": StoreError,
    "store-unavailable": StoreUnavailable,
    "hub-unreachable": HubUnreachable,
    "workspace": WorkspaceError,
}
OF_STATUS: dict[int, type[LongTaskError]] = {  # of words that this client does not know
    400: BadPlan,
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Refused,
    410: Refused,
    422: BadPlan,
    429: StoreBusy,
    503: StoreBusy,
}
PASSING = frozenset({502, 503, 504})  # what a proxy says while the server behind it starts


def answered(status: int, media_type: str, body: bytes) -> Answered:
    """Of an answer that is not what was asked for."""
    if media_type.partition(";")[0].strip() == "application/problem+json":
        try:
            members = json.loads(body)
        except ValueError:
            members = None
        if isinstance(members, dict):
            slug = str(members.get("type", "")).removeprefix(URN)
            detail = members.get("detail") or members.get("title") or f"answer {status}"
            return Answered(status, slug, str(detail), members)
    return Answered(status, "", "", {})


def error_of(problem: Answered, url: str) -> LongTaskError:
    """`url`: of the server."""
    error = _error_of(problem, url)
    error.__cause__ = problem
    return error


def _error_of(problem: Answered, url: str) -> LongTaskError:
    if not problem.slug:
        return _of_something_else(problem.status, url)
    if problem.slug == "changed":
        return Changed(problem.detail, problem.members.get("current") or {})
    kind = OF_WORD.get(problem.slug) or OF_STATUS.get(problem.status, LongTaskError)
    if kind is BadPlan and (found := _problems(problem.members.get("problems"))):
        return BadPlan(found)
    return kind(problem.detail)


def _of_something_else(status: int, url: str) -> LongTaskError:
    if status in PASSING:
        return StoreUnavailable(f"server {url!r} cannot be reached behind its proxy (answer {status}); try again")
    if 300 <= status < 400:
        return LongTaskError(f"server {url!r} sends elsewhere (answer {status}), where no token is sent; name that one")
    return LongTaskError(f"{url!r} answers {status}, and not as a server of LongTask does; is the address right?")


def _problems(told: Any) -> list[Problem]:
    if not isinstance(told, list):
        return []
    return [
        Problem(str(one.get("message")), str(one.get("path") or ""), _number(one, "line"), _number(one, "column"))
        for one in told[:SHOWN_MAX]
        if isinstance(one, dict)
    ]


def _number(one: Mapping[str, Any], key: str) -> int:
    found = one.get(key)
    return found if isinstance(found, int) else 0
