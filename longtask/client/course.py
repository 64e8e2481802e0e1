"""What becomes of one request: its answer, another try after a wait, or an error.  Nothing here touches a socket.

Every request is safe to repeat (`request.Request`), so it is, while waiting may mend what went wrong: the connection
broke, the store is busy, a proxy has no server behind it, or the first of two equal requests is still being carried
out.  What the server refuses for good is told at once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass

from longtask.client.problems import PASSING, Answered, answered, error_of
from longtask.client.request import Answer
from longtask.core.errors import LongTaskError, StoreUnavailable

MENDABLE = frozenset({"busy", "hub-unreachable", "in-flight", "slow", "store-unavailable", "too-many-requests"})
RETRY_AFTER_MAX_S = 30.0
IN_FLIGHT_S = 75.0  # a request whose server has died is carried out anew after a minute, and not before


@dataclass(frozen=True, slots=True)
class Limits:
    """Of time.  `patience_s`: so long one request is tried, from its first failure on, and so long a stream that is cut
    is taken up again (`stream_patience_s`).  `silence_s`: a server tells every quarter of a minute that it is there."""

    connect_s: float = 5.0
    answer_s: float = 60.0
    silence_s: float = 60.0
    patience_s: float = 20.0
    stream_patience_s: float = 300.0
    wait_min_s: float = 0.1
    wait_max_s: float = 5.0


class Tries:
    """How long something has not worked, and how long to wait before it is tried again."""

    def __init__(self, limits: Limits, patience_s: float) -> None:
        self._limits, self._patience_s = limits, patience_s
        self._tries = 0
        self._until = 0.0

    def again(self, at_least_s: float = 0.0) -> float | None:
        """It has failed just now; the seconds to wait, or None: no more."""
        now = time.monotonic()
        if self._tries == 0:
            self._until = now + self._patience_s
        wait = min(self._limits.wait_min_s * 2**self._tries, self._limits.wait_max_s)
        # Drawn from a half, so that clients of one server that was started again do not come all at once.
        wait = max(wait * random.uniform(0.5, 1.0), min(at_least_s, RETRY_AFTER_MAX_S))
        self._tries = min(self._tries + 1, 30)
        return wait if now + wait <= self._until else None

    def ease(self) -> None:
        self._tries = 0


class Course:
    """One request; `url` is that of the server, for messages."""

    def __init__(self, url: str, limits: Limits, tries: Tries) -> None:
        self._url, self._tries = url, tries
        self._in_flight = Tries(limits, max(limits.patience_s, IN_FLIGHT_S))

    def broken(self, error: Exception) -> float:
        """No answer came; the seconds to wait.  Raises StoreUnavailable."""
        wait = self._tries.again()
        if wait is None:
            raise unreachable(self._url, error) from error
        return wait

    def answered(self, answer: Answer) -> float | None:
        """None: the answer is what was asked for; else the seconds to wait.  Raises LongTaskError."""
        if 200 <= answer.status < 300:
            return None
        problem = answered(answer.status, answer.headers.get("content-type", ""), answer.body)
        if not mendable(problem):
            raise error_of(problem, self._url)
        # Whether it was carried out is not known before: to give up sooner would leave it open.
        tries = self._in_flight if problem.slug == "in-flight" else self._tries
        wait = tries.again(retry_after_s(answer.headers))
        if wait is None:
            raise error_of(problem, self._url)
        return wait


def mendable(problem: Answered) -> bool:
    return problem.slug in MENDABLE if problem.slug else problem.status in PASSING


def retry_after_s(headers: Mapping[str, str]) -> float:
    """0: not said, or as a date, which nobody of ours sends."""
    told = headers.get("retry-after", "")
    return float(told) if told.isascii() and told.isdigit() else 0.0


def unreachable(url: str, error: Exception) -> LongTaskError:
    why = str(error) or type(error).__name__
    return StoreUnavailable(f"server {url!r} does not answer ({why}); is it running? start one: longtask up")
