"""A tap on the shoulder: "there may be work".  Nothing depends on it: whoever waits looks by itself too, less often.

A commit that notifies is ordered against every other such commit of the server, and loses group commit: at 32 clients
it costs fifteen times as much.  So nothing is notified by the commit that made something ready.  One thread a process,
with a connection of its own, tells it afterwards: once for all that came within the last moments.

The thread also listens, and tests its own hearing: what it tells itself must come back.  Behind a connection pooler it
never does; then `heard` is False, and who waits must look as often as without hints.
"""

from __future__ import annotations

import logging
import os
import selectors
import threading
import time
from contextlib import suppress

import psycopg

from longtask.core.errors import LongTaskError
from longtask.store.postgres.address import Address
from longtask.store.postgres.pool import connect

log = logging.getLogger("longtask.hints")

TELL_EVERY_S = 0.02
PROBE_EVERY_S = 20.0
PROBE_WAIT_S = 5.0
RECONNECT_S = 2.0


class Hints:
    def __init__(self, address: Address) -> None:
        self.heard = False  # what we told ourselves last came back
        self._address = address
        self._news = threading.Event()  # from others
        self._waker, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._to_tell = False
        self._ending = False
        self._probed_at = self._told_at = 0.0
        self._answered = True  # the last test of our hearing has come back, or was given up
        self._thread = threading.Thread(target=self._run, name="hints", daemon=True)
        self._thread.start()

    def tell(self) -> None:
        """Others are told soon.  Returns at once."""
        if not self._to_tell:
            self._to_tell = True
            self._rouse()

    def wait(self, seconds: float) -> None:
        """Until others tell something, at most so long."""
        if self._news.wait(seconds):
            self._news.clear()

    def close(self) -> None:
        """May be called again."""
        if self._ending:
            return
        self._ending = True
        self._rouse()
        self._thread.join(5)
        os.close(self._wake)

    def _rouse(self) -> None:
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(self._wake, b".")

    def _run(self) -> None:
        try:
            while not self._ending:
                try:
                    with connect(self._address, "longtask hints") as line:
                        self._listen(line)
                except (psycopg.Error, LongTaskError) as error:
                    if self.heard:
                        log.info("hints.lost: %s", error)
                self.heard = False
                self._news.set()  # what was told meanwhile was not heard
                if not self._ending:
                    self._sleep(RECONNECT_S)
        finally:
            os.close(self._waker)

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as both:
            both.register(self._waker, selectors.EVENT_READ)
            while not self._ending and (left := until - time.monotonic()) > 0:
                if both.select(left):
                    self._drain()

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._waker, 4096)

    def _listen(self, line: psycopg.Connection[object]) -> None:
        own = line.info.backend_pid
        # a notice that comes while a statement runs goes to the handler, one that comes between them is asked for
        line.add_notify_handler(lambda notice: self._noticed(notice.pid == own))
        line.execute(f"listen {self._address.channel}".encode())
        self._told_at = self._probed_at = 0.0
        with selectors.DefaultSelector() as both:
            both.register(line.fileno(), selectors.EVENT_READ)
            both.register(self._waker, selectors.EVENT_READ)
            while not self._ending:
                if self._due():
                    line.execute(f"notify {self._address.channel}".encode())
                for key, _ in both.select(self._pause()):
                    if key.fd == self._waker:
                        self._drain()
                line.pgconn.consume_input()
                while (notice := line.pgconn.notifies()) is not None:
                    self._noticed(notice.be_pid == own)

    def _noticed(self, own: bool) -> None:
        if own:
            self.heard = self._answered = True
        else:
            self._news.set()

    def _due(self) -> bool:
        """There is something to tell, or it is time to test our hearing."""
        now = time.monotonic()
        if now - self._probed_at >= PROBE_EVERY_S:
            self._probed_at, self._answered = now, False
            return True
        if not self._answered and now - self._probed_at >= PROBE_WAIT_S:
            self.heard, self._answered = False, True
        if not self._to_tell or now - self._told_at < TELL_EVERY_S:
            return False
        self._to_tell, self._told_at = False, now
        return True

    def _pause(self) -> float:
        at = self._probed_at + (PROBE_EVERY_S if self._answered else PROBE_WAIT_S)
        if self._to_tell:
            at = min(at, self._told_at + TELL_EVERY_S)
        return max(at - time.monotonic(), 0.001)
