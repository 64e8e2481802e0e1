"""A list of tasks as documents, each with what it asks somebody: one look at the store for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from longtask.core.model import Step, Task
from longtask.store.contract import Store
from longtask.views.documents import task_map
from longtask.views.words import question_text

FEW = 10  # so many that ask are looked up one by one
ASKING_MAX = 1_000


def listed_maps(store: Store, tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """The shape of `ls --json`."""
    asking = _asking(store, [task.id for task in tasks if task.counts.wait_user])
    return [{**task_map(task), "asks": asks_map(asking.get(task.id))} for task in tasks]


def asks_map(step: Step | None) -> dict[str, Any] | None:
    if step is None or step.question is None:
        return None
    return {
        "step": step.key,
        "text": question_text(step),
        "who": list(step.question.get("who") or ()),
        "since": step.began_at or None,
    }


def _asking(store: Store, ids: Sequence[str]) -> dict[str, Step]:
    """Of each task the step that has asked for longest; an installation in which very many ask is looked at in part."""
    found: dict[str, Step] = {}
    if len(ids) > FEW:
        for task_id, step in store.asking(task_id=None, limit=ASKING_MAX):
            found.setdefault(task_id, step)
    for task_id in ids:
        if task_id not in found:
            found.update(store.asking(task_id=task_id, limit=1))
    return found
