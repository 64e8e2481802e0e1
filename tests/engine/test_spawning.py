"""Agents that give out work, on the real engine with the real seams; and their worktrees, on real git."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from longtask.agents.journal import bound_to
from longtask.core.errors import BadPlan
from longtask.core.events import StepExpanded
from longtask.core.model import Done, Expanded, Failed, JsonMap, Kind, Outcome
from longtask.engine import wire
from longtask.steps.contract import Assignment, Ended
from longtask.steps.places import ToldConflicts
from longtask.workspace.tree import read_worktree
from tests.engine.test_places import Repository, row
from tests.engine.world import HANG, World, step, work
from tests.sim.spawns import seams_of, spawned, tasks_of

Act = Callable[[Assignment], Outcome | str]
CALL = 1  # of a run that has made none before


def lead(**words: Any) -> Any:
    return step("x", kind=Kind.AGENT, item=work(Kind.AGENT, outputs={"answer": "string"}), parallel_max=3, **words)


def gives_out(world: World, *lengths: int) -> Act:
    """A run that gives out these lists one after another, and hands over what it was told."""

    def act(a: Assignment) -> Outcome:
        told: list[JsonMap] = []
        for call, length in enumerate(lengths, CALL):
            said = spawned(a, seams_of(a, world.lines[a.step, a.attempt], call - 1), tasks_of(a, call, length))
            if isinstance(said, Expanded):
                return said
            told.append(said)
        return Done({"told": [t["text"] for t in told]})

    return act


def answers(a: Assignment) -> Outcome:
    return Done({"answer": f"done: {a.scope['spawned']['prompt']}"})


def hangs_after(act: Act) -> Act:
    def acts(a: Assignment) -> str:
        act(a)
        return HANG

    return acts


def expansions(world: World) -> list[int]:
    return [event.fact.items for event in world.events(StepExpanded)]  # type: ignore[union-attr]


def test_each_does_what_was_given_out_to_it_and_the_run_hears_them_in_their_order(world: World):
    world.submit(lead(), step("y", 2), acts={"x": [gives_out(world, 3)], "x[[]*": [answers]})
    assert world.run() == "completed"
    (text,) = world.row("x").result["told"]
    said = [line for line in text.splitlines() if line.startswith("done: ")]
    assert said == [f"done: x call 1 task {n}" for n in range(3)]
    assert world.row("x").attempt == 2 and world.row("x").run == 1
    world.audit()


def test_each_call_of_a_run_is_answered_by_what_it_gave_out_itself(world: World):
    world.submit(lead(), acts={"x": [gives_out(world, 2, 1, 3)], "x[[]*": [answers]})
    assert world.run() == "completed"
    told = world.row("x").result["told"]
    assert [text.count("done: x call ") for text in told] == [2, 1, 3]
    assert all(f"done: x call {call} task 0" in text for call, text in enumerate(told, CALL))
    assert expansions(world) == [2, 1, 3]
    world.audit()


def test_what_has_failed_is_told_and_the_run_goes_on(world: World):
    acts = {"x": [gives_out(world, 3)], "x[[]1]": [Failed("no such file", retryable=False)], "x[[]*": [answers]}
    world.submit(lead(), acts=acts, attended=True)
    assert world.run() == "completed"
    (text,) = world.row("x").result["told"]
    assert text.startswith("1 of 3 tasks failed.") and "[2: failed]\nno such file" in text
    assert "done: x call 1 task 2" in text


def test_killed_before_it_is_recorded_it_is_given_out_once(world: World):
    act = gives_out(world, 2)
    world.submit(lead(), acts={"x": [hangs_after(act), act], "x[[]*": [answers]})
    world.settle()
    assert world.state("x") == "running" and world.owned("x") == []
    world.die()
    world.worker = world.new_worker("w2")
    assert world.run() == "completed"
    assert (expansions(world), world.row("x").attempt) == ([2], 3)


def test_killed_after_all_have_ended_it_hears_of_them_all_the_same(world: World):
    act = gives_out(world, 2)
    world.submit(lead(), acts={"x": [act, HANG, act], "x[[]*": [answers]})
    world.settle_until(lambda: world.row("x").attempt == 2)
    world.settle()
    world.die()
    world.worker = world.new_worker("w2")
    assert world.run() == "completed"
    assert (expansions(world), world.row("x").attempt, world.row("x").losses) == ([2], 3, 0)
    assert world.begun_keys().count("x[0]") == 1


def test_a_run_that_begins_anew_hears_nothing_of_what_the_one_before_had_given_out(world: World):
    act = gives_out(world, 1)
    fails = Failed("off the path")
    acts = {"x": [act, fails, hangs_after(act), act], "x[[]*": [answers]}
    world.submit(lead(failures_max=1), acts=acts)
    world.settle_until(lambda: world.row("x").failures == 1)
    world.later(5_000)
    world.settle()
    world.die()  # the new run has begun the same call, and nothing is recorded of it
    world.worker = world.new_worker("w2")
    assert world.run() == "completed"
    assert [row.key for row in world.owned("x")] == ["x[0]", "x[0]~2"]


def test_long_tasks_are_kept_apart_from_the_rows(world: World):
    long = "x" * 6_000

    def act(a: Assignment) -> Outcome:
        tasks = [{"name": "", "prompt": long}]
        said = spawned(a, seams_of(a, world.lines[a.step, a.attempt]), tasks)
        return said if isinstance(said, Expanded) else Done({"told": said["text"]})

    world.submit(lead(), acts={"x": [act], "x[[]*": [answers]})
    assert world.run() == "completed"
    assert list(world.row("x").listing["tasks"]) == ["$artifact"]
    item = next(a for a in world.begun if a.step == "x[0]")
    assert item.scope["spawned"]["prompt"] == long


@pytest.mark.parametrize("items", [0, 4])
def test_a_worker_cannot_make_more_of_them_than_the_plan_allows(world: World, items: int):
    listing = {"run": 1, "bound": "1.f", "tasks": [{"name": "", "prompt": "p"}] * items}
    world.submit(lead(), acts={"x": [Expanded(items, listing)]})
    assert world.run() == "failed"
    assert f"it has spawned {items} steps at once, 3 may be" in (world.row("x").reason or "")


def test_nor_give_out_the_same_call_twice(world: World):
    said = Expanded(1, {"run": 1, "bound": "1.f", "tasks": [{"name": "", "prompt": "p"}]})
    world.submit(lead(), acts={"x": [said], "x[[]*": [answers]})
    assert world.run() == "failed"
    assert (expansions(world), world.row("x").attempt) == ([1], 2)
    assert "has spawned the same before" in (world.row("x").reason or "")


def test_nor_can_it_go_on_for_ever(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("longtask.engine.reporting.EXPANSIONS_MAX", 2)
    world.submit(lead(), acts={"x": [gives_out(world, 1, 1, 1)], "x[[]*": [answers]})
    assert world.run() == "failed"
    assert (expansions(world), world.row("x").attempt) == ([1, 1], 3)
    assert "has spawned other steps 2 times" in (world.row("x").reason or "")


def test_nor_any_of_a_step_whose_plan_has_none(world: World):
    world.submit(step("x", kind=Kind.AGENT), acts={"x": [Expanded(1, {"run": 1, "bound": "", "tasks": [{}]})]})
    assert world.run() == "failed"
    assert "its plan does not allow" in (world.row("x").reason or "")


def test_a_worker_elsewhere_says_the_same(world: World):
    said = Expanded(1, {"run": 1, "bound": "1.f", "tasks": [{"name": "n", "prompt": "p"}]})
    assert wire.outcome_of(json.loads(json.dumps(wire.outcome_map(said)))) == said
    wrong: list[Any] = [[], {}, {**said.listing, "tasks": []}, {**said.listing, "tasks": [{"name": "n"}]}]
    for listing in wrong:
        with pytest.raises(BadPlan, match="expanded"):
            wire.outcome_of(wire.outcome_map(replace(said, listing=listing)))


# --- worktrees ----------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def goes_on(a: Assignment, head: str, tree: str | None) -> Assignment:
    """The attempt that goes on when what call 2 has given out has ended."""
    rows = (row(1, tree), {"n": 2, "kind": "spawned", "fingerprint": "f", "body": None, "done": False})
    ended = {"bound": bound_to(2, "f"), "ends": []}
    return replace(a, attempt=a.attempt + 1, base=head, journal=rows, checkpoint=(1, tree), ended=ended)


def edited(here: Repository, content: str = "mine\n") -> tuple[Assignment, str]:
    """A first attempt that has changed a file and given out work."""
    first = here.assignment()
    place = here.begin(first)
    (place / "a.txt").write_text(content)
    tree = here.places.save_tree(place)
    outcome = Expanded(1, {})
    assert here.keep(first, place, outcome) == outcome
    return first, tree


def test_it_goes_on_upon_what_was_merged_with_its_own_changes_on_top(here: Repository):
    first, tree = edited(here)
    head = here.done("b.txt", "theirs\n")
    second = goes_on(first, head, tree)
    place = here.begin(second)
    assert [(place / name).read_text() for name in ("a.txt", "b.txt")] == ["mine\n", "theirs\n"]
    outcome = here.keep(second, place, Done())
    assert isinstance(outcome, Done) and outcome.commit is not None and outcome.base == head
    assert here.workspace.stat(head, outcome.commit).paths == ("a.txt",)


def test_killed_before_its_journal_says_so_it_moves_again_and_loses_nothing(here: Repository):
    first, tree = edited(here)
    second = goes_on(first, here.done("b.txt", "theirs\n"), tree)
    here.begin(second)  # and its worker is killed
    later = here.done("c.txt", "more\n", "later")
    merged = here.workspace.merge(second.base or "", later, "m")
    third = replace(second, attempt=3, base=merged.commit)  # type: ignore[union-attr]
    place = here.begin(third)
    assert sorted(path.name for path in place.iterdir() if path.name != ".git") == ["a.txt", "b.txt", "c.txt"]
    assert (place / "a.txt").read_text() == "mine\n"


def test_once_its_journal_says_so_it_stays_where_it_is(here: Repository):
    first, tree = edited(here)
    head = here.done("b.txt", "theirs\n")
    second = goes_on(first, head, tree)
    moved = here.places.save_tree(here.begin(second))
    assert moved.endswith(f"@{head}")
    rows = (*second.journal[:1], {**second.journal[1], "body": {"tree": moved}, "done": True})
    later = here.workspace.merge(head, here.done("c.txt", "more\n", "later"), "m")
    third = replace(second, attempt=3, base=later.commit, journal=rows, ended=None)  # type: ignore[union-attr]
    place = here.begin(third)
    assert sorted(path.name for path in place.iterdir() if path.name != ".git") == ["a.txt", "b.txt"]
    assert (place / "b.txt").read_text() == "theirs\n"


def test_what_cannot_be_joined_leaves_it_as_it_was_and_is_told(here: Repository):
    first, tree = edited(here)
    second = goes_on(first, here.done("a.txt", "theirs\n"), tree)
    place = here.begin(second)
    assert (place / "a.txt").read_text() == "mine\n"
    assert here.places.save_tree(place) == tree
    seen: list[Assignment] = []

    class Told:
        def start(self, assignment: Assignment, desk: object, place: Path | None) -> Ended:
            seen.append(assignment)
            return Ended(Done())

    ToldConflicts(Told()).start(second, here.line, place)  # type: ignore[arg-type]
    assert seen[0].ended == {"bound": bound_to(2, "f"), "ends": [], "apart": ["a.txt"]}
    outcome = here.keep(second, place, Done())
    assert isinstance(outcome, Done) and outcome.base == here.base  # the merge queue joins the two, or asks


def test_who_had_changed_nothing_simply_goes_on_upon_the_head(here: Repository):
    first = here.assignment()
    here.begin(first)
    head = here.done("a.txt", "theirs\n")
    place = here.begin(goes_on(first, head, f"@{here.base}"))
    wt = read_worktree(place)
    assert wt is not None and (wt.base, wt.apart) == (head, ())
    assert (place / "a.txt").read_text() == "theirs\n"


def test_the_end_of_another_call_moves_nothing(here: Repository):
    first, tree = edited(here)
    second = replace(goes_on(first, here.done("b.txt", "theirs\n"), tree), ended={"bound": "1.f", "ends": []})
    assert (here.begin(second) / "b.txt").read_text() == "two\n"
