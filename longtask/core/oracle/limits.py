"""Limits of stages, counted anew: a person is asked when one is reached, and not before; near it is told once."""

from __future__ import annotations

from longtask.core import events as e
from longtask.core.policy import NEAR_PERCENT

from .view import View, Violation


def check(view: View) -> list[Violation]:
    planned = view.task.options.stage_limits
    if not planned or not view.events:
        return []
    found: list[Violation] = []
    spent = [{"tokens": 0, "micros": 0} for _ in planned]
    raised = [0] * len(planned)
    own: dict[str, int] = {}  # by step, how often it was raised for that one alone

    def reached(stage: int, more: int = 0) -> bool:
        times = 1 + raised[stage - 1] + more
        return any(spent[stage - 1][name] >= limit * times for name, limit in planned[stage - 1].items())

    for event in view.events:
        match event.fact:
            case e.UsageRecorded(step=key) as usage if key in view.steps:
                of_stage = spent[view.steps[key].stage - 1]
                of_stage["tokens"] += usage.tokens_in + usage.tokens_out
                of_stage["micros"] += usage.micros or 0
            case e.BudgetRaised(stage=int(stage)):
                raised[stage - 1] += 1
            case e.StepWoken(step=key, cause={"answer": "raise"}):
                own[key] = own.get(key, 0) + 1
            case e.HelpAsked(step=key, question={"stage": int(stage)}) if not reached(stage, own.get(key, 0)):
                text = f"event {event.seq}: {key!r} asks about stage {stage}, which has spent {spent[stage - 1]}"
                found.append(Violation("limit", text))
            case e.BudgetNear(stage=int(stage)) as near:
                limit = planned[stage - 1][near.which] * (1 + raised[stage - 1])
                used = spent[stage - 1][near.which]
                if (near.used, near.limit) != (used, limit) or not NEAR_PERCENT * limit <= 100 * used < 100 * limit:
                    text = (
                        f"event {event.seq}: stage {stage} is near {near.limit} {near.which}, not at {used} of {limit}"
                    )
                    found.append(Violation("limit", text))
    return found
