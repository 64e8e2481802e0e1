"""Money, tokens, time and requests against their limits: what is told before a limit, and when it is reached.

Amounts go by the names of limits, which are their units: `tokens`, `micros` (millionths of a dollar), `active_ms`,
`requests`.  That a limit is near is told once: on the way past its mark, unless that way leads to the limit itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from . import events as e
from .model import Step, StepSpec, Task
from .policy import NEAR_PERCENT

Amounts = Mapping[str, int]


def recorded(task: Task, stage: int, usage: e.UsageRecorded) -> tuple[e.Fact, ...]:
    """The usage, of a step of that stage, and of the task's and the stage's limits those that it comes near."""
    limits = {"tokens": task.budget_tokens, "micros": task.budget_micros}
    before = {"tokens": task.spent_tokens, "micros": task.spent_micros}
    more = {"tokens": usage.tokens_in + usage.tokens_out, "micros": usage.micros or 0}
    of_task = (e.BudgetNear(*near) for near in nearing(limits, before, more))
    of_stage = nearing(stage_limits(task, stage), stage_spent(task, stage), more)
    return (usage, *of_task, *(e.BudgetNear(*near, stage) for near in of_stage))


def near_limits(step: Step, spec: StepSpec, before: Amounts, more: Amounts) -> tuple[e.Fact, ...]:
    """Of the step's own limits those that so much more comes near."""
    return tuple(e.LimitNear(step.key, *near) for near in nearing(limits_of(spec, step.raises), before, more))


def nearing(limits: Mapping[str, int | None], before: Amounts, more: Amounts) -> Iterator[tuple[str, int, int]]:
    """(which, used, limit) of those that are near from now on."""
    for name, limit in limits.items():
        used = before[name] + more[name]
        if limit is not None and not near(before[name], limit) and near(used, limit):
            yield name, used, limit


def near(used: int, limit: int) -> bool:
    """Near, and not reached."""
    return NEAR_PERCENT * limit <= 100 * used < 100 * limit


def spent_up(spec: StepSpec, raises: int, spent: Amounts) -> bool:
    """Whether a step that has spent so much is to be stopped.  Of its requests its agent takes care."""
    return any(spent[name] >= limit for name, limit in _money_and_tokens(spec, raises).items())


def stage_spent_up(task: Task, step: Step) -> bool:
    """Whether the stage has spent so much that the step is to be stopped.  A person raises it for all of them, or for
    one step alone, which goes on while the others stand."""
    spent = stage_spent(task, step.stage)
    return any(spent[name] >= limit for name, limit in stage_limits(task, step.stage, step.raises).items())


def stage_spent(task: Task, stage: int) -> dict[str, int]:
    tokens, micros = task.stage_spent[stage - 1] if task.stage_spent else (0, 0)
    return {"tokens": tokens, "micros": micros}


def stage_limits(task: Task, stage: int, own: int = 0) -> dict[str, int]:
    """Each time that people raise such a limit, it grows by itself.  `own`: so often for the one step that is asked
    about."""
    raises = own + (task.stage_raises[stage - 1] if task.stage_raises else 0)
    limits = task.options.stage_limits[stage - 1] if task.options.stage_limits else {}
    return {name: limit * (1 + raises) for name, limit in limits.items()}


def reached(task: Task, step: Step, spec: StepSpec) -> str:
    """Which limit an agent was stopped at, in words."""
    if stage_spent_up(task, step):
        limits = _worded(stage_limits(task, step.stage, step.raises))
        return f"the limit of stage {task.options.stages[step.stage - 1]!r} is reached: {limits}"
    return "its limit is reached: " + _worded(_money_and_tokens(spec, step.raises))


def limits_of(spec: StepSpec, raises: int) -> dict[str, int]:
    """Tokens and money of all runs of a step, requests of one; those that the plan names."""
    requests = {"requests": spec.body["requests_max"]} if "requests_max" in spec.body else {}
    return {**_money_and_tokens(spec, raises), **requests}


def _worded(limits: Mapping[str, int]) -> str:
    words = [f"{limits['tokens']:,} tokens"] if "tokens" in limits else []
    words += [f"{limits['micros'] / 1_000_000:.2f} USD"] if "micros" in limits else []
    return " or ".join(words)


def _money_and_tokens(spec: StepSpec, raises: int) -> dict[str, int]:
    """Each time that people raise such a limit, it grows by itself."""
    return {name: limit * (1 + raises) for name, limit in (spec.body.get("limits") or {}).items()}
