"""Agents that spawn: owned steps that begin all at once, and a run that goes on when they have ended, however."""

from dataclasses import replace

import pytest

from longtask.core.errors import Refused
from longtask.core.events import StepExpanded
from longtask.core.model import Done, Expanded, Failed, Kind, Parked, StepSpec, Stopped, TaskState, WaitingFor
from tests.core.play import Play, planned

NO = Failed("boom", retryable=False)
SPECS = (
    StepSpec(Kind.AGENT, losses_max=0),
    StepSpec(Kind.AGENT, item=0, parallel_max=4, failures_max=1, commits=True),
    StepSpec(Kind.AGENT, item=0, parallel_max=4, fix=0),
)


def lead(spec: int = 1, **more) -> Play:
    """`x` is an agent that may spawn four at once."""
    step = planned("x", spec=spec, kind=Kind.AGENT, **{k: more.pop(k) for k in ("when_failed",) if k in more})
    return Play([step, planned("y", needs=["x"])], specs=SPECS, **more)


def spawn(play: Play, items: int, call: int = 1) -> None:
    play.run("x", Expanded(items, {"run": play.rows["x"].run, "bound": f"call {call}", "tasks": ["…"] * items}))


def spawned(play: Play) -> list[str]:
    return sorted(row.key for row in play.rows.values() if row.role == "item")


def end(play: Play, *keys: str) -> None:
    for key in keys:
        play.run(key)
    play.settle_all()


def test_all_begin_at_once_and_the_same_run_goes_on_when_all_have_ended():
    play = lead()
    spawn(play, 3)
    assert (play.state("x"), spawned(play)) == ("blocked", ["x[0]", "x[1]", "x[2]"])
    assert {play.state(key) for key in spawned(play)} == {"ready"}
    end(play, "x[0]", "x[2]")
    assert play.state("x") == "blocked"
    end(play, "x[1]")
    row = play.rows["x"]
    assert (row.state, row.attempt, row.run, row.failures, row.items_ended) == ("ready", 1, 1, 0, 3)
    assert play.drain() == "completed"
    assert play.rows["x"].attempt == 2


def test_each_time_is_an_expansion_with_a_list_of_its_own():
    play = lead()
    spawn(play, 2)
    end(play, "x[0]", "x[1]")
    spawn(play, 3, call=2)
    row = play.rows["x"]
    assert (row.expansion, row.items, row.items_ended, row.listing["bound"]) == (2, 3, 0, "call 2")
    assert spawned(play) == ["x[0]", "x[0]~2", "x[1]", "x[1]~2", "x[2]~2"]
    end(play, "x[0]~2", "x[1]~2", "x[2]~2")
    assert play.state("x") == "ready"
    assert play.drain() == "completed"


def test_whatever_became_of_them_the_run_goes_on():
    play = lead(attended=True)
    spawn(play, 4)
    play.run("x[0]", NO)
    play.cancel_step("x[1]")
    play.claim("x[2]")
    play.expire("x[2]")  # of one that may not be lost even once nobody is asked either
    end(play, "x[3]")
    states = [play.state(f"x[{n}]") for n in range(4)]
    assert states == ["failed", "cancelled", "failed", "completed"]
    assert (play.state("x"), play.rows["x"].items_failed) == ("ready", 3)
    assert play.drain() == "completed"
    assert play.task.counts.bad == 0


def test_what_is_spawned_weighs_nothing_and_the_bar_never_goes_back():
    play = lead()
    whole = play.task.counts.weight
    done = 0
    for call, keys in enumerate((("x[0]", "x[1]"), ("x[0]~2", "x[1]~2")), 1):
        spawn(play, 2, call)
        end(play, *keys)
        counts = play.task.counts
        assert (counts.weight, counts.weight_done >= done) == (whole, True)
        done = counts.weight_done
    assert play.drain() == "completed"
    assert play.task.counts.weight_done == whole


def test_who_ends_while_blocked_takes_with_it_what_it_has_spawned():
    play = lead()
    spawn(play, 3)
    play.claim("x[0]")
    play.cancel_step("x")
    play.settle_all()
    assert [play.state(key) for key in ("x", "x[0]", "x[1]", "x[2]")] == ["cancelled", "running", *["cancelled"] * 2]
    assert play.leases["x[0]"].stop == "cancel"
    with pytest.raises(Refused, match="still being cancelled"):
        play.retry("x")
    play.finish("x[0]", Stopped())
    assert play.drain() == "failed"


def test_a_cancelled_task_sweeps_them_and_a_late_spawn_is_refused():
    play = lead()
    spawn(play, 2)
    play.cancel()
    play.sweep()
    assert play.task.state is TaskState.CANCELLED
    late = lead()
    late.claim("x")
    late.cancel()
    with pytest.raises(Refused, match="expands no more"):
        late.finish("x", Expanded(1, {}))


def test_a_paused_task_begins_none_of_them():
    play = lead()
    play.claim("x")
    play.pause()
    play.finish("x", Expanded(2, {}))
    assert (play.state("x"), play.ready(), play.task.admits) == ("blocked", ["x[0]", "x[1]"], 0)
    play.resume()
    assert play.drain() == "completed"


def test_a_run_that_begins_anew_spawns_anew_and_takes_nothing_over():
    play = lead()
    spawn(play, 2)
    end(play, "x[0]", "x[1]")
    play.run("x", Failed("off the path"))
    assert (play.rows["x"].run, play.state("x")) == (2, "ready")
    spawn(play, 2)
    assert spawned(play) == ["x[0]", "x[0]~2", "x[1]", "x[1]~2"]
    assert (play.rows["x"].blockers, play.rows["x"].items_ended) == (2, 0)
    end(play, "x[0]~2", "x[1]~2")
    assert play.drain() == "completed"


def test_ends_of_an_earlier_life_only_count_down():
    play = lead()
    spawn(play, 2)
    play.cancel_step("x")
    play.settle("x")  # cancels both; neither is told yet
    play.retry("x")
    assert (play.state("x"), play.rows["x"].blockers) == ("blocked", 2)
    play.settle_all()
    row = play.rows["x"]
    assert (row.state, row.items, row.items_ended, row.expansion) == ("ready", 0, 0, 1)
    spawn(play, 1)
    assert spawned(play)[-1] == "x[1]" and "x[0]~2" in spawned(play)
    end(play, "x[0]~2")
    assert play.drain() == "completed"


def test_a_restored_agent_needs_no_step_that_it_had_spawned():
    play = lead()
    spawn(play, 1)
    end(play, "x[0]")
    play.run("x", NO)
    play.drain()
    assert play.task.state is TaskState.FAILED
    play.retry("x")
    assert play.drain() == "completed"


def test_between_two_calls_a_run_may_ask_a_person():
    play = lead()
    spawn(play, 1)
    end(play, "x[0]")
    play.run("x", Parked(WaitingFor.USER, {"kind": "approval", "digest": "d"}))
    play.answer("x", "approve")
    assert play.rows["x"].run == 1
    spawn(play, 1, call=2)
    end(play, "x[0]~2")
    assert play.drain() == "completed"


def test_a_fix_and_what_is_spawned_stand_before_their_owner_in_turn():
    play = lead(spec=2)
    spawn(play, 1)
    end(play, "x[0]")
    play.run("x", Failed("red", digest="1"))
    assert play.state("x") == "blocked"
    end(play, "x.fix.1")
    assert (play.state("x"), play.rows["x"].run) == ("ready", 2)
    spawn(play, 1)
    play.run("x[0]~2", NO)
    play.settle_all()
    assert play.state("x") == "ready"
    assert play.drain() == "completed"


def test_a_condition_is_decided_once_though_its_step_is_blocked_again():
    step = planned("x", spec=1, kind=Kind.AGENT, conditional=True)
    play = Play([step], specs=SPECS, ifs={"x": True})
    spawn(play, 1)
    play.ifs["x"] = False
    end(play, "x[0]")
    assert play.state("x") == "ready"
    assert play.drain() == "completed"


def test_spawned_steps_are_neither_retried_nor_skipped_one_by_one():
    play = lead()
    spawn(play, 2)
    play.run("x[0]", NO)
    for act in (play.retry, play.waive, play.retire):
        with pytest.raises(Refused, match="belongs to 'x'"):
            act("x[0]")


def test_a_lost_owner_leaves_what_it_has_spawned_alone():
    play = lead()
    spawn(play, 1)
    end(play, "x[0]")
    play.claim("x")
    play.expire("x")
    row = play.rows["x"]
    assert (row.state, row.run, row.items, row.listing["bound"]) == ("ready", 1, 1, "call 1")
    assert play.drain() == "completed"
    assert play.rows["y"].state == "completed"
    assert isinstance(play.done("y"), Done)


def spoilt(key: str, **changes) -> set[str]:
    """Rules that the oracle finds broken when columns of one row are changed behind the machine's back."""
    play = lead()
    spawn(play, 2)
    end(play, "x[0]", "x[1]")
    spawn(play, 1, call=2)
    assert play.violations() == []
    play.rows[key] = play.rows[key]._replace(**changes)
    return {violation.rule for violation in play.violations()}


def test_the_oracle_finds_what_is_missing_of_an_earlier_expansion_and_what_weighs_something():
    assert "items" in spoilt("x[1]", item=0)
    assert "items" in spoilt("x[0]", expansion=2)
    assert "items" in spoilt("x", items_ended=1)
    assert "weights" in spoilt("x[0]~2", weight=50)


def test_the_oracle_finds_an_expansion_that_does_not_follow_the_one_before():
    play = lead()
    spawn(play, 1)
    place, fact = next((n, e.fact) for n, e in enumerate(play.events) if isinstance(e.fact, StepExpanded))
    play.events[place] = play.events[place]._replace(fact=replace(fact, expansion=2))
    assert "items" in {violation.rule for violation in play.violations()}
