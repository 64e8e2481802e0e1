"""What whoever starts a process may choose about traces and logs; all by the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from longtask.core.errors import BadPlan

TRACE = "LONGTASK_TRACE"  # on, off
DAYS = "LONGTASK_TRACE_DAYS"
MEGABYTES = "LONGTASK_TRACE_MB"
CONTENT = "LONGTASK_TRACE_CONTENT"  # on, off: answers of models and tools, cut and redacted
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class TraceSettings:
    enabled: bool = True
    keep_ms: int = 14 * DAY_MS
    bytes_max: int = 256_000_000
    content: bool = False


def load(environment: Mapping[str, str] = os.environ) -> TraceSettings:
    """Raises BadPlan."""
    return TraceSettings(
        enabled=_switch(environment, TRACE, True),
        keep_ms=_number(environment, DAYS, 14, 3_650) * DAY_MS,
        bytes_max=_number(environment, MEGABYTES, 256, 1_000_000) * 1_000_000,
        content=_switch(environment, CONTENT, False),
    )


def _switch(environment: Mapping[str, str], name: str, usual: bool) -> bool:
    word = environment.get(name, "").strip().lower()
    if word not in ("", "on", "off"):
        raise BadPlan(f"{name} {word!r}: write on or off")
    return usual if not word else word == "on"


def _number(environment: Mapping[str, str], name: str, usual: int, most: int) -> int:
    text = environment.get(name, "").strip()
    if not text:
        return usual
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
        raise BadPlan(f"{name} {text!r}: a whole number from 1 to {most}")
    return int(text)
