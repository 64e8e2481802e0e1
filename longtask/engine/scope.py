"""What expressions may name, read from the store outside any lock.  Outputs of completed steps are frozen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from longtask.core.grow import Growth
from longtask.core.model import Json, JsonMap, Kind, Step, StepSpec, Task
from longtask.core.settle import Condition
from longtask.store.contract import Ref, Store

ARTIFACT = "$artifact"  # {"$artifact": digest} stands for a value that was too large for a row


class Edited(Protocol):
    """`specs` are numbered by their place, `own` is the step's; `kept` names the numbers in it that are of specs which
    the task has already."""

    @property
    def specs(self) -> tuple[StepSpec, ...]: ...
    @property
    def own(self) -> int: ...
    @property
    def kept(self) -> frozenset[str]: ...


class Expressions(Protocol):
    """The language of conditions and templates, handed in by `boot`.  Errors are exceptions with a clear text."""

    def condition(self, text: str, scope: JsonMap) -> bool: ...
    def render(self, template: Json, scope: JsonMap) -> Json:
        """Walks maps and lists; a text that is one expression keeps the value's type."""

    def growth(self, raw: Json, task: Task) -> Growth:
        """A part of a plan, as plain values, checked by itself.  Raises BadPlan."""

    def edited(self, key: str, old: StepSpec, words: Json, task: Task) -> Edited:
        """A step's spec with other words, as plain values.  Raises BadPlan."""


ReadArtifact = Callable[[str, str], bytes]  # (workspace id, digest)


class Scopes:
    """Builds scopes; resolves values that stand as artifacts."""

    def __init__(self, store: Store, read_json: Callable[[str, str], Json]) -> None:
        self._store = store
        self._read_json = read_json

    def of(self, task: Task, step: Step, spec: StepSpec) -> dict[str, Any]:
        """What holds of its task, and item and index of an item.

        What an agent has spawned finds its task as `spawned`, which no expression names."""
        scope = self.of_task(task, spec.reads, step.base)
        below = step
        while below.owner is not None:  # a fix of an item, and what is spawned for it, see the item's value
            owner = self._store.get_step(Ref(task.id, below.owner))
            if below.item is not None and owner.kind is Kind.FOR_EACH:
                listing = self.value(task, owner.listing)
                scope |= {"item": listing[below.item], "index": below.item}
                break
            if below is step and below.item is not None:
                scope["spawned"] = self.value(task, owner.listing["tasks"])[below.item]
            below = owner
        return scope

    def of_task(self, task: Task, reads: Sequence[str], head: str | None = None) -> dict[str, Any]:
        """task.*, inputs.*, and steps.ID.outputs / .state of these steps.  `head`: instead of the newest."""
        rows = self._store.results(task.id, reads) if reads else {}
        return {
            "task": {
                "id": task.id,
                "name": task.name,
                "goal": task.options.goal,
                "head": (head or task.head) or "",
                "base": task.base or "",
            },
            "inputs": {name: self.value(task, value) for name, value in task.options.inputs.items()},
            "steps": {
                key: {"outputs": self.value(task, row.result), "state": str(row.state)} for key, row in rows.items()
            },
        }

    def value(self, task: Task, stored: Json) -> Json:
        return self.fetch(task.workspace_id, stored)

    def fetch(self, workspace_id: str, stored: Json) -> Json:
        if isinstance(stored, dict) and ARTIFACT in stored:
            return self._read_json(workspace_id, stored[ARTIFACT])
        return stored

    def condition(self, expressions: Expressions, task: Task, step: Step, spec: StepSpec) -> Condition:
        """Evaluates the step's `if`; an error in it is a value too, and fails the step."""
        rows = self._store.results(task.id, spec.reads) if spec.reads else {}
        read = tuple((key, row.attempt, str(row.state)) for key, row in sorted(rows.items()))
        try:
            return Condition(expressions.condition(spec.condition or "true", self.of(task, step, spec)), None, read)
        except Exception as error:  # noqa: BLE001  whatever the language finds wrong is the step's failure
            return Condition(False, f"its `if` cannot be evaluated: {error}", read)


def still(condition: Condition, rows: dict[str, Step]) -> bool:
    """What the condition was evaluated over is unchanged."""
    return all(
        key in rows and rows[key].attempt == attempt and str(rows[key].state) == state
        for key, attempt, state in condition.read
    )
