"""Taking up again and going on without, on the real engine.  Numbers: SEMANTICS §9."""

import pytest

from longtask.core.errors import Refused
from longtask.core.model import Done, Failed, RunWhen, WhenFailed
from longtask.engine import settling
from tests.engine.world import HANG, World, for_each, step

NO = Failed("no")


def test_what_two_failures_veto_comes_back_with_the_second_retry_only(world: World):  # (16)
    world.submit(step("a"), step("b"), step("e", needs=["a", "b"]), acts={"a": [NO, Done()], "b": [NO, Done()]})
    assert world.run() == "failed"
    world.desk.retry(world.ref("a"), "ann")
    assert world.run() == "failed"
    assert world.states("a", "e") == ["completed", "skipped"]
    world.desk.retry(world.ref("b"), "ann")
    assert world.run() == "completed"
    assert world.state("e") == "completed"


def test_a_retried_step_that_ends_before_its_recall_is_told_keeps_the_task_open(world: World):  # (17)
    world.submit(step("a"), step("b", needs=["a"]), acts={"a": [NO, Done()]})
    assert world.run() == "failed"
    world.desk.retry(world.ref("a"), "ann")
    claimed = world.dispatch.claim("w1", "default", 1)
    assert [c.step.key for c in claimed] == ["a"]
    world.dispatch.report(world.ref("a"), 2, Done())
    assert world.task.state == "active"
    assert world.run() == "completed"
    assert world.state("b") == "completed"


def test_a_retry_that_succeeds_opens_the_gate_once_and_leaves_what_did_not_heed(world: World):  # (17b)
    world.submit(
        step("a"),
        step("unwanted", needs=["a"], run_when=RunWhen.ALWAYS, if_="false"),
        step("b", 2),
        acts={"a": [NO, Done()]},
    )
    assert world.run() == "failed"
    world.desk.retry(world.ref("a"), "ann")
    assert world.run() == "completed"
    opened = [type(e.fact).__name__ for e in world.events() if getattr(e.fact, "step", "") == "gate.1"]
    assert opened == ["StepSkipped", "StepRestored", "GateOpened"]
    assert (world.state("unwanted"), world.row("unwanted").benign) == ("skipped", True)


def test_a_retry_in_the_middle_of_a_telling_pass_leaves_every_counter_right(world: World):  # (17c)
    many = [step(f"d{n:04}", needs=["a"]) for n in range(1_100)]
    world.submit(step("a"), *many, acts={"a": [NO, Done()]})
    claimed = world.dispatch.claim("w1", "default", 1)
    world.dispatch.report(claimed[0].ref, 1, NO)  # tells the first 500
    assert world.row("a").telling == "veto"
    world.audit()
    world.desk.retry(world.ref("a"), "ann")
    world.audit()
    world.scheduler.tick()
    world.audit()
    assert world.run() == "completed"
    assert world.task.counts.weight_done == world.task.counts.weight == 1_101 * 100


def test_a_retry_before_the_failure_was_told_skips_nobody(world: World, monkeypatch: pytest.MonkeyPatch):  # (18)
    world.submit(step("a"), step("b", needs=["a"]), acts={"a": [NO, Done()]})
    claimed = world.dispatch.claim("w1", "default", 1)
    with monkeypatch.context() as patch:
        patch.setattr("longtask.engine.reporting.settle_quietly", lambda w, key: False)
        world.dispatch.report(claimed[0].ref, 1, NO)
    assert world.states("a", "b") == ["failed", "blocked"]
    world.desk.retry(world.ref("a"), "ann")
    assert world.run() == "completed"
    assert "StepSkipped" not in [type(e.fact).__name__ for e in world.events()]


def test_a_waived_step_still_shows_failed_and_its_dependents_run(world: World):  # (19)
    world.submit(step("a"), step("b", needs=["a"]), step("c", 2), acts={"a": [NO]})
    assert world.run() == "failed"
    world.desk.skip(world.ref("a"), "ann")
    assert world.run() == "completed"
    assert world.states("a", "b", "c") == ["failed", "completed", "completed"]


def test_a_retry_is_refused_where_it_would_not_help_and_says_what_does(world: World):  # (21)
    tolerated = step("tolerated", when_failed=WhenFailed.CONTINUE)
    acts = {"tolerated": [NO], "bad": [NO], "list[0]": [NO]}
    world.submit(tolerated, step("bad"), step("good"), step("vetoed", needs=["bad"]), for_each("list", [1]), acts=acts)
    assert world.run() == "failed"
    for key, why in (
        ("tolerated", "its failure was tolerated"),
        ("list[0]", "belongs to 'list': retry 'list' instead"),
        ("good", "a completed one never runs again"),
        ("vetoed", "because 'bad' did not succeed: retry that one"),
    ):
        with pytest.raises(Refused, match=why):
            world.desk.retry(world.ref(key), "ann")


def test_a_step_of_a_cancelled_task_is_not_taken_up_again(world: World):  # (22)
    world.submit(step("a"), step("b"), acts={"a": [NO], "b": [HANG]})
    world.settle()
    world.desk.cancel(world.tasks[0], "ann")
    world.later(6_000)
    assert world.run() == "cancelled"
    with pytest.raises(Refused, match="fork it instead"):
        world.desk.retry(world.ref("a"), "ann")


def test_a_gate_of_many_is_told_in_batches(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(settling, "BATCH_MAX", 3)
    world.submit(step("a"), *(step(f"b{n}", 2) for n in range(10)))
    assert world.run() == "completed"
