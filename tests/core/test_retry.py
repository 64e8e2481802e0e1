"""Taking up again: retry, waive, retire, and what comes back by itself.  Numbers are those of SEMANTICS §9."""

import pytest

from longtask.core.errors import Refused
from longtask.core.model import Done, Failed, RunWhen, TaskState, WhenFailed
from tests.core.play import Play, planned

NO = Failed("boom")


def test_a_step_with_two_vetoes_comes_back_when_both_are_taken_up():  # (16)
    play = Play([planned("a"), planned("b"), planned("e", needs=["a", "b"])])
    play.drain({"a": NO, "b": NO})
    play.retry("a")
    play.settle_all()
    assert play.state("e") == "skipped"
    play.retry("b")
    play.settle_all()
    assert play.state("e") == "blocked"
    assert play.drain() == "completed"
    assert play.state("e") == "completed"


def test_a_retried_step_may_end_before_its_retry_is_told():  # (17)
    play = Play([planned("a"), planned("b", needs=["a"]), planned("c", 2)], stages=2)
    play.drain({"a": NO})
    play.retry("a")
    play.run("a")  # nothing settled in between: open is 0 again
    assert play.task.counts.open == 0
    assert play.task.state is TaskState.ACTIVE
    assert play.drain() == "completed"
    assert (play.state("b"), play.state("c")) == ("completed", "completed")


def test_a_skip_that_nobody_wanted_stays_though_the_retry_succeeds():  # (17b)
    play = Play([planned("a"), planned("b", needs=["a"], run_when=RunWhen.ALWAYS, conditional=True)], ifs={"b": False})
    play.drain({"a": NO})
    play.retry("a")
    play.run("a")
    assert play.drain() == "completed"
    assert (play.state("b"), play.rows["b"].benign) == ("skipped", True)
    assert [type(e.fact).__name__ for e in play.events if getattr(e.fact, "step", "") == "gate.1"] == [
        "StepSkipped", "StepRestored", "GateOpened"]  # fmt: skip


@pytest.mark.parametrize("told_first", [0, 1, 3, 6])
def test_a_retry_in_the_middle_of_a_pass_reaches_everybody(told_first):  # (17c), small
    play = Play([planned("a"), *(planned(f"d{n}", needs=["a"]) for n in range(5))], batch=1)
    play.run("a", NO)
    for _ in range(told_first):
        play.settle("a")
    play.retry("a")
    assert play.drain() == "completed"  # every count was looked at by the oracle after each pass
    assert all(row.state == "completed" for row in play.rows.values())


def test_a_pass_keeps_the_verdict_that_it_began_with():
    play = Play([planned("a"), planned("d1", needs=["a"]), planned("d2", needs=["a"])], batch=1)
    play.run("a", NO)
    play.settle("a")
    play.waive("a")
    play.settle("a")
    assert (play.state("d1"), play.state("d2")) == ("skipped", "skipped")
    assert play.drain() == "completed"
    assert (play.state("d1"), play.state("d2")) == ("completed", "completed")


def test_a_failure_that_was_taken_up_before_it_was_told_skips_nobody():  # (18)
    play = Play([planned("a"), planned("b", needs=["a"])])
    play.run("a", NO)
    play.retry("a")
    assert play.drain() == "completed"
    assert not [e for e in play.events if type(e.fact).__name__ == "StepSkipped"]


def test_a_waived_step_shows_failed_and_lets_the_task_complete():  # (19)
    play = Play([planned("a"), planned("b", needs=["a"])])
    assert play.drain({"a": NO}) == "failed"
    play.waive("a")
    assert play.task.state is TaskState.ACTIVE
    assert play.drain() == "completed"
    assert (play.state("a"), play.state("b")) == ("failed", "completed")


def test_a_retired_step_stays_out_after_its_need_is_retried():  # (20)
    play = Play([planned("a"), planned("b", needs=["a"]), planned("c", needs=["b"])])
    play.retire("b")
    play.drain({"a": NO})
    play.retry("a")
    assert play.drain() == "completed"
    assert (play.rows["b"].benign, play.rows["c"].benign) == (True, True)


def test_a_heedless_step_that_has_run_stays_as_it_is():
    play = Play([planned("a"), planned("b", needs=["a"], run_when=RunWhen.ALWAYS)])
    play.drain({"a": NO})
    play.retry("a")
    play.settle_all()
    assert (play.state("b"), play.rows["b"].attempt) == ("completed", 1)
    assert play.drain() == "completed"
    assert play.rows["b"].attempt == 1


@pytest.mark.parametrize(("key", "why"), [
    ("tolerated", "was tolerated"),
    ("done", "a completed one never runs again"),
    ("behind", "because 'bad' did not succeed"),
    ("held", "a step that it needs has failed"),
])  # fmt: skip
def test_what_cannot_be_retried_says_why(key, why):  # (21)
    play = Play([planned("bad"), planned("tolerated", when_failed=WhenFailed.CONTINUE), planned("done"),
                 planned("behind", needs=["bad"]), planned("held", needs=["bad"])])  # fmt: skip
    play.cancel_step("held")
    play.drain({"bad": NO, "tolerated": NO})
    for act in (play.retry, play.waive):
        with pytest.raises(Refused, match=why):
            act(key)


def test_a_step_of_a_cancelled_task_is_not_retried():  # (22)
    play = Play([planned("a"), planned("b")])
    play.run("a", NO)
    play.cancel()
    play.sweep()
    assert play.task.state is TaskState.CANCELLED
    with pytest.raises(Refused, match="fork it instead"):
        play.retry("a")


def test_attempt_numbers_go_on_after_a_retry():
    play = Play([planned("a")])
    play.drain({"a": NO})
    play.retry("a")
    assert play.claim("a").attempt == 2


def test_a_retry_of_a_paused_and_failed_task_lets_it_run():
    play = Play([planned("a"), planned("b", needs=["a"])])
    play.claim("a")
    play.pause()
    play.finish("a", NO)
    play.settle_all()
    assert play.task.state is TaskState.FAILED
    play.retry("a")
    assert (play.task.state, play.task.pauses) == (TaskState.ACTIVE, 0)
    play.pause()
    play.resume()
    assert play.drain() == "completed"


def test_a_condition_is_looked_at_again_when_its_step_comes_back():
    play = Play([planned("a"), planned("b", needs=["a"], conditional=True)], ifs={"b": True})
    play.drain({"a": NO})
    play.retry("a")
    play.settle_all()
    play.ifs["b"] = False
    assert play.drain() == "completed"
    assert (play.state("b"), play.rows["b"].benign) == ("skipped", True)


def test_a_step_that_was_cancelled_while_blocked_comes_back_blocked():
    play = Play([planned("a"), planned("b", needs=["a"])])
    play.cancel_step("b")
    play.settle_all()
    play.retry("b")
    assert play.state("b") == "blocked"
    assert play.drain() == "completed"


def test_a_retried_step_behind_an_untold_veto_is_skipped_when_it_hears():
    play = Play([planned("a"), planned("b", needs=["a"])])
    play.cancel_step("b")
    play.settle_all()
    play.run("a", NO)
    play.retry("b")
    play.settle_all()
    assert (play.state("b"), play.rows["b"].because) == ("skipped", "a")


def test_everything_that_a_retry_brings_back_runs_again_but_nothing_that_completed():
    play = Play([planned("a"), planned("b"), planned("c", 2), planned("d", 3)], stages=3)
    play.drain({"a": NO})
    play.retry("a")
    assert play.drain() == "completed"
    assert {key: row.attempt for key, row in play.rows.items() if not row.gate} == {"a": 2, "b": 1, "c": 1, "d": 1}


def test_a_completed_step_never_runs_again_though_what_it_needed_is_waived():
    play = Play([planned("a", when_failed=WhenFailed.CONTINUE), planned("b", needs=["a"])])
    play.drain({"a": NO, "b": Done({"x": 1})})
    with pytest.raises(Refused, match="tolerated"):
        play.waive("a")
    assert play.rows["b"].result == {"x": 1}
