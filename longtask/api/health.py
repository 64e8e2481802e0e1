"""`/healthz` and `/readyz`, for whoever starts and stops servers; neither asks for a token.

- *Healthy*: the process answers.  If it does not, it is to be started anew; what the database does is no reason for
  that.
- *Ready*: what is asked of this process moves.  The store answers in time; the server is not about to end; and a worker
  in this process (`longtask up`) ends its rounds without errors.  A server without a worker is ready though nobody
  works: people can look, decide and submit, and workers that come over HTTP must find it.  Were it taken out of service
  for want of workers, those workers could never come back.
- *Work moves*: `/readyz?work=required` is not ready either while a step has waited WAIT_MAX_MS for a worker of a pool
  that nobody serves.  That is for a monitor, not for a balancer.  The document tells it in any case.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from longtask import __version__
from longtask.api.problems import Document
from longtask.api.server import Server
from longtask.core.errors import LongTaskError
from longtask.core.policy import LEASE_MS
from longtask.views.health import Work, judged, work_of

ANSWER_S = 3.0  # so long may the store take
BELIEVED_S = 1.0  # so long an answer is given again
WAIT_MAX_MS = 60_000
OK = "ok"


class Asked:
    """The store, asked beside the caller by one thread.  One that hangs costs this thread and no more: whoever asks
    meanwhile waits for the same answer, and the process does not wait for it when it ends."""

    def __init__(self, ask: Callable[[], Work]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._asking: Future[Work] | None = None
        self._began_at = 0.0

    def answer(self) -> Work:
        """Raises LongTaskError, TimeoutError."""
        with self._lock:
            fresh = time.monotonic() - self._began_at < BELIEVED_S
            if self._asking is None or (self._asking.done() and not fresh):
                self._asking, self._began_at = Future(), time.monotonic()
                threading.Thread(target=self._settle, args=(self._asking,), name="ready", daemon=True).start()
            asking = self._asking
        return asking.result(ANSWER_S)

    def _settle(self, asking: Future[Work]) -> None:
        try:
            asking.set_result(self._ask())
        except Exception as error:  # noqa: BLE001  what a future is for
            asking.set_exception(error)


def router(server: Server) -> APIRouter:
    routes = APIRouter(tags=["health"])
    asked = Asked(lambda: work_of(server.parts.store))

    @routes.get("/healthz", include_in_schema=False)
    async def healthz() -> Document:
        """Tell that the process answers."""
        return Document({"status": OK, "version": __version__})

    @routes.get("/readyz", include_in_schema=False)
    def readyz(
        work: Annotated[Literal["required"] | None, Query(description="Work must move, too; for monitors.")] = None,
    ) -> Document:
        """Tell whether this server can do what it is asked."""
        checks = {"server": "it is about to end" if server.hub.ended else OK}
        document: dict[str, Any] = {"checks": checks}
        try:
            found = asked.answer()
        except TooLate:
            checks["store"] = f"it has not answered within {ANSWER_S:g} seconds"
        except LongTaskError:  # its message may name hosts and files, and anybody may ask
            checks["store"] = "it cannot be used; the server's log tells why"
        else:
            checks["store"] = OK
            document["work"] = {"workers": found.workers, "slots": found.slots, "oldest_ready_ms": found.oldest_ms,
                                "pools_unserved": found.unserved}  # fmt: skip
            if work is not None:
                stuck = found.unserved and found.oldest_ms > WAIT_MAX_MS
                checks["work"] = "steps wait for a worker of a pool that nobody serves" if stuck else OK
        if server.pulse is not None:
            wrong = judged(server.pulse(), LEASE_MS)
            checks["worker"] = OK if wrong is None else wrong.partition(":")[0]
        ready = all(said == OK for said in checks.values())
        return Document({"ready": ready, **document}, status_code=200 if ready else 503)

    return routes
