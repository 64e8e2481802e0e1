"""Notes that outlive a run: kept with the end of the run, told to later runs of the same workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from longtask.agents import notes
from longtask.agents.builtin.opening import WORK, instructions
from longtask.agents.notes import NOTE
from longtask.agents.tools import Toolbox


def row(text: str | None, name: str = "note", **more: Any) -> dict[str, Any]:
    body = None if text is None else {"text": "noted", "failed": False, "note": text}
    return {"n": 1, "kind": "tool", "name": name, "body": body, **more}


def test_a_note_is_short_and_says_something(tmp_path: Path):
    box = Toolbox(tmp_path, {}, lambda text: None, more=(NOTE,))
    assert box.use("note", {"text": " use make test \n"}) == {
        "text": "noted for later runs", "failed": False, "note": "use make test",
    }  # fmt: skip
    assert "is empty" in box.use("note", {"text": " "})["text"]
    assert "1001 characters, at most 1000" in box.use("note", {"text": "x" * 1_001})["text"]


def test_of_a_run_its_finished_notes_are_kept_each_once():
    rows = [row("a"), row("b", kind="turn"), row("c", "shell"), row("d"), row("a"), row(None)]
    assert notes.of_rows(rows) == ["a", "d"]
    assert len(notes.of_rows([row(str(n)) for n in range(50)])) == 20


def test_a_later_run_is_told_them_the_newest_last_and_no_more_than_it_can_read(tmp_path: Path):
    told = instructions(tmp_path, ({"step": "x", "text": "second\nline"}, {"step": "x", "text": "first"}))
    assert told.startswith(WORK) and told.endswith("- first\n- second line")
    assert instructions(tmp_path) == WORK
    long = notes.told([{"step": "x", "text": f"{n} {'y' * 1_000}"} for n in range(50)])
    assert long is not None and "- 0 y" in long and len(long) < 13_000
