"""How long the database is locked."""

from __future__ import annotations

import time


class Locks:
    """A `fault` that breaks nothing: how long the database was locked, from the lock to the end of the commit."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.busiest_s = 0.0  # the longest by the processor's clock, which does not count waiting for the disk
        self._since = (0.0, 0.0)

    def __call__(self, point: str) -> None:
        if point == "locked":
            self._since = time.perf_counter(), time.thread_time()
        elif point == "committed":
            self.longest_s = max(self.longest_s, time.perf_counter() - self._since[0])
            self.busiest_s = max(self.busiest_s, time.thread_time() - self._since[1])
