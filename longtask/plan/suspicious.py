"""Literals that look like keys, so that no secret is ever stored in a plan, a journal or an error message.

What they look like stands in `redaction.py`.  What is found is described, never repeated: `shown` is how messages
of this package quote a user's value.
"""

from __future__ import annotations

from typing import Any

from longtask.redaction import key_in, key_under

__all__ = ["key_in", "key_under", "shown"]

QUOTED_MAX = 40


def shown(value: Any) -> str:
    """A user's value as a message may quote it: short, and never a key."""
    if isinstance(value, str):
        if key_in(value):
            return "a text that looks like a key"
        return repr(value if len(value) <= QUOTED_MAX else value[: QUOTED_MAX - 1] + "…")
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)[:QUOTED_MAX]
    if isinstance(value, list | tuple):
        return "a list"
    return "a mapping" if isinstance(value, dict) else type(value).__name__
