"""Taking away what nobody needs any more, in small bounded steps, beside the work.

A round, begun every ROUND_EVERY_MS, does this in turn:

- finishes what was begun of tasks whose header is gone (somebody was killed);
- prunes tasks that ended before the retention, children before their parents;
- forgets answers to requests that nobody repeats any more, and the audit of more than a year ago;
- collects bytes that no fact names and that were not used for a week: the row is condemned, the bytes go, the row goes;
- lets `tidy` look after what lies in folders.

Any number of processes may do this at once, and any of them may be killed anywhere: each step looks again whether it
is still to be done, and what is half done is found by the next round.  Nothing here holds a lock for longer than
LOCK_MAX_MS and a slice of rows, and nothing reads or writes a task that is open.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Protocol

from longtask.core.errors import LongTaskError, NotFound
from longtask.core.model import Task
from longtask.core.policy import BATCH_MAX
from longtask.store.contract import AUDIT_KEPT_MS, BLOB_CONDEMNED_MS, BLOB_UNUSED_MS, Blob, Pruned, Store

log = logging.getLogger("longtask.upkeep")

ROUND_EVERY_MS = 3_600_000
AGAIN_MS = 60_000  # after an error
LOCK_MAX_MS = 50
PAGE = 100
DROP_WITHIN_MS = BLOB_CONDEMNED_MS // 4  # after this the row's word is not ours any more, see `_collect_one`
NEVER = 2**62
FIRST_S, LOOK_EVERY_S = 20.0, 60.0  # what runs one short task need not look
PAUSE_S = 0.2
STOP_MAX_S = 5.0


class Room(Protocol):
    """What lies in folders and buckets."""

    def shared(self) -> bool:
        """Another database keeps bytes at the same place: then none are collected."""

    def drop(self, workspace_id: str, digest: str) -> None:
        """The bytes of an artifact; fine if they are gone."""

    def forget(self, workspace_id: str, task_id: str) -> None:
        """Worktrees and references of a task that was pruned, as far as this machine has them."""

    def tidy(self) -> None:
        """Left-overs of crashes, caches, hubs."""


@dataclass(slots=True)
class Kept:
    """What was taken away so far."""

    tasks: int = 0
    rows: int = 0
    artifacts: int = 0
    bytes: int = 0


class Upkeep:
    """`retention_ms` None: tasks are kept for ever."""

    def __init__(self, store: Store, room: Room, *, retention_ms: int | None) -> None:
        self._store = store
        self._room = room
        self._retention_ms = retention_ms
        self._round: Iterator[int] | None = None
        self._next_at = 0
        self.done = Kept()

    def tick(self) -> int:
        """One small step; 0: nothing to do now."""
        if self._round is None:
            now = self._store.now()
            if now < self._next_at:
                return 0
            self._next_at = now + AGAIN_MS
            self._round = self.round()
        try:
            return next(self._round)
        except StopIteration:
            self._round = None
            self._next_at = self._store.now() + ROUND_EVERY_MS
            return 0
        except BaseException:
            self._round = None  # a generator that has raised goes on no more
            raise

    def round(self) -> Iterator[int]:
        """All of it, a step at a time."""
        now = self._store.now()
        yield from self._finish_all()
        if self._retention_ms is not None:
            yield from self._prune(now - self._retention_ms)
        yield from self._forget(now - AUDIT_KEPT_MS)
        yield from self._collect(now - BLOB_UNUSED_MS)
        self._room.tidy()

    # --- tasks ----------------------------------------------------------------------------------------------------

    def due(self) -> Iterator[Task]:
        """The tasks that a round would prune, those that ended longest ago first; children go with their parents."""
        if self._retention_ms is None:
            return
        before, after = self._store.now() - self._retention_ms, (0, 0)
        while page := self._store.prunable(before, after, PAGE):
            yield from page
            after = (page[-1].ended_at, page[-1].number)

    def _prune(self, before: int) -> Iterator[int]:
        after = (0, 0)
        while page := self._store.prunable(before, after, PAGE):
            for task in page:
                yield from self._prune_tree(task, before)
            after = (page[-1].ended_at, page[-1].number)

    def _prune_tree(self, task: Task, before: int) -> Iterator[int]:
        """Children first, so that no child is ever left without its parent."""
        while children := self._store.children(task.id, PAGE):
            if not self._still_due(task.id, before):
                return
            for child in children:
                yield from self._prune_tree(child, NEVER)
            if {child.id for child in children}.intersection(c.id for c in self._store.children(task.id, PAGE)):
                return  # one of them is not to be pruned now, and so is not its parent
        if not self._store.prune_task(task.id, before):
            return  # taken up again, or another process was faster
        self.done.tasks += 1
        log.info("task.pruned task=%s", task.id)
        yield from self._finish(Pruned(task.number, task.id, task.workspace_id))

    def _still_due(self, task_id: str, before: int) -> bool:
        try:
            return 0 < self._store.get_task(task_id).ended_at <= before
        except NotFound:
            return False

    def _finish_all(self) -> Iterator[int]:
        after = 0
        while page := self._store.half_pruned(after, PAGE):
            for pruned in page:
                yield from self._finish(pruned)
            after = page[-1].task_n

    def _finish(self, pruned: Pruned) -> Iterator[int]:
        while gone := self._store.prune_rows(pruned.task_n, BATCH_MAX, LOCK_MAX_MS):
            self.done.rows += gone
            yield gone
        while gone := self._store.prune_output(pruned.task_id, PAGE):
            self.done.rows += gone
            yield gone
        if pruned.workspace_id:
            self._room.forget(pruned.workspace_id, pruned.task_id)
        self._store.end_pruning(pruned.task_n)
        yield 1

    # --- callers --------------------------------------------------------------------------------------------------

    def _forget(self, before: int) -> Iterator[int]:
        while gone := self._store.forget_requests(BATCH_MAX):
            self.done.rows += gone
            yield gone
        while gone := self._store.forget_audit(before, BATCH_MAX):
            self.done.rows += gone
            yield gone

    # --- bytes ----------------------------------------------------------------------------------------------------

    def _collect(self, before: int) -> Iterator[int]:
        """Every row that is looked at is used anew or goes, so each is looked at once a week."""
        page: list[Blob] = []
        while not self._room.shared():
            seen, page = page, self._store.stale_blobs(before, PAGE)
            mine = [blob for blob in page if not self._another_is_at(blob)]
            if not mine or page == seen:
                return
            suspects = []
            for blob in mine:
                if blob.used_at > 0 and self._store.blob_named(blob.workspace_id, blob.digest):
                    self._store.use_blob(*blob[:3])
                    yield 1
                else:
                    suspects.append(blob)
            values = yield from self._values({blob[:2] for blob in suspects})
            for blob in suspects:
                if blob[:2] in values:
                    self._store.use_blob(*blob[:3])
                else:
                    self._collect_one(blob)
                yield 1
            if len(page) < PAGE:
                return

    def _another_is_at(self, blob: Blob) -> bool:
        return blob.used_at < 0 and self._store.now() + blob.used_at < BLOB_CONDEMNED_MS

    def _values(self, suspects: set[tuple[str, str]]) -> Generator[int, None, set[tuple[str, str]]]:
        """Those that a step names as a value too large for its row, or as a block of its agent's session.  (A
        generator: its steps, then its answer.)"""
        named: set[tuple[str, str]] = set()
        for pages in (self._store.stored_values, self._store.kept_sessions):
            after: tuple[int, str] | None = (0, "")
            while suspects and after is not None:
                found, after = pages(after, BATCH_MAX)
                named.update(suspects.intersection(found))
                yield 1
        return named

    def _collect_one(self, blob: Blob) -> None:
        """Condemned first: from then on whoever puts the same bytes waits until the row is gone, or for
        BLOB_CONDEMNED_MS.  So the bytes are taken away well within that time, or not at all: this process may have
        been asleep."""
        at = self._store.now()
        if not self._store.condemn_blob(blob, at):
            return  # used a moment ago
        if self._store.now() - at > DROP_WITHIN_MS:
            return  # a later round does it
        self._room.drop(blob.workspace_id, blob.digest)
        if self._store.forget_blob(blob.workspace_id, blob.digest, at):
            self.done.artifacts += 1
            self.done.bytes += blob.size_bytes


class Keeper:
    """Ticks in real time, in a thread of its own: from a while after the start, with a pause after each step, since the
    work goes first."""

    def __init__(self, make: Callable[[], Upkeep]) -> None:
        """`make` is called in the thread: a short run never comes to it."""
        self._make = make
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="upkeep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Before the store is closed."""
        self._stopped.set()
        self._thread.join(STOP_MAX_S)

    def _keep(self) -> None:
        pause = FIRST_S
        upkeep: Upkeep | None = None
        while not self._stopped.wait(pause):
            try:
                upkeep = upkeep or self._make()
                pause = PAUSE_S if upkeep.tick() else LOOK_EVERY_S
            except (LongTaskError, OSError) as error:  # a bucket out of reach, a busy store: the next round
                log.warning("upkeep.error: %s", error)
                pause = LOOK_EVERY_S
