"""The tree: what is folded, what is cut off, what stays in its column."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from longtask.cli.paint import cells, cropped, text_of
from longtask.cli.tree import WHOLE, lines
from longtask.core.model import Kind, Role, Step, StepState, Tally, Task, TaskOptions, WaitingFor
from longtask.store.contract import Progress
from longtask.views.documents import picture_map
from longtask.views.picture import Picture
from longtask.views.text import clean, first_line
from longtask.views.words import duration

S = StepState
NOW = 1_750_000_000_000


def step(key: str, state: StepState = S.BLOCKED, **more: Any) -> Step:
    times = {"began_at": NOW - 5_000, "ended_at": NOW - 3_000} if state in (S.COMPLETED, S.FAILED) else {}
    return Step(key, more.pop("kind", Kind.RUN), state=state, **{**times, **more})


def picture(
    *steps: Step, stages: tuple[str, ...] = ("one", "two"), gates: int = 0, goal: str = "", **more: Any
) -> Picture:
    counts = Tally(steps=len(steps) + len(stages), weight=100, weight_done=40, gates=gates, running=1)
    task = Task("0", "t", TaskOptions(stages=stages, goal=goal), created_at=NOW - 60_000, counts=counts, number=7)
    return Picture(task, steps, more.pop("progress", {}), NOW, **more)


def shown(*steps: Step, width: int = 0, height: int = 0, **more: Any) -> list[str]:
    return [text_of(line) for line in lines(picture(*steps, **more), width=width, height=height)]


def test_whoever_looks_is_warned_when_a_limit_is_near():
    def head(**more: Any) -> tuple[str, str]:
        found = picture(step("a", S.RUNNING))
        line = lines(replace(found, task=found.task._replace(**more)))[0]
        return line[-1][0].strip(), line[-1][1]

    assert head(spent_micros=790_000, spent_tokens=10, budget_micros=1_000_000) == (
        "0.79 of 1.00 USD, 10 tokens",
        "dim",
    )
    assert head(spent_micros=800_000, budget_micros=1_000_000) == ("0.80 of 1.00 USD, 0 tokens", "yellow")
    assert head(spent_tokens=1_000, budget_tokens=1_100) == ("0.00 USD, 1,000 of 1,100 tokens", "yellow")
    assert head(spent_micros=800_000, spent_tokens=1_000) == ("0.80 USD, 1,000 tokens", "dim")


def test_ten_thousand_steps_fold_to_a_screen_and_what_matters_stays():
    many = [step(f"s{i}", S.COMPLETED) for i in range(6_000)]
    many += [step(f"r{i}", S.RUNNING, began_at=NOW - 1_000) for i in range(4)]
    many += [step(f"f{i}", S.FAILED, reason="exit code 1") for i in range(20)]
    many += [step(f"b{i}") for i in range(3_976)]
    text = "\n".join(shown(*many))
    assert "✓ 6,000 completed" in text and "· 3,976 blocked" in text
    assert "● r3" in text and "✗ f7" in text and "✗ f8" not in text and "✗ 12 more failed" in text
    assert len(text.splitlines()) < 24
    assert len(list(lines(picture(*many), detail=WHOLE))) > 10_000


def test_items_of_a_for_each_are_folded_under_it():
    items = [step(f"each[{i}]", S.COMPLETED, role=Role.ITEM, owner="each", item=i) for i in range(500)]
    items[9] = step("each[9]", S.FAILED, role=Role.ITEM, owner="each", item=9, reason="exit code 1")
    owner = step("each", items=800, items_ended=500)
    text = shown(owner, *items)
    assert any("· each" in line and "500/800 items" in line for line in text)
    assert "      ✓ 499 items completed" in text and any("✗ each[9]" in line for line in text)
    assert len(text) < 10


def test_what_an_agent_has_spawned_stands_under_it_and_is_counted_while_it_waits():
    spawned = [
        step(key, state, kind=Kind.AGENT, role=Role.ITEM, owner="lead", item=n, expansion=expansion)
        for key, state, n, expansion in (
            ("lead[0]", S.COMPLETED, 0, 1), ("lead[0]~2", S.COMPLETED, 0, 2), ("lead[1]~2", S.RUNNING, 1, 2),
        )
    ]  # fmt: skip
    lead = step("lead", kind=Kind.AGENT, attempt=2, items=2, items_ended=1, expansion=2)
    text = shown(lead, *spawned)
    assert any("· lead" in line and "attempt 2  1/2 subagents" in line for line in text)
    assert [line.split()[1] for line in text if "lead[" in line] == ["lead[0]", "lead[0]~2", "lead[1]~2"]
    ended = shown(lead._replace(state=S.COMPLETED, items_ended=2), *spawned)
    assert not any("subagents" in line for line in ended)


@pytest.mark.parametrize("height", [4, 8, 12, 20])
def test_the_view_never_grows_beyond_the_height(height: int):
    stages = ("one", "two", "three")
    steps = [step(f"a{i}", S.COMPLETED) for i in range(6)]
    steps += [step(f"b{i}", S.RUNNING, began_at=NOW, stage=2) for i in range(3)]
    steps += [step(f"c{i}", stage=3) for i in range(6)]
    text = shown(*steps, stages=stages, gates=1, height=height, width=80)
    assert len(text) <= height
    if height >= 8:
        assert any("● b2" in line for line in text)  # what runs is what one looks for
        assert any("one" in line for line in text) and any("three" in line for line in text)


def test_no_line_is_wider_than_the_terminal():
    steps = [
        step("a_step_with_a_very_long_name_that_goes_on_and_on", S.FAILED, reason="exit code 1: " + "x" * 300),
        step("wide", S.WAITING, waiting_for=WaitingFor.USER, question={"kind": "approval", "text": "日本語" * 40}),
    ]
    for width in (20, 40, 79, 200):
        for line in shown(*steps, width=width, goal="g" * 500):
            assert cells(line) <= width, (width, line)


def test_names_times_and_notes_stand_in_columns():
    running = step("b", S.RUNNING, began_at=NOW - 61_000, attempt=2)
    text = shown(
        step("analysis", S.COMPLETED),
        running,
        step("longer_name", S.FAILED, reason="exit code 1\nmore"),
        progress={"b": Progress("b", 2, 128, 183, "")},
    )
    assert text[-5:] == [
        "  one",
        "    ✓ analysis       2.0s",
        "    ● b             1m01s  128/183  attempt 2",
        "    ✗ longer_name    2.0s  exit code 1",
        "  two  upcoming",
    ]


def test_progress_of_an_older_attempt_is_not_shown():
    text = shown(step("b", S.RUNNING, began_at=NOW, attempt=2), progress={"b": Progress("b", 1, 128, 183, "")})
    assert not any("128" in line for line in text)


def test_what_waits_says_for_whom():
    asks = step(
        "a", S.WAITING, waiting_for=WaitingFor.USER, question={"kind": "approval", "text": "ok?", "who": ["ann", "bob"]}
    )
    signal = step("s", S.WAITING, waiting_for=WaitingFor.CI, question={"name": "ci.completed", "match": {"sha": "4f"}})
    text = "\n".join(shown(asks, signal))
    assert "◆ a          asks ann, bob: ok?" in text and "waits for signal ci.completed with sha=4f" in text


def test_text_of_tasks_cannot_move_the_cursor():
    assert clean("a\x1b[2Jb\nc\td\x07") == "ab c d"
    assert first_line("\n one\rtwo \nthree") == "two" or first_line("\n one\rtwo \nthree") == "one"
    text = shown(step("x", S.FAILED, reason="\x1b]0;title\x07bad \x1b[31mred"), goal="\x1b[2J goal")
    assert not any("\x1b" in line for line in text)
    assert clean("\udcff.txt") and clean("x" * 1_000).endswith("…")


def test_cropping_counts_wide_letters_as_two():
    assert text_of(cropped([("日本語", ""), ("abc", "dim")], 6)) == "日本…"
    assert text_of(cropped([("abc", "")], 3)) == "abc"


@pytest.mark.parametrize(
    ("ms", "text", "whole"),
    [(0, "0.0s", "0s"), (9_940, "9.9s", "9s"), (9_960, "10s", "9s"), (61_000, "1m01s", "1m01s"),
     (3_600_000, "1h00m", "1h00m"), (90_000_000, "1d1h", "1d1h")],
)  # fmt: skip
def test_durations_are_short(ms: int, text: str, whole: str):
    assert duration(ms) == text and duration(ms, whole=True) == whole


def test_the_map_tells_what_was_left_out():
    assert picture_map(picture(step("a"), left_out=3))["steps_left_out"] == 3
    assert any("and 3 more steps" in line for line in shown(step("a"), left_out=3))
