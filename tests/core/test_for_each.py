"""for_each: lazy items, windows, shares of weight.  Numbers are those of SEMANTICS §9."""

import pytest

from longtask.core.errors import Refused
from longtask.core.model import Done, Expanded, Failed, Kind, StepSpec, TaskState, WhenFailed
from tests.core.play import Play, planned

NO = Failed("boom", retryable=False)


def each(window: int = 2, item: StepSpec | None = None, stage: int = 1, **more) -> Play:
    """`x` is a for_each of at most `window` items at once."""
    specs = (item or StepSpec(Kind.RUN), StepSpec(Kind.FOR_EACH, item=0, parallel_max=window))
    when_failed = more.pop("when_failed", WhenFailed.STOP)
    weight = more.pop("weight", 100)
    step = planned("x", stage, spec=1, kind=Kind.FOR_EACH, when_failed=when_failed, weight=weight)
    return Play([step, planned("y", needs=["x"], weight=weight)], specs=specs, **more)


def expand(play: Play, items: int) -> None:
    play.run("x", Expanded(items, list(range(items))))


def begun(play: Play) -> list[str]:
    return sorted(row.key for row in play.rows.values() if row.role == "item" and row.open)


def test_no_items_complete_at_once():  # (31)
    play = each()
    expand(play, 0)
    assert (play.state("x"), play.rows["x"].result) == ("completed", [])
    assert play.drain() == "completed"


def test_one_item_and_then_one_more_attempt_that_collects():  # (31)
    play = each()
    expand(play, 1)
    assert (play.state("x"), begun(play)) == ("blocked", ["x[0]"])
    play.run("x[0]", Done({"n": 0}))
    play.settle_all()
    assert (play.state("x"), play.rows["x"].attempt, play.rows["x"].run) == ("ready", 1, 1)
    assert play.drain() == "completed"


def test_no_transaction_of_a_large_list_writes_many_rows():  # (31); 10,000 items are the engine's test
    play = each(window=3)
    play.checked = False
    sizes: list[int] = []
    save = play._save
    play._save = lambda *args: sizes.append(len(save(*args).steps))  # type: ignore[method-assign,assignment]
    expand(play, 300)
    assert sizes.pop() == 4
    for index in range(300):
        play.run(f"x[{index}]")
        play.settle(f"x[{index}]")
    assert max(sizes) == 3
    assert play.rows["x"].items_ended == 300
    assert play.state("x") == "ready"
    assert play.violations() == []


def test_items_begin_one_by_one_behind_the_window():
    play = each(window=2)
    expand(play, 4)
    assert begun(play) == ["x[0]", "x[1]"]
    play.run("x[1]")
    play.settle_all()
    assert begun(play) == ["x[0]", "x[2]"]


def test_after_a_failed_item_no_other_begins_and_the_owner_collects_the_failure():  # (32)
    play = each(window=2)
    expand(play, 30)
    for index in range(17):
        play.run(f"x[{index}]")
        play.settle_all()
    assert begun(play) == ["x[17]", "x[18]"]
    play.run("x[17]", NO)
    play.settle_all()
    assert begun(play) == ["x[18]"]
    play.run("x[18]")
    play.settle_all()
    row = play.rows["x"]
    assert (row.state, row.items_next, row.items_failed) == ("ready", 19, 1)
    assert play.drain() == "failed"


def test_with_continue_all_items_run():  # (33); nulls in place are the executor's
    play = each(window=2, when_failed=WhenFailed.CONTINUE)
    expand(play, 5)
    assert play.drain({"x[1]": NO, "x[3]": NO}) == "completed"
    row = play.rows["x"]
    assert (row.items_ended, row.items_failed) == (5, 2)
    assert play.state("y") == "completed"


def test_a_late_list_is_refused_once_the_task_is_being_cancelled():  # (34)
    play = each()
    play.claim("x")
    play.cancel()
    with pytest.raises(Refused, match="expands no more"):
        play.finish("x", Expanded(3, [1, 2, 3]))


def test_an_item_has_its_own_fix_loop():  # (35)
    specs = (StepSpec(Kind.RUN, fix=2), StepSpec(Kind.FOR_EACH, item=0, parallel_max=2), StepSpec(Kind.RUN))
    play = Play([planned("x", spec=1, kind=Kind.FOR_EACH)], specs=specs)
    expand(play, 2)
    play.run("x[0]", Failed("red", digest="1"))
    assert (play.state("x[0]"), play.rows["x[0].fix.1"].owner) == ("blocked", "x[0]")
    assert play.drain() == "completed"
    assert (play.rows["x[0]"].attempt, play.rows["x[0]"].rounds) == (2, 1)


@pytest.mark.parametrize(("items", "weight"), [(3, 100), (7, 100), (200, 100), (4, 7), (1, 1)])
def test_expanding_never_moves_the_bar_back(items, weight):  # (36)
    play = each(window=2, weight=weight)
    play.checked = False
    whole = play.task.counts.weight
    expand(play, items)
    done = 0
    for _ in range(10 * items):
        counts = play.task.counts
        assert counts.weight == whole
        assert counts.weight_done >= done
        done = counts.weight_done
        keys = begun(play)
        if not keys:
            break
        play.run(keys[0])
        play.settle_all()
    assert done == weight
    assert play.violations() == []


def test_a_retry_runs_what_did_not_complete_and_passes_over_the_rest():  # (36b)
    play = each(window=2)
    expand(play, 7)
    for index in (0, 2):  # 1 fails, so that nothing beyond the window begins
        play.run(f"x[{index}]")
        play.settle_all()
    play.run("x[1]", NO)
    play.settle_all()
    play.run("x[3]")
    play.drain()
    assert play.task.state is TaskState.FAILED
    play.retry("x")
    expand(play, 7)
    assert play.drain() == "completed"
    again = sorted(row.key for row in play.rows.values() if row.role == "item" and row.expansion == 2)
    assert again == ["x[1]~2", "x[4]~2", "x[5]~2", "x[6]~2"]
    assert {row.weight for row in play.rows.values() if row.expansion == 2 and row.role == "item"} == {0}


def test_a_retry_while_items_are_being_cancelled_is_refused():  # (36b)
    play = each(window=2)
    expand(play, 4)
    play.claim("x[0]")
    play.cancel_step("x")
    play.settle_all()
    assert (play.state("x[0]"), play.state("x[1]")) == ("running", "cancelled")
    with pytest.raises(Refused, match="still being cancelled"):
        play.retry("x")
    play.expire("x[0]")
    play.retry("x")


def test_an_item_of_an_earlier_expansion_only_counts_down():
    play = each(window=2)
    expand(play, 4)
    play.cancel_step("x")
    play.settle("x")  # cancels both items; neither is told yet
    play.retry("x")
    assert (play.state("x"), play.rows["x"].blockers) == ("blocked", 2)
    play.settle_all()
    row = play.rows["x"]
    assert (row.state, row.items_ended, row.items_failed) == ("ready", 0, 0)
    expand(play, 4)
    assert play.drain() == "completed"


def test_when_only_collecting_failed_a_retry_only_collects():
    play = each(window=2)
    expand(play, 2)
    for index in (0, 1):
        play.run(f"x[{index}]")
        play.settle_all()
    play.run("x", NO)
    play.settle_all()
    play.retry("x")
    expand(play, 2)
    row = play.rows["x"]
    assert (row.state, row.items, row.items_failed, row.blockers) == ("ready", 2, 0, 0)
    play.run("x", Done([1, 2]))
    assert play.drain() == "completed"
    assert play.rows["x"].result == [1, 2]


def test_items_are_neither_retried_nor_needed_one_by_one():
    play = each()
    expand(play, 2)
    play.run("x[0]", NO)
    with pytest.raises(Refused, match="belongs to 'x'"):
        play.retry("x[0]")


def test_a_cancelled_item_counts_as_one_that_did_not_succeed():
    play = each(window=1)
    expand(play, 3)
    play.cancel_step("x[0]")
    play.settle_all()
    assert (play.rows["x"].items_failed, play.rows["x"].items_next) == (1, 1)
    assert play.drain() == "failed"


def test_again_runs_what_did_not_complete():
    """Asked because items had failed: collecting the same once more would fail for ever."""
    play = each(window=2, when_failed=WhenFailed.ASK, attended=True)
    expand(play, 3)
    play.run("x[0]", NO)
    play.answer("x[0]", "give_up")
    play.drain({"x": NO})
    assert play.state("x") == "waiting"
    play.answer("x", "again")
    expand(play, 3)
    assert play.drain() == "completed"
    assert sorted(row.key for row in play.rows.values() if row.role == "item" and row.expansion == 2) == [
        "x[0]~2", "x[2]~2"]  # fmt: skip
