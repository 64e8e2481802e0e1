"""The JSON Schema: fresh, complete, and of the same mind as the model."""

import json
import re
import subprocess
import sys

from longtask.plan import schema
from longtask.plan.duration import PATTERN


def parts():
    made = schema.schema()
    return {"Plan": made, **made["$defs"]}


def test_the_stored_schema_is_fresh():
    assert schema.FILE.read_text(encoding="utf-8") == schema.text(), "run: python -m longtask.plan.schema --write"


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


def test_it_is_printed_and_written_by_the_module(tmp_path, monkeypatch):
    ran = subprocess.run([sys.executable, "-m", "longtask.plan.schema"], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == schema.schema()
    monkeypatch.setattr(schema, "FILE", tmp_path / "schema.json")
    assert schema.main(["--write"]) == 0
    assert (tmp_path / "schema.json").read_text() == schema.text()
    assert schema.main(["--nonsense"]) == 2
