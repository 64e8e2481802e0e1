"""Growth in a task's transaction, with what the pure decision needs from the store."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from longtask.core.errors import BadPlan
from longtask.core.events import StepsAdded
from longtask.core.grow import Around, Growth, entered, grow, known_to, named, steps_in
from longtask.core.model import Json, JsonMap, Step, StepSpec, Verdict
from longtask.core.policy import EDGES_PER_STEP_MAX, GROWTH_MAX
from longtask.core.settle import Condition, ConditionNeeded, react
from longtask.store.contract import Ref, Store

from .scope import Expressions, Scopes, still
from .writing import Writing

UNWANTED = (Verdict.VETO, Verdict.OMIT)
SHOWN_MAX = 10  # names of new steps in a question


def foreseen(
    store: Store, scopes: Scopes, expressions: Expressions, task_id: str, growth: Growth
) -> dict[str, Condition]:
    """The `if`s of new steps, over what is completed now; outside any lock.  Of those that have to wait they mean
    nothing yet, and nobody asks."""
    conditional = [step for step in growth.planned if step.conditional]
    if not conditional:
        return {}
    task = store.get_task(task_id)
    return {
        step.key: scopes.condition(expressions, task, Step(step.key, step.kind), growth.specs[step.spec])
        for step in conditional
    }


def grow_in(w: Writing, growth: Growth, by: str | None, conditions: Mapping[str, Condition]) -> list[str]:
    """Adds the steps; their keys.  Those that nothing stands before begin at once.

    Raises Refused, BadPlan with every problem, ConditionNeeded if what an `if` reads has changed."""
    before = w.see(w.tx.steps([growth.before]).values()) if growth.before else []
    stage = entered(w.task, growth, before[0] if before else None)
    needed = w.tx.needs(growth.before, EDGES_PER_STEP_MAX) if growth.before else []
    rows = {row.key: row for row in w.see(w.tx.steps(list(dict.fromkeys([*named(growth, stage), *needed]))).values())}
    direct = [key for key in needed if rows[key].owner != growth.before]  # not its own fixes
    facts = grow(w.task, growth, Around(rows, direct, w.tx.spec_count()), by)
    w.add(facts)
    added = facts[-1]
    assert isinstance(added, StepsAdded)
    decided: dict[str, str] = {}  # new steps of which a need has ended so that they are not to run -> that need
    for need, key in added.edges:
        if need in rows and known_to(rows[need], key) in UNWANTED:
            decided.setdefault(key, need)
    for new in added.steps:
        condition = conditions.get(new.key)
        if condition is not None and not still(condition, w.tx.steps([key for key, _, _ in condition.read])):
            raise ConditionNeeded([new.key])
        w.add(react(w.task, w.step(new.key), decided.get(new.key), w.now, conditions))
    return [new.key for new in added.steps]


# --- planners -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps that a planner has handed over, checked by themselves.  `seen_first`: a person is to approve them."""

    growth: Growth
    conditions: Mapping[str, Condition]
    seen_first: bool = False


def handed_over(store: Store, scopes: Scopes, expressions: Expressions, ref: Ref, spec: StepSpec, result: Json) -> Plan:
    """What a planner's result asks for.  Raises BadPlan with every problem, as text for the planner."""
    words: JsonMap = spec.body["grow"]
    steps = steps_in(result)
    most = words.get("steps_max", GROWTH_MAX)
    if len(steps) > most:
        raise BadPlan(f"it hands over {len(steps)} steps, {most} is the limit; plan fewer, or use for_each")
    raw = {name: words[name] for name in ("stage", "before") if name in words} | {"steps": steps}
    task = store.get_task(ref.task_id)
    growth = expressions.growth(raw, task)
    conditions = foreseen(store, scopes, expressions, ref.task_id, growth)
    return Plan(growth, conditions, bool(words.get("approve")))


def proposal(growth: Growth) -> tuple[str, str]:
    """How the steps are told to whoever is to approve them, and their digest."""
    shown = ", ".join(step.key for step in growth.planned[:SHOWN_MAX])
    more = "" if len(growth.planned) <= SHOWN_MAX else f" and {len(growth.planned) - SHOWN_MAX} more"
    digest = hashlib.sha256(repr(growth).encode()).hexdigest()[:32]
    number = len(growth.planned)
    return f"it wants to add {number} {'step' if number == 1 else 'steps'}: {shown}{more}", digest
