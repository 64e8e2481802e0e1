"""Durations as people write them: `500ms`, `30s`, `15m`, `6h`, `2d`, `1h30m`.

Whole numbers with a unit, largest unit first, each at most once.  A bare number is refused: seconds or minutes is
not for us to guess.
"""

from __future__ import annotations

import re

from longtask.core.errors import BadPlan

UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
PATTERN = r"^(?=[0-9])([0-9]+d)?([0-9]+h)?([0-9]+m(?!s))?([0-9]+s)?([0-9]+ms)?$"
DURATION_MAX_MS = 3_650 * UNITS_MS["d"]  # ten years: beyond it somebody has mistyped a unit
_DURATION = re.compile(PATTERN)
_PART = re.compile(r"([0-9]+)(ms|[dhms])")


def duration_ms(text: str) -> int:
    """Milliseconds.  Raises BadPlan if `text` is no duration."""
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        raise BadPlan(f"{text} has no unit; write {text}s, {text}m or {text}h")
    if not _DURATION.fullmatch(text) or len(text) > 40:
        raise BadPlan(
            f"{text[:40]!r} is not a duration; write whole numbers with d, h, m, s or ms, such as 30m or 1h30m"
        )
    total = sum(int(count) * UNITS_MS[unit] for count, unit in _PART.findall(text))
    if total > DURATION_MAX_MS:
        raise BadPlan(f"{text!r} is longer than ten years; is the unit right?")
    return total


def duration_text(ms: int) -> str:
    """The shortest way to write `ms`; `0s` for nothing."""
    parts = []
    for unit, size in UNITS_MS.items():
        count, ms = divmod(ms, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
