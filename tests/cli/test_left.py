"""What is left of a large task: failures first, a page at a time."""

from __future__ import annotations

import pytest

from longtask.cli.left import left, lines_left
from longtask.cli.paint import text_of
from longtask.cli.pictured import pictured
from longtask.cli.tree import lines
from longtask.core.model import Kind, Role, Step, StepState, WhenFailed
from longtask.views.documents import picture_map
from tests.cli.shell import Shell
from tests.cli.test_tree import picture, step

S = StepState


def items(**states: StepState) -> list[Step]:
    """Of a for_each of 5,000, by number; the others have completed."""
    found = {int(key[1:]): state for key, state in states.items()}
    return [
        step(f"each[{n}]", found.get(n, S.COMPLETED), kind=Kind.TASK, role=Role.ITEM, owner="each", item=n)
        for n in range(4_000)
    ]


def owner() -> Step:
    return step("each", kind=Kind.FOR_EACH, items=5_000, items_ended=3_990)


def test_failures_come_first_and_what_has_not_begun_is_counted():
    rows = items(n7=S.RUNNING, n20=S.FAILED, n30=S.WAITING, n3999=S.FAILED)
    text = [text_of(line) for line in lines_left(picture(owner(), *rows), 0, 3, 0)]
    assert text[1].strip() == ("left: 2 failed, 1 waiting, 1 running, 1 blocked, 1,000 items of each not begun")
    assert [line.split()[1] for line in text[2:5]] == ["each[20]", "each[3999]", "each[30]"]
    assert text[5].strip() == "… 2 more: --skip 3" and len(text) == 6
    rest = [text_of(line) for line in lines_left(picture(owner(), *rows), 3, 3, 0)]
    assert [line.split()[1] for line in rest[2:]] == ["each[7]", "each"]


def test_an_item_that_began_anew_is_what_it_is_now():
    failed = step("each[3]", S.FAILED, role=Role.ITEM, owner="each", item=3)
    again = step("each[3]~2", S.COMPLETED, role=Role.ITEM, owner="each", item=3, expansion=2)
    third = step("each[3]~10", S.RUNNING, role=Role.ITEM, owner="each", item=3, expansion=10)
    assert left([owner(), failed, again]) == [owner()]
    assert left([owner(), third, again, failed]) == [third, owner()]


def test_what_an_agent_hands_out_again_is_other_work():
    agent = step("lead", S.COMPLETED, kind=Kind.AGENT)
    first = step("lead[1]", S.FAILED, role=Role.ITEM, owner="lead", item=1)
    second = step("lead[1]~2", S.COMPLETED, role=Role.ITEM, owner="lead", item=1, expansion=2)
    assert left([agent, first, second]) == [first]


def test_what_was_skipped_by_hand_is_not_left_at_a_server_either():
    rows = [step("a", S.FAILED, waived=True), step("b", S.FAILED, when_failed=WhenFailed.CONTINUE)]
    here = picture(*rows)
    there = pictured(picture_map(here))  # type: ignore[arg-type]
    assert [row.key for row in left(there.steps)] == [row.key for row in left(here.steps)] == ["b"]
    assert [row.waived for row in there.steps] == [True, False]


def test_a_page_without_a_list_is_refused(shell: Shell):
    for words in (("-n", "5"), ("--skip", "0"), ("--json", "-n", "5")):
        assert "add --left" in shell.here("show", *words, code=2).out + shell.here("show", *words, code=2).err


def test_a_folded_list_shows_its_failures_first():
    rows = items(n7=S.RUNNING, n20=S.FAILED, n30=S.WAITING)
    text = [text_of(line).split()[1] for line in lines(picture(owner(), *rows)) if "each[" in text_of(line)]
    assert text == ["each[20]", "each[30]", "each[7]"]


PLAN = """
longtask: 1
name: many
steps:
  - id: each
    for_each: [1, 2, 3, 4]
    when_failed: continue
    task:
      inputs: {n: "${{ item }}"}
      plan:
        name: one
        inputs: {n: integer}
        steps: [{id: go, run: 'test "$N" -lt 3', env: {N: "${{ inputs.n }}"}}]
"""


@pytest.mark.parametrize("words", [("-n", "1"), ("-n", "1", "--skip", "1")])
def test_a_page_of_what_is_left_names_the_children(shell: Shell, words: tuple[str, ...]):
    shell.plan(PLAN)
    shell("run", "--foreground", code=None)
    shown = shell.here("show", "@last", "--left", *words).out
    key = f"each[{2 + ('--skip' in words)}]"
    assert "left: 2 failed" in shown and key in shown and "one-" in shown
    (entry,) = shell.here("show", "@last", "--left", *words, "--json").json["steps"]
    assert entry["key"] == key and entry["child"]["status"] == "failed"
