"""The opening of a run holds all that it must know, and nothing is unbounded."""

import json

from longtask.agents.prompt import FAILURE_CHARS_MAX, compose, news_of
from longtask.core.model import Kind, Task, TaskOptions
from longtask.plan.growth import growth_from


def test_a_plain_step_is_told_its_prompt_and_nothing_else():
    assert compose("  Do it.\n", outputs={}) == "Do it."


def test_all_parts_stand_in_a_fixed_order():
    text = compose(
        "Mend it.",
        outputs={"files": "list", "count": "integer"},
        failure="E  ImportError: six\n1 failed",
        news=news_of({"decision": "reject", "by": "ana", "text": "not like this"}),
        conflict={"head": "aaa", "commit": "bbb", "paths": ["a.py"]},
    )
    assert text == (
        "Mend it.\n\n"
        "To be joined: aaa, which is already merged, and bbb.\nFiles in conflict:\n- a.py\n\n"
        "What went wrong before:\n> E  ImportError: six\n> 1 failed\n\n"
        "ana answered: reject:\n> not like this\n\n"
        "When the work is done, answer with these outputs:\n- files: a list\n- count: a whole number"
    )


def test_of_a_long_failure_the_end_is_kept():
    text = compose("x", outputs={}, failure="a" * 100_000 + "END")
    assert text.endswith("END") and len(text) < FAILURE_CHARS_MAX + 200 and "characters left out" in text


def test_a_cause_without_words_is_no_news():
    assert news_of(None) is None
    assert news_of({"deadline": 17}) is None
    assert news_of({"answer": "again", "by": "ana"}) is None
    assert news_of({"signal": "ci.completed", "payload": {"ok": True}}) == 'answered: ci.completed:\n> {"ok": true}'


def test_the_example_that_a_planner_is_told_is_a_step_of_the_language():
    text = compose("Plan it.", outputs={"steps": "list"}, plans={"steps_max": 3})
    assert "at most 3 of them" in text
    example = json.loads(text[text.index('{"id": "each"') : text.index("for_each may be a list")])
    listing = {"id": "list", "run": "ls", "outputs": {"modules": "list"}}
    options = TaskOptions(defaults={"agent": {"runtime": "codex"}})
    growth = growth_from([listing, example], Task("t", "t", options))
    assert [step.kind for step in growth.planned] == [Kind.RUN, Kind.FOR_EACH]
