"""The language of plans: YAML, JSON or Python -> a checked graph; expressions; JSON Schema.

load, load_file     a text -> a checked Plan; BadPlan names every problem by file:line:column
Plan                the model, and the way to write a plan in Python (`plan.stage("test").run("unit", "pytest")`)
compile_plan        a Plan -> core.graph.Graph
compiled            a text -> both, in one pass
placed              the same, with the files that it names from the plan's folder
warnings            what may surprise, though it is allowed
evaluate, condition, expand, render, names      expressions, over a scope of values
"""

from longtask.plan.builder import fix
from longtask.plan.compile import (
    all_specs,
    compile_plan,
    compiled,
    files_of,
    from_values,
    load,
    load_file,
    placed,
    warnings,
    whole_text,
)
from longtask.plan.duration import duration_ms, duration_text
from longtask.plan.expressions import condition, evaluate, expand, names, render
from longtask.plan.model import Defaults, Limits, Plan, Stage, Workspace
from longtask.plan.step import AgentDefaults, Step

__all__ = [
    "AgentDefaults",
    "Defaults",
    "Limits",
    "Plan",
    "Stage",
    "Step",
    "Workspace",
    "all_specs",
    "compile_plan",
    "compiled",
    "condition",
    "duration_ms",
    "duration_text",
    "evaluate",
    "expand",
    "files_of",
    "fix",
    "from_values",
    "load",
    "load_file",
    "names",
    "placed",
    "render",
    "warnings",
    "whole_text",
]
