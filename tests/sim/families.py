"""Tasks in tasks: plans with children, and what must hold of a family as a whole.

The budget is looked at from outside: what the run journals of a task and of all below it say is spent, against what is
begun.  A turn that was admitted though its task or one above had spent its budget before anybody asked breaks the
promise that each running attempt oversteps by one request at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from longtask.core.codec import form
from longtask.core.graph import Graph
from longtask.core.model import Kind, StepSpec
from longtask.core.oracle import audit_family
from longtask.core.oracle.active import limits
from longtask.store.contract import Store
from tests.engine.audit import journal, member
from tests.raw import rows

from .faults import Found

if TYPE_CHECKING:
    from .plans import Planner

TASKS_MAX = 1_000
DEPTH_MAX = 2  # of children in these worlds
CHILD_STEPS_MAX = 3


def child_spec(planner: Planner, common: dict[str, Any]) -> StepSpec:
    """A step whose work is a task of its own: small, on its parent's code."""
    odds = planner.odds
    fewer = replace(
        odds,
        steps_max=CHILD_STEPS_MAX,
        stages_max=2,
        code=100 if planner.code else 0,
        task=odds.task / 2 if planner.depth + 1 < DEPTH_MAX else 0,
    )
    graph = type(planner)(planner.chance, fewer, planner.batch, planner.depth + 1).graph("child", planner.pools)
    body = {
        "graph": form(Graph).dump(graph),
        "inputs": {"n": planner.chance.randint(1, 3)},
        "results": {"ok": planner.often(80), "list": [1, 2, 3]},
    }
    conflict = planner.conflict_spec() if planner.code and planner.often(60) else None
    return StepSpec(Kind.TASK, body, failures_max=planner.one((0, 1)), conflict=conflict, **common)


class Families:
    """Raises Found."""

    def __init__(self) -> None:
        self._print: Any = None  # of the tasks at the last audit

    def audit(self, store: Store) -> None:
        tasks = store.tasks(open_only=False, workspace_id=None, before=0, limit=TASKS_MAX)
        if not any(task.parent for task in tasks):
            return
        now = tasks, rows(store, "select n, task_n, kind from outbox")
        if now == self._print:
            return
        self._print = now
        found = audit_family({task.id: member(store, task) for task in tasks})
        if found:
            raise Found(found[0].rule, "\n    ".join([found[0].text, *map(str, found[1:6])]))

    def active(self, store: Store, told_by: int) -> None:
        """Limits of active time are told, by the last look that told what it found, and never early."""
        for task in store.tasks(open_only=False, workspace_id=None, before=0, limit=TASKS_MAX):
            if task.options.active_max_ms is not None:
                below = [journal(store, child) for child in _below(store, [task.id])]
                for found in limits(journal(store, task.id), below, told_by):
                    raise Found(found.rule, f"task {task.name!r}: {found.text}")

    def over_budget(self, store: Store, task_id: str) -> list[str]:
        """Of the task and those over it, which have spent their budgets, by the calls that have ended."""
        task = store.get_task(task_id)
        return [one for one in (task_id, *(over.task_id for over in task.ancestors)) if self._over(store, one)]

    def _over(self, store: Store, task_id: str) -> bool:
        budget = store.get_task(task_id).budget_micros
        return budget is not None and spent(store, [task_id, *_below(store, [task_id])]) >= budget

    def admitted(self, store: Store, task_id: str, before: Sequence[str]) -> None:
        """A turn of this task has begun; `before`: who was over budget when it was asked for."""
        for over in before:
            if self._over(store, over):
                raise Found("budget", f"a turn of task {task_id!r} begins, {over!r} had spent its budget before")


def spent(store: Store, task_ids: Sequence[str]) -> int:
    """In micro-dollars."""
    numbers = [store.get_task(task_id).number for task_id in task_ids]
    calls = [rows(store, "select coalesce(sum(micros), 0) from run_journal where task_n = ? and done_at > 0", n)
             for n in numbers]  # fmt: skip
    return sum(int(call[0][0]) for call in calls)


def _below(store: Store, task_ids: Sequence[str]) -> list[str]:
    found = [child.id for task_id in task_ids for child in store.children(task_id, TASKS_MAX)]
    return found + _below(store, found) if found else []
