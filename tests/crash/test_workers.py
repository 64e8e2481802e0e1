"""More than one worker: frozen, woken, side by side.  Real processes on one database."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from longtask.core.events import StepClaimed, StepCompleted, StepDelivered, StepLost
from tests.crash.plans import PLANS
from tests.crash.scene import Scene

SLOW = (pytest.mark.slow, pytest.mark.crash)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Callable[[str], Scene]]:
    made: list[Scene] = []

    def make(plan: str) -> Scene:
        made.append(PLANS[plan](tmp_path))
        return made[-1]

    yield make
    for scene in made:
        scene.close()


def frozen(process: ForkServerProcess) -> bool:
    text = Path(f"/proc/{process.pid}/stat").read_text()
    return text.rpartition(")")[2].split()[0] == "T"


def wake(process: ForkServerProcess) -> None:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGCONT)


def told(scene: Scene, *kinds: type) -> list[tuple[str, int]]:
    return [(e.fact.step, e.fact.attempt) for e in scene.events() if isinstance(e.fact, kinds)]  # type: ignore[union-attr]


@pytest.mark.parametrize("point", [
    "dispatch.report.before",
    pytest.param("places.keep.before", marks=SLOW),
    pytest.param("dispatch.journal_done.before", marks=SLOW),
])  # fmt: skip
def test_a_worker_that_was_frozen_past_its_lease_reports_nothing(scene, point: str):
    """A laptop is closed with a step in hand, another machine takes over, the laptop is opened."""
    here = scene("one")
    laptop = here.start("work", "--at", point, "--freeze", "--name", "laptop")
    here.until(lambda: frozen(laptop))
    [*_, in_hand] = told(here, StepClaimed)
    here.leases_end(laptop)
    here.go_on("--name", "desk")
    wake(laptop)
    assert here.finish(laptop) == 0
    assert in_hand[0] == "edit" and in_hand in told(here, StepLost)
    edited, checked = told(here, StepDelivered, StepCompleted)
    assert edited[0] == "edit" and edited[1] > in_hand[1] and checked[0] == "check"
    here.check()
    log = here.log.read_text()
    assert "report.refused task" in log or "lease.lost task" in log
    here.nothing_lives()


@pytest.mark.slow
@pytest.mark.crash
def test_what_a_frozen_worker_s_command_still_does_is_ended_before_it_runs_again(scene):
    here = scene("long")
    laptop = here.start("work", "--name", "laptop")
    here.until((here.home / "tool").exists)
    assert laptop.pid is not None
    os.kill(laptop.pid, signal.SIGSTOP)
    alive = here.living()
    assert len(alive) >= 4  # warden, agent, shell, and what they have started
    here.leases_end(laptop)
    desk = here.start("work", "--at", "file:command", "--name", "desk")
    assert here.finish(desk) == -signal.SIGKILL
    here.leases_end(desk)
    wake(laptop)
    assert here.finish(laptop) == 0
    here.kills += 1
    here.check()
    here.nothing_lives()
    assert not set(alive) & set(here.living())
    assert here.file("a.txt") == "1\nwhole\n"


@pytest.mark.slow
@pytest.mark.crash
def test_a_task_that_is_cancelled_while_its_worker_dies_is_cancelled_by_the_next_one(scene):
    here = scene("long")
    worker = here.start("work")
    here.until((here.home / "tool").exists)
    here.parts.desk.cancel(here.id, "ann")
    worker.kill()
    assert here.finish(worker) == -signal.SIGKILL
    here.nothing_lives()
    here.leases_end(worker)
    here.go_on()
    here.check("cancelled")
    assert told(here, StepLost) == []


def test_two_workers_share_a_task_and_do_nothing_twice(scene):
    here = scene("clash")
    both = [here.start("work", "--name", name) for name in ("one", "two")]
    assert [here.finish(process) for process in both] == [0, 0]
    here.check()
    claims = told(here, StepClaimed)
    assert len(claims) == len(set(claims))
    assert told(here, StepLost) == []


@pytest.mark.slow
@pytest.mark.crash
def test_a_worker_goes_on_with_what_the_other_one_had_in_hand(scene):
    here = scene("clash")
    survivor = here.start("work", "--name", "survivor")
    reached = here.killed("dispatch.journal_done.before", 1, "work", "--name", "victim")
    assert here.finish(survivor) == 0
    here.check()
    lost = told(here, StepLost)
    assert bool(lost) == reached
