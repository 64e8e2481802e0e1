"""The audit: each request that wants to change something has its row before it is carried out, and is told to it.

Rows of requests that come together are written together (`batching.py`), so the audit costs one request two commits,
and a hundred requests hardly more.  A row names the template of an address: the path itself may hold what is secret.
"""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
from collections.abc import MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from longtask.api.batching import Batched
from longtask.core.errors import LongTaskError, NotFound, Refused
from longtask.store.access import new_audit_id
from longtask.store.callers import Audit, AuditEnd
from longtask.store.contract import Store

log = logging.getLogger("longtask.access")

LOOKING = ("GET", "HEAD", "OPTIONS")
Template = tuple[str, str, re.Pattern[str]]  # method, template, what fits it


class AuditWriter:
    """For one event loop."""

    def __init__(self, store: Store, threads: CapacityLimiter) -> None:
        self._store, self._threads = store, threads
        self._templates: list[Template] | None = None
        self._learning = asyncio.Lock()
        thread = ThreadPoolExecutor(1, "audit")
        self._begun = Batched(self._begin, thread)
        self._ended = Batched(self._end, thread)

    async def learn(self, app: Any) -> None:
        """What the application describes, at the first change: it takes a while, and once for all who come then."""
        async with self._learning:
            if self._templates is None and app is not None:
                self._templates = await run_sync(templates_of, app, limiter=self._threads)

    def matched(self, method: str, path: str) -> tuple[str, dict[str, str]]:
        """The template of the address, and what stands for its names."""
        for of, template, pattern in self._templates or ():
            if of == method and (found := pattern.fullmatch(path)):
                return template, found.groupdict()
        return "(no such address)", {}

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


class Trail:
    """The row of one request, if it has one."""

    def __init__(self, writer: AuditWriter, scope: MutableMapping[str, Any]) -> None:
        self._writer, self._scope = writer, scope
        self._method: str = scope["method"]
        self._path: str = scope["path"]
        self._row: Audit | None = None

    @property
    def begun(self) -> bool:
        """Its row waits for its end."""
        return self._row is not None

    @property
    def address(self) -> str:
        return self._writer.matched(self._method, self._path)[0]

    async def begin(self, who: str, token: str | None, address: str) -> None:
        await self._writer.learn(self._scope.get("app"))
        self._row = await self._writer.begin(self._made(who, token, address))

    async def end(self, status: int, outcome: str) -> None:
        row, self._row = self._row, None
        if row is not None:
            task = self._scope.get("state", {}).get("task_id")
            await self._writer.end(AuditEnd(row.id, status, outcome, task))

    async def note(self, status: int) -> None:
        """Of a change that nobody's token has allowed, but a signature: rows for all who try would fill the store."""
        await self._writer.learn(self._scope.get("app"))
        state = self._scope.get("state", {})
        who, address = str(state.get("who", "callback")), str(state.get("address", ""))
        await self._writer.begin(self._made(who, None, address, status))

    def _made(self, who: str, token: str | None, address: str, status: int = 0) -> Audit:
        template, named = self._writer.matched(self._method, self._path)
        what, task, step = f"{self._method} {template}", named.get("task"), named.get("step")
        return Audit("", 0, who, token, address, what, task, step, status)


def templates_of(app: Any) -> list[Template]:
    """Of addresses that change something; those with fewer names first, as `/tasks/check` before `/tasks/{task}`."""
    found: list[Template] = []
    for template, methods in app.openapi()["paths"].items():
        pieces = re.split(r"\{(\w+)\}", template)
        texts = [f"(?P<{p}>[^/]+)" if n % 2 else re.escape(p) for n, p in enumerate(pieces)]
        found += [(method.upper(), template, re.compile("".join(texts))) for method in methods]
    return sorted((row for row in found if row[0] not in LOOKING), key=lambda row: row[1].count("{"))


def _is_id(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
