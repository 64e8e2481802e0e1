"""Talking to a shared hub without holding up the caller: an engine's loop must not wait for somebody's network.

`ask`: an answer that is needed and may take long.  It is given when it comes quickly; else HubUnreachable says that it
is under way, and the same question asked again gets the answer.
`later`: something that nobody waits for.  Of one subject only the newest is done, and what fails is tried again.  What
may come `last` is done when nothing else is due.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from longtask.core.errors import HubUnreachable, LongTaskError

log = logging.getLogger("longtask.hub")

THREADS = 4
WAIT_S = 2.0  # for an answer; nothing of this length is noticed between two steps
ANSWER_KEPT_S = 600.0  # of a question that nobody asks again
AGAIN_S = 15.0
CLOSING_S = 5.0  # so long is what is due done after the end

A = TypeVar("A")


@dataclass(slots=True)
class _Question:
    future: Future[Any]
    asked_at: float


@dataclass(slots=True)
class _Thing:
    act: Callable[[], None]
    due_at: float
    last: bool


class Beside:
    """Threads begin with the first call, and end with `close`."""

    def __init__(self, again_s: float = AGAIN_S) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="hub")
        self._again_s = again_s
        self._questions: dict[Hashable, _Question] = {}
        self._asking = threading.Lock()
        self._things: dict[str, _Thing] = {}
        self._news = threading.Condition()
        self._closed_at: float | None = None
        self._thread: threading.Thread | None = None

    def ask(self, act: Callable[..., A], *words: Hashable) -> A:
        """Raises what `act` raises, and HubUnreachable while it is under way."""
        now = time.monotonic()
        with self._asking:
            self._forget(now)
            slow = any(not q.future.done() and now - q.asked_at > WAIT_S for q in self._questions.values())
            question = self._questions.get(words)
            if question is None:
                question = self._questions[words] = _Question(self._pool.submit(act, *words), now)
        try:
            answer: A = question.future.result(0 if slow else WAIT_S)
        except TimeoutError:
            if not question.future.done():
                raise HubUnreachable("the hub takes long; it is asked still, and its answer will be kept") from None
            raise
        finally:
            if question.future.done():
                with self._asking:
                    self._questions.pop(words, None)
        return answer

    def _forget(self, now: float) -> None:
        old = [w for w, q in self._questions.items() if q.future.done() and now - q.asked_at > ANSWER_KEPT_S]
        for words in old:
            del self._questions[words]

    def later(self, subject: str, act: Callable[..., None], *words: Any, last: bool = False) -> None:
        with self._news:
            self._things[subject] = _Thing(lambda: act(*words), time.monotonic(), last)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="hub-later", daemon=True)
                self._thread.start()
            self._news.notify()

    def _work(self) -> None:
        while (found := self._next()) is not None:
            subject, thing = found
            try:
                thing.act()
            except (LongTaskError, OSError) as error:
                log.warning("hub.failed subject=%s: %s", subject, error)
                with self._news:
                    thing.due_at = time.monotonic() + self._again_s
                    self._things.setdefault(subject, thing)  # unless there is something newer

    def _next(self) -> tuple[str, _Thing] | None:
        """What is due, when it is; None: there is nothing more to do."""
        with self._news:
            while True:
                now = time.monotonic()
                if self._closed_at is not None and now - self._closed_at > CLOSING_S:
                    return None
                due = [subject for subject, thing in self._things.items() if thing.due_at <= now]
                if due:
                    first = min(due, key=lambda subject: (self._things[subject].last, self._things[subject].due_at))
                    return first, self._things.pop(first)
                if self.closing:
                    return None
                soonest = min((thing.due_at for thing in self._things.values()), default=None)
                self._news.wait(None if soonest is None else soonest - now)

    @property
    def closing(self) -> bool:
        return self._closed_at is not None

    def close(self) -> None:
        """What is due is done, if that does not take long; the rest, and what has failed, is left."""
        with self._news:
            self._closed_at = time.monotonic()
            self._news.notify()
        if self._thread is not None:
            self._thread.join()
        self._pool.shutdown(wait=True, cancel_futures=True)
