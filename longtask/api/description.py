"""The OpenAPI description: what FastAPI reads off the routes, and what it cannot know.

Served as /openapi.json and checked in as docs/openapi.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from longtask.api.documents import acts, approvals, code, events, installation, shape, steps, tasks
from longtask.api.idempotency import HEADER
from longtask.api.problems import MEDIA_TYPE

SCHEMAS = "#/components/schemas/"
TAGS = {
    "tasks": "The whole of a plan's work: submit it, look at it, act on it.",
    "steps": "Its parts, their attempts, and what those have written.",
    "approvals": "What people are asked, and what they answer.",
    "code": "What a task has changed, and files as it holds them.",
    "artifacts": "Bytes that steps have made.",
    "archives": "A task as one file, for another installation or for later.",
    "events": "What has happened, as CloudEvents, a page at a time.",
    "streams": "The same, as it happens (server-sent events).",
    "plans": "Checking a plan without submitting it.",
    "workspaces": "The repositories that this installation knows.",
    "callbacks": "What programs elsewhere tell: signals, events of forges, answers to calls, decisions by link.",
    "webhooks": "What programs elsewhere are told.",
    "workers": "The calls of a worker elsewhere, for attempts that it has claimed itself: `longtask worker --server`.",
    "fleet": "Who works, and what waits for somebody to work on it.",
}
ABOUT = """
Everything that a client needs of LongTask. Instants are ms since 1970 UTC; lists are
`{"items": [...], "next": cursor}`; errors are problems (RFC 9457) whose `type` never changes its meaning. Keys of a
document are never taken away or given another meaning; new ones may come.

On 127.0.0.1 no token is needed; else send `Authorization: Bearer lt_…`. A task of a workspace that a token does not
see is answered as one that is not there.
""".strip()
PLAN = {
    "longtask": 1,
    "name": "shop",
    "goal": "Everything builds, and somebody has looked at it.",
    "steps": [
        {"id": "tests", "run": "make test", "progress": "pytest"},
        {"id": "review", "needs": ["tests"], "approval": {"ask": "Does this look right?", "show": ["diff"]}},
    ],
}
NOUNS = (acts, approvals, code, events, installation, shape, steps, tasks)
RETURNED = "same answer again; 409 while the first is being carried out; 422 for another body"


def describe(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(
        title="LongTask",
        version=app.version,
        openapi_version="3.1.0",
        description=ABOUT,
        routes=app.routes,
        tags=[{"name": name, "description": text} for name, text in TAGS.items()],
    )
    components = found.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas |= _problem() | _plan()
    for noun in NOUNS:
        for name, example in noun.EXAMPLES.items():
            schemas[name]["examples"] = [example]
    components["schemas"] = dict(sorted(schemas.items()))
    components["responses"] = {
        "Problem": {
            "description": "A problem: its `type` says which.",
            "content": {MEDIA_TYPE: {"schema": {"$ref": SCHEMAS + "Problem"}}},
        }
    }
    components["parameters"] = {
        "IdempotencyKey": {
            "name": HEADER,
            "in": "header",
            "description": "A request that is sent again with it is answered as it was the first time, and not carried "
            "out again: 409 while the first is being carried out, 422 with another body.",
            "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
            "example": "0b6f3c1e-submit",
        }
    }
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "A token: `longtask token create NAME`."}
    }
    found["security"] = [{"token": []}, {}]
    for path, method, operation in operations(found):
        _complete(path, method, operation)
    return found


def operations(found: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in found["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    answers = operation["responses"]
    told = answers.get("422", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if told.get("$ref", "").endswith("HTTPValidationError"):
        del answers["422"]
    answers["4XX"] = answers["5XX"] = {"$ref": "#/components/responses/Problem"}
    parameters = operation.setdefault("parameters", [])
    if method == "post":
        parameters[:] = [p for p in parameters if p.get("name", "").lower() != HEADER.lower()]
        parameters.append({"$ref": "#/components/parameters/IdempotencyKey"})
    if not parameters:
        del operation["parameters"]
    if (path, method) in (("/v1/tasks", "post"), ("/v1/plans/check", "post")):
        whole = {"schema": {"$ref": SCHEMAS + "Plan"}, "example": PLAN}
        operation["requestBody"] = {
            "required": True,
            "description": "A plan. YAML is taken too.",
            "content": {"application/json": whole, "application/yaml": {"schema": {"type": "string"}}},
        }


def _problem() -> dict[str, Any]:
    return _hoisted("Problem", shape.Problem.model_json_schema(), "")


def _plan() -> dict[str, Any]:
    """The JSON Schema of plans, as `longtask plan schema` prints it."""
    schema = json.loads(resources.files("longtask.plan").joinpath("schema.json").read_text(encoding="utf-8"))
    return _hoisted("Plan", schema, "Plan")


def _hoisted(name: str, schema: dict[str, Any], prefix: str) -> dict[str, Any]:
    """A schema that brings its own definitions, as several that stand beside each other."""
    text = json.dumps({k: v for k, v in schema.items() if k not in ("$schema", "$id")})
    whole = json.loads(text.replace('"#/$defs/', f'"{SCHEMAS}{prefix}'))
    parts = whole.pop("$defs", {})
    return {name: whole, **{f"{prefix}{part}": value for part, value in parts.items()}}


def text(app: FastAPI) -> str:
    """docs/openapi.json."""
    return json.dumps(describe(app), indent=1, ensure_ascii=False) + "\n"
