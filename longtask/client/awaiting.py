"""A thread of a worker elsewhere that asks its server for work to come, one question at a time, answered when there is
some.  So a worker that has nothing to do costs next to nothing, and hears at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from longtask.core.errors import LongTaskError

TROUBLE_S = 1.0
CLOSING_S = 0.2
IN_VAIN_S = 0.25  # others were faster, or what there is cannot be claimed yet


class Awaiting:
    def __init__(self, ask: Callable[[Sequence[str]], bool], end: Callable[[], None] = lambda: None) -> None:
        """`ask`: whether there is work in these pools; takes its time to answer.  Raises LongTaskError.  `end` is
        called by the same thread, when nothing is asked any more."""
        self._ask, self._end = ask, end
        self._pools: Sequence[str] = ()
        self._asked = threading.Event()
        self._news = threading.Event()
        self._listens = False  # whoever waits has room for more
        self._in_vain = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="work", daemon=True)
        self._thread.start()

    def heard(self, pools: Sequence[str]) -> bool:
        """There may be work in the pools.  Without pools there is no room for more just now."""
        self._listens = bool(pools)
        if not pools:
            return False
        if self._news.is_set():
            return True
        self._pools = pools
        self._asked.set()
        return False

    def taken(self, something: bool) -> None:
        """What was heard was gone after; `something` came of it."""
        self._in_vain = self._news.is_set() and not something
        self._news.clear()

    def wait(self, seconds: float) -> None:
        """Less, when there is work and room for it."""
        if self._listens:
            self._news.wait(seconds)
        else:
            time.sleep(seconds)

    def close(self) -> None:
        """The question that is under way is left to itself."""
        self._closed = True
        self._asked.set()
        self._thread.join(CLOSING_S)

    def _run(self) -> None:
        try:
            self._go_on_asking()
        finally:
            self._end()

    def _go_on_asking(self) -> None:
        while True:
            self._asked.wait()
            if self._closed:
                return
            if self._in_vain:
                time.sleep(IN_VAIN_S)
            began = time.monotonic()
            try:
                found = self._ask(self._pools)
            except LongTaskError:  # a round tells
                found = False
            if found:
                self._asked.clear()
                self._news.set()
            elif time.monotonic() - began < TROUBLE_S:  # it was not waited: the server ends, say
                time.sleep(TROUBLE_S)
