"""The JSON Schema: fresh, complete, and of the same mind as the model."""

import re

from longtask.plan import schema
from longtask.plan.duration import PATTERN


def parts():
    made = schema.schema()
    return {"Plan": made, **made["$defs"]}


def test_the_stored_schema_is_fresh():
    assert schema.FILE.read_text(encoding="utf-8") == schema.text(), "run: make generate"


def test_every_word_is_explained():
    missing = [
        f"{part}.{word}"
        for part, made in parts().items()
        for word, about in made["properties"].items()
        if len(about.get("description", "")) < 10
    ]
    assert [m for m in missing if m != "Plan.stages"] == []


def test_every_mapping_refuses_unknown_keys():
    assert all(made["additionalProperties"] is False for made in parts().values())


def test_a_step_is_exactly_one_kind():
    assert [one["required"] for one in parts()["Step"]["oneOf"]] == [
        ["run"], ["function"], ["agent"], ["approval"], ["wait"], ["artifact"], ["call"],
        ["task"],
    ]  # fmt: skip


def test_it_has_no_null_and_knows_the_shorthands():
    assert '"null"' not in schema.text()
    step = parts()["Step"]["properties"]
    assert {"type": "integer", "minimum": 0} in step["retry"]["anyOf"]
    assert step["timeout"]["pattern"] == PATTERN
    assert re.match(step["id"]["pattern"], "a_step")
    assert {"type": "string"} in parts()["Plan"]["properties"]["workspace"]["anyOf"]
    assert next(iter(step)) == "id"
