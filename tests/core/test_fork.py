"""Forks (SEMANTICS rule 41): what had completed by then stays, all else starts over, on the head as of then."""

import random

import pytest

from longtask.core import fork, stale
from longtask.core.codec import dump_fact, load_fact
from longtask.core.errors import Refused
from longtask.core.events import StepRestored
from longtask.core.machine import refold
from longtask.core.model import Done, Expanded, Failed, Kind, Origin, RunWhen, StepSpec, WhenFailed

from .chance import Player
from .forks import Fork, misfits
from .play import Play, planned

CODE = StepSpec(Kind.RUN, commits=True, conflict=0)


def states(play, *keys):
    return [play.state(key) for key in keys]


def test_what_had_completed_before_the_claim_stays_with_its_result_and_the_rest_starts_over():
    play = Play([planned("a"), planned("b", needs=["a"]), planned("c", needs=["b"])], attended=False)
    play.run("a", Done({"x": 1}))
    play.settle_all()
    play.run("b", Failed("no"))
    play.settle_all()
    made = Fork(play, "b")
    assert states(made, "a", "b", "c") == ["completed", "ready", "blocked"]
    assert made.rows["a"].result == {"x": 1} and made.rows["a"].attempt == 1
    assert made.rows["b"].attempt == 0 and made.rows["b"].failures == 0
    assert made.task.options.forked == Origin(play.task.id, made.taken.seq, "b")
    assert made.drain() == "completed"


def test_a_completed_step_is_done_again_with_all_that_came_of_it():
    play = Play([planned("a"), planned("b", needs=["a"]), planned("c", stage=2)], stages=2)
    assert play.drain() == "completed"
    made = Fork(play, "b")
    assert states(made, "a", "b", "gate.1", "c", "gate.2") == ["completed", "ready", "blocked", "blocked", "blocked"]
    assert made.task.counts.gates == 0
    assert made.drain() == "completed"


def test_code_of_a_parallel_step_that_was_merged_after_the_claim_is_not_in_the_fork():
    play = Play([planned("a"), planned("b")], specs=[CODE])
    play.claim("a")
    play.claim("b")
    play.finish("b", play.commit("b"))
    play.settle_all()
    held = play.task.head
    made = Fork(play, "a")
    assert states(made, "a", "b") == ["ready", "ready"]
    assert made.task.head == "c0" != held
    assert misfits(play.events, made.events, made.contains) == []


def test_what_was_merged_before_the_claim_is_in_it_and_stays():
    play = Play([planned("a"), planned("b")], specs=[CODE])
    play.claim("b")
    play.finish("b", play.commit("b"))
    play.claim("a")
    play.finish("a", play.commit("a"))
    made = Fork(play, "a")
    assert states(made, "a", "b") == ["ready", "completed"]
    assert made.task.head == play.rows["b"].commit and made.task.base == "c0"


def test_a_delivered_step_whose_commit_is_not_merged_yet_starts_over():
    play = Play([planned("a"), planned("b"), planned("c")], specs=[CODE])
    play.claim("a")
    play.claim("b")
    play.finish("b", play.commit("b"))
    play.finish("a", play.commit("a"))  # delivered, and behind the head
    assert play.state("a") == "merging"
    play.claim("c")
    made = Fork(play, "c")
    assert states(made, "a", "b", "c") == ["ready", "completed", "ready"]


def test_never_claimed_means_as_it_is_now():
    play = Play([planned("a"), planned("b"), planned("c", needs=["b"])])
    play.run("a")
    play.run("b", Failed("no"))
    play.settle_all()
    assert play.state("c") == "skipped"
    made = Fork(play, "c")
    assert states(made, "a", "b", "c") == ["completed", "ready", "blocked"]


def test_a_step_that_was_not_wanted_is_asked_about_again():
    play = Play([planned("a", conditional=True), planned("b", stage=2)], stages=2, ifs={"a": False})
    assert play.drain() == "completed"
    play.ifs["a"] = True
    made = Fork(play, "a")
    assert states(made, "a", "b") == ["ready", "blocked"]


def test_what_was_not_wanted_or_tolerated_stays_so():
    plan = [
        planned("a", conditional=True),
        planned("b", when_failed=WhenFailed.CONTINUE),
        planned("c"),
        planned("d", needs=["a"]),
        planned("e", stage=2),
    ]
    play = Play(plan, stages=2, ifs={"a": False})
    play.run("b", Failed("no matter"))
    assert play.drain() == "completed"
    made = Fork(play, "e")
    assert states(made, "a", "b", "c", "d", "e") == ["skipped", "failed", "completed", "skipped", "ready"]
    assert made.rows["b"].reason == "no matter"
    assert made.drain() == "completed"


def test_a_waived_failure_stays_waived():
    play = Play([planned("a"), planned("b", stage=2)], stages=2)
    play.run("a", Failed("no"))
    play.settle_all()
    play.waive("a")
    assert play.drain() == "completed"
    made = Fork(play, "b")
    assert made.rows["a"].waived and states(made, "a", "b") == ["failed", "ready"]


def test_a_retired_step_stays_out():
    play = Play([planned("a"), planned("b"), planned("c", stage=2)], stages=2)
    play.retire("b")
    play.drain()
    made = Fork(play, "c")
    assert states(made, "a", "b") == ["completed", "skipped"]
    assert made.drain() == "completed"


def test_a_cancelled_task_is_forked_as_it_was_before():
    tolerated = planned("b", needs=["a"], when_failed=WhenFailed.CONTINUE)
    play = Play([planned("a"), tolerated, planned("c", needs=["b"])])
    play.run("a")
    play.cancel()
    play.sweep()
    assert play.task.state == "cancelled"
    made = Fork(play, "c")
    assert states(made, "a", "b", "c") == ["completed", "ready", "blocked"]
    assert made.drain() == "completed"


def test_a_task_that_failed_fast_can_be_forked():
    play = Play([planned("a"), planned("b"), planned("c", needs=["a"])], fail_fast=True)
    play.run("b")
    play.run("a", Failed("no"))
    play.sweep()
    assert play.task.doomed
    with pytest.raises(Refused, match="fork it instead"):
        play.retry("a")
    made = Fork(play, "a")
    assert states(made, "a", "b", "c") == ["ready", "completed", "blocked"]
    assert made.drain() == "completed"


def test_fixes_of_an_open_step_are_left_out_and_their_code_stays():
    fixed = StepSpec(Kind.RUN, fix=1, fix_rounds_max=2)
    play = Play([planned("t")], specs=[fixed, StepSpec(Kind.AGENT, commits=True, conflict=1)])
    play.run("t", Failed("red", digest="d1"))
    play.run("t.fix.1", Done())
    play.settle_all()
    play.run("t", Done())
    made = Fork(play, "t")
    assert "t.fix.1" not in made.rows and made.rows["t"].owned == 0
    assert made.state("t") == "ready" and made.rows["t"].rounds == 0


def test_fixes_of_a_step_that_stays_stay_with_it():
    fixed = StepSpec(Kind.RUN, fix=1, fix_rounds_max=2)
    specs = [fixed, StepSpec(Kind.AGENT), StepSpec(Kind.RUN)]
    play = Play([planned("t"), planned("u", needs=["t"], spec=2)], specs=specs)
    play.run("t", Failed("red", digest="d1"))
    play.run("t.fix.1")
    play.settle_all()
    play.run("t")
    play.settle_all()
    made = Fork(play, "u")
    assert states(made, "t", "t.fix.1", "u") == ["completed", "completed", "ready"]


EACH = [StepSpec(Kind.FOR_EACH, item=1, parallel_max=2), StepSpec(Kind.RUN, commits=True, conflict=1),
        StepSpec(Kind.RUN)]  # fmt: skip


def listed():
    return Play([planned("x", kind=Kind.FOR_EACH), planned("s", spec=2), planned("y", stage=2, spec=2)],
                stages=2, specs=EACH)  # fmt: skip


def test_items_that_had_completed_are_passed_over():
    """Three thousand of five thousand modules are migrated when a step beside them goes wrong."""
    play = listed()
    play.run("x", Expanded(4, [10, 20, 30, 40]))
    for item in ("x[0]", "x[1]"):
        play.claim(item)
        play.finish(item, play.commit(item))
        play.settle_all()
    play.claim("x[2]")
    play.run("s", Failed("no"))
    made = Fork(play, "s")
    assert states(made, "x", "x[0]", "x[1]", "s") == ["ready", "completed", "completed", "ready"]
    assert "x[2]" not in made.rows
    assert made.rows["x"].weight + made.rows["x[0]"].weight + made.rows["x[1]"].weight == 100
    made.claim("x")
    made.finish("x", Expanded(4, made.rows["x"].listing))
    assert {key for key in made.rows if key.startswith("x[")} == {"x[0]", "x[1]", "x[2]~2", "x[3]~2"}
    assert made.drain() == "completed"


def test_a_completed_list_stays_whole():
    play = listed()
    play.run("x", Expanded(3, [1, 2, 3]))
    play.drain()
    made = Fork(play, "y")
    assert states(made, "x", "x[0]", "x[1]", "x[2]", "y") == ["completed"] * 4 + ["ready"]
    assert (made.rows["x"].items_ended, made.rows["x"].items) == (3, 3)
    assert made.drain() == "completed"


def test_a_list_that_is_done_again_is_done_from_its_beginning():
    """Its newest claim only collects; what its items have merged is its own work, and goes with it."""
    play = listed()
    play.run("x", Expanded(2, [1, 2]))
    assert play.drain() == "completed"
    made = Fork(play, "x")
    assert made.state("x") == "ready" and not [key for key in made.rows if "[" in key]
    assert made.task.head == "c0" and made.rows["x"].expansion == 0 and made.rows["x"].weight == 100


def test_a_list_that_was_taken_up_again_is_done_from_its_beginning_too():
    play = listed()
    play.run("x", Expanded(2, [1, 2]))
    play.drain({"x[1]": Failed("no")})
    play.retry("x")
    play.settle_all()
    assert play.drain() == "completed"
    made = Fork(play, "x")
    assert made.task.head == "c0" and not [key for key in made.rows if "[" in key]


def test_an_agent_that_has_spawned_begins_before_it_had():
    play = Play([planned("a", kind=Kind.AGENT)], specs=[StepSpec(Kind.AGENT, item=1, parallel_max=3), EACH[1]])
    play.run("a", Expanded(2, {"run": 1, "bound": 1, "tasks": ["", ""]}))
    assert play.drain() == "completed"
    made = Fork(play, "a")
    assert made.task.head == "c0" and set(made.rows) == {"a", "gate.1"}


def test_a_heedless_step_that_has_run_is_not_disturbed():
    play = Play([planned("a"), planned("h", needs=["a"], run_when=RunWhen.ALWAYS), planned("b")])
    play.run("a", Failed("no"))
    play.settle_all()
    play.run("h")
    made = Fork(play, "b")
    assert states(made, "a", "h", "b") == ["ready", "completed", "ready"]
    assert made.drain() == "completed"


@pytest.mark.parametrize("key", ["gate.1", "t.fix.1"])
def test_what_belongs_to_another_is_refused_by_name(key):
    play = Play([planned("t")], specs=[StepSpec(Kind.RUN, fix=1), StepSpec(Kind.AGENT)])
    play.run("t", Failed("red", digest="d1"))
    with pytest.raises(Refused, match="fork from"):
        Fork(play, key)


def test_its_journal_folds_to_its_rows_from_nothing_and_is_read_back_as_written():
    play = Play([planned("a"), planned("b", conditional=True), planned("c", stage=2)], stages=2, ifs={"b": False})
    play.run("a", Done({"x": [1]}, artifacts=({"name": "n", "digest": "d", "size_bytes": 1},)))
    play.drain()
    made = Fork(play, "c", batch=1)
    assert made.taken.rows and len(made.events) > 3
    for event in made.events:
        assert load_fact(*dump_fact(event.fact)) == event.fact
    _, rows = refold(made.events)
    assert rows["a"]._replace(blockers=0) == made.rows["a"]._replace(blockers=0)


def test_a_fork_can_be_forked():
    play = Play([planned("a"), planned("b", needs=["a"]), planned("c", needs=["b"])], specs=[CODE])
    assert play.drain() == "completed"
    first = Fork(play, "b")
    assert first.drain() == "completed"
    second = Fork(first, "c")
    assert states(second, "a", "b", "c") == ["completed", "completed", "ready"]
    assert second.task.head == first.rows["c"].base != play.rows["c"].base
    assert misfits(first.events, second.events, second.contains) == []
    with pytest.raises(Refused, match=f"taken over from task '{play.task.id}'"):
        Fork(first, "a")


def test_a_budget_is_that_of_then_and_nothing_of_it_is_spent():
    from longtask.core import events as e

    play = Play([planned("a")], budget_tokens=100)
    play.claim("a")
    play._save([e.UsageRecorded("a", 1, 60, 60, 5), e.BudgetRaised("ann", tokens=500)])
    made = Fork(play, None)
    assert (made.task.spent_tokens, made.task.budget_tokens) == (0, 500)


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_a_fork_of_a_random_history_obeys_the_oracle_and_ends(first):
    for seed in range(first, first + 10):
        chance = random.Random(seed)
        player = Player(chance.randrange)
        play = player.play(10 + chance.randrange(70))
        for _ in range(4):
            keys = [key for key, row in play.rows.items() if not row.gate and row.owner is None]
            try:
                made = Fork(play, chance.choice(keys), batch=chance.choice([500, 3, 1]))
            except Refused:
                continue
            assert misfits(play.events, made.events, made.contains) == [], seed
            play = player.go_on(made, 15)
            player.end(play)
            assert play.task.ended, seed


# --- foreseen -------------------------------------------------------------------------------------------------------


def test_a_fork_names_before_it_is_made_what_it_does_again():
    play = Play([planned("a"), planned("b", needs=["a"]), planned("c", needs=["b"]), planned("d", stage=2)], stages=2)
    play.run("a")
    play.settle_all()
    play.run("b")
    play.settle_all()
    taken = fork.forked(play.events[: fork.point(play.events, play.rows["b"])])
    said = stale.by_fork(taken, "b", play.rows.values())
    assert (said.kept, said.again, said.begins) == (("a",), ("b",), ("c", "d"))


def test_a_retry_names_what_comes_back_and_it_does():
    plan = [
        planned("a"),
        planned("b"),
        planned("c", needs=["a"]),
        planned("d", needs=["c"]),
        planned("e", needs=["a", "b"]),
        planned("f", stage=2),
    ]
    play = Play(plan, stages=2)
    play.run("a", Failed("no"))
    play.run("b", Failed("no"))
    play.settle_all()
    said = stale.by_retry(play.rows, play.edges, play.rows["a"])
    assert (said.again, said.begins) == (("a",), ("c", "d"))
    play.retry("a")
    play.settle_all()
    assert states(play, "a", "c", "d", "e") == ["ready", "blocked", "blocked", "skipped"]
    assert play.drain() == "failed"
    assert states(play, "c", "d", "e", "f") == ["completed", "completed", "skipped", "skipped"], "b stands in the way"


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_what_comes_back_is_foreseen_in_random_histories(first):
    for seed in range(first, first + 20):
        chance = random.Random(seed)
        player = Player(chance.randrange)
        play = player.play(20 + chance.randrange(60))
        play.settle_all()
        failed = [row for row in play.rows.values() if row.state in ("failed", "cancelled")]
        for row in failed:
            said = stale.by_retry(play.rows, play.edges, row)
            before = {key for key, r in play.rows.items() if r.state == "skipped" and r.owner is None and not r.gate}
            try:
                play.retry(row.key)
            except Refused:
                continue
            if not play.rows[row.key].open:
                break  # its condition fails at once
            seq = len(play.events)
            play.settle_all()
            moved = [event.fact for event in play.events[seq:]]
            back = {fact.step for fact in moved if isinstance(fact, StepRestored)}
            foreseen = {*said.again, *said.begins}
            assert {key for key in foreseen if key in before} <= back, (seed, row.key)
            play.drain()
            assert {key for key in before if play.state(key) == "completed"} <= foreseen, (seed, row.key)
            break
