"""Growth on the real engine: people add steps, planners hand them over.  Numbers: SEMANTICS §9."""

import pytest

from longtask.core.errors import BadPlan, Refused
from longtask.core.events import HelpAsked, StepCompleted, StepRetried, StepsAdded
from longtask.core.model import Done, Failed, Kind, StepState
from longtask.plan.growth import growth_from
from longtask.steps.contract import Assignment
from tests.engine.world import HANG, World, step


def grown(world: World, *steps: dict, **words):
    """Steps as a plan writes them."""
    return growth_from({"steps": list(steps), **words}, world.task)


def run(id: str, **words) -> dict:
    return {"id": id, "run": "true", **words}


def planner(**words):
    return step("plan", kind=Kind.AGENT, grow=words, failures_max=2, outputs={"steps": "list"})


def test_added_steps_run_and_their_stage_waits_for_them(world: World):
    world.submit(step("a"), step("end", 2), acts={"a": [HANG]})
    world.settle()
    rows = world.desk.add(world.tasks[-1], grown(world, run("x", needs=["a"]), run("y")), "ann")
    assert [row.key for row in rows] == ["x", "y"]
    world.settle()
    assert world.states("x", "y", "end") == ["blocked", "completed", "blocked"]
    world.end("a", Done())
    assert world.run() == "completed"
    assert world.begun_keys() == ["a", "y", "x", "end"]
    (added,) = [fact for fact in world.facts(StepsAdded) if fact.by == "ann" and fact.steps]
    assert [event.actor for event in world.events(StepsAdded) if event.fact == added] == ["ann"]
    world.audit()


def test_a_condition_over_what_has_completed_decides_at_once(world: World):
    world.submit(step("a"), step("b"), acts={"a": [Done({"n": 3})], "b": [HANG]})
    world.settle()
    steps = [
        run("x", needs=["a"], **{"if": "steps.a.outputs.n > 5"}),
        run("y", needs=["a"], **{"if": "steps.a.outputs.n < 5"}),
    ]
    world.desk.add(world.tasks[-1], grown(world, *steps), "ann")
    world.end("b", Done())
    assert world.run() == "completed"
    assert world.states("x", "y") == ["skipped", "completed"]


def test_what_does_not_fit_is_told_whole_and_changes_nothing(world: World):
    world.submit(step("a"), acts={"a": [HANG]})
    world.settle()
    seq = world.task.seq
    with pytest.raises(BadPlan) as caught:
        world.desk.add(world.tasks[-1], grown(world, run("a"), run("x", needs=["no"])), "ann")
    assert len(caught.value.problems) == 2
    with pytest.raises(BadPlan, match="before: 'a' is running"):
        world.desk.add(world.tasks[-1], grown(world, run("x"), before="a"), "ann")
    assert world.task.seq == seq
    world.end("a", Done())
    world.run()
    with pytest.raises(Refused, match="is completed: no step can be added"):
        world.desk.add(world.tasks[-1], grown(world, run("x")), "ann")


def test_a_ready_step_waits_for_what_is_put_before_it(world: World):  # (38)
    world.submit(step("a"), step("b"), acts={"a": [HANG]}, parallel=1)
    world.settle()
    assert world.state("b") == "ready"
    world.desk.add(world.tasks[-1], grown(world, run("first"), before="b"), "ann")
    world.end("a", Done())
    assert world.run() == "completed"
    assert world.begun_keys() == ["a", "first", "b"]


def test_a_planner_s_steps_are_added_with_its_completion(world: World):
    world.submit(planner(), step("end", 2), acts={"plan": [Done({"steps": [run("x"), run("y", needs=["x", "plan"])]})]})
    assert world.run() == "completed"
    assert world.begun_keys() == ["plan", "x", "y", "end"]
    assert [fact.by for fact in world.facts(StepsAdded) if fact.steps] == ["plan"]
    done, added = world.events(StepCompleted)[0], world.events(StepsAdded)[-1]
    assert added.seq - done.seq == 1, "of one transaction"


def test_a_planner_that_wants_nothing_more_is_done(world: World):
    world.submit(planner(), acts={"plan": [Done({"steps": []})]})
    assert world.run() == "completed"


def test_a_planner_that_is_done_by_hand_adds_its_steps(world: World):
    world.submit(planner(stage="s2"), step("end", 2), acts={"plan": [HANG]})
    hands = world.hands()
    world.settle()
    world.end("plan", Failed("no", retryable=False))
    world.settle()
    with pytest.raises(Refused, match="take it first"):
        hands.done(world.ref("plan"), "ann", result={"steps": [run("x")]})
    hands.take(world.ref("plan"), "ann")
    world.settle()
    for said in (None, {"steps": "x"}, {"steps": [run("x", needs=["nobody"])]}):
        with pytest.raises(BadPlan, match=r"steps|nobody"):
            hands.done(world.ref("plan"), "ann", result=said)
        assert world.states("plan") == ["running"], "what is wrong changes nothing"
    hands.done(world.ref("plan"), "ann", result={"steps": [run("x"), run("y", needs=["x"])]})
    assert world.run() == "completed"
    assert world.states("plan", "x", "y", "end") == ["completed"] * 4
    (added,) = [fact for fact in world.facts(StepsAdded) if fact.by == "plan"]
    assert [row.key for row in added.steps] == ["x", "y"]


def test_a_planner_that_is_done_by_hand_may_add_nothing(world: World):
    world.submit(planner())
    world.hands().done(world.ref("plan"), "ann", result={"steps": []})
    assert world.run() == "completed"


def test_what_is_wrong_with_its_steps_goes_back_to_the_planner_a_few_times(world: World):  # (43)
    bad, good = Done({"steps": [run("plan"), run("x", needs=["nope"])]}), Done({"steps": [run("x")]})
    world.submit(planner(), acts={"plan": [bad, Done({"steps": [{"id": "x", "runn": "true"}]}), good]})
    assert world.run() == "completed"
    first, second = world.facts(StepRetried)
    assert "'plan' is in the task already" in first.reason and "no such step" in first.reason
    assert "runn" in second.reason
    third = [a for a in world.begun if a.step == "plan"][-1]
    assert (third.run, third.failure) == (3, second.reason)
    world.submit(planner(), acts={"plan": [bad]})
    assert world.run() == "failed"
    assert len([a for a in world.begun if a.task_id == world.tasks[-1]]) == 3


def test_a_planner_stays_within_its_number_of_steps(world: World):
    world.submit(planner(steps_max=1), acts={"plan": [Done({"steps": [run("x"), run("y")]})]})
    assert world.run() == "failed"
    assert "2 steps, 1 is the limit" in (world.row("plan").reason or "")


def test_a_planner_s_steps_enter_the_stage_that_its_plan_names(world: World):
    world.submit(planner(stage="s2"), step("b", 2), step("c", 3), acts={"plan": [Done({"steps": [run("x")]})]})
    assert world.run() == "completed"
    assert world.row("x").stage == 2
    assert world.begun_keys().index("x") < world.begun_keys().index("c")


def test_steps_that_are_to_be_approved_wait_for_a_person(world: World):
    acts: dict = {"plan": [Done({"steps": [run("x")]}), Done({"steps": [run("y")]})]}
    world.submit(planner(approve=True), step("end", 2), acts=acts)
    assert world.run() == "waiting_user"
    question = world.row("plan").question or {}
    assert (question["kind"], question["answers"]) == ("plan", ["approve", "reject"])
    assert "wants to add 1 step: x" in question["reason"]
    world.answer("plan", "reject", text="not x")
    assert world.run() == "waiting_user"
    told: Assignment = [a for a in world.begun if a.step == "plan"][-1]
    assert (told.cause or {})["text"] == "not x"
    assert len(world.events(HelpAsked)) == 2
    with pytest.raises(Refused, match="changed since"):
        world.answer("plan", "approve", digest=question["digest"])
    world.answer("plan", "approve", digest=(world.row("plan").question or {})["digest"])
    assert world.run() == "completed"
    assert world.begun_keys() == ["plan", "plan", "y", "end"]
    assert world.row("plan").result == {"steps": [run("y")]}
    world.audit()


def test_approved_steps_that_do_not_fit_any_more_are_refused_and_nothing_is_lost(world: World):
    world.submit(planner(approve=True), step("hold"), acts={"plan": [Done({"steps": [run("x")]})], "hold": [HANG]})
    world.settle()
    world.desk.add(world.tasks[-1], grown(world, run("x")), "ben")
    with pytest.raises(BadPlan, match="'x' is in the task already"):
        world.answer("plan", "approve")
    assert world.row("plan").state is StepState.WAITING
    world.answer("plan", "reject", text="there is one")
    world.acts["plan"] = [Done({"steps": [run("z")]})]
    world.settle()
    world.answer("plan", "approve")
    world.end("hold", Done())
    assert world.run() == "completed"


def test_a_planner_brings_a_for_each_of_tasks(world: World):
    listing = {"id": "list", "run": "ls", "outputs": {"modules": "list"}}
    one = {
        "inputs": {"module": "string"},
        "steps": [{"id": "move", "run": "move", "env": {"M": "${{ inputs.module }}"}}],
        "outputs": {"module": "${{ steps.move.outputs.module }}"},
    }
    each = {
        "id": "each",
        "needs": ["list"],
        "for_each": "${{ steps.list.outputs.modules }}",
        "parallel_max": 2,
        "task": {"inputs": {"module": "${{ item }}"}, "plan": one},
    }
    world.submit(
        planner(),
        step("end", 2),
        acts={
            "plan": [Done({"steps": [listing, each]})],
            "list": [Done({"modules": ["a", "b", "c"]})],
            "move": [lambda a: Done({"module": a.scope["inputs"]["module"]})],
        },
    )
    assert world.run() == "completed"
    assert world.row("each").result == [{"module": name} for name in "abc"]
    assert [key for key in world.begun_keys() if key in ("move", "end")] == ["move", "move", "move", "end"]
    world.audit()
