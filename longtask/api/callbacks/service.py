"""What goes on beside the routes: events are sent to webhooks, and signals to a workspace are copied to its tasks."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from anyio.to_thread import run_sync

from longtask import boot
from longtask.config import ALLOW_PRIVATE
from longtask.core.errors import LongTaskError
from longtask.engine.notices import Notices
from longtask.steps.posting import Allowed
from longtask.webhooks.sender import Sender

log = logging.getLogger("longtask.callbacks")

ROUND_S = 0.5
TROUBLE_S = 5.0


class Outgoing:
    """One thread of a server.  Every server has it, and they share the work."""

    def __init__(self, parts: boot.Parts) -> None:
        store = parts.store
        self.notices = Notices(store, parts.desk)
        self._allowed = Allowed.read(parts.config.allow_private, ALLOW_PRIVATE)
        self._store = store
        self._holder = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._stop = threading.Event()
        self._news = threading.Event()

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        self._stop.clear()
        sender = Sender(self._store, self._allowed, self._holder, done=self._news.set)
        thread = threading.Thread(target=self._run, args=[sender], name="outgoing", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._news.set()
            await run_sync(thread.join)
            await run_sync(sender.close)

    def wake(self) -> None:
        """There is something to copy."""
        self._news.set()

    def _run(self, sender: Sender) -> None:
        while not self._stop.is_set():
            pause_s = ROUND_S
            for act in (self.notices.tick, sender.tick):
                if not self._round(act):
                    pause_s = TROUBLE_S
            self._news.wait(pause_s)
            self._news.clear()

    def _round(self, act: Callable[[], int]) -> bool:
        """False: it did not go well; it is told once a round, and the server goes on."""
        try:
            act()
        except LongTaskError as error:
            log.warning("outgoing.trouble: %s", error)
            return False
        except Exception:
            log.exception("outgoing.error")
            return False
        return True
