"""Codex, its real program, against the scripted model: killed anywhere it goes on elsewhere; people are asked; whatever
goes wrong ends in the right state."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from longtask.modelserver.server import ModelServer
from tests.agents.native import Site, decided, site
from tests.agents.programs import program
from tests.steps.test_sandbox import needs_bubblewrap

DIRECT, IN_CODE = "gpt-5.5", "gpt-6-sol"  # a model with direct tools, and one that calls them from JavaScript


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


Start = Callable[..., Site]


@pytest.fixture
def codex(tmp_path: Path, models: ModelServer) -> Start:
    """A site whose model says these turns."""

    def make(*turns: dict[str, Any], model: str = DIRECT, **more: Any) -> Site:
        models.load(tmp_path.name, {"turns": list(turns)})
        options = {"retries": 1, **more.pop("options", {})}
        more["body"] = {"model": model, "options": options, **more.get("body", {})}
        return site(tmp_path, "codex", program("codex").path, models.environment(tmp_path.name), **more)

    return make


@pytest.fixture
def asked(tmp_path: Path, models: ModelServer) -> Callable[[], list[Any]]:
    return lambda: [request for request in models.requests(tmp_path.name) if request.path.endswith("/responses")]


def conversation(request: Any) -> str:
    return str(request.body["input"])


@pytest.mark.parametrize("model", [DIRECT, IN_CODE])
def test_a_run_edits_commands_and_hands_over_its_outputs(codex, asked, model):
    run = codex(
        {"text": "I look.", "calls": [{"shell": "cat hello.txt; echo ${OPENAI_API_KEY:-no key}"}]},
        {"calls": [{"edit": {"path": "hello.txt", "old": "hello", "new": "hello world"}}]},
        {"output": {"files": ["hello.txt"], "count": 1}},
        model=model,
        outputs={"files": "list", "count": "integer"},
    )
    outcome = run.attempt()
    assert (outcome["kind"], outcome.get("result")) == ("Done", {"files": ["hello.txt"], "count": 1}), outcome
    assert (run.folder / "machine 1" / "place" / "hello.txt").read_text() == "hello world\n"
    assert run.seen == [
        ("told", ""), ("tool", "session"), ("turn", model), ("tool", "shell"), ("turn", model), ("tool", "edit"),
        ("turn", model),
    ]  # fmt: skip
    assert run.rows[3]["body"]["text"].split() == ["hello", "no", "key"]
    assert [row["tokens_in"] for row in run.rows if row["kind"] == "turn"] == [100, 100, 100]
    assert len(asked()) == 3


@needs_bubblewrap
def test_in_a_sandbox_the_program_writes_in_its_worktree_alone(codex, asked):
    run = codex(
        {"calls": [{"shell": "touch made.txt; touch $HOME/outside || echo refused"}]},
        {"text": "Done."},
        body={"sandbox": "bubblewrap"},
    )
    outcome = run.attempt()
    assert outcome["kind"] == "Done", outcome
    machine = run.folder / "machine 1"
    assert (machine / "place" / "made.txt").exists() and not (machine / "home" / "outside").exists()
    assert any("refused" in str(row["body"]) for row in run.rows) and len(asked()) == 2


def test_what_the_plan_denies_does_not_run_and_the_model_is_told(codex, asked):
    run = codex(
        {"calls": [{"shell": "touch made.txt"}, {"shell": "ls"}]},
        {"calls": [{"write": {"path": "secret/a.txt", "content": "a\n"}}]},
        {"text": "I may not."},
        body={"deny": ["shell(touch *)", "write(secret/*)"]},
    )
    assert run.attempt()["kind"] == "Done"
    assert "The plan does not allow shell touch made.txt" in conversation(asked()[-1])
    assert "The plan does not allow edit secret/a.txt" in conversation(asked()[-1])
    assert [path.name for path in (run.folder / "machine 1" / "place").iterdir()] == ["hello.txt"]


def test_a_person_is_asked_and_that_call_is_let_through_once_on_another_machine(codex, asked):
    push = "echo pushed >> pushed.txt"
    run = codex(
        {"text": "I publish.", "calls": [{"shell": push}]},
        {"calls": [{"shell": push}]},
        {"calls": [{"shell": push}]},
        body={"ask": ["shell(echo pushed*)"]},
        repeatable=False,
    )
    parked = run.attempt()
    assert (parked["kind"], parked["waiting_for"]) == ("Parked", "user"), parked
    assert parked["question"]["show"]["call"]["command"] == push
    assert len(asked()) == 1 and not (run.folder / "machine 1" / "place" / "pushed.txt").exists()

    again = run.attempt(decided(parked, "approve", text="but once"))
    assert (again["kind"], again["question"]["bound"] != parked["question"]["bound"]) == ("Parked", True), again
    assert "ann has allowed this call and says: but once" in conversation(asked()[1])
    assert (run.folder / "machine 2" / "place" / "pushed.txt").read_text() == "pushed\n"
    assert [request.cue.number for request in asked()] == [1, 2, 3]


def test_a_person_may_refuse(codex, asked):
    run = codex({"calls": [{"shell": "echo x > x.txt"}]}, {"text": "Then not."}, body={"ask": ["shell"]})
    parked = run.attempt()
    assert run.attempt(decided(parked, "reject", text="not today"))["kind"] == "Done"
    assert "ann has refused this call: not today. It was not made." in conversation(asked()[-1])
    assert not (run.folder / "machine 2" / "place" / "x.txt").exists()


@pytest.mark.parametrize("model", [DIRECT, IN_CODE])
def test_killed_in_a_tool_it_goes_on_elsewhere_and_buys_no_turn_twice(codex, asked, model):
    run = codex(
        {"text": "First.", "calls": [{"shell": "echo one > one.txt"}]},
        {"text": "Then.", "calls": [{"shell": "echo half > half.txt; setsid sleep 300 & sleep 300"}]},
        {"text": "I have looked.", "calls": [{"shell": "ls"}]},
        {"text": "Done."},
        model=model,
    )
    running = run.start()
    running.until((running.place / "half.txt").exists)
    running.kill()
    assert run.attempt()["kind"] == "Done"
    place = run.folder / "machine 2" / "place"
    assert (place / "one.txt").exists() and not (place / "half.txt").exists()
    assert "aborted" in conversation(asked()[2]) and str(place) in conversation(asked()[2])
    assert [request.cue.number for request in asked()] == [1, 2, 3, 4]
    assert sum(row["tokens_in"] for row in run.rows) == 400


def test_killed_in_a_stream_it_loses_that_turn_alone(codex, asked):
    run = codex(
        {"text": "First.", "calls": [{"shell": "echo one >> one.txt"}]},
        {"text": "Done.", "faults": [{"stall": "always", "after": 3}]},
    )
    running = run.start()
    running.until(lambda: len(asked()) == 2 and ("tool", "shell") in run.seen)
    running.kill()
    assert run.attempt()["kind"] == "Done"
    assert (run.folder / "machine 2" / "place" / "one.txt").read_text() == "one\n"
    assert [request.cue.number for request in asked()] == [1, 2, 2]


def test_killed_before_its_first_answer_it_begins_anew(codex, asked):
    run = codex({"text": "Done.", "faults": [{"hang": "always"}]})
    running = run.start()
    running.until(lambda: len(asked()) == 1)
    running.kill()
    assert run.attempt()["kind"] == "Done"
    assert run.seen.count(("turn", DIRECT)) == 1


def test_a_model_that_falls_silent_is_asked_again_in_the_same_attempt(codex, asked):
    run = codex(
        {"text": "First.", "calls": [{"shell": "echo one >> one.txt"}]},
        {"text": "Done.", "faults": [{"hang": "always"}]},
        options={"stall_s": 5},
    )
    assert run.attempt()["kind"] == "Done"
    assert (run.folder / "machine 1" / "place" / "one.txt").read_text() == "one\n"
    assert [request.cue.number for request in asked()] == [1, 2, 2]


def test_a_model_that_stays_silent_fails_the_attempt(codex, asked):
    run = codex({"text": "Done.", "faults": [{"hang": "always", "times": "always"}]}, options={"stall_s": 5})
    outcome = run.attempt()
    assert (outcome["kind"], outcome["retryable"], outcome["digest"]) == ("Failed", True, "stalled"), outcome


FAULTS = [
    ({"status": 401, "times": "always"}, False, "set OPENAI_API_KEY of the worker"),
    ({"status": 400, "times": "always"}, False, "has refused the request"),
    ({"status": 500, "times": "always"}, True, "did not answer"),
    ({"status": 529, "times": "always"}, True, "did not answer"),
    ({"status": 429, "times": "always"}, True, "asks for a pause"),
    ({"cut": 3, "times": "always"}, True, "did not answer"),
]


@pytest.mark.parametrize(("fault", "retryable", "says"), FAULTS, ids=lambda value: str(value)[:30])
def test_a_fault_that_stays_ends_the_attempt_with_a_word_of_what_to_do(codex, asked, fault, retryable, says):
    outcome = codex({"text": "Done.", "faults": [fault]}).attempt()
    assert (outcome["kind"], outcome.get("retryable")) == ("Failed", retryable), outcome
    assert says in outcome["reason"], outcome["reason"]


@pytest.mark.parametrize("fault", [{"status": 529}, {"status": 500}, {"cut": 3}, {"malformed": 2}], ids=str)
def test_a_fault_that_passes_is_not_seen(codex, asked, fault):
    assert codex({"text": "Done.", "faults": [fault]}).attempt()["kind"] == "Done"


def test_a_usage_limit_parks_until_it_is_lifted(codex, asked):
    fault = {"status": 429, "resets_in": "2h", "times": "always"}
    outcome = codex({"text": "Done.", "faults": [fault]}).attempt()
    assert (outcome["kind"], outcome["waiting_for"]) == ("Parked", "timer"), outcome
    assert 1.9 < (outcome["due_at"] / 1000 - time.time()) / 3600 < 2.1


def test_outputs_that_are_missing_are_asked_for_again(codex, asked):
    run = codex({"text": "I am done."}, {"output": {"n": 3}}, outputs={"n": "integer"})
    assert run.attempt()["result"] == {"n": 3}


def test_a_run_has_a_budget_of_model_calls(codex, asked):
    run = codex(*[{"calls": [{"shell": f"echo {n}"}]} for n in range(5)], body={"requests_max": 3})
    outcome = run.attempt()
    assert (outcome["kind"], outcome["reason"][:14]) == ("Failed", "request budget"), outcome
    assert len(asked()) == 3
