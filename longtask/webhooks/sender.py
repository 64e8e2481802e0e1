"""Rounds that send events to endpoints, at least once and in their order.

- An endpoint has a cursor into the feed, and one event at a time is sent to it: the next one goes when this one was
  taken.  So an endpoint that does not answer holds up itself alone; after some hours it is disabled, and says why.
- Whoever holds an endpoint's row sends to it; any number of servers may run.  One that dies is followed by another when
  its hold has ended, from the cursor: what was sent and not yet noted is sent once more, under the same id.
- Looking for news holds nothing and writes nothing.  Endpoints that have seen the same share one look.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from longtask.core.errors import LongTaskError, NotFound
from longtask.core.events import Event
from longtask.core.model import Task
from longtask.steps.posting import Allowed, Post, PostError, shown
from longtask.store.contract import Store
from longtask.store.outward import Webhook
from longtask.views.events import Agents, cloud_events

from .endpoints import WEBHOOKS_MAX, fits
from .message import NoSecret, message

log = logging.getLogger("longtask.webhooks")

MINUTE, HOUR = 60_000, 3_600_000
DELAYS_MS = (5_000, 30_000, 2 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 5 * HOUR)  # then it is disabled
PARALLEL_MAX = 8  # endpoints at once
TIMEOUT_S = 15.0  # of one POST
HOLD_MS = 60_000  # some POSTs long
TURN_MS = 20_000  # then another endpoint has its turn
PAGE = 200
PASSED_MAX = 1_000  # events that did not fit: then the cursor follows, so that a restart is quick
FORGET_EVERY_MS = HOUR
KNOWN_MAX = 1_000
GONE = 410

Told = list[dict[str, Any]]


class Sender:
    def __init__(
        self,
        store: Store,
        allowed: Allowed,
        holder: str,
        *,
        delays_ms: tuple[int, ...] = DELAYS_MS,
        parallel_max: int = PARALLEL_MAX,
        timeout_s: float = TIMEOUT_S,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        """`holder` names this process among all.  `done` is called after each turn, by the thread that had it."""
        self._store = store
        self._allowed = allowed
        self._holder = holder
        self._delays_ms = delays_ms
        self._timeout_s = timeout_s
        self._done = done
        self._threads = ThreadPoolExecutor(parallel_max, thread_name_prefix="webhook")
        self._lock = threading.Lock()
        self._busy: set[str] = set()  # endpoints that have their turn just now
        self._posts: set[Post] = set()
        self._closing = False
        self._seen: dict[tuple[str, int, str], tuple[str, int]] = {}  # (id, version, cursor): nothing fits up to here
        self._forgotten_at = 0

    # --- a round --------------------------------------------------------------------------------------------------

    def tick(self) -> int:
        """Begins turns of endpoints that have something to be sent; how many."""
        now = self._store.now()
        pages: dict[str, list[tuple[Event, str]]] = {}
        book = Book(self._store)
        begun = 0
        known = self._store.webhooks("", WEBHOOKS_MAX)
        for webhook in known:
            if webhook.disabled_at is not None or webhook.due_at > now or webhook.id in self._busy:
                continue
            if self._has_news(webhook, pages, book):
                begun += self._begin(webhook)
        there = {(webhook.id, webhook.version, webhook.cursor) for webhook in known}
        self._seen = {key: seen for key, seen in self._seen.items() if key in there}
        if now - self._forgotten_at >= FORGET_EVERY_MS:
            self._forgotten_at = now
            self._store.forget_outward(PAGE)
        return begun

    def _has_news(self, webhook: Webhook, pages: dict[str, list[tuple[Event, str]]], book: Book) -> bool:
        """Something fits behind its cursor, or there is so much that does not that the cursor should follow."""
        key = (webhook.id, webhook.version, webhook.cursor)
        begun, passed = self._seen.get(key, (webhook.cursor, 0))
        while passed < PASSED_MAX:
            if begun not in pages:
                pages[begun] = self._store.tail(begun, PAGE)
            page = pages[begun]
            for n, (event, _) in enumerate(page):
                if fitting(webhook, event, book, 0 if n or passed else webhook.part):
                    return True
            if page:
                begun, passed = page[-1][1], passed + len(page)
                self._seen[key] = begun, passed
            if len(page) < PAGE:
                return False
        return True

    def _begin(self, webhook: Webhook) -> int:
        with self._lock:
            if self._closing or webhook.id in self._busy:
                return 0
            self._busy.add(webhook.id)
        self._threads.submit(self._turn, webhook.id)
        return 1

    def close(self) -> None:
        """What is under way is cut off: it is sent again, by whoever comes next."""
        with self._lock:
            self._closing = True
            posts = list(self._posts)
        for post in posts:
            post.cut("the server ends")
        self._threads.shutdown(wait=True, cancel_futures=True)

    # --- the turn of one endpoint ---------------------------------------------------------------------------------

    def _turn(self, id: str) -> None:
        try:
            webhook = self._store.hold_webhook(id, self._holder, self._store.now() + HOLD_MS)
            if webhook is not None:
                try:
                    self._send(webhook)
                finally:
                    self._store.let_webhook_go(id, self._holder)
        except LongTaskError as error:
            log.warning("webhook.trouble webhook=%s: %s", id, error)
        except Exception:
            log.exception("webhook.error webhook=%s", id)
        finally:
            with self._lock:
                self._busy.discard(id)
            self._done()

    def _send(self, webhook: Webhook) -> None:
        begun = self._store.now()
        if webhook.due_at > begun:
            return  # another has tried meanwhile
        held_at = begun
        book = Book(self._store)
        while not self._turn_over(begun):
            page = self._store.tail(webhook.cursor, PAGE)
            stored = webhook.cursor
            for event, behind in page:
                parts = fitting(webhook, event, book, webhook.part)
                for part in parts:
                    now = self._store.now()
                    if self._turn_over(begun):
                        self._note(webhook, stored)
                        return
                    if now - held_at >= HOLD_MS / 3:
                        prolonged = self._store.hold_webhook(webhook.id, self._holder, now + HOLD_MS)
                        if prolonged is None or prolonged.version != webhook.version:
                            return  # it was changed, or held by another after all
                        held_at = now
                    if (failure := self._post(webhook, event, part, book.told(event)[part])) is not None:
                        self._fail(webhook, *failure)
                        return
                    cursor, next_part = (behind, 0) if part == parts[-1] else (webhook.cursor, part + 1)
                    if not self._store.move_webhook(webhook, self._holder, cursor, next_part, self._store.now()):
                        return
                    webhook = replace(webhook, cursor=cursor, part=next_part, failures=0)
                    stored = cursor
                webhook = replace(webhook, cursor=behind, part=0)
            self._note(webhook, stored)
            if len(page) < PAGE:
                return

    def _turn_over(self, begun: int) -> bool:
        return self._closing or self._store.now() - begun >= TURN_MS

    def _note(self, webhook: Webhook, stored: str) -> None:
        if webhook.cursor != stored:
            self._store.move_webhook(webhook, self._holder, webhook.cursor, webhook.part)

    def _post(self, webhook: Webhook, event: Event, part: int, told: dict[str, Any]) -> tuple[str, int, bool] | None:
        """None: it was taken.  Else why not, after how long at least it may be tried again, and whether never."""
        sent = message(event, part, told)
        try:
            headers = sent.headers(webhook.secret, self._store.now())
        except NoSecret as error:
            return str(error), 0, False
        post = Post(webhook.url, sent.body, headers, self._allowed, self._timeout_s)
        with self._lock:
            if self._closing:
                return "the server ends", 0, False
            self._posts.add(post)
        try:
            answer = post.send()
        except PostError as error:
            return str(error), 0, False
        finally:
            with self._lock:
                self._posts.discard(post)
        if answer.accepted:
            return None
        if answer.status == GONE:
            return "answer 410: the endpoint says that it is gone", 0, True
        more = "; redirects are not followed" if 300 <= answer.status < 400 else ""
        again = answer.retry_after or ""
        wait_ms = int(again) * 1000 if again.isascii() and again.isdigit() and len(again) < 7 else 0
        return f"answer {answer.status}{more}", min(wait_ms, self._delays_ms[-1]), False

    def _fail(self, webhook: Webhook, said: str, wait_ms: int, never: bool) -> None:
        if self._closing:
            return  # its own doing
        failures, now = webhook.failures + 1, self._store.now()
        over = never or failures > len(self._delays_ms)
        if over:
            said = said if never else f"{said}; the last of {failures} tries"
            due_at = 0
            log.error("webhook.disabled webhook=%s url=%s: %s", webhook.id, shown(webhook.url), said)
        else:
            due_at = now + max(self._delays_ms[failures - 1], wait_ms)
            log.warning(
                "webhook.failed webhook=%s url=%s failures=%d due_at=%d: %s",
                webhook.id, shown(webhook.url), failures, due_at, said,
            )  # fmt: skip
        self._store.fail_webhook(webhook, self._holder, failures, due_at, said, now if over else None)


class Book:
    """What events say to the world outside; each is looked up once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tasks: dict[str, tuple[Task, Agents] | None] = {}
        self._told: dict[tuple[str, int], Told] = {}

    def task(self, id: str) -> Task | None:
        """None: its time is over, and nobody asks for its events any more."""
        found = self._known(id)
        return None if found is None else found[0]

    def told(self, event: Event) -> Told:
        key = (event.task_id, event.seq)
        if key not in self._told:
            if len(self._told) >= KNOWN_MAX:
                self._told.clear()
            found = self._known(event.task_id)
            self._told[key] = [] if found is None else list(cloud_events(found[0], event, found[1]))
        return self._told[key]

    def _known(self, id: str) -> tuple[Task, Agents] | None:
        if id not in self._tasks:
            if len(self._tasks) >= KNOWN_MAX:
                self._tasks.clear()
            try:
                self._tasks[id] = self._store.get_task(id), Agents(self._store, id)
            except NotFound:
                self._tasks[id] = None
        return self._tasks[id]


def fitting(webhook: Webhook, event: Event, book: Book, part: int) -> list[int]:
    """Which of the event's public events are to be sent, from that `part` on."""
    task = book.task(event.task_id)
    if task is None or event.at < webhook.since:
        return []
    return [
        n for n, told in enumerate(book.told(event)) if n >= part and fits(webhook, told["type"], task.workspace_id)
    ]
