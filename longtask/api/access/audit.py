"""The audit: each request that wants to change something has its row before it is carried out, and is told to it.

Rows of requests that come together are written together (`batching.py`), so the audit costs one request two commits,
and a hundred requests hardly more.
"""

from __future__ import annotations

import logging
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

from longtask.api.batching import Batched
from longtask.core.errors import LongTaskError, NotFound, Refused
from longtask.store.access import new_audit_id
from longtask.store.callers import Audit, AuditEnd
from longtask.store.contract import Store

log = logging.getLogger("longtask.access")


class AuditWriter:
    """For one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        thread = ThreadPoolExecutor(1, "audit")
        self._begun = Batched(self._begin, thread)
        self._ended = Batched(self._end, thread)

    async def begin(self, row: Audit) -> Audit:
        """The row as it is kept, with its id and its time; durable then.  Raises StoreError, StoreBusy."""
        return await self._begun.put(row)

    async def end(self, end: AuditEnd) -> None:
        """Never raises for the store: what was done is done, and the row says that its end is not known."""
        try:
            await self._ended.put(end)
        except LongTaskError as error:
            log.error("audit.lost id=%s status=%d: %s", end.id, end.status, error)

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
