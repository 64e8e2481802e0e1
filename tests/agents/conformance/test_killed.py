"""A worker is killed (SIGKILL), wherever its run is; another one, with another home, goes on in another folder.

The model's server counts what it was asked, files outside of the worktrees what was done.  What a kill may cost stands
in `runtimes.py`, and as a table in docs/agents.md.
"""

from __future__ import annotations

from tests.agents.conformance.runtimes import CODEX, OPENCODE, Cost, each
from tests.agents.site import decided
from tests.cli.shell import until


@each(models=[CODEX])
def test_killed_in_a_tool_it_goes_on_elsewhere_and_no_turn_is_asked_for_again(job, runtime, outside):
    run = job(
        {"text": "First.", "calls": [{"shell": outside.logging("one")}]},
        {"text": "Then.", "calls": [{"shell": outside.lingering("half")}]},
        {"text": "I have looked.", "calls": [{"shell": "pwd"}]},
        {"text": "Done."},
    )
    running = run.start()
    running.until(lambda: outside.left and run.lines("half.txt"))
    running.kill()
    until(lambda: not outside.left)
    outside.let_end()
    outcome = run.attempt()
    assert outcome["kind"] == "Done", outcome
    again = outside.log.count("half") - 1
    assert Cost(len(run.numbers) - 4, again) == runtime.in_tool and run.numbers == [1, 2, 3, 4]
    assert run.lines("half.txt") == ["half"] * again, "the worktree is as it was before the tool"
    assert outside.log.count("one") == 1
    assert runtime.cut_off in run.talk(2) and str(run.place) in run.talk()
    assert sum(row["tokens_in"] for row in run.rows) == (400 if runtime.counts_cut else 300)


@each()
def test_killed_in_a_stream_it_loses_that_turn_alone(job, runtime, outside):
    run = job(
        {"text": "First.", "calls": [{"shell": outside.logging("one")}]},
        {"text": "Done.", "faults": [{"stall": "always", "after": 3}]},
    )
    running = run.start()
    running.until(lambda: run.numbers == [1, 2] and len(run.turns) == len(run.tools) == 1)
    running.kill()
    outcome = run.attempt()
    assert outcome["kind"] == "Done", outcome
    assert Cost(len(run.numbers) - 2) == runtime.in_stream and run.numbers == [1, 2, 2]
    assert outside.log == ["one"] and sum(row["tokens_in"] for row in run.rows) == 200


@each()
def test_killed_before_its_first_answer_it_begins_with_the_prompt(job, runtime):
    run = job({"text": "Done.", "faults": [{"hang": "always"}]})
    running = run.start()
    running.until(lambda: run.numbers == [1])
    running.kill()
    outcome = run.attempt()
    assert outcome["kind"] == "Done", outcome
    assert run.numbers == [1, 1] and len(run.turns) == 1


@each(slow=[OPENCODE])
def test_killed_again_and_again_each_kill_costs_no_more_than_it_alone(job, runtime, outside):
    push = {"calls": [{"shell": outside.logging("pushed")}]}
    run = job(
        {
            "text": "First.",
            "calls": [{"shell": outside.logging("one")}],
            "faults": [{"stall": "always", "after": 3}],
        },
        {"calls": [{"shell": outside.lingering("half")}]},
        *[push] * (2 if runtime.loses_asked else 1),
        {"text": "Done."},
        ask=["shell(echo pushed*)"],
    )
    running = run.start()
    running.until(lambda: run.numbers == [1])
    running.kill()
    running = run.start()
    running.until(lambda: outside.left)
    running.kill()
    until(lambda: not outside.left)
    outside.let_end()
    parked = run.attempt()
    assert (parked["kind"], parked["waiting_for"]) == ("Parked", "user"), parked
    outcome = run.attempt(decided(parked, "approve"))
    assert outcome["kind"] == "Done", outcome
    assert run.numbers == [1, *range(1, 5 + runtime.loses_asked)]
    assert outside.log == ["one", *["half"] * (1 + runtime.in_tool.begun), "pushed"]
