"""opencode, its real program, over the Agent Client Protocol against the scripted model: killed anywhere it goes on
elsewhere; people are asked; whatever goes wrong ends in the right state.

Its program takes seconds of a processor before its first word, so what the protocol itself has is in
`test_acp_any.py`, and what is slow here is of `make agents`."""

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

MODEL = "anthropic/claude-sonnet-4-5"


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


Start = Callable[..., Site]


@pytest.fixture
def opencode(tmp_path: Path, models: ModelServer) -> Start:
    """A site whose model says these turns."""

    def make(*turns: dict[str, Any], **more: Any) -> Site:
        models.load(tmp_path.name, {"turns": list(turns)})
        more["body"] = {"model": MODEL, "options": more.pop("options", {}), **more.get("body", {})}
        return site(tmp_path, "opencode", program("opencode").path, models.environment(tmp_path.name), **more)

    return make


@pytest.fixture
def asked(tmp_path: Path, models: ModelServer) -> Callable[[], list[Any]]:
    return lambda: list(models.requests(tmp_path.name))


def conversation(request: Any) -> str:
    return str(request.body["messages"])


def test_a_run_edits_commands_and_hands_over_its_outputs(opencode, asked):
    run = opencode(
        {"text": "I look.", "calls": [{"shell": "cat hello.txt; echo ${ANTHROPIC_API_KEY:-no key}; env"}]},
        {"calls": [{"read": "hello.txt"}]},
        {"calls": [{"edit": {"path": "hello.txt", "old": "hello", "new": "hello world"}}]},
        {"text": "Done.", "output": {"files": ["hello.txt"], "count": 1}},
        outputs={"files": "list", "count": "integer"},
    )
    outcome = run.attempt()
    assert (outcome["kind"], outcome.get("result")) == ("Done", {"files": ["hello.txt"], "count": 1}), outcome
    assert (run.folder / "machine 1" / "place" / "hello.txt").read_text() == "hello world\n"
    assert [step for step in run.seen if step != ("tool", "session")] == [
        ("told", ""), ("tool", "shell"), ("turn", MODEL), ("tool", "read"), ("turn", MODEL), ("tool", "edit"),
        ("turn", MODEL), ("turn", MODEL),
    ]  # fmt: skip
    said = next(row["body"]["text"] for row in run.rows if row["name"] == "shell")
    assert said.split()[:3] == ["hello", "no", "key"] and "not-a-key" not in said
    turns = [row for row in run.rows if row["kind"] == "turn"]
    assert [(row["tokens_in"], row["tokens_out"]) for row in turns] == [(100, 20)] * 4 and turns[0]["micros"]
    assert [request.cue.number for request in asked()] == [1, 2, 3, 4]


@needs_bubblewrap
def test_in_a_sandbox_the_program_writes_in_its_worktree_alone(opencode, asked):
    run = opencode(
        {"calls": [{"shell": "touch made.txt; touch $HOME/outside || echo refused"}]},
        {"text": "Done."},
        body={"sandbox": "bubblewrap"},
    )
    outcome = run.attempt()
    assert outcome["kind"] == "Done", outcome
    machine = run.folder / "machine 1"
    assert (machine / "place" / "made.txt").exists() and not (machine / "home" / "outside").exists()
    assert any("refused" in str(row["body"]) for row in run.rows) and len(asked()) == 2


def test_what_the_plan_denies_does_not_run_and_the_model_goes_on(opencode, asked):
    run = opencode(
        {"calls": [{"shell": "touch made.txt"}, {"shell": "ls"}]},
        {"calls": [{"write": {"path": "secret/a.txt", "content": "a\n"}}]},
        {"text": "I may not."},
        body={"deny": ["shell(touch *)", "write(secret/*)", "web_fetch"]},
    )
    assert run.attempt()["kind"] == "Done"
    assert "rejected permission" in conversation(asked()[-1])
    assert [path.name for path in (run.folder / "machine 1" / "place").iterdir()] == ["hello.txt"]
    ended = [(row["name"], row["body"]["failed"]) for row in run.rows if row["name"] in ("shell", "write")]
    assert ended.count(("shell", True)) >= 1 and ("write", True) in ended
    assert "webfetch" not in {tool["name"] for tool in asked()[0].body["tools"]}


def test_a_person_is_asked_and_that_call_is_let_through_once_on_another_machine(opencode, asked):
    push = "echo pushed >> pushed.txt"
    run = opencode(
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


@pytest.mark.slow
def test_a_person_may_refuse(opencode, asked):
    run = opencode({"calls": [{"shell": "echo x > x.txt"}]}, {"text": "Then not."}, body={"ask": ["shell"]})
    parked = run.attempt()
    assert run.attempt(decided(parked, "reject", text="not today"))["kind"] == "Done"
    assert "ann has refused this call: not today. It was not made." in conversation(asked()[-1])
    assert not (run.folder / "machine 2" / "place" / "x.txt").exists()


def test_an_attempt_that_nobody_has_decided_for_asks_again_and_buys_nothing(opencode, asked):
    run = opencode({"text": "I publish.", "calls": [{"shell": "echo x > x.txt"}]}, body={"ask": ["shell"]})
    parked = run.attempt()
    again = run.attempt()
    assert (again["kind"], again["question"]) == ("Parked", parked["question"]) and len(asked()) == 1


def test_killed_in_a_tool_it_goes_on_elsewhere_and_buys_no_turn_twice(opencode, asked):
    run = opencode(
        {"text": "First.", "calls": [{"shell": "echo one > one.txt"}]},
        {"text": "Then.", "calls": [{"shell": "echo half > half.txt; setsid sleep 300 & sleep 300"}]},
        {"text": "I have looked.", "calls": [{"shell": "ls; pwd"}]},
        {"text": "Done."},
    )
    running = run.start()
    running.until((running.place / "half.txt").exists)
    running.kill()
    outcome = run.attempt()
    assert outcome["kind"] == "Done", outcome
    place = run.folder / "machine 2" / "place"
    assert (place / "one.txt").exists() and not (place / "half.txt").exists()
    assert "interrupted" in conversation(asked()[2]) and str(place) in conversation(asked()[3])
    assert [request.cue.number for request in asked()] == [1, 2, 3, 4]


def test_killed_in_a_stream_it_loses_that_turn_alone(opencode, asked):
    run = opencode(
        {"text": "First.", "calls": [{"shell": "echo one >> one.txt"}]},
        {"text": "Done.", "faults": [{"stall": "always", "after": 3}]},
    )
    running = run.start()
    running.until(lambda: len(asked()) == 2 and ("turn", MODEL) in run.seen)
    running.kill()
    assert run.attempt()["kind"] == "Done"
    assert (run.folder / "machine 2" / "place" / "one.txt").read_text() == "one\n"
    assert [request.cue.number for request in asked()] == [1, 2, 2]
    assert sum(row["tokens_in"] for row in run.rows) == 200


def test_killed_before_its_first_answer_it_begins_anew(opencode, asked):
    run = opencode({"text": "Done.", "faults": [{"hang": "always"}]})
    running = run.start()
    running.until(lambda: len(asked()) == 1)
    running.kill()
    assert run.attempt()["kind"] == "Done"
    assert run.seen.count(("turn", MODEL)) == 1


@pytest.mark.slow
def test_a_model_that_falls_silent_is_asked_again_in_the_same_attempt(opencode, asked):
    run = opencode(
        {"text": "First.", "calls": [{"shell": "echo one >> one.txt"}]},
        {"text": "Done.", "faults": [{"hang": "always"}]},
        options={"stall_s": 20},
    )
    assert run.attempt()["kind"] == "Done"
    assert (run.folder / "machine 1" / "place" / "one.txt").read_text() == "one\n"
    assert [request.cue.number for request in asked()] == [1, 2, 2]


FAULTS = [
    ({"status": 401, "times": "always"}, False, "has refused the key"),
    ({"status": 400, "times": "always"}, False, "has refused the request"),
    ({"status": 500, "times": "always"}, True, "did not answer"),
    ({"status": 529, "times": "always"}, True, "did not answer"),
    ({"status": 429, "times": "always"}, True, "asks for a pause"),
    ({"cut": 3, "times": "always"}, True, "did not answer"),
    ({"malformed": 2, "times": "always"}, True, "did not answer"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "retryable", "says"), FAULTS, ids=lambda value: str(value)[:30])
def test_a_fault_that_stays_ends_the_attempt_with_a_word_of_what_to_do(opencode, asked, fault, retryable, says):
    outcome = opencode({"text": "Done.", "faults": [fault]}, options={"retries": 1}).attempt()
    assert (outcome["kind"], outcome.get("retryable")) == ("Failed", retryable), outcome
    assert says in outcome["reason"], outcome["reason"]


@pytest.mark.slow
def test_faults_that_pass_are_not_seen(opencode, asked):
    run = opencode(
        {"text": "One.", "calls": [{"shell": "echo one >> n.txt"}], "faults": [{"status": 529}]},
        {"text": "Two.", "calls": [{"shell": "echo two >> n.txt"}], "faults": [{"cut": 3}]},
        {"text": "Three.", "faults": [{"malformed": 2}]},
    )
    assert run.attempt()["kind"] == "Done"
    assert (run.folder / "machine 1" / "place" / "n.txt").read_text() == "one\ntwo\n"
    assert run.seen.count(("turn", MODEL)) == 3


def test_a_usage_limit_parks_until_it_is_lifted(opencode, asked):
    fault = {"status": 429, "retry_after": "2h", "times": "always"}
    outcome = opencode({"text": "Done.", "faults": [fault]}).attempt()
    assert (outcome["kind"], outcome["waiting_for"]) == ("Parked", "timer"), outcome
    assert 1.9 < (outcome["due_at"] / 1000 - time.time()) / 3600 < 2.1
    assert len(asked()) == 1


@pytest.mark.slow
def test_outputs_that_are_missing_are_asked_for_again(opencode, asked):
    run = opencode({"text": "I am done."}, {"output": {"n": 3}}, outputs={"n": "integer"})
    assert run.attempt()["result"] == {"n": 3}


@pytest.mark.slow
def test_a_run_has_a_budget_of_model_calls(opencode, asked):
    run = opencode(*[{"calls": [{"shell": f"echo {n}"}]} for n in range(5)], body={"requests_max": 3})
    outcome = run.attempt()
    assert (outcome["kind"], outcome["reason"][:14]) == ("Failed", "request budget"), outcome
    assert len(asked()) == 3
