"""People who lay hands on a step: edited, taken, given back, done."""

from typing import Any

import pytest

from longtask.core.errors import BadPlan, Refused
from longtask.core.events import StepClaimed, StepDelivered, StepEdited
from longtask.core.model import Done, Failed, Kind, WhenFailed
from longtask.core.policy import INLINE_BYTES_MAX
from tests.engine.world import HANG, World, approval, for_each, step, wait, work

NO = Failed("boom")


def test_a_failed_step_is_edited_and_runs_anew(world: World):
    world.submit(step("a", command="false", timeout_ms=1_000), step("b", needs=["a"]), acts={"a": [NO, Done()]})
    assert world.run() == "failed"
    words = {"run": "true", "timeout": "2h", "retry": 3}
    with pytest.raises(Refused, match="retry it in one go"):
        world.hands().edit(world.ref("a"), words, "ann")
    world.hands().edit(world.ref("a"), words, "ann", again=True)
    assert world.run() == "completed"
    spec = world.begun[-2].spec
    assert (spec.body["command"], spec.timeout_ms, spec.failures_max) == ("true", 7_200_000, 3)
    assert [event.actor for event in world.events(StepEdited)] == ["ann"]
    assert [fact.by for fact in world.facts(StepEdited)] == ["ann"]


def test_what_is_not_said_stays_as_it_was(world: World):
    words: dict[str, Any] = {"prompt": "old", "runtime": "claude-code", "model": "m", "tools": ["read"]}
    agent = step("a", needs=["first"], kind=Kind.AGENT, fix=work(), failures_max=2, **words)
    world.submit(step("first", command="true"), agent, acts={"first": [HANG]}, parallel=1)
    world.settle()
    was = world.store.spec(world.tasks[-1], world.row("a").spec)
    world.hands().edit(world.ref("a"), {"agent": {"prompt": "new"}}, "ann")
    now = world.store.spec(world.tasks[-1], world.row("a").spec)
    assert now.body == {**was.body, "prompt": "new"}
    assert (now.fix, now.failures_max) == (was.fix, 2)
    world.end("first", Done())
    assert world.run() == "completed"


def test_a_new_fix_joins_the_specs_of_the_task(world: World):
    world.submit(step("a", command="false"), acts={"a": [NO, NO, Done()]})
    world.run()
    fix = {"rounds_max": 1, "fix": {"run": "touch mended"}}
    world.hands().edit(world.ref("a"), {"on_failure": fix}, "ann", again=True)
    assert world.run() == "completed"
    assert world.begun_keys() == ["a", "a", "a.fix.1", "a"]
    assert next(a for a in world.begun if a.step == "a.fix.1").spec.body["command"] == "touch mended"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({}, "give the words that change"),
        ({"needs": ["b"]}, "'needs' cannot be edited"),
        ({"agent": {"prompt": "x"}}, "it names run and agent"),
        ({"timeout": "soon"}, "timeout"),
        ({"runn": "x"}, "runn"),
        ({"env": {"X": "${{ steps.b.outputs.n }}"}}, "does not wait for it"),
        ({"env": {"X": "${{ steps.zz.outputs.n }}"}}, "no such step"),
    ],
)
def test_words_that_do_not_hold_are_refused_and_change_nothing(world: World, words: dict, said: str):
    world.submit(step("a", command="false"), step("b", 2), acts={"a": [NO]})
    world.run()
    spec = world.row("a").spec
    with pytest.raises(BadPlan, match=said):
        world.hands().edit(world.ref("a"), words, "ann")
    assert world.row("a").spec == spec


def test_a_step_that_asks_because_it_failed_goes_on_in_other_words(world: World):
    world.submit(step("a", command="false", when_failed=WhenFailed.ASK), attended=True, acts={"a": [NO, Done()]})
    assert world.run() == "waiting_user"
    world.hands().edit(world.ref("a"), {"run": "true"}, "ann")
    assert world.status == "waiting_user"
    world.hands().edit(world.ref("a"), {"timeout": "1h"}, "ann", again=True)
    assert world.run() == "completed"
    assert world.begun[-1].spec.body["command"] == "true"


def test_an_approval_that_is_being_asked_is_asked_anew_in_other_words(world: World):
    world.submit(approval("ok"), attended=True)
    world.run()
    world.hands().edit(world.ref("ok"), {"approval": {"ask": "really?"}}, "ann")
    assert world.run() == "waiting_user"
    row = world.row("ok")
    assert (row.ask, (row.question or {})["text"]) == (2, "really?")


def test_waits_and_running_steps_are_not_edited(world: World):
    world.submit(
        wait("w", signal="go"), step("a", command="x"), for_each("f", [1], item=work(command="y")), acts={"a": [HANG]}
    )
    world.settle()
    with pytest.raises(BadPlan, match="a wait step cannot be edited"):
        world.hands().edit(world.ref("w"), {"timeout": "1h"}, "ann")
    with pytest.raises(Refused, match="is running: cancel it first"):
        world.hands().edit(world.ref("a"), {"timeout": "1h"}, "ann")


def test_a_step_is_taken_done_by_hand_and_its_commit_is_merged(world: World):
    world.submit(
        step("a", commits=True), step("b", commits=True), code=True, acts={"a": [NO], "b": [world.commit("b.py")]}
    )
    assert world.run() == "failed"
    taken = world.hands().take(world.ref("a"), "ann")
    assert (str(taken.state), taken.taken_by, taken.base) == ("running", "ann", world.task.head)
    mine = world.code.commit((taken.base or "",), ("a.py",))
    world.hands().done(world.ref("a"), "ann", commit=mine, result={"n": 1})
    assert world.run() == "completed"
    assert world.task.head == mine
    assert (world.row("a").result, world.row("a").commit) == ({"n": 1}, mine)
    assert [e.actor for e in world.events(StepClaimed)][-1] == "ann"


def test_the_head_may_move_while_a_person_works(world: World):
    world.submit(step("a", commits=True), step("b", commits=True), code=True, acts={"b": [HANG]})
    world.worker = None
    taken = world.hands().take(world.ref("a"), "ann")
    world.reborn()
    world.settle()
    world.end("b", Done(commit=world.code.commit((taken.base or "",), ("b.py",))))
    world.settle()
    assert world.status == "running"
    mine = world.code.commit((taken.base or "",), ("a.py",))
    world.hands().done(world.ref("a"), "ann", commit=mine)
    assert world.run() == "completed"
    assert world.code.contains(mine, world.task.head or "")
    assert world.told(StepDelivered) == ["b", "a"]


def test_what_nobody_has_taken_is_done_with_one_word(world: World):
    world.submit(step("a"), step("b", needs=["a"]), acts={"a": [NO]})
    world.run()
    world.hands().done(world.ref("a"), "ann", result={"by": "hand"})
    assert world.run() == "completed"
    assert world.begun_keys() == ["a", "b"]


def test_a_large_result_by_hand_stands_as_an_artifact_and_is_read_as_itself(world: World):
    said = {"text": "x" * INLINE_BYTES_MAX}
    world.submit(step("a"), step("b", needs=["a"], reads=("a",)), acts={"a": [NO]})
    world.run()
    world.hands().done(world.ref("a"), "ann", result=said)
    kept = world.row("a").result
    assert isinstance(kept, dict) and list(kept) == ["$artifact"]
    assert world.run() == "completed"
    assert world.scopes.value(world.task, kept) == said


def test_a_taken_step_is_its_person_s_alone(world: World):
    world.submit(step("a"), acts={"a": [NO]})
    world.run()
    world.hands().take(world.ref("a"), "ann")
    with pytest.raises(Refused, match="taken by ann"):
        world.hands().done(world.ref("a"), "ben")
    with pytest.raises(Refused, match="taken by ann already"):
        world.hands().take(world.ref("a"), "ben")
    with pytest.raises(Refused, match="attempt 1 is not the newest"):
        world.dispatch.report(world.ref("a"), 1, Done())
    assert str(world.hands().give_back(world.ref("a"), "ann").state) == "failed", "as it was"
    assert world.run() == "failed"
    world.acts["a"] = [Done()]
    world.desk.retry(world.ref("a"), "ann")
    assert world.run() == "completed"


def test_a_taken_step_comes_back_when_its_time_is_over(world: World):
    world.submit(step("a"), step("b"), acts={"a": [NO]})
    world.run()
    world.hands().take(world.ref("a"), "ann", for_ms=60_000)
    world.later(30_000)
    assert world.state("a") == "running"
    world.later(50_000)
    assert world.run() == "failed", "it had failed"
    assert world.begun_keys() == ["a", "b"]


def test_a_taken_step_holds_its_mutex_and_lets_the_task_be_cancelled(world: World):
    world.submit(step("a", mutex="m"), step("b", mutex="m"), acts={"a": [NO]})
    world.worker = None
    world.hands().take(world.ref("a"), "ann")
    with pytest.raises(Refused, match="mutex 'm'"):
        world.hands().take(world.ref("b"), "ben")
    world.desk.cancel(world.tasks[-1], "ann")
    world.scheduler.tick()
    assert world.status == "cancelled"
