"""An agent edits, runs commands, and hands over what the plan wants of it."""

from __future__ import annotations

from tests.agents.conformance.runtimes import OPENCODE, RUNTIMES, each
from tests.steps.test_sandbox import needs_bubblewrap


@each(models=RUNTIMES)
def test_a_run_edits_commands_and_hands_over_its_outputs(job, runtime):
    run = job(
        {"text": "I look.", "calls": [{"read": "hello.txt"}]},
        {"calls": [{"shell": "echo keys: $(env | grep -c '_API_KEY=')"}]},
        {"calls": [{"edit": {"path": "hello.txt", "old": "hello", "new": "hello world"}}]},
        {"text": "Done.", "output": {"files": ["hello.txt"], "count": 1}},
        outputs={"files": "list", "count": "integer"},
    )
    outcome = run.attempt()
    assert (outcome["kind"], outcome.get("result")) == ("Done", {"files": ["hello.txt"], "count": 1}), outcome
    assert run.lines("hello.txt") == ["hello world"]
    assert run.numbers == [1, 2, 3, 4] and run.tools == [runtime.tools.get(name, name) for name in CALLS]
    assert ("keys: 0" in run.talk(2)) == runtime.hides_keys and "not-a-key" not in str(run.rows)
    told = [(row["tokens_in"], row["tokens_out"]) for row in run.turns]
    assert told == [(100, 20)] * 4
    assert (sum(row["micros"] or 0 for row in run.rows) > 0) == runtime.priced


CALLS = ("read", "shell", "edit")


@needs_bubblewrap
@each(slow=[OPENCODE])
def test_in_a_sandbox_it_writes_in_its_worktree_alone(job):
    run = job(
        {"calls": [{"shell": "touch made.txt; touch $HOME/outside || echo refu''sed"}]},
        {"text": "Done."},
        body={"sandbox": "bubblewrap"},
    )
    outcome = run.attempt()
    assert outcome["kind"] == "Done", outcome
    assert (run.place / "made.txt").exists() and not (run.machine / "home" / "outside").exists()
    assert "refused" in run.talk() and run.numbers == [1, 2]
