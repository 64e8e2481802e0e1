"""Bytes that are answered as they are: artifacts, archives, files of the code; whole, a range of them, or unchanged.

They come from whoever wrote the plan, and a browser must never run them under the server's own name: they are sent as
a file to be kept, of a type that is not guessed, and without the right to load or run anything.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from fastapi import Request

from longtask.api import etags
from longtask.api.problems import Problem

BYTES = "application/octet-stream"
CONTENT: dict[str, Any] = {"*/*": {"schema": {"type": "string", "format": "binary"}}}
RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")

# What a description says of them.
WHOLE: dict[int | str, dict[str, Any]] = {
    200: {"description": "All bytes.", "content": CONTENT},
    304: etags.UNCHANGED,
}
RANGED: dict[int | str, dict[str, Any]] = {
    200: WHOLE[200],
    206: {"description": "The range that was asked for.", "content": CONTENT},
    304: etags.UNCHANGED,
}
RANGE_HEADERS = {
    "parameters": [
        etags.IF_NONE_MATCH,
        {
            "name": "Range",
            "in": "header",
            "description": "A range of bytes; several at once are answered with all of them.",
            "schema": {"type": "string"},
            "example": "bytes=0-1023",
        },
    ]
}


def guarded(name: str, version: str | None = None) -> dict[str, str]:
    """The headers of a file of this name.  `version`: what its ETag says; None: it has none, and is not kept."""
    file = name.rpartition("/")[2] or "artifact"
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\%;' else "_" for c in file)
    headers = {
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(file, safe='')}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    if version is None:
        return headers
    return headers | {"ETag": etags.etag(version), "Cache-Control": "private, no-cache"}


def check_range(request: Request, size_bytes: int) -> None:
    """One range of bytes is served; what is written otherwise, or as several, is passed over (RFC 9110, 14.2).

    Raises Problem 416."""
    text = request.headers.get("range")
    if text is None:
        return
    found = RANGE.fullmatch(text.strip())
    if found is None or not (found[1] or found[2]) or (found[1] and found[2] and int(found[2]) < int(found[1])):
        request.scope["headers"] = [pair for pair in request.scope["headers"] if pair[0] != b"range"]
        return
    satisfiable = int(found[1]) < size_bytes if found[1] else int(found[2]) > 0 and size_bytes > 0
    if not satisfiable:
        raise Problem(
            416,
            "range",
            "the range lies outside",
            f"{text!r} of {size_bytes:,} bytes",
            headers={"Content-Range": f"bytes */{size_bytes}"},
        )
