"""Expressions: CEL in `${{ … }}`, checked when the plan is loaded, evaluated over outputs that no longer change.

A template that is one expression keeps the value's type; in a longer text values become text (lists and mappings as
JSON).  `$${{` writes a literal `${{`.  Names: `steps.ID.outputs.NAME`, `steps.ID.state`, `item` and `index` in a
for_each, `task.id|name|goal|base|head`, `callback.url|key` in a call.  Secrets and the environment are not values.

CEL libraries have no limit of cost, so a text is at most 1 KB with at most one comprehension, which therefore cannot
be nested, and `evaluate` refuses work beyond WORK_MAX before it begins.
"""

from __future__ import annotations

import datetime
import importlib
import importlib.machinery
import importlib.util
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from longtask.core.errors import BadPlan
from longtask.core.graph import did_you_mean
from longtask.core.model import Json, JsonMap
from longtask.core.policy import EXPRESSION_LENGTH_MAX, ITEMS_MAX

from .suspicious import shown
from .tokens import MACROS, Reading, Token, bound, macros, path_after, tokens
from .tokens import names as names_at

OPEN, ESCAPED = "${{", "$${{"
TASK_FIELDS = ("id", "name", "goal", "base", "head")
CALLBACK_FIELDS = ("url", "key")
STEP_FIELDS = ("outputs", "state")
ROOTS = ("steps", "item", "index", "task", "inputs", "callback")
FUNCTIONS = frozenset(
    "size contains startsWith endsWith matches string int uint double bytes dyn timestamp duration min max "
    "getFullYear getMonth getDate getDayOfMonth getDayOfWeek getDayOfYear getHours getMinutes getSeconds "
    "getMilliseconds has".split()
)
# Elements and steps of work; about a second.  The library's `map` and `filter` copy the list at each element.
WORK_MAX = 200_000_000


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that has passed the checks which need no plan."""

    text: str
    readings: tuple[Reading, ...]
    roots: frozenset[str]  # those of ROOTS that it names
    inputs: frozenset[str]  # names of inputs
    comprehends: bool
    program: Any


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a template: literal text, or an expression."""

    text: str
    code: bool


# --- checking -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4_096)
def checked(text: str) -> Expression:
    """Raises BadPlan, with what is wrong in the expression's own terms."""
    text = text.strip()
    if not text:
        raise BadPlan("the expression is empty")
    size = len(text.encode("utf-8", "replace"))
    if size > EXPRESSION_LENGTH_MAX:
        limit = f"the limit is {EXPRESSION_LENGTH_MAX:,}"
        raise BadPlan(f"the expression has {size:,} bytes, {limit}; compute the value in a step")
    words, _ = tokens(text)
    used = macros(words)
    if len(used) > 1:
        found = ", ".join(words[n].text for n in used)
        raise BadPlan(
            f"an expression may use one of {', '.join(sorted(MACROS))}, once; found {found}; compute it in a step"
        )
    try:
        program = cel().compile(text)
    except ValueError as error:
        raise BadPlan(_syntax(str(error))) from None
    roots = _known_names(words, used)
    variable = bound(words, used[0])[0] if used else ""
    if strange := sorted(set(program.variables()) - {*ROOTS, variable}):  # the parser has the last word
        raise BadPlan(f"unknown name {strange[0]!r}; an expression knows {', '.join(ROOTS)}")
    _known_functions(program.functions())
    return Expression(text, tuple(_readings(words)), roots, _inputs(words), bool(used), program)


def _syntax(message: str) -> str:
    found = re.search(r"<input>:(\d+):(\d+): (?:Syntax error: )?([^\n]*)", message)
    if not found:
        return "the expression cannot be parsed"
    line, column, problem = found.groups()
    problem = re.sub(r" expecting .*", "", problem).replace("<EOF>", "end")
    if "'end'" in problem:
        problem = "the expression ends too early"
    elif unexpected := re.search(r"input '(.*)'", problem):
        problem = f"unexpected {unexpected.group(1)!r}"
    place = f"column {column}" if line == "1" else f"line {line}, column {column}"
    return f"{problem} at {place}"


def _inputs(words: list[Token]) -> frozenset[str]:
    """Raises BadPlan for `inputs` as a whole: what is handed down is named."""
    paths = [path_after(words, n, 1) for n in names_at(words) if words[n].text == "inputs"]
    if [] in paths:
        raise BadPlan("write inputs.NAME, or inputs['NAME']")
    return frozenset(path[0] for path in paths)


def _known_names(words: list[Token], used: list[int]) -> frozenset[str]:
    variable, first, last = bound(words, used[0]) if used else ("", 0, 0)
    if variable in ROOTS:
        raise BadPlan(f"{variable!r} has a meaning already; use another name in {words[used[0]].text}")
    roots = set()
    if words[0].text == ".":
        raise BadPlan("an expression does not begin with a dot")
    for n in names_at(words):
        name = words[n].text
        if name == variable and first < n < last:
            continue
        if name not in ROOTS:
            hint = did_you_mean(name, ROOTS) or f"; an expression knows {', '.join(ROOTS)}"
            raise BadPlan(f"unknown name {name!r}{hint}")
        roots.add(name)
        if name == "task":
            path = path_after(words, n, 1)
            if not path or path[0] not in TASK_FIELDS:
                found = f"task.{path[0]}" if path else "task"
                raise BadPlan(f"unknown name {found!r}; a task has {', '.join('task.' + f for f in TASK_FIELDS)}")
        if name == "callback":
            path = path_after(words, n, 1)
            if not path or path[0] not in CALLBACK_FIELDS:
                found = f"callback.{path[0]}" if path else "callback"
                raise BadPlan(f"unknown name {found!r}; a call has callback.url and callback.key")
    return frozenset(roots)


def _known_functions(used: list[str]) -> None:
    for name in used:
        if name.isidentifier() and not name.startswith("_") and name not in FUNCTIONS:
            raise BadPlan(f"unknown function {name!r}{did_you_mean(name, FUNCTIONS | MACROS)}")


def _readings(words: list[Token]) -> Iterator[Reading]:
    for n in names_at(words):
        if words[n].text != "steps":
            continue
        path = path_after(words, n, 3)
        if not path:
            raise BadPlan("'steps' must name a step: steps.ID.outputs.NAME")
        if len(path) > 1 and path[1] not in STEP_FIELDS:
            hint = did_you_mean(path[1], STEP_FIELDS) or f"; write steps.{path[0]}.outputs.{path[1]}"
            raise BadPlan(f"a step has no {path[1]!r}, only outputs and state{hint}")
        yield Reading(path[0], path[1] if len(path) > 1 else None, path[2] if len(path) > 2 else None)


# --- templates ----------------------------------------------------------------------------------------------------


def has_expression(text: str) -> bool:
    return OPEN in text and bool(re.search(r"(?<!\$)\$\{\{", text))


def split(template: str) -> list[Part]:
    """Raises BadPlan if an expression is not closed."""
    parts: list[Part] = []
    literal = ""
    at = 0
    while (start := template.find(OPEN, at)) >= 0:
        if start > at and template[start - 1] == "$":
            literal += template[at : start - 1] + OPEN
            at = start + len(OPEN)
            continue
        literal += template[at:start]
        inner = start + len(OPEN)
        _, end = tokens(template, inner, template=True)
        if end < 0:
            raise BadPlan("an expression that begins with `${{` is not closed with `}}`")
        if literal:
            parts.append(Part(literal, False))
            literal = ""
        parts.append(Part(template[inner:end].strip(), True))
        at = end + 2
    if literal + template[at:]:
        parts.append(Part(literal + template[at:], False))
    return parts


def bare(text: str) -> str:
    """An `if` or `for_each` may be written with or without `${{ }}`; the text without."""
    stripped = text.strip()
    if not stripped.startswith(OPEN):
        return stripped
    parts = split(stripped)
    if len(parts) != 1:
        raise BadPlan("must be one expression, with nothing around it")
    return parts[0].text


def expressions(template: Json) -> Iterator[str]:
    """The texts of all expressions in a template: a text, or lists and mappings of texts.  Raises BadPlan."""
    if isinstance(template, str):
        if OPEN in template:
            yield from (part.text for part in split(template) if part.code)
    elif isinstance(template, Mapping):
        for value in template.values():
            yield from expressions(value)
    elif isinstance(template, list | tuple):
        for value in template:
            yield from expressions(value)


def names(template: Json) -> set[str]:
    """Ids of the steps that a template's expressions name."""
    return {reading.step for text in expressions(template) for reading in checked(text).readings}


# --- evaluating ---------------------------------------------------------------------------------------------------


def evaluate(text: str, scope: JsonMap) -> Json:
    """The value of a bare expression.  Raises BadPlan, naming the step and what it has, for what is not there.

    `scope`: `steps` (id → {"outputs", "state"}), `task`, and for an item `item` and `index`.
    """
    expression = checked(text)
    known = {root: scope[root] for root in expression.roots if root in scope}
    if "steps" in known:  # only those that are read: the rest would be converted for nothing
        read = {reading.step for reading in expression.readings}
        known["steps"] = {id: _with_outputs(value) for id, value in known["steps"].items() if id in read}
    for root in expression.roots - known.keys():
        raise BadPlan(f"expression {shown(text)}: {root!r} is not known here")
    _affordable(expression, known)
    try:
        return _json(expression.program.execute(known))
    except BadPlan as error:
        raise BadPlan(f"expression {shown(text)}: {error}") from None
    except (ValueError, TypeError, LookupError, ArithmeticError, RuntimeError) as error:
        raise BadPlan(f"expression {shown(text)}: {_failure(expression, known, error)}") from None


def condition(text: str, scope: JsonMap) -> bool:
    """The value of an `if`.  Raises BadPlan if it is no boolean."""
    value = evaluate(text, scope)
    if not isinstance(value, bool):
        raise BadPlan(f"expression {shown(text)}: `if` must be true or false, found {shown(value)}")
    return value


def expand(items: Json, scope: JsonMap) -> list[Json]:
    """The list of a `for_each`: an expression, or a list of templates.  Raises BadPlan."""
    value = evaluate(bare(items), scope) if isinstance(items, str) else render(items, scope)
    if not isinstance(value, list):
        raise BadPlan(f"for_each must yield a list, found {shown(value)}")
    if len(value) > ITEMS_MAX:
        raise BadPlan(f"for_each has {len(value):,} items, the limit is {ITEMS_MAX:,}")
    return value


def render(template: Json, scope: JsonMap) -> Json:
    """The template with its expressions evaluated; lists and mappings are walked.  Raises BadPlan."""
    if isinstance(template, str):
        if OPEN not in template:
            return template
        parts = split(template)
        if len(parts) == 1 and parts[0].code:
            return evaluate(parts[0].text, scope)
        return "".join(as_text(evaluate(p.text, scope)) if p.code else p.text for p in parts)
    if isinstance(template, Mapping):
        return {key: render(value, scope) for key, value in template.items()}
    if isinstance(template, list | tuple):
        return [render(value, scope) for value in template]
    return template


def as_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _affordable(expression: Expression, known: JsonMap) -> None:
    size, longest = _measure(known)
    turns = max(longest, 1) if expression.comprehends else 1
    joins = expression.text.count("+") + 1
    steps = 10 + joins * joins + 50 * expression.text.count("matches")
    if turns * steps * (size / 16 + 1) > WORK_MAX * (1 if expression.comprehends else 100):
        raise BadPlan(
            f"expression {shown(expression.text)}: too much work over {longest:,} elements; compute the value in a step"
        )


def _measure(value: Json) -> tuple[int, int]:
    """Size of all values (an element counts as 16 characters), and the length of the longest list or mapping."""
    size, longest = 0, 0
    stack = [value]
    while stack:
        one = stack.pop()
        size += 16
        if isinstance(one, str):
            size += len(one)
        elif isinstance(one, Mapping):
            longest = max(longest, len(one))
            stack += [*one.values(), *one.keys()]
        elif isinstance(one, list | tuple):
            longest = max(longest, len(one))
            stack += one
    return size, longest


def _with_outputs(step: JsonMap) -> JsonMap:
    """A step that did not complete has no outputs: none is there, which `has(…)` may ask."""
    return {**step, "outputs": {}} if step.get("outputs") is None else step


def _json(value: Any) -> Json:
    """The value as JSON knows it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadPlan(f"yields {value}, which is no number")
        return value
    if isinstance(value, list):
        return [_json(one) for one in value]
    if isinstance(value, dict):
        # by name: the library's order differs from one evaluation to the next, and a prompt must be the same every time
        pairs = ((key if isinstance(key, str) else as_text(_json(key)), _json(one)) for key, one in value.items())
        return dict(sorted(pairs, key=lambda pair: pair[0]))
    if isinstance(value, datetime.datetime | datetime.timedelta | bytes):
        word = {"datetime": "timestamp", "timedelta": "duration"}.get(type(value).__name__, "bytes")
        raise BadPlan(f"yields a {word}; make it text with string(…)")
    raise BadPlan("yields a value that is no text, number, boolean, list or mapping")


def _failure(expression: Expression, known: JsonMap, error: Exception) -> str:
    """What was missing, if that is why; else the library's words."""
    if isinstance(error, LookupError | TypeError):
        for reading in expression.readings:
            if said := _missing(reading, known.get("steps", {})):
                return said
    if isinstance(error, LookupError):
        return f"there is no {error.args[0]!r}" if isinstance(error, KeyError) and error.args else str(error)
    words = " ".join(str(error).split()).partition(". Check ")[0].partition(", so common causes")[0]
    return words[:1].lower() + words[1:300]


def _missing(reading: Reading, steps: JsonMap) -> str:
    if reading.step not in steps:
        return f"step {reading.step!r} has no outputs yet, or there is no such step"
    step = steps[reading.step]
    outputs = step.get("outputs") if isinstance(step, Mapping) else None
    if reading.field == "outputs" and reading.name is not None:
        if not isinstance(outputs, Mapping):
            return f"step {reading.step!r} has no output {reading.name!r}; its outputs are {shown(outputs)}"
        if reading.name not in outputs:
            state = step.get("state", "completed")
            there = ", ".join(sorted(outputs)[:20]) or ("none" if state == "completed" else f"none, it is {state}")
            hint = did_you_mean(reading.name, outputs)
            return f"step {reading.step!r} has no output {reading.name!r}; it has {there}{hint}"
    return ""


# --- the library --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def cel() -> ModuleType:
    """The CEL library: its extension module alone, and only when a first expression occurs.

    Its package imports a command line with it (typer, rich, prompt-toolkit): 1.0 s instead of 0.05 s.
    """
    package = importlib.util.find_spec("cel")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("the package common-expression-language is not installed")
    name = "cel.cel"
    if name in sys.modules:
        return sys.modules[name]
    for folder in package.submodule_search_locations:
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = Path(folder) / f"cel{suffix}"
            spec = importlib.util.spec_from_file_location(name, path) if path.exists() else None
            if spec is not None and spec.loader is not None:
                module = importlib.util.module_from_spec(spec)
                sys.modules[name] = module  # an extension may be initialised once in a process
                spec.loader.exec_module(module)
                return module
    return importlib.import_module("cel")
