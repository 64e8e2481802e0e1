"""Notes of agents, on the real engine: kept with the end of a run, told to later runs of the same workspace."""

from __future__ import annotations

import json
from typing import Any

import pytest

from longtask.agents.notes import FOLDER
from longtask.core.model import Done, Failed, Kind
from longtask.engine.records import NOTES
from longtask.steps.contract import Assignment
from tests.engine.world import World, step

assert NOTES == FOLDER


def ending(world: World, *noted: str) -> Any:
    def act(a: Assignment) -> Done:
        name = f"{FOLDER}{a.step}.{a.attempt}.json"
        made = world.lines[a.step, a.attempt].put_artifact(name, json.dumps(noted).encode(), "application/json")
        return Done({}, artifacts=(made,))

    return act


@pytest.fixture
def noting(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Artifacts of this world are kept as their text; those of notes are JSON."""
    read = world.scopes.fetch
    monkeypatch.setattr(world.scopes, "fetch", lambda w, v: json.loads(found) if isinstance(found := read(w, v), str)
                        else found)  # fmt: skip
    return world


def test_runs_of_one_workspace_hear_of_each_other(noting: World):
    world = noting
    for number, noted in enumerate((("one", "two"), ("two", "three"), ())):
        made = step(f"x{number}", kind=Kind.AGENT, notes=True)
        world.submit(made, acts={f"x{number}": [ending(world, *noted) if noted else Done()]}, code=True)
        assert world.run() == "completed"
    told = [[note["text"] for note in a.notes] for a in world.begun]
    assert told == [[], ["two", "one"], ["three", "two", "one"]]


def test_who_keeps_none_is_told_none(noting: World):
    world = noting
    world.submit(step("a", kind=Kind.AGENT, notes=True), acts={"a": [ending(world, "one")]}, code=True)
    assert world.run() == "completed"
    world.submit(step("b", kind=Kind.AGENT), code=True)
    world.submit(step("c", kind=Kind.AGENT, notes=True))  # without a workspace
    assert world.run() == "completed"
    assert [a.notes for a in world.begun if a.step != "a"] == [(), ()]


def test_of_a_run_that_failed_for_good_they_are_kept_too(noting: World):
    world = noting

    def fails(a: Assignment) -> Failed:
        made = world.lines[a.step, a.attempt].put_artifact(f"{FOLDER}a.1.json", b'["do not"]', "application/json")
        return Failed("no", retryable=False, artifacts=(made,))

    world.submit(step("a", kind=Kind.AGENT, notes=True), acts={"a": [fails]}, code=True)
    assert world.run() == "failed"
    world.submit(step("b", kind=Kind.AGENT, notes=True), code=True)
    assert world.run() == "completed"
    assert world.begun[-1].notes == ({"step": "a", "text": "do not"},)
