"""A worker beside the server, as long as a test wants it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from longtask import boot
from longtask.core.machine import status

DEADLINE_S = 60


def carry(parts: boot.Parts, until: Callable[[], Any]) -> None:
    """Works on a database until that is true, with a worker of its own."""
    own = boot.open_parts(parts.config)
    running = boot.make_loop(own)
    end = time.monotonic() + DEADLINE_S
    try:
        running.loop.run(lambda: bool(until()) or time.monotonic() > end)
    finally:
        running.close()
    assert until(), "it did not come to that in time"


def carry_to(parts: boot.Parts, task: str, *words: str) -> None:
    """Until the task's status is one of these words."""
    try:
        carry(parts, lambda: status(parts.store.get_task(task)) in words)
    except AssertionError as error:
        raise AssertionError(
            f"{error}: it is {status(parts.store.get_task(task))}, not {' or '.join(words)}"
        ) from error
