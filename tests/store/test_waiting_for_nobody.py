"""On PostgreSQL several transactions write at once: taking a mutex must wait for none of them.

A group holds several tasks; if one of its claims waited for another group's, and that one for a task of the first, both
would stand still.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from longtask.core.errors import Refused
from longtask.core.events import StepClaimed, StepCompleted
from longtask.store.contract import Ref, Store
from tests import postgres
from tests.conformance.databases import DATABASES, Clock
from tests.conformance.play import act, ready, submit

SOON_S = 5.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = DATABASES["postgresql"](tmp_path, Clock())
    yield store
    store.close()
    postgres.give_back((tmp_path / "postgresql.url").read_text())


def take(store: Store, id_: str) -> None:
    act(store, id_, StepClaimed("a", 1, "w-1", mutex="m"))


class Elsewhere:
    """Another thread's group, which stays open until it is told to end."""

    def __init__(self, store: Store, *acts: object) -> None:
        self._store, self._acts = store, acts
        self._done, self._end = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with self._store.group():
            for each in self._acts:
                each()  # type: ignore[operator]
            self._done.set()
            assert self._end.wait(60)

    def __enter__(self) -> Elsewhere:
        self.thread.start()
        assert self._done.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self.thread.join()


def refused_soon(store: Store, id_: str) -> None:
    began = time.monotonic()
    with pytest.raises(Refused, match="was taken a moment ago"):
        take(store, id_)
    assert time.monotonic() - began < SOON_S


def test_one_that_another_group_is_taking_is_refused_at_once(store: Store):
    x, y = submit(store, 1, ready("a")), submit(store, 2, ready("a"))
    with Elsewhere(store, lambda: take(store, x)):
        with store.task(y) as tx:
            assert tx.mutex("m", "a").free, "what is not committed is not seen"
        refused_soon(store, y)
    held = store.mutex("m")
    assert held is not None and held.task_id == x


def test_one_that_another_group_is_giving_back_is_refused_at_once(store: Store):
    x, y = submit(store, 1, ready("a")), submit(store, 2, ready("a"))
    take(store, x)
    with Elsewhere(store, lambda: act(store, x, StepCompleted("a", 1))):
        refused_soon(store, y)
    take(store, y)
    held = store.mutex("m")
    assert held is not None and held.task_id == y


def test_one_that_another_group_took_and_gives_back_is_refused_at_once(store: Store):
    x, y = submit(store, 1, ready("a")), submit(store, 2, ready("a"))
    with Elsewhere(store, lambda: take(store, x), lambda: act(store, x, StepCompleted("a", 1))):
        refused_soon(store, y)
    take(store, y)
    assert [lease.step for lease in store.leases(y, 5)] == ["a"]


def test_a_group_that_is_refused_one_mutex_keeps_its_other_claims(store: Store):
    x, y, z = (submit(store, n, ready("a")) for n in (1, 2, 3))
    with Elsewhere(store, lambda: take(store, x)):
        with store.group():
            act(store, z, StepClaimed("a", 1, "w-2", mutex="n"))
            refused_soon(store, y)
        assert store.get_step(Ref(z, "a")).state == "running"
    assert [row.task_id for name in "mn" if (row := store.mutex(name))] == [x, z]
