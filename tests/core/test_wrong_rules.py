"""Simpler rules that are wrong (SEMANTICS §8), each with the case that it gets wrong and our machine right."""

import pytest

from longtask.core.errors import Refused
from longtask.core.model import Failed, Kind, RunWhen, StepSpec, TaskState
from tests.core.play import Play, planned

NO = Failed("boom")


def test_a_task_does_not_end_when_nothing_is_open_but_something_is_untold():
    """Else a step that was retried and ended before that was told leaves its dependents skipped for ever."""
    play = Play([planned("a"), planned("b", needs=["a"])])
    play.drain({"a": NO})
    play.retry("a")
    play.run("a")
    assert (play.task.counts.open, play.task.state) == (0, TaskState.ACTIVE)
    play.settle_all()
    assert play.state("b") == "ready"


@pytest.mark.parametrize("order", ["uf", "fu"])
def test_a_step_is_not_skipped_by_the_first_unwanted_need(order):
    """Else the same plan ends differently when its needs end in another order."""
    steps = [planned("u", conditional=True, needs=["x"]), planned("x"), planned("f"), planned("d", needs=["u", "f"])]
    play = Play(steps, ifs={"u": False})
    for key in order:
        play.run("x" if key == "u" else "f", NO if key == "f" else play.done("x"))
        play.settle_all()
    assert (play.state("d"), play.rows["d"].benign) == ("skipped", False)
    play.retry("f")
    assert play.drain() == "completed"
    assert (play.state("d"), play.rows["d"].benign) == ("skipped", True)


def test_an_omit_is_not_taken_back_when_something_before_it_is_retried():
    """Else a gate behind both opens before it hears that the unwanted one is back."""
    play = Play([planned("a"), planned("u", needs=["a"], run_when=RunWhen.ALWAYS, conditional=True), planned("z", 2)],
                stages=2, ifs={"u": False})  # fmt: skip
    play.drain({"a": NO})
    play.retry("a")
    play.ifs["u"] = True
    assert play.drain() == "completed"
    assert (play.state("u"), play.rows["u"].attempt) == ("skipped", 0)


def test_a_gate_is_not_shut_by_the_first_veto():
    """Else stages end out of order, and the number of the current stage jumps."""
    play = Play([planned("a"), planned("b"), planned("c", 2, [])], stages=2)
    play.run("c", NO)
    play.settle_all()
    play.run("a", NO)
    play.settle_all()
    assert (play.state("gate.1"), play.state("gate.2"), play.task.counts.gates) == ("blocked", "blocked", 0)


def test_accept_does_not_answer_every_question():
    """Else a person accepts a merge conflict, and the step completes with its commit on no branch."""
    play = _conflict()
    with pytest.raises(Refused, match="not 'accept'"):
        play.answer("b", "accept")


def test_an_ask_is_not_its_attempt():
    """Else two conflicts of one attempt share it, and a late `give up` for the first kills the second."""
    play = _conflict()
    assert (play.rows["b"].ask, play.rows["b"].attempt) == (1, 1)
    play.answer("b", "again", ask=1)
    play.merge("b", conflict=True)
    assert (play.rows["b"].ask, play.rows["b"].attempt) == (2, 1)
    with pytest.raises(Refused, match=r"question 1 is not the newest \(2\)"):
        play.answer("b", "give_up", ask=1)


def test_a_condition_is_not_only_looked_at_when_a_blocker_is_told():
    """Else a step without needs never has its condition looked at."""
    play = Play([planned("a", conditional=True)], ifs={"a": False})
    assert (play.state("a"), play.rows["a"].benign) == ("skipped", True)


def test_a_merge_is_not_recorded_without_another_look_at_the_head():
    """Else the work of a sibling disappears from the branch."""
    play = Play([planned(key) for key in "abc"], specs=(StepSpec(Kind.RUN, commits=True),))
    for key in "abc":
        play.claim(key)
    for key in "abc":
        play.finish(key, play.commit(key))
    old = play.task.head
    play.merge("b")
    moved = play.task.head
    play.merge("c", head=old)
    assert (play.task.head, play.state("c")) == (moved, "merging")


def test_an_owner_that_ends_as_it_had_ended_before_still_ends_what_it_owns():
    """Not in the list: told `veto`, taken up, failed again before that was told; nothing is untold, a fix is open."""
    play = Play(
        [planned("t", spec=1), planned("u", needs=["t"])], specs=(StepSpec(Kind.RUN), StepSpec(Kind.RUN, fix=0))
    )
    play.cancel_step("t")
    play.settle_all()
    play.retry("t")
    play.run("t", NO)
    play.cancel_step("t")
    play.settle_all()
    assert play.state("t.fix.1") == "cancelled"


def _conflict() -> Play:
    """`b` conflicts with the head; there is no agent, but somebody attends."""
    play = Play([planned("a"), planned("b")], specs=(StepSpec(Kind.RUN, commits=True),), attended=True)
    for key in "ab":
        play.claim(key)
    for key in "ab":
        play.finish(key, play.commit(key))
    play.merge("b", conflict=True)
    assert play.state("b") == "waiting"
    return play
