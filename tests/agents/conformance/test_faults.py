"""What goes wrong between an agent and its model, and the state that the attempt ends in."""

from __future__ import annotations

import time

import pytest

from tests.agents.conformance.job import check_end
from tests.agents.conformance.runtimes import FAULTS, OPENCODE, each

PASSING = ("500", "529", "cut", "malformed")
STAYING = ("400", "401", "404", "429", "529", "cut", "malformed")


@each(slow=[OPENCODE])
def test_faults_that_pass_cost_a_request_each_and_no_turn(job, runtime, outside):
    turns = [
        {"text": f"{name}.", "calls": [{"shell": outside.logging(name)}], "faults": [FAULTS[name]]} for name in PASSING
    ]
    run = job(*turns, {"text": "Done."})
    for fault in PASSING:
        if fault not in runtime.mends:
            check_end(run.attempt(), runtime.ends[fault])
    outcome = run.attempt()
    assert outcome["kind"] == "Done", outcome
    assert outside.log == list(PASSING) and len(run.turns) == 5
    assert set(run.numbers) == {1, 2, 3, 4, 5} and len(run.numbers) <= 5 + len(PASSING)


@each(slow=[OPENCODE])
@pytest.mark.parametrize("fault", STAYING)
def test_a_fault_that_stays_ends_the_attempt_and_says_what_to_do(job, runtime, fault):
    run = job({"text": "Done.", "faults": [{**FAULTS[fault], "times": "always"}]}, options=dict(runtime.impatient))
    check_end(run.attempt(), runtime.ends[fault])


@each(lambda runtime: runtime.limit is not None)
def test_a_usage_limit_is_waited_for_with_nothing_running_and_the_run_goes_on(job, runtime):
    run = job({"text": "Done.", "faults": [{**runtime.limit, "times": "always"}]})
    outcome = run.attempt()
    assert (outcome["kind"], outcome["waiting_for"]) == ("Parked", "timer"), outcome
    assert 1.9 < (outcome["due_at"] / 1000 - time.time()) / 3600 < 2.1 and run.numbers == [1]
    run.script({"text": "Done."})
    assert run.attempt()["kind"] == "Done" and len(run.turns) == 1


@each(lambda runtime: runtime.stall_s is not None, slow=[OPENCODE])
def test_a_model_that_falls_silent_is_asked_again_in_the_same_attempt(job, runtime, outside):
    run = job(
        {"text": "First.", "calls": [{"shell": outside.logging("one")}]},
        {"text": "Done.", "faults": [{"stall": "always", "after": 3}]},
        options={"stall_s": runtime.stall_s},
    )
    outcome = run.attempt()
    assert outcome["kind"] == "Done", outcome
    assert outside.log == ["one"] and run.numbers == [1, 2, 2]


@each(lambda runtime: runtime.stall_s is not None, slow=[OPENCODE])
def test_a_model_that_stays_silent_fails_the_attempt(job, runtime):
    fault = {**FAULTS["silent"], "times": "always"}
    run = job(
        {"text": "Done.", "faults": [fault]}, options={**runtime.impatient, "stall_s": runtime.stall_s}
    )  # fmt: skip
    check_end(run.attempt(), runtime.ends["silent"])


@each(slow=[OPENCODE])
def test_outputs_that_do_not_fit_are_told_to_the_model_or_fail_the_attempt(job, runtime):
    run = job({"text": "I am done."}, {"output": {"n": 3}}, outputs={"n": "integer"})
    outcome = run.attempt()
    if runtime.corrects:
        assert outcome.get("result") == {"n": 3}, outcome
    else:
        assert outcome["kind"] == "Failed" and "'n'" in outcome["reason"], outcome


@each(slow=[OPENCODE])
def test_a_run_has_a_budget_of_model_calls(job):
    run = job(*[{"calls": [{"shell": f"echo {n}"}]} for n in range(5)], body={"requests_max": 3})
    outcome = run.attempt()
    assert (outcome["kind"], outcome["reason"][:14]) == ("Failed", "request budget"), outcome
    assert run.numbers == [1, 2, 3]
