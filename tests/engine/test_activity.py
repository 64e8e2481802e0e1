"""`limits.active`: the time in which at least one attempt ran."""

from longtask.core.events import BudgetExceeded, BudgetNear
from longtask.core.model import Done, Kind, Parked, WaitingFor
from tests.engine.world import HANG, World, step

MINUTE = 60_000


def test_a_task_that_has_run_for_so_long_claims_no_more_until_the_limit_is_raised(world: World):
    world.submit(step("a"), step("b", 2), acts={"a": [HANG]}, active_max_ms=MINUTE)
    world.settle()
    world.later(MINUTE - 6_000)
    assert world.events(BudgetExceeded) == []
    world.later(12_000)
    assert world.task.exceeded == "active"
    assert world.state("a") == "running"  # a command runs on
    world.end("a", Done())
    assert world.run() == "waiting_budget"
    world.desk.raise_budget(world.tasks[0], "ann", active_ms=2 * MINUTE)
    assert world.run() == "completed"
    assert len(world.events(BudgetExceeded)) == 1


def test_time_that_comes_near_its_limit_is_told_once_whoever_looks(world: World):
    world.submit(step("a"), acts={"a": [HANG]}, active_max_ms=MINUTE)
    world.settle()
    world.later(40_000)
    assert world.events(BudgetNear) == []
    world.later(12_000)
    world.scheduler = world.new_scheduler()
    world.later(6_000)
    (near,) = [event.fact for event in world.events(BudgetNear)]
    assert isinstance(near, BudgetNear) and near.which == "active_ms"
    assert 48_000 <= near.used < near.limit == MINUTE
    world.desk.raise_budget(world.tasks[0], "ann", active_ms=2 * MINUTE)
    world.later(48_000)
    assert len(world.events(BudgetNear)) == 2


def test_agents_give_back_when_the_time_is_over(world: World):
    world.submit(step("a", kind=Kind.AGENT), acts={"a": [HANG, Done()]}, active_max_ms=MINUTE)
    world.settle()
    world.later(MINUTE + 12_000)
    assert world.run() == "waiting_budget"
    assert (world.state("a"), world.row("a").losses) == ("ready", 0)
    world.desk.raise_budget(world.tasks[0], "ann", active_ms=2 * MINUTE)
    assert world.run() == "completed"


def test_waiting_does_not_count_and_two_at_once_count_once(world: World):
    park = Parked(WaitingFor.EVENT, {"name": "go"})
    world.submit(step("a"), step("b"), acts={"a": [HANG, Done()], "b": [HANG]}, active_max_ms=MINUTE)
    world.settle()
    world.later(40_000)
    world.end("b", Done())
    world.end("a", park)
    world.settle()
    world.later(10 * MINUTE)
    world.signal()
    world.later(6_000)
    assert world.run() == "completed"
    assert world.events(BudgetExceeded) == []


def test_a_scheduler_that_has_just_started_knows_what_was_used_before(world: World):
    world.submit(step("a"), step("b", 2), acts={"a": [HANG], "b": [HANG]}, active_max_ms=MINUTE)
    world.settle()
    world.later(50_000)
    world.end("a", Done())
    world.settle()
    world.scheduler = world.new_scheduler()
    world.later(16_000)
    assert world.task.exceeded == "active"


def test_raising_another_limit_does_not_lift_this_one(world: World):
    world.submit(step("a"), step("b", 2), acts={"a": [HANG]}, active_max_ms=MINUTE)
    world.settle()
    world.later(MINUTE + 6_000)
    world.desk.raise_budget(world.tasks[0], "ann", tokens=1)
    world.later(6_000)
    assert world.task.exceeded == "active"
    world.end("a", Done())
    assert world.run() == "waiting_budget"


def test_a_task_without_such_a_limit_is_not_looked_at(world: World):
    world.submit(step("a"), acts={"a": [HANG]})
    world.settle()
    world.later(100 * MINUTE)
    assert world.task.exceeded is None
