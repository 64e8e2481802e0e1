"""A person is asked about a call: the step waits with no process, and goes on wherever somebody takes it up."""

from __future__ import annotations

from typing import Any

from tests.agents.conformance.runtimes import OPENCODE, Cost, Runtime, each
from tests.agents.site import decided

RULES = ["shell(echo *)"]


def asking(runtime: Runtime, command: str, again: str | None = None) -> list[dict[str, Any]]:
    """Turns that make a call which is asked about: some models have to make it `again`, when it was decided."""
    calls = [command, again or command] if runtime.loses_asked else [command]
    return [{"text": "I do it.", "calls": [{"shell": one}]} for one in calls]


@each()
def test_a_decision_counts_for_its_call_alone_and_is_waited_for_without_a_request(job, runtime, outside):
    push = outside.logging("pushed")
    turns = asking(runtime, push)
    run = job(*turns, {"text": "Once more.", "calls": [{"shell": push}]}, ask=RULES, repeatable=False)
    parked = run.attempt()
    assert (parked["kind"], parked["waiting_for"]) == ("Parked", "user"), parked
    assert push in str(parked["question"]["show"]["call"]) and parked["question"]["text"]
    assert run.numbers == [1] and not outside.log

    undecided = run.attempt()  # as when the machine that waited was lost
    assert (undecided["kind"], undecided["question"]) == ("Parked", parked["question"]), undecided
    assert run.numbers == [1] and not outside.log

    other = run.attempt(decided(parked, "approve", text="but once"))
    assert (other["kind"], other["waiting_for"]) == ("Parked", "user"), other
    assert other["question"]["bound"] != parked["question"]["bound"]
    assert outside.log == ["pushed"] and "but once" in run.talk()
    assert Cost(len(run.numbers) - 2) == runtime.while_asked and run.numbers == [*range(1, len(turns) + 2)]


@each(slow=[OPENCODE])
def test_a_refused_call_is_not_made_and_the_model_hears_why(job, runtime, outside):
    turns = [*asking(runtime, outside.logging("pushed"))[:1], {"text": "Then not."}]
    run = job(*turns, ask=RULES)
    parked = run.attempt()
    outcome = run.attempt(decided(parked, "reject", text="not today"))
    assert outcome["kind"] == "Done", outcome
    assert "not today" in run.talk() and not outside.log and run.numbers == [1, 2]


@each(slow=[OPENCODE])
def test_a_decision_may_change_the_call(job, runtime, outside):
    good = outside.logging("good")
    run = job(*asking(runtime, outside.logging("bad"), good), {"text": "Done."}, ask=RULES)
    parked = run.attempt()
    outcome = run.attempt(decided(parked, "edit", edited={"command": good}))
    assert outcome["kind"] == "Done", outcome
    assert outside.log == ["good"]


@each(lambda runtime: runtime.rules, slow=[OPENCODE])
def test_a_call_that_was_allowed_and_then_cut_off_is_not_made_again_where_the_step_forbids_it(job, runtime, outside):
    run = job(*asking(runtime, outside.lingering("half")), {"text": "Done."}, ask=RULES, repeatable=False)
    parked = run.attempt()
    running = run.start(decided(parked, "approve"))
    running.until(lambda: outside.left)
    running.kill()
    outside.let_end()
    outcome = run.attempt()
    assert (outcome["kind"], outcome["retryable"]) == ("Failed", False), outcome
    assert "outcome unknown" in outcome["reason"] and outside.log == ["half"]


@each(lambda runtime: runtime.rules)
def test_what_the_plan_denies_does_not_run_and_the_model_is_told(job, runtime):
    run = job(
        {"calls": [{"shell": "touch made.txt"}, {"shell": "ls"}]},
        {"calls": [{"write": {"path": "secret/a.txt", "content": "a\n"}}]},
        {"text": "I may not."},
        body={"deny": ["shell(touch *)", "write(secret/*)"]},
    )
    outcome = run.attempt()
    assert outcome["kind"] == "Done", outcome
    assert runtime.refusal in run.talk().lower() and run.numbers == [1, 2, 3]
    assert not (run.place / "made.txt").exists() and not (run.place / "secret").exists()
