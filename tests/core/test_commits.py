"""Merging: the task's serial history is the merge queue.  Numbers are those of SEMANTICS §9."""

import pytest

from longtask.core import decide
from longtask.core.errors import Refused
from longtask.core.model import Done, Failed, Kind, StepSpec, TaskState
from longtask.core.policy import ROUNDS_MAX
from tests.core.play import Play, planned

CODE = StepSpec(Kind.RUN, commits=True, conflict=0)


def siblings(attended: bool = True, spec: StepSpec = CODE) -> Play:
    """`a` and `b` have worked on the same head; `a` is merged, `b` is merging; `c` needs both."""
    specs = (StepSpec(Kind.RUN, commits=True), spec)
    play = Play([planned("a", spec=1), planned("b", spec=1), planned("c", 2, spec=1)], stages=2, specs=specs,
                attended=attended)  # fmt: skip
    play.claim("a")
    play.claim("b")
    play.finish("a", play.commit("a"))
    play.finish("b", play.commit("b"))
    return play


def test_a_commit_on_the_head_is_merged_as_it_is_delivered():
    play = siblings()
    assert (play.state("a"), play.task.head) == ("completed", play.rows["a"].commit)
    assert (play.state("b"), play.task.counts.merging) == ("merging", 1)


def test_two_siblings_join_and_the_next_step_starts_from_both():
    play = siblings()
    play.merge("b")
    play.settle_all()
    base = play.claim("c").base
    assert base == play.task.head
    assert play.contains(play.rows["a"].commit or "", base or "")
    assert play.contains(play.rows["b"].commit or "", base or "")


def test_a_conflict_is_a_step_that_delivers_both_sides():  # (64)
    play = siblings()
    play.merge("b", conflict=True)
    assert (play.state("b"), play.rows["b.conflict.1"].owner) == ("blocked", "b")
    play.claim("b.conflict.1")
    play.finish("b.conflict.1", play.commit("b.conflict.1"))
    play.settle_all()
    assert play.state("b") == "merging"
    head = play.task.head
    play.merge("b")
    assert (play.state("b"), play.rows["b"].attempt, play.task.head) == ("completed", 1, head)
    play.settle_all()
    assert play.claim("c").base == head


def test_a_head_that_moved_since_the_merge_was_made_is_merged_again():  # (65)
    play = Play([planned(key) for key in "abc"], specs=(CODE,))
    for key in "abc":
        play.claim(key)
    for key in "abc":
        play.finish(key, play.commit(key))
    old = play.task.head
    play.merge("b")
    play.merge("c", head=old)
    assert play.state("c") == "merging"  # nothing was recorded
    play.merge("c")
    assert play.drain() == "completed"  # the oracle looks that every commit is in the head


def test_a_merge_of_another_commit_than_the_delivered_one_is_not_recorded():
    play = siblings()
    row = play.rows["b"]
    assert decide.merged(play.task, row, "c77", play.task.head or "", "c99") == ()
    assert decide.conflicted(play.task, row, CODE, CODE, "c77", play.task.head or "", ["f"]) == ()


def test_a_step_that_is_cancelled_while_merging_is_not_on_the_branch():  # (66)
    play = siblings()
    play.cancel_step("b")
    assert play.state("b") == "cancelled"
    assert not play.contains(play.rows["b"].commit or "", play.task.head or "")
    assert play.drain() == "failed"


def test_nothing_is_merged_once_the_task_is_being_cancelled():  # (66)
    play = siblings()
    head = play.task.head
    play.cancel()
    play.merge("b")
    play.sweep()
    assert (play.task.head, play.state("b"), play.task.state) == (head, "cancelled", TaskState.CANCELLED)


def test_a_report_in_a_closing_task_does_not_move_the_head():
    play = Play([planned("a")], specs=(StepSpec(Kind.RUN, commits=True),))
    play.claim("a")
    done = play.commit("a")
    play.cancel()
    play.finish("a", done)
    assert (play.state("a"), play.task.head) == ("merging", "c0")


def conflicted(attended: bool = True) -> Play:
    """`b` conflicts, and no agent is there to resolve it."""
    play = siblings(attended, StepSpec(Kind.RUN, commits=True))
    play.merge("b", conflict=True)
    return play


def test_a_conflict_cannot_be_accepted_but_resolved():  # (67)
    play = conflicted()
    assert (play.rows["b"].question or {})["answers"] == ["resolve", "again", "give_up"]
    with pytest.raises(Refused, match=r"answer resolve \| again \| give_up, not 'accept'"):
        play.answer("b", "accept")
    with pytest.raises(Refused, match="takes a commit"):
        play.answer("b", "resolve")
    both = play.commit("b").commit or ""
    play.ancestors[both] |= play.ancestors[play.rows["b"].commit or ""] | play.ancestors[play.task.head or ""]
    play.answer("b", "resolve", commit=both)
    play.merge("b")
    assert play.drain() == "completed"
    assert play.rows["b"].attempt == 1


def test_a_conflict_that_nobody_attends_fails_the_step():
    play = conflicted(attended=False)
    assert (play.state("b"), "conflicts with the head in a.py" in (play.rows["b"].reason or "")) == ("failed", True)


def test_merging_again_after_a_conflict_is_a_persons_choice_too():
    play = conflicted()
    play.answer("b", "again")
    play.merge("b")
    assert play.drain() == "completed"


def test_a_conflict_step_that_does_not_succeed_asks_about_the_conflict():
    play = siblings()
    play.merge("b", conflict=True)
    play.run("b.conflict.1", Failed("no idea", retryable=False))
    play.settle_all()
    assert (play.state("b"), (play.rows["b"].question or {})["kind"]) == ("waiting", "conflict")


def test_conflicts_have_an_end():
    """The head moves on each time before the resolved commit is merged, and conflicts again."""
    keys = [f"s{n}" for n in range(ROUNDS_MAX + 1)]
    play = Play([planned("b"), *map(planned, keys)], specs=(StepSpec(Kind.RUN, commits=True, conflict=0),),
                attended=True)  # fmt: skip
    for key in ("b", *keys):
        play.claim(key)
    done = {key: play.commit(key) for key in ("b", *keys)}
    play.finish(keys[0], done[keys[0]])
    play.finish("b", done["b"])
    for n in range(1, ROUNDS_MAX + 1):
        play.merge("b", conflict=True)
        assert play.rows["b"].conflicts == n
        owned = f"b.conflict.{n}"
        play.claim(owned)
        play.finish(owned, Done())  # says that it is done, and has joined nothing
        play.settle(owned)
    play.merge("b", conflict=True)
    assert (play.state("b"), (play.rows["b"].question or {})["kind"]) == ("waiting", "conflict")


def test_a_delivered_step_is_never_claimed_again():
    play = siblings()
    with pytest.raises(Refused, match="is merging"):
        play.claim("b")


def test_a_retry_of_a_step_whose_merge_failed_works_on_the_new_head():
    play = conflicted(attended=False)
    play.drain()
    play.retry("b")
    assert play.claim("b").base == play.task.head
    play.finish("b", play.commit("b"))
    assert play.drain() == "completed"


def test_a_step_without_a_change_has_nothing_to_merge():
    play = Play([planned("a")])
    play.run("a", Done({"x": 1}))
    assert (play.state("a"), play.task.head) == ("completed", "c0")
