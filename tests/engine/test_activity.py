"""`limits.active`: the time in which at least one attempt ran."""

from longtask.core.events import BudgetExceeded, BudgetNear
from longtask.core.model import Done, Kind, Parked, WaitingFor
from longtask.core.oracle.active import limits
from longtask.store.contract import Ref
from tests.engine.audit import journal
from tests.engine.world import HANG, World, for_each, graph_of, step, subtask, work

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


# --- of a family --------------------------------------------------------------------------------------------------


def below(world: World, depth: int = 1) -> None:
    """Its only attempt runs in a task below it."""
    graph = graph_of(step("c"), name="deepest")
    for n in range(depth - 1):
        graph = graph_of(step("x", **subtask(graph)), name=f"d{n}")
    world.submit(step("x", **subtask(graph)), acts={"c": [HANG, Done()]}, active_max_ms=MINUTE)
    world.settle()


def test_time_in_which_only_a_grandchild_ran_counts(world: World):
    below(world, 2)
    world.later(MINUTE - 2_000)
    assert world.events(BudgetExceeded) == []
    world.later(8_000)
    assert world.task.exceeded == "active"
    (child,) = world.children()
    (grandchild,) = world.store.children(child.id, 10)
    world.settle()
    assert (child.id != grandchild.id, world.store.get_task(grandchild.id).pauses) == (True, 2), "it is held with it"
    world.end("c", Done())
    world.desk.raise_budget(world.tasks[0], "ann", active_ms=2 * MINUTE)
    world.run()
    assert str(world.store.get_task(world.tasks[0]).state) == "completed"


def test_children_that_run_at_once_count_once(world: World):
    item = work(**subtask(graph_of(step("c"), name="child")))
    world.submit(for_each("x", [1, 2, 3, 4], item=item), acts={"c": [HANG]}, active_max_ms=MINUTE)
    world.settle()
    world.later(MINUTE - 2_000)
    assert world.task.exceeded is None
    world.later(8_000)
    assert world.task.exceeded == "active"


def test_a_scheduler_that_has_just_started_knows_what_children_used_that_have_ended(world: World):
    world.submit(
        step("x", **subtask(graph_of(step("c"), name="child"))), step("a", 2), acts={"*": [HANG]}, active_max_ms=MINUTE
    )
    world.settle()
    world.later(50_000)
    world.end("c", Done())
    world.settle()
    assert world.state("a") == "running"
    world.scheduler = world.new_scheduler()
    world.later(16_000)
    assert world.task.exceeded == "active"


def test_the_limit_is_told_by_the_look_that_begins_after_it(world: World):
    """So it is overstepped by LOOK_EVERY_MS and a tick, while a scheduler is awake."""
    below(world)
    world.later(MINUTE + 12_000)
    (told,) = world.events(BudgetExceeded)
    own = world.events()
    kids = [journal(world.store, child.id) for child in world.store.children(world.tasks[0], 10)]
    assert list(limits(own, kids, world.now)) == []
    began = own[0].at
    assert MINUTE <= told.at - began <= MINUTE + 6_000
    early = [event._replace(at=began + MINUTE - 1) if event == told else event for event in own]
    assert [v.rule for v in limits(early, kids, world.now)] == ["active"]
    untold = [event for event in own if event != told]
    assert [v.rule for v in limits(untold, kids, world.now)] == ["active"]


def test_a_child_s_limit_counts_only_what_is_its_own(world: World):
    graph = graph_of(step("c"), name="child", active_max_ms=MINUTE)
    world.submit(step("a"), step("x", 2, **subtask(graph)), acts={"a": [HANG], "c": [HANG]})
    world.settle()
    world.later(2 * MINUTE)
    world.end("a", Done())
    world.settle()
    world.later(30_000)
    (child,) = world.children()
    assert world.store.get_task(child.id).exceeded is None
    world.later(40_000)
    assert world.store.get_task(child.id).exceeded == "active"
    assert world.store.get_step(Ref(child.id, "c")).state == "running"


def test_a_family_is_read_in_bounded_rounds(world: World, monkeypatch):
    monkeypatch.setattr("longtask.engine.activity.READS_MAX", 2)
    item = work(**subtask(graph_of(step("c"), name="child")))
    world.submit(for_each("x", list(range(9)), item=item, parallel_max=9), acts={"c": [HANG]}, active_max_ms=MINUTE)
    world.settle()
    world.scheduler = world.new_scheduler()
    rounds = 0
    while world.scheduler._activity.told_at < world.now:
        world.scheduler._activity.look(world.now)
        rounds += 1
    assert rounds > 4
    world.later(MINUTE + 12_000)
    assert world.store.get_task(world.tasks[0]).exceeded == "active"
