"""Claude Code, its real program: what it alone has.  The rest is in `conformance/`."""

from __future__ import annotations

from typing import Any

from tests.agents.conformance.job import make_job
from tests.agents.conformance.runtimes import CLAUDE_CODE
from tests.agents.site import decided


def test_of_two_calls_that_are_to_be_asked_about_none_is_lost(tmp_path, models):
    one, two = "echo one > one.txt", "echo two > two.txt"
    turns: list[dict[str, Any]] = [
        {"calls": [{"shell": one}, {"shell": two}, {"shell": "echo three > three.txt"}]},
        {"calls": [{"shell": two}]},
        {"text": "Both are there."},
    ]
    ask = [f"shell({one})", f"shell({two})"]
    run = make_job(tmp_path, CLAUDE_CODE, CLAUDE_CODE.models[0], models, turns, ask=ask)
    first = run.attempt()
    assert first["question"]["show"]["call"]["command"] == one
    second = run.attempt(decided(first, "approve"))
    assert second["question"]["show"]["call"]["command"] == two
    assert run.attempt(decided(second, "reject", text="not two"))["kind"] == "Done"
    assert sorted(path.name for path in run.place.iterdir()) == ["hello.txt", "one.txt", "three.txt"]
    assert run.numbers == [1, 2, 3] and "ann has refused this call: not two" in run.talk()
