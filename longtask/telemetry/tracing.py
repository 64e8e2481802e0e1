"""What a process that works or serves runs beside it: a follower, and a sender where a collector is named."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from longtask.core.errors import StoreError
from longtask.telemetry import otlp
from longtask.telemetry.follower import IDLE_S, SHARE, Follower
from longtask.telemetry.settings import TraceSettings
from longtask.telemetry.source import Source

log = logging.getLogger("longtask.trace")


def start_tracing(
    source: Source,
    home: Path,
    settings: TraceSettings,
    version: str,
    *,
    share: float = SHARE,
    first_s: float = IDLE_S,
) -> Callable[[], None]:
    """What ends it; to be called before the store is closed."""

    def send() -> Callable[[], None] | None:
        """By whoever follows, so that of several processes one sends."""
        exporter = otlp.make_exporter()
        if exporter is None:
            return None
        try:
            return otlp.Sender(home, exporter, version).close
        except StoreError as error:
            log.warning("trace.error: %s", error)
            return None

    sends = settings.enabled and otlp.configured()
    follower = Follower(source, home, settings, share=share, first_s=first_s, send=send if sends else None)
    return follower.close
