"""What a task has spent, and how near it is to its limits."""

from __future__ import annotations

from tests.cli.shell import Shell

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
    near = "costly-1 comes near its limit: 0.50 of 2.00 USD, 850 of 1,000 tokens; at the limit its agents stop"
    assert shell("run", "--foreground", code=3).out.count(near) == 1
    why = shell.here("why", "@last").out
    assert near in why and "longtask resume costly-1 --tokens N" in why
    shown = shell.here("show", "@last", "--json").json
    assert (shown["tokens"], shown["tokens_limit"]) == (850, 1_000)
    assert (shown["cost_micros"], shown["cost_limit_micros"]) == (500_000, 2_000_000)
    shell("resume", "@last", "--tokens", "2000")
    assert "comes near" not in shell.here("why", "@last").out
