"""From plain values to a model, with every misfit told in the words of the language.

`bad_plan` translates the validator's errors.  `fitting` removes what does not fit, so that the checks that need a
whole model can still run and all problems are told at once.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from longtask.core.errors import BadPlan
from longtask.core.model import Json

from .problems import Findings, Loc, Places, Refused
from .suspicious import shown

# Words of later versions: known, so that they are refused by name and not as a typing error.
LATER = {
    "Step": ("budget", "limits", "before"),
    "Fix": ("budget", "limits"),
    "Agent": ("mcp", "skills", "memory", "code_search", "budget"),
    "AgentDefaults": ("mcp", "skills", "memory", "code_search", "budget"),
    "Artifact": ("pull_request", "comment", "push"),
    "Wait": ("poll", "any", "all", "task"),
}
# Known words at the wrong place, and where they belong.
MISPLACED = {
    "Plan": {
        **dict.fromkeys(("agent", "timeout", "retry", "pool", "when_failed", "silence"), "defaults"),
        **dict.fromkeys(("parallel", "cost_usd", "tokens", "active"), "limits"),
        **dict.fromkeys(("repo", "base", "setup", "cache", "dirty"), "workspace"),
    },
    "Step": {
        **dict.fromkeys(("prompt", "runtime", "model", "recording", "tools", "deny", "options", "subagents"), "agent"),
        **dict.fromkeys(("ask", "show", "who", "expires", "on_reject", "bind"), "approval"),
        **dict.fromkeys(("signal", "match", "timer"), "wait"),
        **dict.fromkeys(("patch", "report", "files"), "artifact"),
        **dict.fromkeys(("url", "body", "headers", "secret_headers"), "call"),
        **dict.fromkeys(("fix", "rounds_max"), "on_failure"),
        "planner": "`grow`",
    },
    "Fix": {
        **dict.fromkeys(("prompt", "runtime", "model", "recording", "tools", "deny", "options", "subagents"), "agent"),
        **dict.fromkeys(("approval", "wait", "artifact", "call"), "a step of its own"),
    },
    "Agent": dict.fromkeys(
        ("timeout", "retry", "env", "secrets", "silence", "on_failure", "sandbox", "network", "evidence"), "the step"
    ),
    "AgentDefaults": {"subagents": "a step's agent"},
    "Approval": {"timeout": "`expires`", "prompt": "`ask`", "revise": "on_reject"},
}
FREE = ("args", "match", "for_each", "body", "options")  # any value may stand below these, null too
ERRORS_MAX = 1_000  # put into words; nobody reads more than fifty
TRIES = 8  # as deep as parts lie in each other
M = TypeVar("M", bound=BaseModel)
LISTED_MAX = 14  # known keys in a message


def bad_plan(error: ValidationError, model: type[BaseModel], where: str) -> BadPlan:
    """The errors of a part that was made in Python."""
    findings = Findings(Places())
    for detail in error.errors(include_url=False):
        findings.add(f"{where}: {said(detail, model)}", detail["loc"])
    return BadPlan(list(findings.found.values()))


def misfits(error: ValidationError, model: type[BaseModel], raw: Json, findings: Findings) -> None:
    """Add the errors of a plan that was read from a text."""
    for detail in islice(error.errors(include_url=False), ERRORS_MAX):
        if isinstance(detail["input"], Refused):
            continue
        loc = detail["loc"]
        prefix, inner = where(raw, loc)
        message = said({**detail, "loc": inner}, _model_at(model, loc[: len(loc) - len(inner)]))
        findings.add(f"{prefix}{message}", loc, key=detail["type"] == "extra_forbidden" or detail["input"] is None)


def nulls(raw: Json, findings: Findings) -> set[Loc]:
    """A key without a value is a slip more often than a wish; the language has no null.  Where they stand."""
    empty: set[Loc] = set()
    stack: list[tuple[Json, Loc]] = [(raw, ())]
    while stack:
        holder, loc = stack.pop()
        if not isinstance(holder, list | dict):
            continue
        for key, value in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if value is None:
                prefix, inner = where(raw, (*loc, key))
                findings.add(f"{prefix}{_path(inner)} {NO_VALUE}", (*loc, key), key=True)
                empty.add((*loc, key))
            elif key not in FREE:
                stack.append((value, (*loc, key)))
    return empty


NO_VALUE = "has no value; give it one, or leave it out"


def where(raw: Json, loc: Loc) -> tuple[str, Loc]:
    """How a message names the part at `loc`, and the rest of the path inside that part."""
    for size in (4, 2):
        if _is_step(loc[:size]):
            return f"{step_name(_value_at(raw, loc[:size]), loc[:size])}: ", loc[size:]
    if len(loc) > 1 and loc[0] == "stages":
        stage = _value_at(raw, loc[:2])
        name = stage.get("name") if isinstance(stage, dict) else None
        return (f"stage {shown(name)}: " if isinstance(name, str) else f"stage {int(loc[1]) + 1}: "), loc[2:]
    return "", loc


def step_name(raw: Json, loc: Loc) -> str:
    id = raw.get("id") if isinstance(raw, dict) else None
    if isinstance(id, str) and id:
        return f"step {shown(id)}"
    stage = f" of stage {int(loc[1]) + 1}" if len(loc) == 4 else ""
    return f"step number {int(loc[-1]) + 1}{stage}"


def _value_at(raw: Json, loc: Loc) -> Json:
    for part in loc:
        try:
            raw = raw[part]
        except (KeyError, IndexError, TypeError):
            return None
    return raw


def _model_at(model: type[BaseModel], loc: Loc) -> type[BaseModel]:
    """The model that describes the mapping at `loc`."""
    for part in loc:
        field = next((f for f in _fields(model) if isinstance(part, str) and f[0] == part), None)
        if field is not None:
            model = next(_models_in(field[1].annotation), model)
    return model


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        yield field.alias or name, field


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def _path(loc: Loc) -> str:
    out = ""
    for part in loc:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else str(part)
    return out or "it"


WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of names to values",
    "model_attributes_type": "a mapping of names to values",
}


def said(detail: ErrorDetails, model: type[BaseModel]) -> str:
    """One error in our words.  `model` is what `loc` begins in."""
    loc, kind, value = detail["loc"], detail["type"], detail["input"]
    path = _path(loc)
    context = detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown(str(loc[-1]), _model_at(model, loc[:-1]), loc[:-1])
    if kind == "missing":
        return f"{path} is missing"
    if value is None:
        return f"{path} {NO_VALUE}"
    if kind == "plan":
        return f"{path} {context['message']}"
    if kind in WANTED:
        hint = "; write true or false" if kind == "bool_type" and isinstance(value, str) else ""
        return f"{path} must be {WANTED[kind]}, found {shown(value)}{hint}"
    if kind in ("literal_error", "string_pattern_mismatch"):
        known = _expected(str(context.get("expected") or context.get("pattern", "")))
        close = get_close_matches(str(value), known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        return f"{path} must be one of {', '.join(known)}; found {shown(value)}{hint}"
    if kind == "greater_than_equal":
        return f"{path} must be at least {context['ge']:g}, found {shown(value)}"
    if kind == "greater_than":
        return f"{path} must be above {context['gt']:g}, found {shown(value)}"
    return f"{path}: {detail['msg'][:1].lower()}{detail['msg'][1:]}"


def _expected(text: str) -> list[str]:
    if text.startswith("^("):
        return text.removeprefix("^(").removesuffix(")$").split("|")
    return [word.strip().strip("'") for word in text.replace(" or ", ", ").split(",")]


def _unknown(key: str, model: type[BaseModel], loc: Loc) -> str:
    known = [name for name, _ in _fields(model)]
    if key in LATER.get(model.__name__, ()):
        return f"`{key}` comes with a later version of the language; leave it out"
    place = f" in {_path(loc)}" if loc else ""
    near = key.replace("-", "_").lower()
    close: list[str] = [near] if near in known else get_close_matches(near, known, n=1)
    if home := MISPLACED.get(model.__name__, {}).get(key):
        hint = f"; {'write' if '`' in home else 'it belongs into'} {home}"
    elif close:
        hint = f"; did you mean {close[0]!r}?"
    elif len(known) <= LISTED_MAX:
        hint = f"; known here: {', '.join(known)}"
    else:
        hint = ""
    return f"unknown key {shown(key)}{place}{hint}"


# --- going on without what does not fit ---------------------------------------------------------------------------


def fitting(raw: Json, error: ValidationError, model: type[M]) -> tuple[M | None, set[Loc]]:
    """The model of what fits, and what was taken away; None if nothing fits.

    Taking a part away may leave another one incomplete, so it is tried a few times.
    """
    raw = copy.deepcopy(raw)
    touched: set[Loc] = set()
    for _ in range(TRIES):
        for detail in error.errors(include_url=False, include_context=False):
            loc = detail["loc"]
            touched.add(loc)
            _remove(raw, loc[:-1] if detail["type"] == "missing" else loc)
        try:
            return model.model_validate(raw), touched
        except ValidationError as next_error:
            error = next_error
    return None, touched


def _is_step(loc: Loc) -> bool:
    return (len(loc) == 4 and loc[0] == "stages" and loc[2] == "steps") or (len(loc) == 2 and loc[0] == "steps")


def _remove(raw: Json, loc: Loc) -> None:
    """Take away the innermost key on the way to `loc`; a list keeps its length, so that places stay right."""
    while loc:
        holder = _value_at(raw, loc[:-1])
        if isinstance(holder, dict) and loc[-1] in holder:
            del holder[loc[-1]]
            return
        if isinstance(holder, list) and len(loc) in (2, 4) and loc[-2] in ("stages", "steps"):
            if isinstance(loc[-1], int) and loc[-1] < len(holder):
                kept = holder[loc[-1]] if isinstance(holder[loc[-1]], dict) else {}
                label = "-".join(str(part) for part in loc)
                holder[loc[-1]] = {("id" if loc[-2] == "steps" else "name"): label, **kept}
            return
        loc = loc[:-1]
