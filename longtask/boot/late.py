"""What is imported at its first use: a command that only looks must not pay for what works.

Two threads that come into one package by different doors may find it half made; so whatever is imported late is
imported by one thread at a time.
"""

from __future__ import annotations

import threading
from pathlib import Path

from longtask.core.grow import Growth
from longtask.core.model import Json, JsonMap, StepSpec, Task
from longtask.engine.scope import Edited

LOADING = threading.RLock()


class Language:
    """`engine.scope.Expressions`; the library behind it is imported when the first expression is evaluated."""

    def condition(self, text: str, scope: JsonMap) -> bool:
        with LOADING:
            from longtask.plan import expressions

        return expressions.condition(text, scope)

    def render(self, template: Json, scope: JsonMap) -> Json:
        with LOADING:
            from longtask.plan import expressions

        return expressions.render(template, scope)

    def expand(self, items: Json, scope: JsonMap) -> Json:
        with LOADING:
            from longtask.plan import expressions

        return expressions.expand(items, scope)

    def growth(self, raw: Json, task: Task) -> Growth:
        with LOADING:
            from longtask.plan.growth import growth_from

        return growth_from(raw, task)

    def edited(self, key: str, old: StepSpec, words: Json, task: Task) -> Edited:
        with LOADING:
            from longtask.plan.edit import edited

        return edited(key, old, words, task)


def read_document(path: Path) -> Json:
    with LOADING:
        from longtask.plan.yaml import parse

    value, _, findings = parse(path.read_bytes(), str(path))
    findings.raise_if_any()
    return value


def with_plans(steps: Json, folder: Path) -> Json:
    """`steps.planning.ReadPlans`."""
    with LOADING:
        from longtask.plan import growth

    return growth.with_plans(steps, folder)
