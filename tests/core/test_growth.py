"""Growth: steps that people and planners add to a task that is under way.  Numbers are those of SEMANTICS §9."""

import pytest

from longtask.core import events
from longtask.core.errors import BadPlan, Problem, Refused
from longtask.core.grow import refusal, steps_in
from longtask.core.model import Done, Expanded, Failed, Kind, StepSpec, WhenFailed
from longtask.core.policy import REASON_LENGTH_MAX
from tests.core.play import Play, planned

RUN, FIX = StepSpec(Kind.RUN), StepSpec(Kind.RUN, fix=0, fix_rounds_max=2)
NO = Failed("boom")


def problems(play: Play, *plan, **more) -> str:
    with pytest.raises(BadPlan) as caught:
        play.add(*plan, **more)
    return str(caught.value)


def test_what_is_added_while_paused_waits_with_the_rest():  # (37)
    play = Play([planned("a")])
    play.pause()
    play.add(planned("b"))
    assert play.state("b") == "ready"
    assert play.drain() == "paused"
    play.resume()
    assert play.drain() == "completed"
    assert play.state("b") == "completed"


def test_a_ready_step_is_held_behind_what_is_put_before_it():  # (38)
    play = Play([planned("a")])
    play.add(planned("first"), before="a")
    assert (play.state("a"), play.ready()) == ("blocked", ["first"])
    play.run("first")
    play.settle_all()
    assert play.state("a") == "ready"
    assert play.drain() == "completed"


def test_a_step_that_is_put_before_another_one_and_fails_stops_it():
    play = Play([planned("a")])
    play.add(planned("first"), before="a")
    assert play.drain({"first": NO}) == "failed"
    assert (play.state("a"), play.rows["a"].because) == ("skipped", "first")


def test_nothing_goes_before_what_runs_is_owned_has_ended_or_is_a_gate():  # (39)
    play = Play([planned("a", spec=1), planned("b")], specs=[RUN, FIX])
    play.claim("a")
    assert "before: 'a' is running" in problems(play, planned("x"), before="a")
    play.finish("a", NO)
    assert "'a.fix.1' belongs to 'a'" in problems(play, planned("x"), before="a.fix.1")
    assert "the end of a stage" in problems(play, planned("x"), before="gate.1")
    play.run("b")
    assert "before: 'b' is completed" in problems(play, planned("x"), before="b")
    assert "the task has no step 'bb'" in problems(play, planned("x"), before="bb")


def test_nothing_goes_before_what_has_delivered_or_has_items():  # (39)
    specs = [RUN, StepSpec(Kind.RUN, commits=True, conflict=0), StepSpec(Kind.FOR_EACH, item=0)]
    plan = [planned("a", spec=1), planned("b", spec=1), planned("c", spec=2, kind=Kind.FOR_EACH)]
    play = Play(plan, specs=specs)
    play.claim("a"), play.claim("b"), play.claim("c")
    play.finish("a", play.commit("a"))
    play.finish("b", play.commit("b"))
    play.merge("b", conflict=True)
    assert play.state("b") == "blocked"
    assert "has done its work already" in problems(play, planned("x"), before="b")
    play.finish("c", Expanded(2, [1, 2]))
    assert "has done its work already" in problems(play, planned("x"), before="c")


def test_no_need_may_lie_in_a_later_stage_or_behind_what_it_goes_before():  # (40)
    play = Play([planned("a"), planned("b", needs=["a"]), planned("c", 2)], stages=2)
    assert "'c' of a later stage" in problems(play, planned("x", needs=["c"]))
    found = problems(play, planned("x", needs=["b"]), before="a")
    assert "can need what has completed and what 'a' needs itself; 'b' is blocked" in found
    play.add(planned("x", needs=["a"]), before="b")  # what b needs itself
    assert play.drain() == "completed"


def test_a_step_is_born_skipped_behind_a_need_that_has_failed_and_says_why():  # (41)
    play = Play([planned("a"), planned("b")])
    play.run("a", NO)
    play.settle_all()
    play.add(planned("x", needs=["a"]))
    assert (play.state("x"), play.rows["x"].because) == ("skipped", "a")
    play.retry("a")
    assert play.drain() == "completed"
    assert play.state("x") == "completed"


@pytest.mark.parametrize("told", [0, 1, 2, 3])
def test_a_need_counts_as_the_new_step_s_side_of_the_cursor_knows_it(told):
    play = Play([planned("a"), *(planned(f"d{n}", needs=["a"]) for n in range(4))], batch=1)
    play.run("a", NO)
    for _ in range(told):
        play.settle("a")
    play.add(planned("d", needs=["a"]))  # before the cursor once somebody has been told
    play.add(planned("e", needs=["a"]))  # behind it
    play.settle_all()
    assert (play.state("d"), play.state("e")) == ("skipped", "skipped")
    play.retry("a")
    assert play.drain() == "completed"


def test_an_ended_or_closing_task_takes_nothing():  # (42)
    play = Play([planned("a")])
    play.cancel()
    with pytest.raises(Refused, match="is being cancelled"):
        play.add(planned("x"))
    play.sweep()
    with pytest.raises(Refused, match="fork it instead"):
        play.add(planned("x"))


def test_a_stage_that_is_over_takes_nothing_and_one_to_come_does():
    play = Play([planned("a"), planned("b", 2)], stages=3)
    play.run("a")
    play.settle_all()
    assert "stage 's1' is over" in problems(play, planned("x"), stage="s1")
    assert "did you mean 's1'" in problems(play, planned("x"), stage="s11")
    play.add(planned("x"), stage="s3")
    assert play.state("x") == "blocked"
    assert play.drain() == "completed"
    assert play.task.counts.gates == 3


def test_every_problem_is_told_at_once():
    play = Play([planned("a"), planned("b", 2)], stages=2)
    found = problems(
        play, planned("a"), planned("x", needs=["nope"]), planned("y", needs=["z"]), planned("z"), planned("z")
    )
    for said in (
        "'a' is in the task already",
        "'x' needs ['nope']: no such step",
        "'y' needs ['z']",
        "'z' is there twice",
    ):
        assert said in found
    assert play.rows.keys() == {"a", "b", "gate.1", "gate.2"}


def test_what_an_expression_reads_must_have_ended_when_the_step_begins():
    play = Play([planned("a"), planned("b")])
    reading = StepSpec(Kind.RUN, reads=("a",))
    assert "reads steps.a, but does not wait for it" in problems(play, planned("x"), specs=[reading])
    play.add(planned("x", needs=["a"]), specs=[reading])
    play.run("a")
    play.add(planned("y", needs=[]), specs=[reading])  # it has completed
    play.add(planned("z", needs=["b"]), planned("zz", needs=["z"]), specs=[StepSpec(Kind.RUN, reads=("b",))])
    assert play.drain() == "completed"


def test_a_condition_of_a_step_that_nothing_stands_before_decides_at_once():
    play = Play([planned("a")], ifs={"x": False, "y": True})
    play.add(planned("x", conditional=True), planned("y", conditional=True))
    assert (play.state("x"), play.rows["x"].benign, play.state("y")) == ("skipped", True, "ready")
    assert play.drain() == "completed"


def test_work_put_before_a_step_in_the_middle_of_a_fix_counts_before_the_fix_does():  # (29), rule 19
    play = Play([planned("a", spec=1)], specs=[RUN, FIX], ifs={"x": False})
    play.run("a", NO)
    play.add(planned("x", needs=[], conditional=True), before="a")
    play.run("a.fix.1")
    play.settle_all()
    assert (play.state("a"), play.rows["a"].benign) == ("skipped", True), "what it needs now is not wanted"
    assert play.drain() == "completed"


def test_and_if_it_fails_the_fix_is_cancelled_with_its_owner():
    play = Play([planned("a", spec=1)], specs=[RUN, FIX])
    play.run("a", NO)
    play.claim("a.fix.1")
    play.add(planned("x", needs=[]), before="a")
    play.run("x", NO)
    play.settle_all()
    assert (play.state("a"), play.leases["a.fix.1"].stop) == ("skipped", "cancel")
    assert play.drain() == "failed"


def test_a_planner_s_steps_enter_with_its_completion_and_the_stage_waits_for_them():
    play = Play([planned("plan"), planned("after", needs=["plan"]), planned("end", 2)], stages=2)
    play.claim("plan")
    done = events.StepCompleted("plan", 1)
    play.add(planned("x", needs=["plan"]), planned("y", needs=["x"]), by="plan", also=[done])
    play.settle_all()
    assert play.ready() == ["after", "x"], "dependents of the planner do not wait for what it added"
    play.run("after")
    play.settle_all()
    assert play.state("end") == "blocked"
    assert play.drain() == "completed"


def test_growth_moves_the_bar_back_and_a_wide_one_is_refused():
    play = Play([planned("a"), planned("b")])
    play.run("a")
    play.add(planned("x"))
    assert (play.task.counts.weight_done, play.task.counts.weight) == (100, 300)
    assert "200" in problems(play, *(planned(f"x{n}") for n in range(201)))


# --- edited, and taken by hand ------------------------------------------------------------------------------------


def test_an_edited_step_does_the_new_thing_from_its_next_attempt_on():
    play = Play([planned("a"), planned("b", needs=["a"])])
    play.run("a", NO)
    play.edit("a", StepSpec(Kind.RUN, {"command": "true"}))
    assert play.state("a") == "failed"
    play.retry("a")
    assert play.specs[play.rows["a"].spec].body == {"command": "true"}
    play.edit("b", StepSpec(Kind.RUN, {"command": "date"}))
    assert play.drain() == "completed"


def test_what_runs_is_done_or_belongs_to_another_cannot_be_edited():
    play = Play([planned("a", spec=1), planned("b")], specs=[RUN, FIX])
    play.claim("a")
    for key, why in (("a", "is running"), ("gate.1", "belongs to")):
        with pytest.raises(Refused, match=why):
            play.edit(key, RUN)
    play.finish("a", NO)
    with pytest.raises(Refused, match="belongs to 'a'"):
        play.edit("a.fix.1", RUN)
    play.run("b")
    with pytest.raises(Refused, match="never runs again"):
        play.edit("b", RUN)


def test_a_taken_step_holds_no_slot_and_its_end_is_its_outcome():
    play = Play([planned("a"), planned("b")], parallel=1)
    play.take("a")
    assert (play.state("a"), play.rows["a"].taken_by) == ("running", "ann")
    play.claim("b")
    play.finish("a", Done({"by": "hand"}))
    assert play.drain() == "completed"


@pytest.mark.parametrize("over", [Play.give_back, Play.expire])
def test_what_was_taken_and_is_given_back_is_what_it_was(over):
    play = Play([planned("a"), planned("b"), planned("c", when_failed=WhenFailed.ASK),
                 planned("d", needs=["b"])], attended=True)  # fmt: skip
    play.run("b", NO)
    play.run("c", NO)
    asked = play.rows["c"].question
    play.settle("b")
    play.pause()  # a person may work while the task is paused
    for key in "abc":
        play.take(key)
        assert (play.state(key), play.rows[key].taken_by) == ("running", "ann")
        over(play, key)
    assert [play.state(key) for key in "abcd"] == ["ready", "failed", "waiting", "skipped"]
    assert (play.rows["b"].reason, play.rows["c"].question, play.rows["c"].ask) == ("boom", asked, 2)
    with pytest.raises(Refused, match="nobody has taken it"):
        play.give_back("b")
    play.resume()
    play.retry("b")
    play.answer("c", "again")
    assert play.drain() == "completed"


def test_a_cancelled_step_that_is_taken_and_given_back_is_cancelled():
    play = Play([planned("a"), planned("b")])
    play.cancel_step("a")
    play.take("a")
    play.give_back("a")
    assert play.state("a") == "cancelled"
    assert play.drain() == "failed"


def test_a_cancelled_task_takes_what_a_person_has_at_once():
    play = Play([planned("a"), planned("b")])
    play.take("a")
    play.cancel()
    play.sweep()
    assert (play.state("a"), str(play.task.state)) == ("cancelled", "cancelled")


def test_a_worker_s_step_cannot_be_taken_from_under_it():
    play = Play([planned("a"), planned("b", needs=["a"])])
    play.claim("a")
    with pytest.raises(Refused, match="a worker has it"):
        play.take("a")
    with pytest.raises(Refused, match="waits for other steps"):
        play.take("b")


def test_a_planner_hands_over_a_list_or_is_told_what_was_found():
    assert steps_in({"steps": []}) == []
    for result, told in (({}, "there is none"), (None, "there is none"), ({"steps": "[{id: a}]"}, "found '[{id: a}]'")):
        with pytest.raises(BadPlan, match="`steps`, a list of steps") as caught:
            steps_in(result)
        assert told in str(caught.value)


def test_a_refusal_tells_whole_problems_and_how_many_more():
    assert refusal(BadPlan([Problem("one"), Problem("two")])).reason.splitlines()[1:] == ["one", "two"]
    told = refusal(BadPlan([Problem("x" * 300 + str(n)) for n in range(20)])).reason
    assert len(told) <= REASON_LENGTH_MAX and told.splitlines()[-1] == "and 14 more"
    assert all(len(line) == 301 for line in told.splitlines()[1:-1])
    assert len(refusal(BadPlan("y" * 5_000)).reason) <= REASON_LENGTH_MAX
