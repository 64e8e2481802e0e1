"""What a submitted graph must satisfy, and what it becomes."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtask.core import graph
from longtask.core.errors import BadPlan
from longtask.core.graph import Graph, Planned, build, check, edges, find_cycle, gate_key
from longtask.core.model import POOL_SYSTEM, Edge, Kind, TaskOptions
from tests.core.play import planned


def plan(steps: list[Planned], stages: int = 1, **options) -> Graph:
    return Graph("n", TaskOptions(stages=tuple(f"s{k}" for k in range(stages)), **options), (), tuple(steps))


def problems(steps: list[Planned], stages: int = 1) -> list[str]:
    return [problem.message for problem in check(steps, stages)]


# --- stages become gates ------------------------------------------------------------------------------------------


def test_stages_become_gates():
    assert set(edges([planned("a"), planned("b", 2), planned("c", 2, ["b"]), planned("d", 2, [])], 2)) == {
        Edge("a", "gate.1"),
        Edge("gate.1", "b"),
        Edge("b", "gate.2"),
        Edge("b", "c"),
        Edge("c", "gate.2"),
        Edge("d", "gate.2"),
        Edge("gate.1", "gate.2"),
    }


def test_a_step_of_the_first_stage_is_born_ready_and_a_conditional_one_is_not():
    rows, _ = build(plan([planned("a"), planned("b", conditional=True), planned("c", needs=["a"])]))
    assert {row.key: (row.ready, row.blockers) for row in rows} == {
        "a": (True, 0),
        "b": (False, 0),
        "c": (False, 1),
        "gate.1": (False, 3),
    }


def test_a_plan_without_stages_has_one():
    rows, _ = build(Graph("n", TaskOptions(), (), (planned("a"),)))
    assert [row.key for row in rows] == ["a", "gate.1"]


@pytest.mark.parametrize("kind", [Kind.APPROVAL, Kind.WAIT, Kind.FOR_EACH, Kind.TASK, Kind.ARTIFACT])
def test_steps_that_only_wait_or_join_are_claimed_by_schedulers(kind):
    rows, _ = build(plan([planned("a", kind=kind, pool="gpu"), planned("b", pool="gpu")]))
    assert [row.pool for row in rows[:2]] == [POOL_SYSTEM, "gpu"]


def test_a_need_that_is_named_twice_counts_once():
    rows, all_edges = build(plan([planned("a"), planned("b", needs=["a", "a"])]))
    assert rows[1].blockers == 1
    assert all_edges.count(Edge("a", "b")) == 1


# --- what is wrong with it ----------------------------------------------------------------------------------------


def test_every_problem_is_told_at_once_and_where_it_is():
    steps = [planned("build", path="stages[0].steps[0]"), planned("build"), planned("test", needs=["biuld", "test"])]
    with pytest.raises(BadPlan) as caught:
        build(plan(steps))
    assert [problem.message for problem in caught.value.problems] == [
        "step 'build' is there twice; ids are unique within a plan",
        "step 'test' needs ['biuld']: no such step; did you mean 'build'?",
        "step 'test' needs itself",
    ]


def test_a_name_that_is_like_no_other_gets_no_guess():
    assert problems([planned("a"), planned("b", needs=["zzzz"])]) == ["step 'b' needs ['zzzz']: no such step"]


def test_a_cycle_is_drawn():
    found = problems([planned("a", needs=["c"]), planned("b", needs=["a"]), planned("c", needs=["b"])])
    assert found in (
        ["steps wait for each other: a → b → c → a"],
        ["steps wait for each other: b → c → a → b"],
        ["steps wait for each other: c → a → b → c"],
    )


def test_a_cycle_through_a_stage_names_the_stage():
    assert problems([planned("a", 1, ["b"]), planned("b", 2)], 2) == [
        "steps wait for each other: a → stage 1 → b → a"
    ]  # fmt: skip


def test_limits_say_their_number_and_what_to_do(monkeypatch):
    monkeypatch.setattr(graph, "PLAN_STEPS_MAX", 3)
    monkeypatch.setattr(graph, "EDGES_PER_STEP_MAX", 2)
    assert problems([planned(key) for key in "abcd"]) == [
        "the plan has 4 steps, the limit is 3; use for_each or several tasks"
    ]
    many = [planned("a"), planned("b"), planned("c", needs=["a", "b", "a"])]
    assert problems(many) == ["step 'c' needs 3 steps, the limit is 2; use stages"]


def test_a_long_chain_and_a_long_cycle_are_checked_in_no_time():
    chain = [planned(f"s{n}", needs=[f"s{n - 1}"] if n else []) for n in range(5_000)]
    assert problems(chain) == []
    ring = [planned(f"s{n}", needs=[f"s{(n - 1) % 5_000}"]) for n in range(5_000)]
    assert len(find_cycle(ring, 1)) == 5_001


def test_many_unknown_needs_in_a_large_plan_are_checked_in_no_time():
    steps = [planned(f"step_{n}", needs=[f"stpe_{n}"]) for n in range(2_000)]
    assert len(problems(steps)) == 2_000


# --- random graphs ------------------------------------------------------------------------------------------------


@st.composite
def random_plan(draw) -> tuple[list[Planned], int]:
    """Needs lead anywhere: forward, backward, into other stages."""
    stages = draw(st.integers(1, 3))
    keys = [f"s{n}" for n in range(draw(st.integers(0, 7)))]
    steps = []
    for key in keys:
        others = [other for other in keys if other != key]
        needs = draw(st.none() | st.lists(st.sampled_from(others), max_size=3)) if others else None
        steps.append(planned(key, draw(st.integers(1, stages)), needs, conditional=draw(st.booleans())))
    return steps, stages


def in_order(steps: list[Planned], all_edges: list[Edge]) -> bool:
    """There is an order in which each step stands behind all its needs: found by trying, round after round."""
    done: set[str] = set()
    left = {key for edge in all_edges for key in edge} | {step.key for step in steps}
    while left:
        free = {key for key in left if all(need in done for need, step in all_edges if step == key)}
        if not free:
            return False
        done |= free
        left -= free
    return True


@settings(max_examples=80, deadline=None)
@given(random_plan())
def test_a_plan_is_taken_exactly_if_its_steps_can_be_put_in_order(drawn):
    steps, stages = drawn
    possible = in_order(steps, edges(steps, stages))
    cycle = find_cycle(steps, stages)
    assert bool(cycle) is not possible
    if possible:
        _as_the_page_says(steps, stages)
    else:
        _is_a_cycle(cycle, edges(steps, stages))
        with pytest.raises(BadPlan, match="wait for each other"):
            build(plan(steps, stages))


def _is_a_cycle(drawn: list[str], all_edges: list[Edge]) -> None:
    keys = [key.replace("stage ", "gate.") for key in drawn]
    assert keys[0] == keys[-1]
    assert len(set(keys)) == len(keys) - 1
    # drawn in the order in which they would have to run: each one is needed by the next
    assert all(Edge(need, step) in all_edges for need, step in pairwise(keys))


def _as_the_page_says(steps: list[Planned], stages: int) -> None:
    rows, all_edges = build(plan(steps, stages))
    heard = Counter(step for _, step in all_edges)
    assert {row.key: row.blockers for row in rows} == {row.key: heard[row.key] for row in rows}
    assert all(row.ready == (not row.blockers and not row.conditional and row.kind != "gate") for row in rows)
    assert len(set(all_edges)) == len(all_edges)
    for k in range(1, stages + 1):
        members = {step.key for step in steps if step.stage == k}
        before = {gate_key(k - 1)} if k > 1 else set()
        assert {need for need, step in all_edges if step == gate_key(k)} == members | before
