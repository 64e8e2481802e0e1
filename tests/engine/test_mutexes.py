"""Mutexes across tasks (SEMANTICS rules 33, 56, 57; cases 60b, 61), on the real engine."""

from collections.abc import Callable

import pytest

from longtask.core.errors import Refused
from longtask.core.events import MutexAwaited, StepWoken
from longtask.core.model import Done, Failed, Kind, Outcome, Parked, Released, Step, WaitingFor
from longtask.core.policy import CALL_MS
from longtask.store.contract import JournalRow, Ref
from tests.engine.world import HANG, LEASE_MS, World, approval, for_each, step, work

ASKS = Parked(WaitingFor.USER, {"kind": "approval", "text": "may I?", "digest": "d"})


def submit(world: World, *keys: str, **words) -> None:
    """A task for each key, one after another, whose only step wants mutex `m`."""
    for key in keys:
        world.submit(step(key, mutex="m"), acts={key: [HANG]}, name=key, **words)
        world.settle()
        world.now += 1


def holder(world: World, name: str = "m") -> str | None:
    row = world.store.mutex(name)
    return None if row is None else row.step


def queue(world: World, name: str = "m") -> list[str]:
    return [ticket.step for ticket in world.store.queue(name, 100_000)]


def task_of(world: World, key: str) -> str:
    return next(id_ for id_ in world.tasks if world.store.get_task(id_).name == key)


def row(world: World, key: str) -> Step:
    return row_of(world, Ref(task_of(world, key), key))


def row_of(world: World, ref: Ref) -> Step:
    return world.store.get_step(ref)


def finish(world: World, key: str) -> None:
    world.end(key, Done())
    world.settle()


# --- (61) ---------------------------------------------------------------------------------------------------------


def test_of_three_tasks_with_one_mutex_the_first_that_came_is_served_first(world: World):
    submit(world, "a", "b", "c")
    assert (holder(world), queue(world)) == ("a", ["b", "c"])
    assert [row(world, key).waiting_for for key in "abc"] == ["", "mutex", "mutex"]
    finish(world, "a")
    assert (holder(world), queue(world)) == ("b", ["c"])
    finish(world, "b")
    finish(world, "c")
    assert (holder(world), queue(world), world.begun_keys()) == (None, [], ["a", "b", "c"])


def test_a_paused_task_is_passed_over_and_keeps_its_place(world: World):
    submit(world, "a", "b", "c", "d")
    world.desk.pause(task_of(world, "b"), "ann")
    finish(world, "a")
    assert (holder(world), queue(world)) == ("c", ["b", "d"])
    world.desk.resume(task_of(world, "b"), "ann")
    finish(world, "c")
    assert (holder(world), queue(world)) == ("b", ["d"])


@pytest.mark.parametrize("why", ["full", "broke"])
def test_a_task_that_admits_no_claim_is_passed_over_until_it_does(world: World, why: str):
    submit(world, "a")
    parallel = 1 if why == "full" else 5
    world.submit(
        step("b", mutex="m"), step("x", needs=[]), name="b", acts={"b": [HANG], "x": [HANG]},
        parallel=parallel, budget_tokens=10,
    )  # fmt: skip
    world.settle()
    x = Ref(task_of(world, "b"), "x")
    assert (queue(world), row_of(world, x).state) == (["b"], "running")
    if why == "broke":
        world.dispatch.journal_done(x, 1, 1, JournalRow(1, "turn", "big", "f", 1, tokens_in=20))
    submit(world, "c")
    finish(world, "a")
    assert (holder(world), queue(world)) == ("c", ["b"])
    world.end("x", Done())
    world.desk.raise_budget(x.task_id, "ann", tokens=100)
    world.settle()
    finish(world, "c")
    assert holder(world) == "b"


def test_a_mutex_whose_holder_was_killed_is_free_when_its_lease_ends(world: World):
    submit(world, "a", "b")
    world.die()
    world.later(LEASE_MS - 2_000)
    assert holder(world) == "a", "its process may still write"
    world.later(LEASE_MS + 3_000)
    assert (holder(world), row(world, "a").state) == (None, "ready")
    world.reborn()
    world.settle()
    assert holder(world) == "b"
    finish(world, "b")
    assert world.begun_keys()[:2] == ["a", "b"]


# --- what frees it ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Done(), "completed"),
        (Failed("no", retryable=False), "failed"),
        (Failed("once more"), "ready"),
        (Released("drain"), "running"),
        (ASKS, "waiting"),
        (Parked(WaitingFor.EVENT, {"name": "go"}), "waiting"),
    ],
)
def test_whatever_ends_the_attempt_frees_its_mutex(world: World, outcome: Outcome, state: str):
    world.submit(step("a", mutex="m", failures_max=1), acts={"a": [HANG]}, name="a")
    world.settle()
    submit(world, "b")
    world.end("a", outcome)
    world.settle()
    assert holder(world) == "b"
    assert row(world, "a").state == ("waiting" if state == "running" else state), "given back, it queues behind b"


def test_a_delivered_commit_is_merged_without_the_mutex(world: World):
    world.submit(step("a", mutex="m", commits=True), acts={"a": [world.commit("f")]}, code=True, name="a")
    assert world.run() == "completed"
    assert holder(world) is None


def test_a_fix_is_made_without_the_mutex_of_what_it_mends(world: World):
    fix = work(Kind.AGENT, mutex="other")
    world.submit(step("a", mutex="m", fix=fix), acts={"a": [Failed("no", digest="1"), Done()], "a.fix.1": [HANG]})
    world.settle()
    assert (holder(world), holder(world, "other")) == (None, "a.fix.1")
    world.end("a.fix.1", Done())
    assert world.run() == "completed"


def test_nobody_takes_the_mutex_of_a_cancelled_step_before_its_process_tree_is_dead(world: World):  # (60b)
    world.submit(step("a", mutex="m", stubborn=True), acts={"a": [HANG]}, name="a")
    world.settle()
    submit(world, "b")
    world.desk.cancel(task_of(world, "a"), "ann")
    assert world.worker is not None
    world.settle()
    world.worker.beat()
    world.settle()
    assert (holder(world), row(world, "a").state) == ("a", "running")
    while world.hanging["a", 1].poll() is None:
        assert holder(world) == "a"
        world.later(1_000)
        world.scheduler.tick()
    world.settle()
    assert (holder(world), row(world, "a").state) == ("b", "cancelled")


@pytest.mark.parametrize("end", ["cancel", "cancel_step", "skip"])
def test_who_ends_while_queueing_queues_no_more(world: World, end: str):
    submit(world, "a", "b", "c")
    if end == "cancel":
        world.desk.cancel(task_of(world, "b"), "ann")
    elif end == "cancel_step":
        world.desk.cancel_step(Ref(task_of(world, "b"), "b"), "ann")
    else:
        world.desk.skip(Ref(task_of(world, "b"), "b"), "ann")
    world.settle()
    assert queue(world) == ["c"]
    finish(world, "a")
    assert holder(world) == "c"


# --- calls --------------------------------------------------------------------------------------------------------


def claim(world: World, pool: str) -> list[str]:
    return [c.step.key for c in world.dispatch.claim("other", pool, 5)]


def test_a_call_that_nobody_follows_lets_the_next_one_be_called(world: World):
    submit(world, "a")
    world.submit(step("b", mutex="m", pool="gpu"), name="b")
    assert claim(world, "gpu") == []
    submit(world, "c")
    finish(world, "a")
    assert (holder(world), row(world, "b").state) == (None, "ready"), "called, and no worker of its pool is there"
    world.later(CALL_MS - 1_000)
    assert row(world, "c").state == "waiting"
    world.later(2_000)
    world.settle()
    assert (holder(world), queue(world)) == ("c", ["b"])
    assert claim(world, "gpu") == [], "a call is no right"
    assert (row(world, "b").state, queue(world)) == ("waiting", ["b"])
    finish(world, "c")
    assert claim(world, "gpu") == ["b"]


def test_of_two_that_were_called_one_gets_it(world: World):
    submit(world, "a")
    for key in ("b", "c"):
        world.submit(step(key, mutex="m", pool="gpu"), name=key)
        assert claim(world, "gpu") == []
    finish(world, "a")
    world.later(CALL_MS + 1_000)
    assert [row(world, key).state for key in "bc"] == ["ready", "ready"]
    assert claim(world, "gpu") == ["b"]
    assert (holder(world), queue(world)) == ("b", ["c"])


def test_who_is_called_comes_before_what_was_ready_after_it_in_its_task(new_world: Callable[..., World]):
    world = new_world(slots=2)
    submit(world, "a")
    more = [step(key, needs=[]) for key in "cde"]
    world.submit(step("b", needs=[], mutex="m"), *more, name="b", acts={key: [HANG] for key in "bcde"})
    world.settle()
    world.now += 1
    finish(world, "a")  # its slot goes to the next ready step; then b is called
    assert (holder(world), world.states(*"bcde")) == (None, ["ready", "running", "running", "ready"])
    world.now += 1
    finish(world, "c")
    assert (holder(world), world.states(*"bcde")) == ("b", ["running", "completed", "running", "ready"])


def test_a_step_that_comes_when_it_is_free_lets_those_before_it_pass(world: World):
    submit(world, "a", "b")
    world.desk.pause(task_of(world, "b"), "ann")
    finish(world, "a")
    assert holder(world) is None
    world.desk.resume(task_of(world, "b"), "ann")
    world.submit(step("c", mutex="m"), name="c", acts={"c": [HANG]})
    assert world.worker is not None
    world.worker.tick()
    assert queue(world) == ["b", "c"], "it is free, and b came first"
    world.settle()
    assert (holder(world), queue(world)) == ("b", ["c"])


def test_an_answer_is_not_lost_while_its_step_queues(world: World):
    world.submit(step("a", kind=Kind.AGENT, mutex="m"), acts={"a": [ASKS, Done()]}, name="a")
    world.settle()
    submit(world, "b")
    assert holder(world) == "b"
    world.desk.answer(Ref(task_of(world, "a"), "a"), "approve", "ben")
    world.settle()
    assert row(world, "a").waiting_for == "mutex"
    finish(world, "b")
    again = [begun for begun in world.begun if begun.step == "a"][-1]
    assert (again.attempt, (again.cause or {}).get("decision")) == (2, "approve")


# --- within a task ------------------------------------------------------------------------------------------------


def test_a_report_hands_the_mutex_on_when_nobody_queues(world: World):
    world.submit(*(step(f"s{n}", needs=[f"s{n - 1}"] if n else [], mutex="m") for n in range(5)))
    assert world.run() == "completed"
    assert (world.told(MutexAwaited), world.told(StepWoken)) == ([], [])


def test_a_report_does_not_hand_the_mutex_past_those_who_queue(world: World):
    world.submit(step("s0", needs=[], mutex="m"), step("s1", needs=["s0"], mutex="m"), acts={"s0": [HANG]}, name="s")
    world.settle()
    submit(world, "b")
    world.end("s0", Done())
    world.settle()
    assert (holder(world), queue(world)) == ("b", ["s1"])


def test_items_of_a_list_share_a_mutex(new_world: Callable[..., World]):
    world = new_world(slots=8)
    world.submit(for_each("x", list(range(12)), item=work(mutex="m"), parallel_max=4))
    seen = set()

    def watch() -> bool:
        running = [r.key for r in world.owned("x") if r.state == "running"]
        assert len(running) <= 1
        seen.update(running)
        return world.task.ended

    world.settle_until(watch)
    assert (world.task.state, holder(world), queue(world)) == ("completed", None, [])


def test_many_that_queue_stand_in_the_way_of_nobody(world: World):
    submit(world, "a")
    keys = [f"s{n:03}" for n in range(600)]
    world.submit(*(step(key, needs=[], mutex="m") for key in keys), step("zz", needs=[]), name="many")
    assert world.worker is not None
    for _ in range(3):  # 500 go and queue, then the others; what was claimed then begins
        world.worker.tick()
    assert world.begun_keys()[-1] == "zz"
    assert queue(world) == keys
    finish(world, "a")
    assert world.run() == "completed"
    assert world.begun_keys()[2:] == keys, "first come, first served"


def test_only_the_mutex_of_the_same_name_is_in_the_way(world: World):
    submit(world, "a")
    world.submit(step("b", mutex="other"), name="b")
    assert world.run() == "completed"


def test_an_approval_holds_nothing(world: World):
    world.submit(step("a", mutex="m"), approval("ok", needs=["a"]), step("b", needs=["ok"], mutex="m"))
    assert world.run() == "waiting_user"
    assert holder(world) is None
    world.answer("ok", "approve")
    assert world.run() == "completed"


def test_a_mutex_is_not_taken_by_a_claim_that_is_refused(world: World):
    submit(world, "a")
    world.desk.pause(task_of(world, "a"), "ann")
    finish(world, "a")
    with pytest.raises(Refused):
        world.dispatch.report(Ref(task_of(world, "a"), "a"), 1, Done())
    assert holder(world) is None
