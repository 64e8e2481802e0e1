"""The oracle over one task as its store keeps it, read through the contract alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from longtask.core.events import Event, UsageRecorded
from longtask.core.model import Edge, Task
from longtask.core.oracle import Member, Owed, audit, audit_family
from longtask.core.oracle.view import Contains
from longtask.store.contract import Store

PAGE = 1_000
TASKS_MAX = 10_000


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


def family_violations(store: Store) -> list[str]:
    """Between tasks.  Nobody may write meanwhile."""
    tasks = store.tasks(open_only=False, workspace_id=None, before=0, limit=TASKS_MAX)
    if not any(task.parent for task in tasks):
        return []
    return [str(violation) for violation in audit_family({task.id: member(store, task) for task in tasks})]


def member(store: Store, task: Task) -> Member:
    events = journal(store, task.id)
    own = [e.fact for e in events if isinstance(e.fact, UsageRecorded) and e.fact.child is None]
    rows = pages(lambda after: store.steps(task.id, after, PAGE), lambda row: row.key, "")
    return Member(
        task,
        {row.key: row for row in rows},
        [Owed(x.kind, x.step, x.target, x.seq, x.tokens, x.micros) for x in store.errands_of(task.id, TASKS_MAX)],
        [signal.name for signal in pages(lambda n: store.inbox(task.id, n, PAGE), lambda s: s.number, 0)],
        {event.op for event in events if event.op is not None},
        sum(usage.tokens_in + usage.tokens_out for usage in own),
        sum(usage.micros or 0 for usage in own),
    )
