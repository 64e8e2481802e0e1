"""Words of a step that has not completed, said anew while its task is under way.

    agent: {prompt: "Keep the old endpoint as well."}     # or run, function, approval, as the step is
    timeout: 2h

What is given takes the place of what the step had; the rest stays.  What it needs, its stage, its `if` and its list
stay as they are: they are the graph's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from longtask.core.errors import BadPlan
from longtask.core.model import Json, JsonMap, Kind, StepSpec, Task

from .duration import duration_text
from .growth import fragment, host
from .problems import Findings, Places
from .shape import bad_plan
from .step import Step
from .suspicious import shown

WORD = {Kind.RUN: "run", Kind.FUNCTION: "function", Kind.AGENT: "agent", Kind.APPROVAL: "approval"}
GRAPH = (
    "id",
    "needs",
    "if",
    "for_each",
    "parallel_max",
    "pool",
    "weight",
    "run_when",
    "when_failed",
    "grow",
    "mutex",
    "commit",
)
IN_BODY = {  # a word, and what the body calls it; the same if it is not here
    "run": ("command",),
    "silence": ("silence_ms",),
    "expires": ("expires_ms",),
    "limits": ("limits", "requests_max"),
}
IN_SPEC = {
    "timeout": ("timeout_ms",),
    "retry": ("failures_max", "retry_delay_ms"),
    "losses_max": ("losses_max",),
    "repeatable": ("repeatable",),
    "outputs": ("outputs",),
    "on_failure": ("fix", "fix_rounds_max"),
    "on_reject": ("revise", "revise_rounds_max"),
    "subagents": ("item", "parallel_max"),
}
OWNED = ("fix", "revise", "item", "conflict")


@dataclass(frozen=True, slots=True)
class Edited:
    """`specs`, numbered by their place, `own` the step's; `kept`: the numbers in it that name specs of the task."""

    specs: tuple[StepSpec, ...]
    own: int
    kept: frozenset[str]


def words_now(spec: StepSpec) -> JsonMap | None:
    """What is edited most, as it is now: `{"run": "make test", "timeout": "1h", "retry": 2}`; a timeout of None: none.
    None: no edit is taken of a step of its kind."""
    word, body = WORD.get(spec.kind), spec.body
    if word is None:
        return None
    if spec.kind is Kind.APPROVAL:
        return {word: {"ask": body.get("ask", "")}}
    told = {"prompt": body.get("prompt", "")} if spec.kind is Kind.AGENT else body[IN_BODY.get(word, (word,))[0]]
    timeout = None if spec.timeout_ms is None else duration_text(spec.timeout_ms)
    return {word: told, "timeout": timeout, "retry": spec.failures_max}


def edited(key: str, old: StepSpec, words: Json, task: Task) -> Edited:
    """The spec with other words.  Raises BadPlan with every problem."""
    if not isinstance(words, dict) or not words:
        raise BadPlan(f"step {key!r}: give the words that change, such as `timeout: 1h`; found {shown(words)}")
    word = WORD.get(old.kind)
    if word is None:
        raise BadPlan(f"step {key!r}: a {old.kind} step cannot be edited; skip it, and add another one")
    if fixed := [name for name in words if name in GRAPH]:
        raise BadPlan(f"step {key!r}: {fixed[0]!r} cannot be edited, it is the graph's; skip the step, add another one")
    planner: JsonMap = {"grow": {}} if "grow" in old.body else {}  # what it says stays; it hands over `steps` still
    inner = words.get(word) if word in ("agent", "approval") else None
    try:
        step = Step.model_validate({"id": key, **planner, **words, word: _whole(old, word, words.get(word))})
    except ValidationError as error:
        raise bad_plan(error, Step, f"step {key!r}") from None
    findings = Findings(Places(""))
    stand = host(task)
    stand.steps = [step]
    planned, specs = fragment(stand, findings, task).steps([("steps", 0)])
    findings.raise_if_any()
    new = specs[planned[0].spec]
    said = {*words, *(inner or {})}
    names = {name for word in said for name in IN_BODY.get(word, (word,))}
    body = {name: value for name, value in old.body.items() if name not in names}
    body |= {name: new.body[name] for name in names if name in new.body}
    fields = {field: getattr(new, field) for word in said for field in IN_SPEC.get(word, ())}
    own = planned[0].spec
    made = replace(old, body=body, reads=tuple(dict.fromkeys((*old.reads, *new.reads))), **fields)
    return Edited((*specs[:own], made, *specs[own + 1 :]), own, frozenset(OWNED) - fields.keys())


def _whole(old: StepSpec, word: str, given: Json) -> Json:
    """The step's kind in the plan's words: what is not given is as it was."""
    if word == "run":
        return old.body["command"] if given is None else given
    if word == "function":
        return old.body["function"] if given is None else given
    kept = ("prompt", "runtime", "model", "recording", "options") if word == "agent" else ("ask",)
    was: dict[str, Any] = {name: old.body[name] for name in kept if name in old.body}
    return {**was, **(given or {})} if given is None or isinstance(given, dict) else given
