"""The OpenAPI description, and that the server keeps it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest
from fastapi.routing import APIRoute

from longtask.api import description
from longtask.api.app import create_app
from tools.generate import api

DESCRIBED = Path(__file__).parents[2] / "docs" / "openapi.json"


@pytest.fixture(scope="module")
def described():
    return json.loads(api())


def test_the_checked_in_description_is_what_the_server_says(described):
    assert json.loads(DESCRIBED.read_text()) == described, "stale; run `make generate`"


def test_the_server_says_it(client, described):
    assert client.get("/openapi.json").json() == described
    assert described["openapi"].startswith("3.1")


def test_every_route_under_v1_is_described_and_says_what_it_does(server, described):
    told = {(path, method) for path, method, _ in description.operations(described)}
    for route in create_app(server).routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            assert {(route.path_format, method.lower()) for method in (route.methods or set()) - {"HEAD"}} <= told, (
                route.path
            )
    for path, method, operation in description.operations(described):
        assert operation.get("description") or operation.get("summary"), (path, method)
        assert operation["responses"]["4XX"] == {"$ref": "#/components/responses/Problem"}


def test_operations_have_names_of_their_own(described):
    names = [operation["operationId"] for _, _, operation in description.operations(described)]
    assert len(names) == len(set(names))


def test_examples_are_of_the_shape_that_they_explain(described):
    for name in (name for noun in description.NOUNS for name in noun.EXAMPLES):
        schema = {"$ref": f"#/components/schemas/{name}", "components": described["components"]}
        for example in described["components"]["schemas"][name]["examples"]:
            jsonschema_rs.validate(schema, example)
    plan = {"$ref": "#/components/schemas/Plan", "components": described["components"]}
    jsonschema_rs.validate(plan, description.PLAN)


def test_a_key_may_be_sent_with_every_post(described):
    for path, method, operation in description.operations(described):
        keyed = {"$ref": "#/components/parameters/IdempotencyKey"} in operation.get("parameters", ())
        assert keyed == (method == "post"), path
