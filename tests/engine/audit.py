"""The oracle over one task as its store keeps it, read through the contract alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from longtask.core.events import Event
from longtask.core.model import Edge
from longtask.core.oracle import audit
from longtask.core.oracle.view import Contains
from longtask.store.contract import Store

PAGE = 1_000


def pages(read: Callable[[Any], list[Any]], place: Callable[[Any], Any], start: Any) -> Iterator[Any]:
    while page := read(start):
        yield from page
        start = place(page[-1])


def journal(store: Store, task_id: str) -> list[Event]:
    return list(pages(lambda after: store.events(task_id, after, PAGE), lambda event: event.seq, 0))


def violations(store: Store, task_id: str, contains: Contains | None = None) -> list[str]:
    """`contains`: see the oracle.  Nobody may write meanwhile."""
    rows = {row.key: row for row in pages(lambda after: store.steps(task_id, after, PAGE), lambda row: row.key, "")}
    edges = [Edge(*pair) for pair in pages(lambda after: store.edges(task_id, after, PAGE), tuple, ("", ""))]
    inbox = list(pages(lambda after: store.inbox(task_id, after, PAGE), lambda signal: signal.number, 0))
    specs = {n: store.spec(task_id, n) for n in {row.spec for row in rows.values() if not row.gate}}
    found = audit(
        store.get_task(task_id),
        rows,
        edges,
        journal(store, task_id),
        store.leases(task_id, 10_000),
        inbox,
        specs,
        mutexes=store.mutexes(task_id, PAGE),
        tickets=store.tickets(task_id, 100 * PAGE),
        offers=store.offers(task_id, PAGE),
        now=store.now(),
        contains=contains,
    )
    return [str(violation) for violation in found]
