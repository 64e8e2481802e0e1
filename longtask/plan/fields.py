"""The types that the words of the language are made of: each a Python type, its check, and its line in the JSON Schema.

Strict: nothing is converted behind the writer's back (`"3"` is no number, `yes` no boolean).  A few shorthands are
taken where only one thing can be meant: one name for a list of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from longtask.core.errors import BadPlan

from .duration import PATTERN, duration_ms, duration_text
from .suspicious import shown


class Words(BaseModel):
    """A mapping of the language: only known keys, strict types."""

    model_config = ConfigDict(
        extra="forbid", strict=True, validate_by_name=True, validate_by_alias=True, serialize_by_alias=True
    )


def wrong(message: str) -> PydanticCustomError:
    """An error whose words reach the user as they are."""
    return PydanticCustomError("plan", "{message}", {"message": message})


def _duration(value: Any) -> Any:
    if isinstance(value, timedelta):
        return duration_text(round(value.total_seconds() * 1000))
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str):
        try:
            duration_ms(value)
        except BadPlan as error:
            raise wrong(str(error)) from None
    return value


def _names(value: Any) -> Any:
    return [value] if isinstance(value, str) else list(value) if isinstance(value, tuple) else value


def _needs(value: Any) -> Any:
    """Ids, or the steps themselves when the plan is written in Python."""
    many = list(value) if isinstance(value, list | tuple) else [value]
    return [getattr(one, "id", one) for one in many]


def _command(value: Any) -> str | list[str]:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(word, str) for word in value):
        return list(value)
    raise wrong(f"must be a shell command, or a list of words without a shell; found {shown(value)}")


def _items(value: Any) -> str | list[Any]:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, list | tuple | range):
        return list(value)
    raise wrong(f"must be an expression such as ${{{{ steps.ID.outputs.NAME }}}}, or a list; found {shown(value)}")


def _env(value: Any) -> Any:
    """Numbers and booleans as the text that a process sees; YAML keeps them as written (see yaml.py)."""
    if not isinstance(value, Mapping):
        return value
    out = {}
    for name, text in value.items():
        if isinstance(text, bool):
            text = "true" if text else "false"
        elif isinstance(text, int | float):
            text = str(text)
        out[name] = text
    return out


def _retry(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return {"max": value}
    if value is not None and not isinstance(value, Mapping | Retry):
        raise wrong(f"must be a number of further attempts, or `{{max, delay}}`; found {shown(value)}")
    return value


def _workspace(value: Any) -> Any:
    return {"repo": value} if isinstance(value, str) else value


Duration = Annotated[
    str,
    BeforeValidator(_duration),
    Field(json_schema_extra={"pattern": PATTERN, "examples": ["30m", "1h30m", "500ms"]}),
]
Id = Annotated[str, Field(json_schema_extra={"pattern": "^[a-z][a-z0-9_]*$", "maxLength": 64})]
ONE_OR_MANY = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
Names = Annotated[list[str], BeforeValidator(_names), ONE_OR_MANY]
Needs = Annotated[list[str], BeforeValidator(_needs), ONE_OR_MANY]
Env = Annotated[
    dict[str, str],
    BeforeValidator(_env),
    Field(json_schema_extra={"additionalProperties": {"type": ["string", "number", "boolean"]}}),
]
Command = Annotated[
    str | list[str],
    PlainValidator(_command),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": ["string", "boolean", "number"]},
                {"type": "array", "minItems": 1, "items": {"type": ["string", "boolean", "number"]}},
            ]
        }
    ),
]
Items = Annotated[
    str | list[Any],
    PlainValidator(_items),
    WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1}, {"type": "array"}]}),
]
TypeWord = Literal["string", "number", "integer", "boolean", "list", "map", "any"]
RunWhenWord = Literal["success", "failure", "always"]
WhenFailedWord = Literal["ask", "stop", "continue"]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Money = Annotated[float, Field(gt=0)]
Percent = Annotated[float, Field(gt=0, le=100)]


def _no_text(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        raise wrong("is empty")
    return value


Text = Annotated[str, AfterValidator(_no_text), Field(json_schema_extra={"minLength": 1})]


def _condition(value: Any) -> Any:
    return ("true" if value else "false") if isinstance(value, bool) else value


Condition = Annotated[
    Text, BeforeValidator(_condition), WithJsonSchema({"type": ["string", "boolean"], "minLength": 1})
]


class Retry(Words):
    """How often a step may fail by its own fault before it has failed."""

    max: Count = Field(description="Further attempts after the first failure; 0 is none.")
    delay: Duration = Field(
        default="1s", description="Wait before the first retry; it doubles each time, up to five minutes."
    )


RetryWord = Annotated[Retry, BeforeValidator(_retry)]
