"""The journal as CloudEvents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from longtask.core import events as e
from longtask.core.model import Kind, Task
from longtask.core.public import public
from longtask.store.contract import Store
from longtask.views.words import iso


class Agents:
    """The steps that agents work on, looked up when an event names one."""

    def __init__(self, store: Store, task_id: str) -> None:
        self._store = store
        self._task_id = task_id
        self._known: dict[str, bool] = {}

    def __contains__(self, key: object) -> bool:
        name = str(key)
        if name not in self._known:
            row = self._store.results(self._task_id, [name]).get(name)
            self._known[name] = row is not None and row.kind is Kind.AGENT
        return self._known[name]


def cloud_events(task: Task, event: e.Event, agents: Agents) -> Iterator[dict[str, Any]]:
    """The shape of `events --json`: one for each public event; those of one fact share its number."""
    for shown in public(event.fact, task.options.stages, agents):
        yield {
            "specversion": "1.0",
            "id": f"{task.id}/{event.seq}",
            "source": f"/tasks/{task.id}",
            "type": shown.name,
            "time": iso(event.at),
            "seq": event.seq,
            "actor": event.actor or None,
            "data": dict(shown.fields),
        }
