"""Budgets of failure, time and money on the real engine.  Numbers: SEMANTICS §9."""

import pytest

from longtask.core.errors import LeaseLost, Refused
from longtask.core.events import BudgetNear, LimitNear, StepLost, UsageRecorded
from longtask.core.model import Done, Failed, Kind, Parked, Stopped, WaitingFor
from longtask.engine import dispatch, writing
from longtask.store.contract import JournalRow
from tests.engine.world import HANG, LEASE_MS, World, step

NO = Failed("no")


def lose(world: World, name: str) -> None:
    world.die()
    world.later(LEASE_MS * 3)
    world.reborn(name)


def test_a_hundred_parks_cost_no_budget(world: World):  # (56)
    park = Parked(WaitingFor.TIMER, {"timer_ms": 10}, 1)
    world.submit(step("a", failures_max=0), acts={"a": [*[park] * 100, Done()]})
    assert world.run() == "completed"
    row = world.row("a")
    assert (row.attempt, row.failures, row.losses, row.run) == (101, 0, 0, 1)


def test_an_attempt_that_hangs_and_beats_times_out_which_is_its_own_failure(world: World):  # (57)
    world.submit(step("a", timeout_ms=30_000), acts={"a": [HANG]})
    world.settle()
    world.later(29_000)
    world.settle()
    assert world.state("a") == "running"
    world.later(2_000)
    assert world.run() == "failed"
    assert (world.row("a").reason or "").startswith("timeout") and world.row("a").losses == 0


def test_a_timeout_that_nobody_obeyed_is_found_by_the_scheduler(world: World):  # (57)
    world.submit(step("a", timeout_ms=30_000), acts={"a": [HANG]})
    world.settle()
    world.later(60_000)  # the worker beats, and its ticks are stuck
    assert world.state("a") == "failed"
    assert (world.row("a").reason or "").startswith("timeout")
    world.settle()
    assert world.worker is not None and not world.worker.running


def test_a_lost_step_that_must_not_run_twice_asks_and_accept_completes_it(world: World):  # (58)
    world.submit(step("a", repeatable=False), step("b", 2), acts={"a": [HANG]}, attended=True)
    world.settle()
    lose(world, "w2")
    assert world.run() == "waiting_user"
    assert (world.row("a").question or {})["answers"] == ["again", "accept", "give_up"]
    world.answer("a", "accept")
    assert world.run() == "completed"


def test_a_lost_step_that_must_not_run_twice_fails_when_nobody_attends(world: World):
    world.submit(step("a", repeatable=False), acts={"a": [HANG]})
    world.settle()
    lose(world, "w2")
    assert world.run() == "failed"


def test_a_poison_step_fails_after_so_many_losses_in_a_row(world: World):  # (60)
    world.submit(step("a", losses_max=2), acts={"a": [HANG]})
    for n in range(3):
        world.settle()
        lose(world, f"w{n}")
    assert world.run() == "failed"
    assert "lost 3 times in a row" in (world.row("a").reason or "")
    assert len(world.told(StepLost)) == 2


def test_failures_and_losses_do_not_touch_each_other(world: World):
    world.submit(step("a", failures_max=1, losses_max=1), acts={"a": [HANG, NO, HANG, Done()]})
    world.settle()
    lose(world, "w2")
    world.settle()
    world.later(2_000)
    world.settle()
    assert (world.row("a").attempt, world.row("a").failures, world.row("a").losses) == (3, 1, 0)
    lose(world, "w3")
    assert world.run() == "completed"


def test_retries_back_off_and_hear_of_the_failure_before(world: World):
    world.submit(step("a", failures_max=2), acts={"a": [NO, NO, Done()]})
    began = world.now
    assert world.run() == "completed"
    assert world.now - began >= 3_000
    assert [(a.run, a.failure) for a in world.begun] == [(1, None), (2, "no"), (3, "no")]


def test_a_loss_continues_the_run_and_is_no_failure_to_be_told(world: World):
    world.submit(step("a", failures_max=1), acts={"a": [HANG, NO, HANG, Done()]})
    world.settle()
    lose(world, "w2")
    world.settle()
    world.later(2_000)
    world.settle()
    lose(world, "w3")
    assert world.run() == "completed"
    assert [(a.run, a.failure) for a in world.begun] == [(1, None), (1, None), (2, "no"), (2, "no")]


# --- money --------------------------------------------------------------------------------------------------------


def spend(world: World, n: int, micros: int | None, attempt: int = 1, fingerprint: str = "f") -> bool:
    row = JournalRow(n, "turn", "model-1", fingerprint, attempt, {"text": "hm"}, 100, 20, micros)
    world.dispatch.journal_started(world.ref("a"), attempt, 1, row)
    return world.dispatch.journal_done(world.ref("a"), attempt, 1, row)


def test_a_budget_that_is_reached_stops_claims_and_raising_it_resumes(world: World):  # (59)
    world.submit(step("a", kind=Kind.AGENT), step("b", 2), step("c", 2), acts={"a": [HANG]}, budget_micros=1_000)
    world.settle()
    assert spend(world, 1, 600)
    assert world.task.admits == 2
    assert spend(world, 2, 600)
    world.end("a", Done())
    assert world.run() == "waiting_budget"
    assert world.states("a", "b", "c") == ["completed", "ready", "ready"]
    world.desk.raise_budget(world.tasks[0], "ann", micros=5_000)
    assert world.run() == "completed"
    assert (world.task.spent_micros, world.task.spent_tokens) == (1_200, 240)


def test_agents_give_back_when_the_budget_is_reached_and_what_costs_nothing_runs_on(world: World):
    acts = {"a": [HANG, Done()], "b": [HANG]}
    world.submit(step("a", kind=Kind.AGENT), step("b"), acts=acts, budget_tokens=100)
    world.settle()
    spend(world, 1, 0)
    world.later(1_000)
    world.settle()
    assert world.states("a", "b") == ["ready", "running"]
    assert (world.row("a").failures, world.row("a").losses) == (0, 0)
    world.end("b", Done())
    assert world.run() == "waiting_budget"
    world.desk.raise_budget(world.tasks[0], "ann", tokens=1_000)
    assert world.run() == "completed"


def test_a_budget_that_comes_near_is_told_once_and_anew_after_it_was_raised(world: World):
    world.submit(step("a", kind=Kind.AGENT), acts={"a": [HANG]}, budget_tokens=500, budget_micros=10_000)
    world.settle()
    for n in range(1, 5):
        spend(world, n, 10)
    assert [event.fact for event in world.events(BudgetNear)] == [BudgetNear("tokens", 480, 500)]
    world.desk.raise_budget(world.tasks[0], "ann", tokens=800)
    for n in range(5, 7):
        spend(world, n, 10)
    assert [event.fact for event in world.events(BudgetNear)][1:] == [BudgetNear("tokens", 720, 800)]


def test_a_budget_that_is_reached_at_once_was_never_near(world: World):
    world.submit(step("a", kind=Kind.AGENT, limits={"tokens": 100}), acts={"a": [HANG]}, budget_micros=1_000)
    world.settle()
    spend(world, 1, 1_000)
    assert not world.events(BudgetNear) and not world.events(LimitNear)


def test_a_call_that_is_told_twice_costs_once(world: World):
    world.submit(step("a", kind=Kind.AGENT), acts={"a": [HANG]})
    world.settle()
    for _ in range(2):
        assert spend(world, 1, 600)
    assert world.task.spent_micros == 600
    assert [e.op for e in world.events(UsageRecorded)] == ["usage a 1 1"]


def test_usage_of_an_attempt_that_has_lost_its_lease_is_not_taken(world: World):
    world.submit(step("a", kind=Kind.AGENT), acts={"a": [HANG]})
    world.settle()
    world.die()
    world.later(LEASE_MS * 2)
    assert not spend(world, 1, 600)
    assert world.task.spent_micros == 0
    with pytest.raises(LeaseLost):
        world.dispatch.report(world.ref("a"), 1, Done())


def test_usage_without_a_price_is_said_to_have_none(world: World):
    world.submit(step("a", kind=Kind.AGENT), acts={"a": [HANG]})
    world.settle()
    spend(world, 1, None)
    assert (world.task.unpriced, world.task.spent_tokens, world.task.spent_micros) == (True, 120, 0)


def test_usage_and_its_row_are_one_transaction(world: World):
    world.submit(step("a", kind=Kind.AGENT), acts={"a": [HANG]})
    world.settle()
    spend(world, 1, 600)
    with pytest.raises(Exception, match="another request"):
        spend(world, 1, 600, fingerprint="g")
    assert world.task.spent_micros == 600
    assert [row.micros for row in world.store.journal(world.ref("a"), 1)] == [600]


# --- a step's own limit -------------------------------------------------------------------------------------------

LIMITS = {"tokens": 200}


def test_a_step_that_has_reached_its_limit_asks_and_raising_it_goes_on_with_the_same_run(world: World):
    world.submit(step("a", kind=Kind.AGENT, limits=LIMITS), acts={"a": [HANG, HANG, HANG]}, attended=True)
    world.settle()
    assert spend(world, 1, 0)
    assert world.state("a") == "running"
    assert spend(world, 2, 0)
    world.later(1_000)
    world.settle()
    question = world.row("a").question or {}
    assert (question["kind"], question["answers"]) == ("limit", ["raise", "give_up"])
    assert question["reason"] == "its limit is reached: 200 tokens"
    world.answer("a", "raise")
    world.settle()
    row = world.row("a")
    assert (row.state, row.run, row.attempt, row.raises) == ("running", 1, 2, 1)
    assert spend(world, 3, 0, attempt=2)
    assert world.state("a") == "running", "360 of now 400"
    assert spend(world, 4, 0, attempt=2)
    world.later(1_000)
    world.settle()
    assert (world.row("a").question or {})["reason"] == "its limit is reached: 400 tokens"
    world.answer("a", "give_up")
    assert world.run() == "failed"


def test_a_limit_of_a_step_that_comes_near_is_told_once_and_stops_nothing(world: World):
    limits = {"tokens": 300, "micros": 1_000}
    world.submit(step("a", kind=Kind.AGENT, limits=limits, requests_max=5), acts={"a": [HANG]}, attended=True)
    world.settle()
    for n in range(1, 3):
        spend(world, n, 5)
    assert [event.fact for event in world.events(LimitNear)] == [LimitNear("a", "tokens", 240, 300)]
    world.later(1_000)
    world.settle()
    assert world.state("a") == "running"
    assert world.store.spent(world.ref("a"), 1) == {"tokens": 240, "micros": 10, "requests": 2}


def test_requests_of_a_run_come_near_their_limit_and_those_of_its_tools_do_not_count(world: World):
    world.submit(step("a", kind=Kind.AGENT, requests_max=5), acts={"a": [HANG]})
    world.settle()
    for n in range(1, 9):
        kind, tokens = ("turn", 1) if n % 2 else ("tool", 0)
        world.dispatch.journal_done(world.ref("a"), 1, 1, JournalRow(n, kind, "m", "f", 1, {}, tokens))
        assert len(world.events(LimitNear)) == (n >= 7), n
    assert world.events(LimitNear)[0].fact == LimitNear("a", "requests", 4, 5)


def test_no_turn_begins_once_a_budget_or_a_limit_is_reached(world: World):
    acts = {"a": [HANG], "b": [HANG]}
    world.submit(step("a", kind=Kind.AGENT), step("b", kind=Kind.AGENT), acts=acts, budget_tokens=100)
    world.settle()
    assert spend(world, 1, 0)
    for key in "ab":  # also of the other one, which has not beaten since
        with pytest.raises(Refused, match="budget"):
            world.dispatch.journal_started(world.ref(key), 1, 1, JournalRow(2, "turn", "m", "f", 1))
    assert world.dispatch.journal_started(world.ref("b"), 1, 1, JournalRow(2, "tool", "shell", "f", 1)), "costs nothing"


@pytest.mark.parametrize(("limits", "why"), [
    ({"budget_tokens": 100}, "budget"), ({"stage_limits": ({"tokens": 100},)}, "limit"),
])  # fmt: skip
def test_more_agents_than_one_lock_asks_begin_no_turn_either(world: World, monkeypatch, limits, why: str):
    for module in (writing, dispatch):
        monkeypatch.setattr(module, "BATCH_MAX", 1)
    agents = [step(key, kind=Kind.AGENT) for key in "abc"]
    world.submit(*agents, acts={key: [HANG] for key in "abc"}, **limits)
    world.settle()
    assert spend(world, 1, 0)
    asked = [lease.step for lease in world.store.leases(world.tasks[-1], 9) if lease.stop]
    assert len(asked) == 1
    for key in "abc":
        with pytest.raises(Refused, match=why):
            world.dispatch.journal_started(world.ref(key), 1, 1, JournalRow(2, "turn", "m", "f", 1))


def test_a_limit_that_is_reached_with_the_last_call_stops_nobody(world: World):
    world.submit(step("a", kind=Kind.AGENT, limits={"micros": 500}), acts={"a": [HANG]}, attended=True)
    world.settle()
    assert spend(world, 1, 600)
    world.end("a", Done())
    assert world.run() == "completed"


def test_a_limit_fails_a_step_that_nobody_attends(world: World):
    world.submit(step("a", kind=Kind.AGENT, limits={"micros": 500}), acts={"a": [HANG]})
    world.settle()
    assert spend(world, 1, 600)
    world.later(1_000)
    assert world.run() == "failed"
    assert world.row("a").reason == "its limit is reached: 0.00 USD"


def test_a_limit_of_a_stage_stops_all_its_agents_and_each_is_asked_about(world: World):
    agents = [step(key, kind=Kind.AGENT) for key in "ab"] + [step("c", 2, kind=Kind.AGENT)]
    acts = {"a": [HANG, Done()], "b": [HANG, Done()]}
    world.submit(*agents, acts=acts, attended=True, stage_limits=({"micros": 500}, {}))
    world.settle()
    assert spend(world, 1, 300)
    assert [lease.stop for lease in world.store.leases(world.tasks[-1], 9)] == [None, None]
    assert spend(world, 2, 300)
    assert world.task.stage_spent == ((240, 600), (0, 0))
    world.later(1_000)
    world.settle()
    for key in "ab":
        assert (world.row(key).question or {})["reason"] == "the limit of stage 's1' is reached: 0.00 USD"
    world.answer("a", "raise")
    world.settle()
    assert world.states("a", "b") == ["completed", "waiting"], "raised for one, to twice as much"
    world.answer("b", "raise")
    assert world.run() == "completed"


def test_an_agent_that_begins_when_its_stage_has_spent_all_asks_before_its_first_turn(world: World):
    agents = [step("a", kind=Kind.AGENT), step("b", kind=Kind.AGENT, needs=["a"])]
    world.submit(*agents, acts={"a": [HANG], "b": [HANG, Done()]}, attended=True, stage_limits=({"tokens": 100},))
    world.settle()
    assert spend(world, 1, 0)
    world.end("a", Done())
    world.settle()
    with pytest.raises(Refused, match="limit"):
        world.dispatch.journal_started(world.ref("b"), 1, 1, JournalRow(1, "turn", "m", "f", 1))
    world.later(1_000)
    world.settle()
    assert (world.row("b").question or {})["reason"] == "the limit of stage 's1' is reached: 100 tokens"
    world.answer("b", "raise")
    assert world.run() == "completed"


def test_a_limit_of_a_stage_that_is_raised_for_the_stage_lets_all_its_agents_go_on(world: World):
    agents = [step(key, kind=Kind.AGENT) for key in "abc"]
    acts = {"a": [HANG, HANG], "b": [HANG, Done()], "c": [HANG, Done()]}
    world.submit(*agents, acts=acts, attended=True, stage_limits=({"tokens": 200},))
    world.settle()
    assert spend(world, 1, 0) and spend(world, 2, 0)
    world.later(1_000)
    world.settle()
    question = world.row("a").question or {}
    assert (question["answers"], question["stage"]) == (["raise", "raise_stage", "give_up"], 1)
    world.answer("a", "raise_stage")
    assert world.task.stage_raises == (1,)
    assert world.states("a", "b", "c") == ["ready"] * 3, "each by what was answered once"
    world.settle()
    assert world.states("a", "b", "c") == ["running", "completed", "completed"]
    assert [world.row(key).raises for key in "abc"] == [0, 0, 0]
    assert spend(world, 3, 0, attempt=2)
    assert world.state("a") == "running", "360 of now 400"
    assert spend(world, 4, 0, attempt=2)
    world.later(1_000)
    world.settle()
    assert (world.row("a").question or {})["reason"] == "the limit of stage 's1' is reached: 400 tokens"
    world.answer("a", "give_up")
    assert world.run() == "failed"


def test_a_limit_of_a_stage_that_comes_near_is_told_once_and_anew_after_it_was_raised(world: World):
    world.submit(step("a", kind=Kind.AGENT), acts={"a": [HANG, HANG]}, attended=True, stage_limits=({"tokens": 290},))
    world.settle()
    for n in range(1, 4):
        spend(world, n, 0)
    assert [event.fact for event in world.events(BudgetNear)] == [BudgetNear("tokens", 240, 290, stage=1)]
    world.later(1_000)
    world.settle()
    world.answer("a", "raise_stage")
    world.settle()
    spend(world, 4, 0, attempt=2)
    assert [event.fact for event in world.events(BudgetNear)][1:] == [BudgetNear("tokens", 480, 580, stage=1)]


def test_an_agent_that_gives_back_after_its_stage_was_raised_is_not_asked_about(world: World):
    agents = [step(key, kind=Kind.AGENT) for key in "ab"]
    acts = {"a": [HANG, Done()], "b": [HANG, Done()]}
    world.submit(*agents, acts=acts, attended=True, stage_limits=({"tokens": 100},))
    world.settle()
    assert spend(world, 1, 0)
    world.dispatch.report(world.ref("a"), 1, Stopped())
    world.answer("a", "raise_stage")
    world.dispatch.report(world.ref("b"), 1, Stopped())
    assert world.state("b") == "ready"
