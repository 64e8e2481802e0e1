"""Reads for those who look on: handles, lists, paging."""

import pytest

from longtask.core.errors import NotFound, Refused
from longtask.core.events import CancelRequested, StepClaimed, StepCompleted, StepParked, TaskPaused
from longtask.core.model import Edge, TaskOptions, WaitingFor
from longtask.store.contract import PoolLoad, Ref, WorkerRow
from tests.conformance.play import WORKER, act, blocked, claim, complete, ready, settle, submit, task_id


def test_a_task_is_found_by_all_its_handles(store):
    with pytest.raises(NotFound, match="there is no task yet"):
        store.get_task("@last")
    first = submit(store, 1, ready("a"), name="port", options=TaskOptions(goal="g", stages=("x",)))
    second = submit(store, 2, ready("a"), name="port-3")
    assert store.get_task(first) == store.get_task("port-1") == store.get_task("018bcfe5-0001")
    assert store.get_task(first).options == TaskOptions(goal="g", stages=("x",))
    assert store.get_task("@last").id == store.get_task("port-3-2").id == second
    with pytest.raises(Refused, match=r"task '018bcfe5' fits .* and .*; give more characters"):
        store.get_task("018bcfe5")
    for handle in (
        "018bcfe",
        "port-2",
        "port",
        "",
        "-",
        "port-",
        "port-99999999999999999999",
        "port-²",
        "018bcfe5-0003",
    ):
        with pytest.raises(NotFound, match="no task"):
            store.get_task(handle)


def test_tasks_are_listed_newest_first(store):
    ids = [submit(store, n, ready("a"), workspace_id="w" if n % 2 else "") for n in range(1, 6)]
    act(store, ids[0], StepClaimed("a", 1, "w"), StepCompleted("a", 1))
    settle(store, ids[0], "a")

    def numbers(**filters):
        chosen = {"open_only": False, "workspace_id": None, "before": 0, "limit": 9} | filters
        return [task.number for task in store.tasks(**chosen)]

    assert numbers() == [5, 4, 3, 2, 1]
    assert numbers(limit=2) == [5, 4]
    assert numbers(before=4, limit=2) == [3, 2]
    assert numbers(open_only=True) == [5, 4, 3, 2]
    assert numbers(workspace_id="w") == [5, 3, 1]
    assert numbers(workspace_id="w", open_only=True, before=5) == [3]
    assert numbers(workspace_id="") == [4, 2]
    assert numbers(workspace_id="other") == []


def test_a_task_is_found_by_its_idempotency_key(store):
    assert store.task_by_key("k") is None
    id_ = submit(store, 1, ready("a"), idempotency_key="k")
    submit(store, 2, ready("a"))
    task = store.task_by_key("k")
    assert task is not None and task.id == id_


def test_steps_and_edges_come_in_pages(store):
    id_ = submit(store, 1, ready("c", "a", "b"), [Edge("a", "b"), Edge("a", "c"), Edge("b", "c")])
    assert [step.key for step in store.steps(id_, "", 2)] == ["a", "b"]
    assert [step.key for step in store.steps(id_, "b", 2)] == ["c"]
    assert store.edges(id_, ("", ""), 2) == [("a", "b"), ("a", "c")]
    assert store.edges(id_, ("a", "c"), 2) == [("b", "c")]
    assert store.needs(Ref(id_, "c"), 9) == ["a", "b"]
    assert store.needs(Ref(id_, "c"), 1) == ["a"]


def test_a_step_and_its_spec(store):
    id_ = submit(store, 1, ready("a"))
    assert store.get_step(Ref(id_, "a")).key == "a"
    assert store.spec(id_, 0).body == {"run": "true"}
    for call in (
        lambda: store.get_step(Ref(id_, "b")),
        lambda: store.get_step(Ref("nowhere", "a")),
        lambda: store.spec(id_, 1),
        lambda: store.spec("nowhere", 0),
    ):
        with pytest.raises(NotFound):
            call()


def test_results_of_named_steps(store):
    id_ = submit(store, 1, ready("a", "b"))
    act(store, id_, StepClaimed("a", 1, "w"), StepCompleted("a", 1, result={"n": [1, None, "ü"]}))
    found = store.results(id_, ["b", "nope", "a"])
    assert sorted(found) == ["a", "b"]
    assert found["a"].result == {"n": [1, None, "ü"]}
    assert store.results(id_, []) == {}


def test_who_asks_a_person(store, clock):
    first, second = submit(store, 1, ready("a", "b")), submit(store, 2, ready("a"))
    for id_, key, kind in ((second, "a", WaitingFor.USER), (first, "b", WaitingFor.USER), (first, "a", WaitingFor.CI)):
        clock.forward(1)
        claim(store, id_, key)
        act(store, id_, StepParked(key, 1, kind, {"ask": "ok?"}))
    assert [(id_, step.key) for id_, step in store.asking(task_id=None, limit=9)] == [(second, "a"), (first, "b")]
    assert [(id_, step.key) for id_, step in store.asking(task_id=None, limit=1)] == [(second, "a")]
    [(id_, step)] = store.asking(task_id=first, limit=9)
    assert (id_, step.key, step.ask, step.question) == (first, "b", 1, {"ask": "ok?"})


def test_events_of_a_task_and_of_all(store):
    first, second = submit(store, 1, ready("a")), submit(store, 2, ready("a"))
    act(store, first, TaskPaused())
    act(store, second, CancelRequested("ann"))
    assert [event.seq for event in store.events(first, 0, 9)] == [1, 2]
    assert [event.seq for event in store.events(first, 1, 9)] == [2]
    assert store.events(first, 2, 9) == []
    with pytest.raises(NotFound, match="no task 'nowhere'"):
        store.events("nowhere", 0, 1)
    page, cursor = store.feed("", 3)
    assert [(event.task_id, event.seq) for event in page] == [(first, 1), (second, 1), (first, 2)]
    rest, cursor = store.feed(cursor, 3)
    assert [(event.task_id, type(event.fact)) for event in rest] == [(second, CancelRequested)]
    assert store.feed(cursor, 3) == ([], cursor)


def test_the_plan_as_it_was_submitted(store):
    id_ = submit(store, 1, ready("a"))
    assert store.get_plan(id_) is None
    store.put_plan(id_, "longtask: 1\nname: ü\n")
    assert store.get_plan(id_) == "longtask: 1\nname: ü\n"
    store.put_plan(id_, "again")
    assert store.get_plan(id_) == "again"
    with pytest.raises(NotFound):
        store.put_plan("nowhere", "x")


def test_workers_are_listed_as_last_seen(store, clock):
    old = WorkerRow("w-1", "host", 7, ("default", "gpu"), 2, 5, clock.at - 9)
    store.worker_seen(old)
    store.worker_seen(WorkerRow("w-2", "host", 8, (), 1, 6))
    assert [worker.id for worker in store.workers(9)] == ["w-2", "w-1"]
    assert store.workers(9)[1] == old
    store.worker_seen(WorkerRow("w-1", "host", 7, ("default",), 3, 5, clock.at + 1))
    assert store.workers(1) == [WorkerRow("w-1", "host", 7, ("default",), 3, 5, clock.at + 1)]
    store.worker_gone("w-1")
    store.worker_gone("w-1")
    assert [worker.id for worker in store.workers(9)] == ["w-2"]


def test_a_worker_tells_its_version(store):
    store.worker_seen(WorkerRow("w-1", "host", 7, ("default",), 3, 5, 9, version="1.2.3"))
    assert store.workers(9)[0].version == "1.2.3"


def test_workers_that_have_not_been_seen_for_long_are_forgotten(store):
    for n in range(1, 6):
        store.worker_seen(WorkerRow(f"w-{n}", "host", n, ("default",), 1, 1, seen_at=n))
    assert store.forget_workers(before=1, limit=10) == 0
    assert store.forget_workers(before=4, limit=2) == 2
    assert [worker.id for worker in store.workers(9)] == ["w-5", "w-4", "w-3"]
    assert store.forget_workers(before=4, limit=2) == 1


def test_attempts_that_run_are_counted_by_worker(store):
    assert store.worker_loads(9) == {}
    id_ = submit(store, 1, ready("a", "b", "c"))
    claim(store, id_, "a")
    claim(store, id_, "b")
    assert store.worker_loads(9) == {WORKER: 2}
    act(store, id_, StepCompleted("a", 1))
    assert store.worker_loads(9) == {WORKER: 1}


def test_what_waits_for_a_worker_is_counted_by_pool(store, clock):
    assert store.pool_loads(9) == []
    first = submit(store, 1, [*ready("a", "b"), *ready("c", pool="gpu")])
    began_at, clock.at = clock.at, clock.at + 5_000
    submit(store, 2, [*ready("a"), blocked("b")])
    paused = submit(store, 3, ready("a"))
    act(store, paused, TaskPaused())
    assert store.pool_loads(9) == [PoolLoad("default", 3, began_at), PoolLoad("gpu", 1, began_at)]
    assert store.pool_loads(1) == [PoolLoad("default", 3, began_at)]
    claim(store, first, "c")
    assert store.pool_loads(9) == [PoolLoad("default", 3, began_at)]


def test_a_pool_that_no_open_step_names_is_known(store):
    id_ = submit(store, 1, [*ready("a", pool="gpu"), *ready("b")])
    assert [store.pool_named(pool) for pool in ("gpu", "default", "gpus")] == [True, True, False]
    complete(store, id_, "a")
    assert [store.pool_named(pool) for pool in ("gpu", "default", "gpus")] == [False, True, False]


def test_every_list_has_a_limit_above_zero(store):
    for peek in (store.claimable, lambda pool, limit: store.steps(task_id(1), "", limit)):
        with pytest.raises(AssertionError, match="above zero"):
            peek("default", 0)


def test_nothing_is_wrong_with_a_fresh_database(store):
    id_ = submit(store, 1, ready("a"))
    complete(store, id_, "a")
    assert store.verify() == []
