"""`builtin` leaves notes and is told those of others; what is noted meanwhile changes nothing of a run that goes on."""

from __future__ import annotations

import pytest

from longtask.agents import notes
from longtask.agents.policy import Policy
from longtask.core.model import Done
from tests.agents.line import Book, Died
from tests.agents.test_builtin import Story, story

__all__ = ["story"]  # a fixture

TURNS = ({"calls": [{"tool": "note", "args": {"text": "Tests want Redis."}}]}, {"text": "Done."})
LEFT = ({"step": "x", "text": "Use make check."},)


def test_it_is_told_what_was_noted_and_notes_itself(story: Story):
    story.script(*TURNS)
    assert story.attempt(outputs={}, notes=LEFT) == Done({})
    assert "Use make check." in story.asked(0)
    assert notes.of_rows(story.book.journal()) == ["Tests want Redis."]


def test_a_run_that_goes_on_keeps_what_it_was_told(story: Story):
    story.script(*TURNS)
    story.book.die_at = ("journal.done", 4, "after")
    with pytest.raises(Died):
        story.attempt(outputs={}, notes=LEFT)
    assert story.attempt(outputs={}, notes=({"step": "y", "text": "Something new."},)) == Done({})
    assert "Use make check." in story.asked(-1) and "Something new." not in story.asked(-1)
    assert story.requests == 2


def test_without_the_plan_s_words_there_are_no_such_tools(story: Story):
    for more in ({}, {"notes": (), "spawned_max": 2, "policy": Policy(("read",))}):
        story.book, story.attempts = Book(), 0
        story.script({"text": "Done."})
        assert story.attempt(outputs={}, **more) == Done({})
        offered = {tool["name"] for tool in story.models.requests()[-1].body["tools"]}
        assert offered & {"note", "spawn"} == ({"note", "spawn"} if more else set())
