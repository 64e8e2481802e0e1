"""A task's document, as a server tells it, becomes the picture that is drawn: the same tree for here and elsewhere."""

from __future__ import annotations

import time

from longtask.client.documents import Items, StepEntry, TaskEntry, TaskTree
from longtask.core.errors import StoreError
from longtask.core.model import (
    Kind,
    Role,
    Step,
    StepState,
    Tally,
    Task,
    TaskOptions,
    TaskState,
    WaitingFor,
    WhenFailed,
)
from longtask.store.contract import Progress
from longtask.views.picture import Child, Picture


def now_ms() -> int:
    """A server's clock is not asked: what is told by it are ages and durations for people."""
    return int(time.time() * 1000)


def pictured(tree: TaskTree) -> Picture:
    """Raises StoreError for words that only a newer LongTask knows."""
    try:
        return _pictured(tree)
    except ValueError as error:
        raise StoreError(f"the server is of a newer version ({error}); update longtask, or use --json") from None


def number_of(entry: TaskEntry) -> int:
    return int(entry["handle"].rpartition("-")[2])


def _pictured(tree: TaskTree) -> Picture:
    counts = Tally(**{name: tree["counts"].get(name, 0) for name in Tally._fields})
    options = TaskOptions(goal=tree["goal"], stages=tuple(stage["name"] for stage in tree["stages"]))
    task = Task(
        tree["id"],
        tree["name"],
        options,
        state=TaskState(tree["state"]),
        counts=counts,
        number=number_of(tree),
        created_by=tree["created_by"],
        created_at=tree["created_at"],
        ended_at=tree["ended_at"] or 0,
        parent_step=tree.get("parent_step"),
        spent_micros=tree["cost_micros"],
        spent_tokens=tree["tokens"],
        budget_micros=tree["cost_limit_micros"],
        budget_tokens=tree["tokens_limit"],
        exceeded="cost" if tree["status"] == "waiting_budget" else None,
    )
    steps = []
    progress = {}
    children = {}
    for entry in tree["steps"]:
        step = _step(entry)
        steps.append(step)
        if (told := entry["progress"]) is not None:
            progress[step.key] = Progress(step.key, step.attempt, told["done"], told["total"], told["text"])
        if (child := entry.get("child")) is not None:  # an older server does not say
            children[step.key] = Child(**child)
    return Picture(task, steps, progress, now_ms(), tree["steps_left_out"], children, tree.get("parent"))


def _step(entry: StepEntry) -> Step:
    """Documents do not say what an owned step is to its owner: an item, else a fix."""
    owner = entry["owner"]
    item = owner is not None and entry["key"].startswith(f"{owner}[")
    role = Role.OWN if owner is None else Role.ITEM if item else Role.FIX
    none: Items = {"total": 0, "ended": 0, "failed": 0, "begun": 0}
    items = entry.get("items") or none  # an older server does not say
    return Step(
        entry["key"],
        Kind(entry["kind"]),
        entry["stage"],
        role=role,
        owner=owner,
        when_failed=WhenFailed.CONTINUE if entry["tolerated"] else WhenFailed.STOP,
        waived=entry.get("waived", False),  # an older server does not say
        state=StepState(entry["state"]),
        due_at=entry["due_at"] or 0,
        benign=entry["benign"],
        reason=entry["reason"],
        because=entry["because"],
        attempt=entry["attempt"],
        taken_by=entry.get("taken_by"),  # an older server does not say
        run=entry["run"],
        rounds=entry["rounds"],
        began_at=entry["began_at"] or 0,
        ended_at=entry["ended_at"] or 0,
        waiting_for=WaitingFor(entry["waiting_for"] or ""),
        ask=entry["ask"] or 0,
        question=entry["question"],
        commit=entry["commit"],
        result=entry["result"],
        items=items["total"],
        items_ended=items["ended"],
        items_failed=items["failed"],
        items_next=items.get("begun", 0),
    )
