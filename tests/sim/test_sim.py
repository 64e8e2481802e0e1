"""Three hundred worlds, and every world that ever went wrong."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from longtask.core.model import Kind

from . import scenarios
from .broken import MUTANTS
from .hosting import POSTGRESQL
from .plans import Odds
from .world import World, play

SEEDS, CHUNKS = 300, 12
SPAWNING, HANDS, FAMILIES, FORKS = Odds(spawn=80), Odds(hands=60), Odds(task=50, active=40), Odds(forks=40)
LIMITED = Odds(limited=100, kinds=(Kind.AGENT, Kind.AGENT, Kind.RUN), attended=90)
# Plain worlds; those where agents give out work, people and planners change tasks, steps are tasks, tasks are forked,
# stages have limits; and all of it at once.
MIX = (Odds(), SPAWNING, HANDS, FAMILIES, FORKS, LIMITED, Odds(spawn=20, hands=30, task=20, forks=20, limited=30))
KEPT = Path(__file__).parent / "seeds.txt"
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def kept() -> list[int]:
    return [int(line.split()[0]) for line in KEPT.read_text().splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_safety_and_liveness_hold_in_every_world(chunk: int) -> None:
    size = SEEDS // CHUNKS
    seeds = range(chunk * size, (chunk + 1) * size)
    wrong = [found for seed in seeds if (found := play(seed, MIX[seed % len(MIX)])) is not None]
    assert not wrong, "\n".join(wrong)


def test_safety_and_liveness_hold_on_postgresql() -> None:
    seeds = range(1, 3 * len(MIX) + 1)
    wrong = [found for seed in seeds if (found := play(seed, MIX[seed % len(MIX)], database=POSTGRESQL)) is not None]
    assert not wrong, "\n".join(wrong)


def test_worlds_that_once_went_wrong_stay_right() -> None:
    wrong = [found for seed in kept() if (found := play(seed)) is not None]
    assert not wrong, "\n".join(wrong)


def test_one_world_in_four_is_kept_in_a_file() -> None:
    worlds = [World(seed) for seed in range(8)]
    assert [world.path != ":memory:" for world in worlds] == [True, False, False, False] * 2
    for world in worlds:
        world.close()


TELL = """
import hashlib, logging
from tests.sim.world import World
logging.disable(logging.CRITICAL)
told = hashlib.sha256()
for seed in (4, 5, 7):
    world = World(seed)
    world.play()
    for task_id in world.tasks:
        for event in world.store.events(task_id, 0, 10_000):
            told.update(repr((event.seq, event.at, event.fact)).encode())
    world.close()
print(told.hexdigest())
"""


def test_a_seed_tells_the_same_story_in_every_process() -> None:
    stories = set()
    for salt in ("1", "2"):
        env = dict(os.environ, PYTHONHASHSEED=salt)
        command = [sys.executable, "-c", TELL]
        stories.add(subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout)
    assert len(stories) == 1


def test_scenarios_hold_on_unbroken_code() -> None:
    names = sorted({m.scenario for m in MUTANTS if m.scenario is not None})
    assert len(names) == 8 and [getattr(scenarios, name)() for name in names] == [None] * len(names)
