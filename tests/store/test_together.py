"""Group commit: threads that write at once share a transaction, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from longtask.core.errors import Refused, StoreError
from longtask.store.contract import Store
from longtask.store.sqlite import SqliteStore
from tests.cli.shell import until
from tests.conformance.play import ready, submit, task_id

Act = Callable[[], Any]


class Commits:
    """A `trace`."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, sql: str, params: object) -> None:
        self.count += sql == "commit"


def waits(store: SqliteStore, count: int) -> bool:
    return len(store._together._waiting) == count


def at_once(store: SqliteStore, *acts: Act) -> list[Any]:
    """Hands them in while another thread commits; what came of each, its result or its error."""
    begun, go = threading.Event(), threading.Event()
    came: list[Any] = [None] * len(acts)

    def wait() -> None:
        begun.set()
        assert go.wait(60)

    def carry(n: int, act: Act) -> None:
        try:
            came[n] = store.together(act)
        except BaseException as error:  # noqa: BLE001  it is what the test looks at
            came[n] = error

    first = threading.Thread(target=lambda: store.together(wait))
    first.start()
    assert begun.wait(60)
    threads = []
    for n, act in enumerate(acts):
        threads.append(threading.Thread(target=carry, args=(n, act)))
        threads[-1].start()
        until(partial(waits, store, n + 1))
    go.set()
    for thread in (first, *threads):
        thread.join(60)
        assert not thread.is_alive()
    return came


@pytest.fixture
def commits() -> Commits:
    return Commits()


@pytest.fixture
def store(tmp_path: Path, commits: Commits) -> Iterator[SqliteStore]:
    made = SqliteStore(tmp_path / "longtask.db", trace=commits)
    yield made
    made.close()


def made(store: Store, number: int, key: str | None = None) -> Act:
    return lambda: submit(store, number, ready("a"), idempotency_key=key)


def refuse() -> None:
    raise Refused("not now")


def fail() -> None:
    raise ValueError("a mistake")


def test_what_is_written_at_once_is_one_transaction(store, commits):
    assert at_once(store, *(made(store, n) for n in range(1, 9))) == [task_id(n) for n in range(1, 9)]
    assert commits.count == 1
    assert [store.get_task(task_id(n)).number for n in range(1, 9)] == list(range(1, 9))


def test_whoever_is_refused_hurts_nobody(store, commits):
    first, refused, last = at_once(store, made(store, 1), refuse, made(store, 2))
    assert (first, last) == (task_id(1), task_id(2)) and isinstance(refused, Refused)
    assert commits.count == 1 and store.get_task(task_id(2))


def test_of_two_with_one_key_one_is_refused(store):
    first, second, other = at_once(store, made(store, 1, "k"), made(store, 2, "k"), made(store, 3))
    assert first == task_id(1) and isinstance(second, Refused) and other == task_id(3)
    found = store.task_by_key("k")
    assert found is not None and found.id == first


def test_whoever_fails_is_the_only_one_to_hear_of_it(store):
    first, failed, last = at_once(store, made(store, 1), fail, made(store, 2))
    assert (first, last) == (task_id(1), task_id(2)) and isinstance(failed, ValueError)
    assert store.get_task(first) and store.get_task(last)


def test_what_another_has_written_before_it_failed_is_not_there(store):
    def half() -> None:
        submit(store, 2, ready("a"))
        fail()

    first, failed = at_once(store, made(store, 1), half)
    assert first == task_id(1) and isinstance(failed, ValueError)
    assert [task.id for task in store.tasks(open_only=False, workspace_id=None, before=0, limit=9)] == [first]


def test_all_hear_of_a_commit_that_fails(store, monkeypatch):
    def full(point: str) -> None:
        if point == "commit":
            raise StoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(store, "fault", full)
        came = at_once(store, made(store, 1), made(store, 2))
    assert all(isinstance(error, StoreError) for error in came)
    assert store.together(made(store, 1)) == task_id(1)


def test_nobody_takes_the_end_of_whoever_leads_for_a_success(store):
    class Stopped(BaseException):
        pass

    def stop() -> None:
        raise Stopped

    came = at_once(store, stop, made(store, 1))
    assert isinstance(came[0], Stopped) and isinstance(came[1], StoreError)
    assert store.together(made(store, 1)) == task_id(1)


def test_a_crowd_is_served_in_turns(store, commits):
    threads = [threading.Thread(target=store.together, args=(made(store, n),)) for n in range(1, 101)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    tasks = store.tasks(open_only=False, workspace_id=None, before=0, limit=200)
    assert len(tasks) == 100 and commits.count <= 100
