"""Forks on the real engine and both databases: bounded, continued when killed, readable, and on the head as of then."""

from collections.abc import Iterator

import pytest

from longtask.boot import Language
from longtask.core import graph
from longtask.core.errors import NotFound, Refused
from longtask.core.events import StepCompleted, StepsAdded, TaskSubmitted
from longtask.core.model import Done, Failed, Task
from longtask.engine.desk import Desk
from longtask.engine.scope import Scopes
from longtask.store.contract import Ref
from longtask.store.postgres.store import PostgresStore
from longtask.store.sqlite import SqliteStore
from tests import postgres
from tests.conformance.play import act, claim, ready, submit, task_id
from tests.conformance.test_upkeep import end
from tests.engine.test_upkeep import DAY_MS, House
from tests.engine.world import World, for_each, step


class Killed(BaseException):
    """Whoever forks is gone in the middle."""


@pytest.fixture(params=["sqlite", "postgresql"])
def world(request) -> Iterator[World]:
    url = postgres.empty_url() if request.param == "postgresql" else ":memory:"
    made = World(url, opens=PostgresStore if request.param == "postgresql" else SqliteStore)
    yield made
    made.audit()
    made.store.close()
    if request.param == "postgresql":
        postgres.give_back(url)


def fork(world: World, key: str, *, idempotency_key: str | None = None) -> Task:
    made = world.desk.fork(world.ref(key), "ben", idempotency_key=idempotency_key)
    world.tasks.append(made.id)
    return made


def killed(world: World, at: int, act) -> bool:
    """Dies at the `at`-th commit; False: there are fewer."""
    left = [at]

    def fault(point: str) -> None:
        if point == "commit":
            left[0] -= 1
            if not left[0]:
                raise Killed

    world.store.fault = fault
    try:
        act()
    except Killed:
        return True
    finally:
        world.store.fault = lambda point: None
    return False


def artifact(name: str, digest: str) -> dict:
    return {"name": name, "digest": digest, "size_bytes": 3, "media_type": "text/plain"}


def test_a_step_is_done_again_and_what_came_before_is_taken_over(world: World):
    made = Done({"x": 7}, artifacts=(artifact("report", "d1"),))
    world.submit(step("a"), step("b", needs=["a"]), step("c", needs=["b"]), acts={"a": [made], "b": [Failed("no")]})
    assert world.run() == "failed"
    source = world.task
    forked = fork(world, "b")
    assert (forked.name, forked.number > source.number, forked.created_by) == (source.name, True, "ben")
    assert forked.options.forked is not None and forked.options.forked.task == source.id
    assert world.states("a", "b", "c") == ["completed", "ready", "blocked"]
    assert world.row("a").result == {"x": 7}
    assert [(a.name, a.step, a.attempt) for a in world.store.artifacts(forked.id, 9)] == [("report", "a", 1)]
    world.acts["b"] = [Done()]
    world.begun.clear()
    assert world.run() == "completed"
    assert world.begun_keys() == ["b", "c"]
    assert world.store.get_task(source.id) == source, "a fork leaves its source alone"


def test_outputs_that_were_taken_over_are_read_by_what_comes_after(world: World):
    world.submit(
        step("a", outputs={"flag": "bool"}),
        step("b", needs=["a"]),
        step("c", needs=["a", "b"], if_="steps.a.outputs.flag", reads=("a",)),
        acts={"a": [Done({"flag": False})]},
    )
    assert world.run() == "completed"
    fork(world, "b")
    assert world.run() == "completed"
    assert world.states("a", "b", "c") == ["completed", "completed", "skipped"]


def test_a_condition_that_stands_first_is_evaluated_when_all_is_there(world: World):
    world.submit(
        step("a", outputs={"flag": "bool"}),
        step("b", needs=["a"], if_="steps.a.outputs.flag", reads=("a",)),
        step("c", needs=["b"]),
        acts={"a": [Done({"flag": True})], "b": [Failed("no")]},
    )
    assert world.run() == "failed"
    fork(world, "b")
    assert world.state("b") == "ready"
    world.acts["b"] = [Done()]
    assert world.run() == "completed"


def test_a_gate_that_has_nothing_to_wait_for_opens(world: World):
    world.submit(step("a"), step("b", stage=2), step("c", stage=3), acts={"c": [Failed("no")]})
    world.run()
    fork(world, "c")
    assert world.states("gate.1", "gate.2", "c") == ["completed", "completed", "ready"]
    assert world.task.counts.gates == 2


def test_code_of_a_parallel_step_that_was_merged_later_is_left_out(world: World):
    world.submit(
        step("a", commits=True), step("b", commits=True), step("c", needs=["a", "b"]),
        acts={"a": ["hang"], "b": [world.commit("b")]}, code=True,
    )  # fmt: skip
    world.settle()
    base = world.task.base
    world.end("a", world.commit("a")(world.begun[0]))
    assert world.run() == "completed"
    b, head = world.row("b"), world.task.head
    assert b.commit is not None and head is not None and world.code.contains(b.commit, head)
    forked = fork(world, "a")
    assert forked.head == forked.base == base
    assert world.states("a", "b", "c") == ["ready", "ready", "blocked"]
    world.acts = {"a": [world.commit("a2")], "b": [world.commit("b2")]}
    assert world.run() == "completed"
    assert world.task.head is not None and not world.code.contains(b.commit, world.task.head)


def test_what_never_began_is_forked_as_of_now_and_completed_items_are_passed_over(world: World):
    world.submit(
        for_each("x", [1, 2, 3, 4], parallel_max=2),
        step("y", needs=["x"]),
        acts={"x[2]": [Failed("no")], "x[*": [lambda a: Done({"n": a.scope["item"]})]},
    )
    assert world.run() == "failed"
    completed = {row.key for row in world.owned("x") if row.state == "completed"}
    assert world.state("y") == "skipped" and completed
    fork(world, "y")
    assert {row.key for row in world.owned("x")} == completed
    world.begun.clear()
    world.acts = {"x[[]*": [lambda a: Done({"n": a.scope["item"]})]}
    assert world.run() == "completed"
    assert not completed & set(world.begun_keys())
    assert [one["n"] for one in world.row("x").result] == [1, 2, 3, 4]


def test_the_same_key_gives_the_same_fork_and_no_other(world: World):
    world.submit(step("a"), step("b"))
    world.run()
    source = world.tasks[-1]
    first = fork(world, "a", idempotency_key="k")
    assert world.desk.fork(Ref(source, "a"), "ben", idempotency_key="k").id == first.id
    with pytest.raises(Refused, match="belongs to task"):
        world.desk.fork(Ref(source, "b"), "ben", idempotency_key="k")


def many(n: int) -> list:
    return [step(f"s{i:05}") for i in range(n)] + [step("last", stage=2)]


def test_a_large_task_is_forked_in_bounded_transactions(world: World):
    world.submit(*many(1_700))
    forked = fork(world, "last")
    facts = [event.fact for event in world.events()]
    added = [fact for fact in facts if isinstance(fact, TaskSubmitted | StepsAdded)]
    assert [len(fact.steps) for fact in added] == [500, 500, 500, 203, 0]
    assert [fact.more for fact in added] == [True, True, True, True, False]
    assert (forked.loading, forked.counts.steps, forked.counts.ready) == (False, 1_703, 1_700)


def test_a_fork_that_is_killed_between_any_two_transactions_is_continued_by_its_key(world: World, monkeypatch):
    monkeypatch.setattr(graph, "BATCH_MAX", 5)
    world.submit(*many(9), acts={"last": ["hang"]})
    world.settle()
    source = world.tasks[-1]

    def again() -> Task:
        return world.desk.fork(Ref(source, "last"), "ben", idempotency_key=f"k{at}")

    at = 1
    while killed(world, at, again):
        begun = world.store.task_by_key(f"k{at}")
        if begun is not None:
            assert begun.loading and begun.admits == 0
            world.tasks.append(begun.id)
            world.audit()
        whole = again()
        assert (whole.loading, whole.counts.steps, whole.counts.open) == (False, 12, 2)
        assert begun is None or whole.id == begun.id
        at += 1
    assert at == 5
    world.tasks = [source]
    world.end("last", Done())
    world.run()


def test_a_fork_that_broke_off_goes_on_from_where_it_began_though_its_source_has_gone_on(world: World):
    world.submit(step("a"), step("b", needs=["a"]), acts={"b": [Failed("once"), Done()]})
    world.run()
    source = world.tasks[-1]

    def again() -> Task:
        return world.desk.fork(Ref(source, "b"), "ben", idempotency_key="k")

    assert killed(world, 2, again)
    begun = world.store.task_by_key("k")
    assert begun is not None and begun.loading
    world.desk.retry(Ref(source, "b"), "ann")
    world.run()
    whole = again()
    assert whole.options.forked == begun.options.forked
    world.tasks.append(whole.id)
    world.acts["b"] = [Done()]
    assert world.run() == "completed"


def test_a_fork_whose_source_was_pruned_before_it_was_whole_is_given_up(world: World):
    world.submit(step("a"), step("b", needs=["a"]))
    world.run()
    source = world.task
    assert killed(world, 2, lambda: world.desk.fork(Ref(source.id, "b"), "ben", idempotency_key="k"))
    assert world.store.prune_task(source.id, world.now)
    with pytest.raises(NotFound):
        world.desk.fork(Ref(source.id, "b"), "ben", idempotency_key="k")
    begun = world.store.task_by_key("k")
    assert begun is not None
    world.tasks = [begun.id]
    world.settle()
    assert world.status == "cancelled"


def test_a_loading_task_is_not_forked(world: World):
    assert killed(world, 2, lambda: world.submit(*many(700), key="k"))
    loading = world.store.task_by_key("k")
    assert loading is not None and loading.loading
    with pytest.raises(Refused, match="still being submitted"):
        world.desk.fork(Ref(loading.id, "s00000"), "ben")
    with pytest.raises(NotFound):
        world.desk.fork(Ref(loading.id, "nothing"), "ben")


def test_a_fork_that_begins_paused_is_edited_before_anything_of_it_runs(world: World):
    world.submit(step("a"), step("b", needs=["a"]), step("c", needs=["b"]), acts={"b": [Failed("no")]})
    assert world.run() == "failed"
    made = world.desk.fork(world.ref("b"), "ben", paused=True)
    world.tasks.append(made.id)
    world.begun.clear()
    world.settle()
    assert (world.task.state, world.begun_keys(), world.states("a", "b")) == ("paused", [], ["completed", "ready"])
    world.hands().edit(world.ref("b"), {"run": "other"}, "ben")
    world.acts["b"] = [Done()]
    world.desk.resume(made.id, "ben")
    assert world.run() == "completed"
    assert world.begun_keys() == ["b", "c"]
    world.audit()


def test_what_a_fork_would_do_is_named_and_nothing_is_done(world: World):
    world.submit(step("a"), step("b", needs=["a"]), step("c", needs=["b"]), step("d"), acts={"c": [Failed("no")]})
    world.run()
    before = world.store.tasks(open_only=False, workspace_id=None, before=0, limit=9)
    said = world.desk.foresee(world.ref("b"), "fork")
    assert (said.kept, said.again, said.begins) == (("a",), ("b", "c", "d"), ()), "d was done beside b, after its claim"
    assert world.store.tasks(open_only=False, workspace_id=None, before=0, limit=9) == before


def test_what_a_retry_brings_back_is_named_and_refused_as_the_retry_is(world: World):
    world.submit(step("a"), step("b", needs=["a"]), step("c", stage=2), acts={"a": [Failed("no")]})
    world.run()
    said = world.desk.foresee(world.ref("a"), "retry")
    assert (said.again, said.begins) == (("a",), ("b", "c"))
    with pytest.raises(Refused, match="retry that one"):
        world.desk.foresee(world.ref("b"), "retry")


def test_what_an_edit_makes_stale_is_named_and_refused_as_the_edit_is(world: World):
    plan = (step("a"), step("b", needs=["a"]), step("c", stage=2), step("d"))
    world.submit(*plan, acts={"a": [Failed("no")]})
    assert world.desk.foresee(world.ref("b"), "edit").begins == ("b",), "nothing has read yet what it hands over"
    world.run()
    said = world.desk.foresee(world.ref("a"), "edit")
    assert (said.again, said.begins, said.kept) == (("a",), ("b", "c"), ("d",))
    with pytest.raises(Refused, match="never runs again"):
        world.desk.foresee(world.ref("d"), "edit")


def test_bytes_that_were_taken_over_stay_when_the_source_is_pruned(tmp_path):
    house = House(tmp_path)
    value, named, lost = (
        house.artifacts.put("ws", text).digest for text in (b"a large value", b"an artifact", b"nobody's")
    )
    source = submit(house.store, 1, ready("a", "b"), workspace_id="ws")
    claim(house.store, source, "a")
    act(house.store, source, StepCompleted("a", 1, {"$artifact": value}, (artifact("n", named),)))
    desk = Desk(house.store, Scopes(house.store, lambda w, digest: digest), Language(), lambda: task_id(2))
    forked = desk.fork(Ref(source, "b"), "ben")
    end(house.store, source)
    submit(house.store, 3, ready("c"))
    house.clock.forward(91 * DAY_MS)
    house.round()
    with pytest.raises(NotFound):
        house.store.get_task(source)
    assert [house.artifacts.has("ws", digest) for digest in (value, named, lost)] == [True, True, False]
    assert house.store.get_step(Ref(forked.id, "a")).result == {"$artifact": value}
    assert [one.digest for one in house.store.artifacts(forked.id, 9)] == [named]
    house.store.close()
