"""ETag and If-Match (RFC 9110): a decision counts for what its maker has seen.

version = required(request)          428 without an If-Match
check(version, approval)             412 with the new version, if another one is asked now
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Request

from longtask.api.problems import Problem

UNCHANGED = {"description": "The caller has it already."}
IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "description": "The ETag of what the caller has: 304 if nothing has changed.",
    "schema": {"type": "string"},
}
IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "required": True,
    "description": "The ETag of what was seen.",
    "schema": {"type": "string"},
    "example": '"1.5d41402abc4b2a76"',
}


def etag(version: str) -> str:
    return f'"{version}"'


def required(request: Request) -> frozenset[str]:
    """The versions that the caller names.  Raises Problem 428.  `*` names none: it says nothing of what was seen."""
    given = request.headers.get("if-match")
    named = frozenset(part.strip().strip('"') for part in (given or "").split(",") if part.strip())
    if not named or "*" in named:
        raise Problem(
            428,
            "if-match-required",
            "which version was seen is not said",
            "a decision counts for what was shown: look at it, and send its ETag as If-Match",
        )
    return named


def changed(document: Mapping[str, Any]) -> Problem:
    """What was shown is not what is asked now; the answer holds what is."""
    return Problem(
        412,
        "changed",
        "what is asked has changed",
        f"step {document['step']!r} asks something else now; look at it again, it stands in 'current'",
        {"current": dict(document)},
        {"ETag": etag(document["version"])},
    )


def changing(told: str) -> Problem:
    """What was shown is not what will be asked, and what that is nobody knows yet."""
    return Problem(412, "changed", "what is asked has changed", f"{told}; look at it again in a moment")


def matches(request: Request, version: str) -> bool:
    """The caller has this version already: 304 will do."""
    given = request.headers.get("if-none-match", "")
    return any(part.strip().removeprefix("W/").strip('"') == version for part in given.split(",") if part.strip())
