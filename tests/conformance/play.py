"""Puts tasks into a store by facts alone, through the real fold: no engine, no decisions."""

from collections.abc import Iterable, Mapping
from typing import Any

from longtask.core.events import Fact, NewStep, StepClaimed, StepCompleted, TaskSubmitted
from longtask.core.machine import fold
from longtask.core.model import Edge, Kind, Step, StepSpec, Task, TaskOptions, Verdict
from longtask.store.contract import Ref, Store

WORKER = "w-1"


def task_id(number: int) -> str:
    return f"018bcfe5-{number:04x}-7000-8000-000000000000"


def ready(*keys: str, **more: Any) -> tuple[NewStep, ...]:
    return tuple(NewStep(key, Kind.RUN, weight=100, ready=True, **more) for key in keys)


def blocked(key: str, blockers: int = 1, **more: Any) -> NewStep:
    return NewStep(key, more.pop("kind", Kind.RUN), blockers=blockers, **more)


def submit(store: Store, number: int, steps: Iterable[NewStep], edges: Iterable[Edge] = (), **more: Any) -> str:
    id_ = task_id(number)
    specs = more.pop("specs", (StepSpec(Kind.RUN, body={"run": "true"}),))
    options = more.pop("options", TaskOptions(goal="g"))
    fact = TaskSubmitted(
        id_, more.pop("name", "play"), options, steps=tuple(steps), edges=tuple(edges), specs=specs, **more
    )
    with store.create(id_) as tx:
        tx.save(fold(None, {}, [fact], tx.now))
    return id_


def act(
    store: Store, id_: str, *facts: Fact, told: Mapping[str, Step] | None = None, actor: str = "", op: str | None = None
) -> Task:
    """One block with these facts; answers the header after it."""
    keys = sorted({fact.step for fact in facts if hasattr(fact, "step")} | {edge.step for edge in _edges(facts)})
    with store.task(id_) as tx:
        change = fold(tx.task, tx.steps(keys), facts, tx.now, told)
        tx.save(change, actor=actor, op=op)
    return change.task


def _edges(facts: Iterable[Fact]) -> Iterable[Edge]:
    for fact in facts:
        yield from getattr(fact, "edges", ())


def claim(store: Store, id_: str, key: str, **more: Any) -> Ref:
    attempt = store.get_step(Ref(id_, key)).attempt + 1
    act(store, id_, StepClaimed(key, attempt, WORKER, **more))
    return Ref(id_, key)


def complete(store: Store, id_: str, key: str) -> None:
    """Claimed, completed, and told to nobody, as if nothing needed it."""
    claim(store, id_, key)
    attempt = store.get_step(Ref(id_, key)).attempt
    act(store, id_, StepCompleted(key, attempt))
    settle(store, id_, key)


def settle(store: Store, id_: str, key: str) -> None:
    with store.task(id_, key) as tx:
        tx.save(fold(tx.task, {key: tx.step(key)}, [], tx.now, {key: tx.step(key)._replace(told=Verdict.OK)}))
