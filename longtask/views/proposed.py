"""Steps that a planner wants to add, a line each: what somebody approves."""

from __future__ import annotations

import json
from collections.abc import Iterator

from longtask.core.model import Json, JsonMap, Kind
from longtask.views.text import clean, first_line

TELLING = ("prompt", "ask", "signal", "url", "inputs")  # of a kind's words: the one that says what it does
LINE_MAX = 300
LIST_MAX = 120  # characters of a list's items
WORK = tuple(kind for kind in Kind if kind is not Kind.FOR_EACH)  # a for_each does it once for each item


def lines_of(result: Json) -> Iterator[str]:
    """Of what a planner has handed over; below a `task` step those of its plan, indented by two blanks."""
    return _steps(result.get("steps"), "") if isinstance(result, dict) else iter(())


def _steps(steps: Json, indent: str) -> Iterator[str]:
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, dict):
            yield indent + _line(step)
            task = step.get(str(Kind.TASK))
            if isinstance(task, dict) and isinstance(task.get("plan"), dict):
                yield from _plan(task["plan"], indent + "  ")


def _plan(plan: JsonMap, indent: str) -> Iterator[str]:
    yield from _steps(plan.get("steps"), indent)
    stages = plan.get("stages")
    for stage in stages if isinstance(stages, list) else ():
        if isinstance(stage, dict):
            yield f"{indent}stage {clean(stage.get('name'))}"
            yield from _steps(stage.get("steps"), indent + "  ")


def _line(step: JsonMap) -> str:
    kind = next((kind for kind in WORK if str(kind) in step), None)
    told = step[str(kind)] if kind is not None else ""
    if isinstance(told, dict):
        told = next((told[word] for word in TELLING if told.get(word)), "")
    many = f" for each of {clean(_text(step['for_each']), LIST_MAX)}" if "for_each" in step else ""
    needs = f", needs {', '.join(map(str, step['needs']))}" if isinstance(step.get("needs"), list) else ""
    what = clean(f"{step.get('id')}: {kind or 'a step'}{many}{needs}", LINE_MAX)
    lines = len(_text(told).strip().splitlines()) - 1
    more = f" (and {lines:,} more line{'s' * (lines > 1)})" if lines > 0 else ""
    return (f"{what}: {first_line(_text(told), LINE_MAX)}" if told else what) + more


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
