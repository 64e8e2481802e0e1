"""Claude Code, its real program, against the scripted model: killed anywhere it goes on elsewhere; people are asked;
whatever goes wrong ends in the right state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from longtask.modelserver.server import ModelServer
from tests.agents.native import Site, decided, site
from tests.agents.programs import program
from tests.steps.test_sandbox import needs_bubblewrap

RESULT = "outcome is unknown"


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


Start = Callable[..., Site]


@pytest.fixture
def claude(tmp_path: Path, models: ModelServer) -> Start:
    """A site whose model says these turns; `requests()` are those for turns."""

    def make(*turns: dict[str, Any], **more: Any) -> Site:
        models.load(tmp_path.name, {"turns": list(turns)})
        options = {"retries": 1, **more.pop("options", {})}
        more["body"] = {"options": options, **more.get("body", {})}
        return site(tmp_path, "claude-code", program("claude-code").path, models.environment(tmp_path.name), **more)

    return make


@pytest.fixture
def asked(tmp_path: Path, models: ModelServer) -> Callable[[], list[Any]]:
    return lambda: [request for request in models.requests(tmp_path.name) if request.path.endswith("/messages")]


def conversation(request: Any) -> str:
    return str(request.body["messages"])


def test_a_run_edits_commands_and_hands_over_its_outputs(claude, asked):
    run = claude(
        {"text": "I look.", "calls": [{"read": "hello.txt"}, {"shell": "echo ${ANTHROPIC_API_KEY:-no key}"}]},
        {"calls": [{"edit": {"path": "hello.txt", "old": "hello", "new": "hello world"}}]},
        {"text": "Done.", "output": {"files": ["hello.txt"], "count": 1}},
        outputs={"files": "list", "count": "integer"},
    )
    outcome = run.attempt()
    assert (outcome["kind"], outcome.get("result")) == ("Done", {"files": ["hello.txt"], "count": 1}), outcome
    assert (run.folder / "machine 1" / "place" / "hello.txt").read_text() == "hello world\n"
    assert run.seen[:5] == [
        ("told", ""),
        ("tool", "session"),
        ("turn", run.seen[2][1]),
        ("tool", "read"),
        ("tool", "shell"),
    ]
    assert run.rows[4]["body"]["text"] == "no key"
    assert sum(row["tokens_in"] for row in run.rows) == 300 and sum(row["micros"] or 0 for row in run.rows) > 0
    assert len(asked()) == 3


@needs_bubblewrap
def test_in_a_sandbox_the_program_writes_in_its_worktree_alone(claude, asked):
    run = claude(
        {"calls": [{"shell": "touch made.txt; touch $HOME/outside || echo refused"}]},
        {"text": "Done."},
        body={"sandbox": "bubblewrap"},
    )
    outcome = run.attempt()
    assert outcome["kind"] == "Done", outcome
    machine = run.folder / "machine 1"
    assert (machine / "place" / "made.txt").exists() and not (machine / "home" / "outside").exists()
    assert any("refused" in str(row["body"]) for row in run.rows) and len(asked()) == 2


def test_what_the_plan_denies_does_not_run_and_the_model_is_told(claude, asked):
    run = claude(
        {"calls": [{"shell": "touch made.txt"}, {"shell": "ls"}]},
        {"text": "I may not."},
        body={"deny": ["shell(touch *)"]},
    )
    assert run.attempt()["kind"] == "Done"
    assert "the plan does not allow shell touch made.txt" in conversation(asked()[-1])
    assert not (run.folder / "machine 1" / "place" / "made.txt").exists()


def test_a_person_is_asked_and_the_call_runs_once_on_another_machine(claude, asked):
    run = claude(
        {"text": "I publish.", "calls": [{"shell": "echo pushed >> pushed.txt"}]},
        {"text": "Published."},
        body={"ask": ["shell(echo pushed*)"]},
        repeatable=False,
    )
    parked = run.attempt()
    assert (parked["kind"], parked["waiting_for"]) == ("Parked", "user"), parked
    assert parked["question"]["show"]["call"]["command"].startswith("echo pushed")
    assert parked["question"]["text"] == "the agent would use shell: echo pushed >> pushed.txt"
    assert len(asked()) == 1 and not (run.folder / "machine 1" / "place" / "pushed.txt").exists()

    assert run.attempt(decided(parked, "approve", text="but once"))["kind"] == "Done"
    assert (run.folder / "machine 2" / "place" / "pushed.txt").read_text() == "pushed\n"
    assert len(asked()) == 2
    assert "ann has allowed this call and says: but once" in conversation(asked()[-1])


def test_of_two_calls_that_are_to_be_asked_about_none_is_lost(claude, asked):
    one, two = "echo one > one.txt", "echo two > two.txt"
    run = claude(
        {"calls": [{"shell": one}, {"shell": two}, {"shell": "echo three > three.txt"}]},
        {"calls": [{"shell": two}]},
        {"text": "Both are there."},
        body={"ask": [f"shell({one})", f"shell({two})"]},
    )
    first = run.attempt()
    assert first["question"]["show"]["call"]["command"] == one
    second = run.attempt(decided(first, "approve"))
    assert second["question"]["show"]["call"]["command"] == two
    assert run.attempt(decided(second, "reject", text="not two"))["kind"] == "Done"
    assert sorted(path.name for path in (run.folder / "machine 3" / "place").iterdir()) == [
        "hello.txt", "one.txt", "three.txt",
    ]  # fmt: skip
    assert len(asked()) == 3
    assert "ann has refused this call: not two" in conversation(asked()[-1])


def test_a_decision_may_change_the_call(claude, asked):
    run = claude({"calls": [{"shell": "echo bad > x.txt"}]}, {"text": "Done."}, body={"ask": ["shell"]})
    parked = run.attempt()
    assert run.attempt(decided(parked, "edit", edited={"command": "echo good > x.txt"}))["kind"] == "Done"
    assert (run.folder / "machine 2" / "place" / "x.txt").read_text() == "good\n"


def test_killed_in_a_tool_it_goes_on_elsewhere_and_buys_no_turn_twice(claude, asked):
    run = claude(
        {"text": "First.", "calls": [{"shell": "echo one > one.txt"}]},
        {"text": "Then.", "calls": [{"shell": "echo half > half.txt; setsid sleep 300 & sleep 300"}]},
        {"text": "I have looked.", "calls": [{"shell": "ls"}]},
        {"text": "Done."},
    )
    running = run.start()
    running.until((running.place / "half.txt").exists)
    running.kill()
    assert run.attempt()["kind"] == "Done"
    place = run.folder / "machine 2" / "place"
    assert (place / "one.txt").exists() and not (place / "half.txt").exists()
    assert RESULT in conversation(asked()[2]) and str(place) in conversation(asked()[2])
    assert [request.cue.number for request in asked()] == [1, 2, 3, 4]


def test_killed_in_a_stream_it_loses_that_turn_alone(claude, asked):
    run = claude(
        {"text": "First.", "calls": [{"shell": "echo one >> one.txt"}]},
        {"text": "Done.", "faults": [{"stall": "always", "after": 3}]},
    )
    running = run.start()
    running.until(lambda: len(asked()) == 2 and ("tool", "shell") in run.seen)
    running.kill()
    assert run.attempt()["kind"] == "Done"
    assert (run.folder / "machine 2" / "place" / "one.txt").read_text() == "one\n"
    assert [request.cue.number for request in asked()] == [1, 2, 2]


def test_killed_before_its_first_answer_it_begins_with_the_same_session(claude, asked):
    run = claude({"text": "Done.", "faults": [{"hang": "always"}]})
    running = run.start()
    running.until(lambda: len(asked()) == 1)
    running.kill()
    assert run.attempt()["kind"] == "Done"
    assert run.seen.count(("tool", "session")) == 1 and run.seen.count(("told", "")) == 1


def test_a_model_that_falls_silent_is_asked_again_in_the_same_attempt(claude, asked):
    run = claude(
        {"text": "First.", "calls": [{"shell": "echo one >> one.txt"}]},
        {"text": "Done.", "faults": [{"stall": "always", "after": 3}]},
        options={"stall_s": 5},
    )
    assert run.attempt()["kind"] == "Done"
    assert (run.folder / "machine 1" / "place" / "one.txt").read_text() == "one\n"
    assert [request.cue.number for request in asked()] == [1, 2, 2]


def test_a_model_that_stays_silent_fails_the_attempt(claude, asked):
    run = claude({"text": "Done.", "faults": [{"hang": "always", "times": "always"}]}, options={"stall_s": 5})
    outcome = run.attempt()
    assert (outcome["kind"], outcome["retryable"], outcome["digest"]) == ("Failed", True, "stalled"), outcome
    assert "silent for more than 5 s, and that 3 times" in outcome["reason"]


FAULTS = [
    ({"status": 401, "times": "always"}, "Failed", False, "set ANTHROPIC_API_KEY of the worker"),
    ({"status": 400, "times": "always"}, "Failed", False, "has refused the request"),
    ({"status": 500, "times": "always"}, "Failed", True, "did not answer"),
    ({"status": 529, "times": "always"}, "Failed", True, "did not answer"),
    ({"status": 429, "times": "always"}, "Failed", True, "asks for a pause"),
    ({"cut": 3, "times": "always"}, "Failed", True, "did not answer"),
    ({"malformed": 2, "times": "always"}, "Failed", True, "did not answer"),
]


@pytest.mark.parametrize(("fault", "kind", "retryable", "says"), FAULTS, ids=lambda value: str(value)[:30])
def test_a_fault_that_stays_ends_the_attempt_with_a_word_of_what_to_do(claude, asked, fault, kind, retryable, says):
    outcome = claude({"text": "Done.", "faults": [fault]}).attempt()
    assert (outcome["kind"], outcome.get("retryable")) == (kind, retryable), outcome
    assert says in outcome["reason"], outcome["reason"]


@pytest.mark.parametrize("fault", [{"status": 529}, {"status": 500}, {"cut": 3}, {"malformed": 2}], ids=str)
def test_a_fault_that_passes_is_not_seen(claude, asked, fault):
    assert claude({"text": "Done.", "faults": [fault]}).attempt()["kind"] == "Done"


def test_outputs_that_are_missing_are_asked_for_again(claude, asked):
    run = claude(
        {"text": "I am done."},
        {"text": "I said so."},
        {"text": "Oh.", "output": {"n": 3}},
        outputs={"n": "integer"},
    )
    assert run.attempt()["result"] == {"n": 3}


def test_a_run_has_a_budget_of_model_calls(claude, asked):
    run = claude(*[{"calls": [{"shell": f"echo {n}"}]} for n in range(5)], body={"requests_max": 3})
    outcome = run.attempt()
    assert (outcome["kind"], outcome["reason"][:14]) == ("Failed", "request budget"), outcome
    assert len(asked()) == 3
