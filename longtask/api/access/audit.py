"""The audit: each request that wants to change something has its row before it is carried out, and is told to it.

Rows of requests that come together are written together: whoever comes while rows are being written waits for the next
batch.  So the audit costs one request two commits, and a hundred requests hardly more.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from longtask.core.errors import LongTaskError, NotFound, Refused
from longtask.store.access import new_audit_id
from longtask.store.callers import Audit, AuditEnd
from longtask.store.contract import Store

log = logging.getLogger("longtask.access")

BATCH = 200
T = TypeVar("T")
Waiting = list[tuple[T, "asyncio.Future[T]"]]


class AuditWriter:
    """For one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._begun: Waiting[Audit] = []
        self._ended: Waiting[AuditEnd] = []
        self._writing: asyncio.Task[None] | None = None
        self._thread = CapacityLimiter(1)  # its own: routes may keep all others busy

    async def begin(self, row: Audit) -> Audit:
        """The row as it is kept, with its id and its time; durable then.  Raises StoreError, StoreBusy."""
        return await self._put(self._begun, row)

    async def end(self, end: AuditEnd) -> None:
        """Never raises for the store: what was done is done, and the row says that its end is not known."""
        try:
            await self._put(self._ended, end)
        except LongTaskError as error:
            log.error("audit.lost id=%s status=%d: %s", end.id, end.status, error)

    async def _put(self, waiting: Waiting[T], row: T) -> T:
        written = asyncio.get_running_loop().create_future()
        waiting.append((row, written))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        kept: T = await written
        return kept

    async def _write(self) -> None:
        while self._begun or self._ended:
            await self._batch(self._begun, self._begin)
            await self._batch(self._ended, self._end)

    async def _batch(self, waiting: Waiting[T], write: Callable[[list[T]], Sequence[T]]) -> None:
        batch, waiting[:] = waiting[:BATCH], waiting[BATCH:]
        if not batch:
            return
        try:
            kept = await run_sync(write, [row for row, _ in batch], limiter=self._thread)
        except BaseException as error:  # noqa: BLE001  told to everybody who waits
            for _, written in batch:
                if not written.done():  # its request may be gone
                    written.set_exception(error)
            return
        for row, (_, written) in zip(kept, batch, strict=True):
            if not written.done():
                written.set_result(row)

    def _begin(self, rows: list[Audit]) -> list[Audit]:
        now = self._store.now()
        kept = [replace(self._by_id(row), id=new_audit_id(now), at=now) for row in rows]
        self._store.begin_audit(kept)
        return kept

    def _end(self, ends: list[AuditEnd]) -> list[AuditEnd]:
        self._store.end_audit(ends)
        return ends

    def _by_id(self, row: Audit) -> Audit:
        """A task is known by its id, whatever the request calls it."""
        if row.task_id is None or _is_id(row.task_id):
            return row
        with suppress(NotFound, Refused):
            return replace(row, task_id=self._store.get_task(row.task_id.replace("\0", "")).id)
        return row


def _is_id(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
