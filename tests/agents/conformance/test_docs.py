"""What docs/agents.md says of kills is what the suite measures."""

from __future__ import annotations

from pathlib import Path

from tests.agents.conformance.runtimes import RUNTIMES, Cost

DOCS = Path(__file__).parents[3] / "docs" / "agents.md"
HEAD = "| killed | in a tool |"


def test_the_table_of_kills_is_that_of_the_suite():
    _, _, table = DOCS.read_text().partition(HEAD)
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.partition("\n\n")[0].splitlines()[2:]]
    told = {line[0].strip("`"): tuple(line[1:4]) for line in lines}
    assert told == {
        runtime.name: tuple(_cell(cost) for cost in (runtime.in_tool, runtime.in_stream, runtime.while_asked))
        for runtime in RUNTIMES
    }
    priced = {line[0].strip("`"): line[-1] != "none" for line in lines}
    assert priced == {runtime.name: runtime.priced for runtime in RUNTIMES}


def _cell(cost: Cost) -> str:
    return f"{cost.requests} / {cost.begun}"
