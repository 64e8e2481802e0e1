"""The call that gives out work: its row takes the ends that are bound to it, once; what the model is told of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from longtask.agents import spawning
from longtask.agents.contract import AgentOutcome
from longtask.agents.journal import Diverged, Seams, Spawns, waits_for
from longtask.agents.witness import Witness
from longtask.core.model import Done, Failed, JsonMap
from tests.agents.line import Book, Died
from tests.agents.test_recorded import play, problems, tools

TASKS = [{"name": "", "prompt": "one"}, {"name": "the other", "prompt": "two"}]
ENDS = [{"step": "x[0]", "state": "completed", "answer": "1"}, {"step": "x[1]", "state": "failed", "reason": "no"}]


def seams(book: Book, ended: JsonMap | None = None) -> Seams:
    return Seams(book.journal(), book, Witness("core", 1, None), ended=ended)


def said(ends: Sequence[JsonMap], apart: Sequence[str]) -> JsonMap:
    return {"said": [end["state"] for end in ends], "apart": list(apart)}


def given_out(book: Book, ended: JsonMap | None = None) -> str:
    """What the call is bound to, when it has not been answered."""
    with pytest.raises(Spawns) as spawns:
        seams(book, ended).spawn(TASKS, said)
    assert spawns.value.tasks == TASKS
    return spawns.value.bound


def test_it_stops_the_run_until_they_have_ended_and_answers_from_its_row_ever_after():
    book = Book()
    ended = {"bound": given_out(book), "ends": ENDS, "apart": ["a.py"]}
    assert waits_for(book.journal(), ended)
    answer = {"said": ["completed", "failed"], "apart": ["a.py"]}
    assert seams(book, ended).spawn(TASKS, said) == answer
    assert book.journal()[0]["changed"]  # its worktree may have moved
    assert seams(book).spawn(TASKS, said) == answer and not waits_for(book.journal(), ended)


@pytest.mark.parametrize("when", ["before", "after"])
def test_dead_before_it_is_told_it_gives_out_the_same_again(when: str):
    book = Book()
    book.die_at = ("journal.started", 1, when)
    with pytest.raises(Died):
        seams(book).spawn(TASKS, said)
    assert given_out(book) == given_out(book)


@pytest.mark.parametrize("when", ["before", "after"])
def test_dead_as_its_row_is_written_it_hears_the_same_again(when: str):
    book = Book()
    ended = {"bound": given_out(book), "ends": ENDS}
    book.die_at = ("journal.done", 1, when)
    with pytest.raises(Died):
        seams(book, ended).spawn(TASKS, said)
    assert seams(book, ended).spawn(TASKS, said)["said"] == ["completed", "failed"]


def test_a_later_call_of_the_same_tasks_is_not_answered_by_the_ends_of_the_first():
    book = Book()
    ended = {"bound": given_out(book), "ends": ENDS}
    run = seams(book, ended)
    run.spawn(TASKS, said)
    with pytest.raises(Spawns) as second:
        run.spawn(TASKS, said)
    assert second.value.bound != ended["bound"]
    assert not waits_for(book.journal(), ended)


def test_other_tasks_at_its_place_are_another_path():
    book = Book()
    given_out(book)
    with pytest.raises(Diverged):
        seams(book).spawn(TASKS[:1], said)


@pytest.mark.parametrize(
    ("args", "wrong"),
    [
        ({}, "'tasks' is to be a list"),
        ({"tasks": []}, "'tasks' is to be a list"),
        ({"tasks": "two of them"}, "'tasks' is to be a list"),
        ({"tasks": [{"prompt": "x"}] * 3}, "3 tasks, at most 2 at once"),
        ({"tasks": [{"prompt": "x"}, {"name": "y"}]}, "task 2 has no 'prompt'"),
        ({"tasks": [{"prompt": " "}]}, "task 1 has no 'prompt'"),
        ({"tasks": [{"prompt": "x" * 20_001}]}, "has 20001 characters"),
    ],
)
def test_a_call_that_is_no_such_call_is_told_so(args: JsonMap, wrong: str):
    result = spawning.spawn(seams(Book()), 2, args)
    assert result["failed"] and wrong in result["text"]


def test_tasks_are_taken_as_models_word_them():
    assert spawning.tasks_of({"tasks": ["one", {"name": "the other", "prompt": "two", "model": "x"}]}, 2) == TASKS
    long = spawning.tasks_of({"tasks": [{"name": "n" * 100, "prompt": "one"}]}, 2)
    assert isinstance(long, list) and len(long[0]["name"]) == 80
    assert spawning.tasks_of({"tasks": ["a\0b\ud800"]}, 2) == [{"name": "", "prompt": "ab?"}]


def test_the_model_is_told_each_end_in_its_place():
    result = spawning.told(TASKS, ENDS, [])
    assert result["failed"] and result["text"] == (
        "1 of 2 tasks failed.\n\n[1: completed]\n1\n\n[2. the other: failed]\nno"
    )
    assert result["ends"] == [{"step": "x[0]", "state": "completed"}, {"step": "x[1]", "state": "failed"}]
    fine = spawning.told(TASKS[:1], ENDS[:1], [])
    assert not fine["failed"] and fine["text"] == "The task is done.\n\n[1: completed]\n1"


def test_it_is_told_what_keeps_it_from_the_head():
    text = spawning.told(TASKS, ENDS, ["a.py", *(f"{n}.py" for n in range(25))])["text"]
    assert "conflicts with your changes in a.py, 0.py" in text and "18.py and 6 more" in text


def test_long_answers_are_cut_on_their_way():
    given = {"bound": "b", "ends": [
        {"step": "x[0]", "state": "completed", "result": {"answer": "y" * 30_000}, "reason": None},
        {"step": "x[1]", "state": "cancelled", "result": None, "reason": None},
    ]}  # fmt: skip
    ended = spawning.ended(given)
    assert ended is not None and len(ended["ends"][0]["answer"]) < 20_100
    assert ended["ends"][0]["answer"].endswith("(10000 characters left out)")
    assert "[2. the other: cancelled]\n(nothing was said)" in spawning.told(TASKS, ended["ends"], [])["text"]
    assert spawning.ended(None) is None


# --- in a recording -----------------------------------------------------------------------------------------------


def recorded(book: Book, folder: Path, ended: JsonMap | None = None, **more: Any) -> AgentOutcome:
    turn = tools({"tool": "spawn", "tasks": [{"prompt": "one"}, {"name": "the other", "prompt": "two"}], **more})
    return play(book, folder, turn, {"text": "Done."}, ended=ended, spawned_max=2)


def test_a_recording_gives_out_work(tmp_path: Path):
    book = Book()
    with pytest.raises(Spawns) as spawns:
        recorded(book, tmp_path)
    assert spawns.value.tasks == TASKS
    fine = [ENDS[0], {**ENDS[1], "state": "completed", "answer": "2"}]
    assert recorded(book, tmp_path, {"bound": spawns.value.bound, "ends": fine}) == Done({})
    assert [row["kind"] for row in book.journal()] == ["told", "turn", "spawned", "turn"]


def test_a_recording_says_when_it_is_to_fail(tmp_path: Path):
    book = Book()
    with pytest.raises(Spawns) as spawns:
        recorded(book, tmp_path)
    failed = recorded(book, tmp_path, {"bound": spawns.value.bound, "ends": ENDS})
    assert isinstance(failed, Failed) and "tool 1 (spawn) failed: 1 of 2 tasks failed" in failed.reason


def test_a_recording_without_the_plan_s_word_is_told_so(tmp_path: Path):
    failed = play(Book(), tmp_path, tools({"tool": "spawn", "tasks": ["one"]}), {"text": "Done."})
    assert isinstance(failed, Failed) and "no tool 'spawn'" in failed.reason


def test_what_a_recording_gives_out_is_checked():
    document = {"recording": 1, "runs": [{"step": "core", "turns": [tools({"tool": "spawn"}), {"text": "Done."}]}]}
    (problem,) = problems(document)
    assert problem.endswith("turn 1: tool 1: spawn: 'tasks' is to be a list of at least one task, each with a 'prompt'")
