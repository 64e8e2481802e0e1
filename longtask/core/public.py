"""What people and streams see of an event: dotted names and plain fields (SEMANTICS §3).

One event may show as several, and some show as none (they move only what nobody outside waits for).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import fields
from enum import Enum

from . import events as e
from .model import JsonMap, Kind, StepSpec, TaskOptions, WaitingFor

_ENDS_A_RUN = e.StepCompleted | e.StepDelivered | e.StepFailed | e.StepRetried | e.FixRequested
HIDDEN = frozenset("spec specs steps edges options first_spec more told listing lease_ms taken".split())


def public(fact: e.Fact, stages: Sequence[str] = (), agents: Container[str] = ()) -> list[e.PublicEvent]:
    """`stages`: the names of the task's stages, for events of a gate.  `agents`: keys of steps that agents work on."""
    if isinstance(fact, _ENDS_A_RUN) and fact.attempt and fact.step in agents:
        outcome = "completed" if isinstance(fact, e.StepCompleted | e.StepDelivered) else "failed"
        ended = {"step": fact.step, "attempt": fact.attempt, "outcome": outcome}
        return [e.PublicEvent("agent.run.completed", ended), *_of_fact(fact, stages)]
    return _of_fact(fact, stages)


def _of_fact(fact: e.Fact, stages: Sequence[str]) -> list[e.PublicEvent]:
    match fact:
        case e.TaskSubmitted():
            steps = sum(s.kind is not Kind.GATE for s in fact.steps)
            forked = fact.options.forked
            shown = {"name": fact.name, "goal": fact.options.goal, "steps": steps, "base": fact.base,
                     "forked_from": None if forked is None else forked.task}  # fmt: skip
            first = [_stage("started", 1, stages)] if stages else []
            return [e.PublicEvent("longtask.started", _plain(shown)), *first]
        case e.StepsAdded():
            rows = [s for s in fact.steps if s.kind is not Kind.GATE]
            if fact.by is not None and not rows:
                return []
            return [e.PublicEvent("step.added", _plain({"steps": [s.key for s in rows], "by": fact.by or None}))]
        case e.GateOpened():
            number = int(fact.step.rpartition(".")[2])
            begun = [_stage("started", number + 1, stages)] if number < len(stages) else []
            return [_stage("completed", number, stages, outcome="completed"), *begun]
        case e.StepSkipped(step=key) if key.startswith("gate."):
            return [_stage("completed", int(key.rpartition(".")[2]), stages, outcome="failed")]
        case e.StepRestored(step=key) if key.startswith("gate."):
            return [_stage("started", int(key.rpartition(".")[2]), stages, again=True)]
        case e.StepParked():
            name = {WaitingFor.USER: "approval.required", WaitingFor.CI: "ci.waiting"}.get(
                fact.waiting_for, "wait.started"
            )
            return [e.PublicEvent(name, _fields(fact))]
        case e.StepWoken() if "mutex" in fact.cause:
            return []  # nobody outside waits for it
        case e.StepWoken():
            decided = any(word in fact.cause for word in ("decision", "answer", "superseded"))
            ci = str(fact.cause.get("signal", "")).startswith("ci.")
            name = "approval.resolved" if decided else "ci.completed" if ci else "wait.resolved"
            return [e.PublicEvent(name, _fields(fact))]
        case e.StepClaimed() if fact.runtime:
            return [
                e.PublicEvent("step.started", _fields(fact)),
                e.PublicEvent("agent.run.started", {"step": fact.step, "runtime": fact.runtime}),
            ]
        case e.StepLost():
            return [e.PublicEvent("step.retried", {**_fields(fact), "cause": "lost"})]
        case e.StepCompleted() | e.StepDelivered() | e.StepFailed():
            made = [e.PublicEvent("artifact.created", {"step": fact.step, **a}) for a in fact.artifacts]
            return [*made, *_named(fact)]
        case e.BudgetNear(stage=int(number)) | e.BudgetRaised(stage=int(number)):
            shown = {**_fields(fact), "stage": _stage_name(number, stages), "number": number}
            return [e.PublicEvent(e.PUBLIC[type(fact).__name__], shown)]
        case e.StepMerged():
            return [e.PublicEvent("step.completed", _fields(fact))]
    return _named(fact)


def _named(fact: e.Fact) -> list[e.PublicEvent]:
    name = e.PUBLIC.get(type(fact).__name__)
    return [e.PublicEvent(name, _fields(fact))] if name else []


def _stage(word: str, number: int, stages: Sequence[str], **more: object) -> e.PublicEvent:
    return e.PublicEvent(f"stage.{word}", {"stage": _stage_name(number, stages), "number": number, **more})


def _stage_name(number: int, stages: Sequence[str]) -> str:
    return stages[number - 1] if number <= len(stages) else str(number)


def _fields(fact: e.Fact) -> JsonMap:
    shown = {f.name: getattr(fact, f.name) for f in fields(fact) if f.name not in HIDDEN and f.name != "artifacts"}
    return _plain(shown)


def _plain(shown: JsonMap) -> JsonMap:
    """Without what says nothing, enums as their words."""
    return {
        k: str(v.value) if isinstance(v, Enum) else v
        for k, v in shown.items()
        if v is not None and v != "" and not isinstance(v, StepSpec | TaskOptions)
    }
