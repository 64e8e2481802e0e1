"""The drawn states are those of the tables."""

import re
from pathlib import Path

from longtask.core import machine
from tools.generate import states

PAGE = Path(__file__).parents[2] / "docs" / "states.md"


def test_the_drawn_states_are_fresh():
    assert PAGE.read_text(encoding="utf-8") == states(), "docs/states.md is stale; run `make generate`"


def test_every_move_is_drawn_and_no_other():
    drawn = {
        (state, fact, target)
        for state, target, facts in re.findall(r"^    (\w+) --> (\w+) : (.*)$", states(), re.MULTILINE)
        for fact in facts.split(", ")
    }
    moves = {
        (str(state), fact.__name__, str(target))
        for table in (machine.STEP, machine.TASK)
        for state, ways in table.items()
        for fact, target in ways.items()
    }
    assert drawn == moves
