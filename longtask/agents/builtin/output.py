"""How a run ends: with the step's outputs by an output tool, or with a last word when it has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_ai import ModelRetry, RunContext, StructuredDict, ToolOutput
from pydantic_ai.messages import ModelResponse

from longtask.agents.outputs import mismatches, schema_of
from longtask.core.model import JsonMap

NAME = "final_result"


def output_type(wanted: Mapping[str, str]) -> Any:
    """For `Agent(output_type=…)`."""
    if not wanted:
        return str
    about = "Hand over the outputs when the work is done. This ends the run."
    return ToolOutput(
        StructuredDict(dict(schema_of(wanted)), name="outputs"), name=NAME, description=about, strict=False
    )


def whole(ctx: RunContext[None], text: str) -> str:
    """Raises ModelRetry for a last word that was cut at the limit of a turn."""
    last = ctx.messages[-1]
    if isinstance(last, ModelResponse) and last.finish_reason == "length":
        raise ModelRetry("your answer was cut: it is longer than one answer may be. Go on in smaller pieces.")
    return text


def fitting(wanted: Mapping[str, str], outputs: JsonMap) -> JsonMap:
    """Raises ModelRetry: the model is told what is wrong, and asked again."""
    problems = mismatches(outputs, wanted)
    if problems:
        raise ModelRetry(f"the outputs are not the wanted ones: {'; '.join(problems)}. Answer again with all of them.")
    return outputs
