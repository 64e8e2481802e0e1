"""Every world is audited at the end of its test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.engine.world import World


@pytest.fixture
def new_world() -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def make(**more: Any) -> World:
        made.append(World(**more))
        return made[-1]

    yield make
    for world in made:
        world.audit()
        world.store.close()


@pytest.fixture
def world(new_world: Callable[..., World]) -> World:
    return new_world()
