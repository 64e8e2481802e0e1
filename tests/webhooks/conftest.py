"""A store on each database, with time moved by hand, and a sender whose rounds a test makes itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from longtask.steps.posting import Allowed
from longtask.store.contract import Store
from longtask.webhooks.sender import Sender
from tests.conformance.conftest import clock, open_store, store

__all__ = ["clock", "open_store", "rounds", "store"]

LOOPBACK = Allowed.read(["127.0.0.1"], "X")
DEADLINE_S = 30.0


class Rounds:
    """`go()`: rounds until none begins anything, each turn to its end."""

    def __init__(self, store: Store, holder: str = "server-1", **more) -> None:
        self._ended = threading.Semaphore(0)
        self.sender = Sender(store, more.pop("allowed", LOOPBACK), holder, done=self._ended.release, **more)

    def go(self, rounds_max: int = 100) -> int:
        begun = 0
        for _ in range(rounds_max):
            turns = self.sender.tick()
            for _ in range(turns):
                assert self._ended.acquire(timeout=DEADLINE_S)
            begun += turns
            if not turns:
                break
        return begun


@pytest.fixture
def rounds(store: Store) -> Iterator[Callable[..., Rounds]]:
    made: list[Rounds] = []

    def make(*args, **more) -> Rounds:
        made.append(Rounds(more.pop("store", store), *args, **more))
        return made[-1]

    yield make
    for one in made:
        one.sender.close()
