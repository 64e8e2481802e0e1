"""What a task has spent, and how near it is to its limits."""

from __future__ import annotations

from pathlib import Path

from tests.cli.shell import Shell, until

PLAN = """
longtask: 1
name: costly
limits: {tokens: 1000, cost_usd: 2}
steps:
  - id: work
    agent: {prompt: "Do it.", runtime: recorded, recording: recording.yaml}
  - id: ok
    approval: {ask: "Is it good?"}
    needs: [work]
"""
RECORDING = """
recording: 1
runs:
  - step: work
    turns:
      - {text: Done., usage: {tokens_in: 700, tokens_out: 150, price: 0.5}}
"""


def test_a_limit_that_comes_near_is_told_before_it_is_reached(shell: Shell):
    shell.plan(PLAN)
    (shell.cwd / "recording.yaml").write_text(RECORDING)
    told = shell("run", "--foreground", code=3).out
    assert told.count("850 of 1,000 tokens; at the limit its agents stop, and it waits") == 1
    assert told.count("budget.near") == 1, "half of the money is not near"
    why = shell.here("why", "@last").out
    assert "costly-1 comes near its limit: 0.50 of 2.00 USD, 850 of 1,000 tokens; at the limit its agents stop" in why
    assert "longtask resume costly-1 --tokens N" in why
    shown = shell.here("show", "@last", "--json").json
    assert (shown["tokens"], shown["tokens_limit"]) == (850, 1_000)
    assert (shown["cost_micros"], shown["cost_limit_micros"]) == (500_000, 2_000_000)
    shell("resume", "@last", "--tokens", "2000")
    assert "comes near" not in shell.here("why", "@last").out


OWN = """
longtask: 1
name: costly
steps:
  - id: work
    agent: {prompt: "Do it.", runtime: recorded, recording: recording.yaml, limits: {cost_usd: 0.6, requests: 5}}
"""
OWN_RECORDING = """
recording: 1
runs:
  - step: work
    turns:
      - {tools: [{tool: shell, command: "until [ -e %s ]; do sleep 0.02; done"}], usage: {price: 0.5}}
      - {text: Done.}
"""


def test_a_limit_of_a_step_that_comes_near_is_told_while_it_runs(shell: Shell, tmp_path: Path):
    go = tmp_path / "go"
    shell.plan(OWN)
    (shell.cwd / "recording.yaml").write_text(OWN_RECORDING % go)
    shell("run", "--detach")
    near = "0.50 of 0.60 USD; at the limit its agent stops, and it fails"
    until(lambda: f"step 'work' comes near its limit: {near}" in shell.here("why", "@last").out)
    go.touch()
    (told,) = [line for line in shell("watch", "@last").out.splitlines() if "budget.near" in line]
    assert told.split(maxsplit=2)[2].split(maxsplit=1) == ["work", near]
    (event,) = [event for event in shell.here("events", "@last", "--json").lines if event["type"] == "budget.near"]
    assert event["data"] == {"step": "work", "which": "micros", "used": 500_000, "limit": 600_000}


STAGED = """
longtask: 1
name: costly
stages:
  - name: change
    limits: {tokens: 1000}
    steps:
      - {id: one, agent: {prompt: "Do it.", runtime: recorded, recording: recording.yaml}}
      - {id: two, needs: [one], agent: {prompt: "Do it.", runtime: recorded, recording: recording.yaml}}
      - {id: three, needs: [one], agent: {prompt: "Do it.", runtime: recorded, recording: recording.yaml}}
"""
STAGED_RECORDING = """
recording: 1
runs:
  - step: one
    turns:
      - {tools: [{tool: shell, command: "true"}], usage: {tokens_in: 850}}
      - {text: Done., usage: {tokens_in: 200}}
  - {step: two, turns: [{text: Done.}]}
  - {step: three, turns: [{text: Done.}]}
"""


def test_the_limit_of_a_stage_is_told_before_it_is_reached_and_raised_for_all_at_once(shell: Shell):
    shell.plan(STAGED)
    (shell.cwd / "recording.yaml").write_text(STAGED_RECORDING)
    told = shell("run", "--foreground", "--attended", code=3).out
    near = "850 of 1,000 tokens; at the limit its agents stop, and somebody is asked"
    (line,) = [line for line in told.splitlines() if "budget.near" in line]
    assert line.split(maxsplit=2)[2].split(maxsplit=1) == ["change", near]
    assert "the limit of stage 'change' is reached: 1,000 tokens" in told
    assert "longtask approve costly-1 two --stage" in shell.here("why", "@last").out
    assert "does not ask about the limit" not in shell("approve", "@last", "two", "--stage").out
    shell("watch", "@last")
    (raised,) = [event for event in shell.here("events", "@last", "--json").lines if event["type"] == "longtask.raised"]
    assert (raised["data"]["stage"], raised["data"]["number"]) == ("change", 1)
