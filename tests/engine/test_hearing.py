"""A signal that many steps wait for: told in batches, and lost by none of them (SEMANTICS 42-44)."""

from longtask.core.policy import BATCH_MAX
from longtask.store.contract import Ref
from tests.engine.world import World, wait


def waits(n: int):
    return [wait(f"w{i:04}", signal="go") for i in range(n)]


def test_a_signal_for_more_than_a_batch_is_told_to_all_by_the_scheduler(world: World) -> None:
    world.submit(*waits(BATCH_MAX + 20))
    world.settle()
    task = world.tasks[0]
    world.desk.signal(task, "go", {}, delivery="once")
    states = [str(row.state) for row in world.store.steps(task, "", 2 * BATCH_MAX) if not row.gate]
    assert states.count("waiting") == 20, "one batch is woken with the signal"
    assert world.store.unheard(5) == [task]
    world.desk.signal(task, "go", {}, delivery="once")
    assert world.store.get_step(Ref(task, f"w{BATCH_MAX + 19:04}")).state == "waiting", "a second delivery wakes nobody"
    assert world.run() == "completed"
    assert world.store.unheard(5) == []
