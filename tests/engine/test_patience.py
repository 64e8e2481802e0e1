"""What waiting may mend costs no step anything: it is tried again for a minute, told once, and then given back."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from longtask.core.errors import HubUnreachable, StoreBusy, StoreError, StoreUnavailable, WorkspaceError
from longtask.core.events import StepReleased
from longtask.core.model import Done, Kind, Outcome, Parked, Stopped, WaitingFor
from longtask.core.patience import PATIENCE_MS, mendable
from longtask.engine.dispatch import Dispatch
from longtask.engine.scheduler import ASIDE_MS
from longtask.steps.contract import Assignment, Handle
from longtask.store.contract import Beat, Ref
from longtask.workspace.git import GitFailed
from tests.engine.test_broken import Places, placed
from tests.engine.world import HANG, LEASE_MS, World, step

PASSING = [
    StoreBusy("another process holds it"),
    StoreUnavailable("the disk is full"),
    HubUnreachable("the hub does not answer"),
    OSError(errno.ENOSPC, "No space left on device"),
]


def notes(world: World, attempt: int) -> str:
    chunks = world.store.output(world.ref("a"), attempt, 0, 100)
    return b"".join(chunk.body for chunk in chunks).decode()


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["prepare", "keep"])
def test_what_passes_is_waited_for_and_told(world: World, where: str, error: Exception):
    places = Places(**{where: error})
    placed(world, places)
    world.settle()
    world.later(PATIENCE_MS - 1_000)
    world.settle()
    assert world.state("a") == "running"
    places.errors[where] = None
    world.later(1_000)
    assert world.run() == "completed"
    row = world.row("a")
    assert (row.attempt, row.failures, row.losses) == (1, 0, 0)
    assert "waits up to 60 s" in notes(world, 1) and str(error) in notes(world, 1)


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["prepare", "keep"])
def test_what_does_not_pass_in_time_gives_the_step_back_and_costs_no_budget(world: World, where: str, error: Exception):
    places = Places(**{where: error})
    placed(world, places, failures_max=0, losses_max=0)
    world.settle()
    world.later(PATIENCE_MS + 1_000)
    world.settle()
    assert world.told(StepReleased) == ["a"]
    places.errors[where] = None
    world.later(1_000)
    assert world.run() == "completed"
    row = world.row("a")
    assert (row.attempt, row.failures, row.losses) == (2, 0, 0)


@pytest.mark.parametrize("where", ["prepare", "keep"])
def test_a_drain_does_not_wait_for_what_may_pass(world: World, where: str):
    placed(world, Places(**{where: HubUnreachable("the hub does not answer")}))
    world.settle()
    assert world.worker is not None
    world.worker.drain()
    world.settle()
    assert (world.told(StepReleased), world.worker.running) == (["a"], [])


class Failing:
    """A handle whose looks fail, for a while."""

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error
        self.looks = 0
        self.killed = False

    def start(self, assignment: Assignment, desk: object, place: Path | None) -> Handle:
        return self

    def poll(self) -> Outcome | None:
        self.looks += 1
        if self.error is not None:
            raise self.error
        return Stopped() if self.killed else Done()

    def stop(self, reason: str, grace_ms: int) -> None:
        self.killed = True

    def kill(self) -> None:
        self.killed = True


def failing(world: World, error: Exception) -> Failing:
    handle = Failing(error)
    assert world.worker is not None
    world.worker._executors = {**world.worker._executors, Kind.RUN: handle}
    world.submit(step("a"))
    world.settle()
    return handle


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_a_handle_that_lacks_what_passes_is_looked_at_again_now_and_then(world: World, error: Exception):
    handle = failing(world, error)
    world.later(PATIENCE_MS - 1_000)
    world.settle()
    assert (world.state("a"), handle.killed) == ("running", False)
    assert handle.looks <= 3  # one a second at most, and there were two rounds since
    handle.error = None
    world.later(1_000)
    assert world.run() == "completed"
    assert world.row("a").attempt == 1


def test_a_handle_that_lacks_it_too_long_is_killed_and_given_back(world: World):
    handle = failing(world, StoreUnavailable("the disk is full"))
    world.later(PATIENCE_MS + 1_000)
    world.round()
    assert (handle.killed, world.state("a")) == (True, "running")
    handle.error = None  # its tree is dead
    world.round()
    assert world.told(StepReleased) == ["a"]


def test_the_trouble_of_one_attempt_stops_no_other(world: World):
    """And it is told to the loop, when all have been looked at."""
    handle = Failing(StoreError("a fault of the store"))
    assert world.worker is not None
    world.worker._executors = {**world.worker._executors, Kind.RUN: handle}
    world.submit(step("a"))
    world.submit(step("good", kind=Kind.AGENT), acts={"good": [HANG]})
    world.worker.tick()
    with pytest.raises(StoreError, match="a fault of the store"):
        world.worker.tick()
    world.end("good", Done())
    with pytest.raises(StoreError, match="a fault of the store"):
        world.worker.tick()
    assert (world.state("good"), handle.looks) == ("completed", 2)


def test_an_error_in_one_beat_stops_no_other(world: World, monkeypatch: pytest.MonkeyPatch):
    world.submit(step("a"), step("b"), step("c"), acts={"*": [HANG]})
    world.settle()
    assert world.worker is not None
    dispatch = world.worker._dispatch
    assert isinstance(dispatch, Dispatch)
    beat = dispatch.beat

    def broken(ref: Ref, attempt: int) -> Beat | None:
        if ref.step == "a":
            raise KeyError("a bug")
        return beat(ref, attempt)

    monkeypatch.setattr(dispatch, "beat", broken)
    world.now += 5_000
    with pytest.raises(KeyError, match="a bug"):
        world.worker.beat()
    due = {lease.step: lease.due_at for lease in world.store.leases(world.tasks[0], 10)}
    assert due["b"] == due["c"] == world.now + LEASE_MS > due["a"]


def test_what_waiting_may_mend_and_what_not():
    full = OSError(errno.ENOSPC, "No space left on device")
    wrapped = StoreError("artifacts in 'x': the disk is full")
    wrapped.__cause__ = full
    said = GitFailed(["commit"], "here", 128, "error: unable to write file: No space left on device")
    full_disks = [
        "fatal: sha1 file 'x/index.lock' write error. Out of diskspace",
        "error: failed to write new configuration file x/.git/config.lock",
        "error: unable to write file left.txt\nerror: unable to write file right.txt",
        "fatal: cannot update ref 'refs/longtask/x/head': couldn't write 'x/refs/longtask/x/head.lock'",
    ]
    by_git = [GitFailed(["add"], "here", 128, words) for words in full_disks]
    assert all(map(mendable, [*PASSING, wrapped, said, *by_git]))
    said = GitFailed(["commit"], "here", 128, "error: bad object")
    set_up = WorkspaceError("set-up `make` failed with exit code 1\nNo space left on device")  # its own words
    assert not any(map(mendable, [None, StoreError("damaged"), PermissionError(errno.EACCES, "no"), said, set_up]))


def test_an_error_about_one_task_does_not_stop_the_scheduler_for_the_others(world: World, monkeypatch):
    """One round a minute is lost by it."""
    asks = Parked(WaitingFor.TIMER, {"kind": "timer"}, due_at=world.now + 1_000)
    for _ in range(3):
        world.submit(step("a"), acts={"a": [asks, Done()]})
    world.settle()
    real, bad = world.scheduler._wake_overdue, world.tasks[0]

    def wake(ref: Ref) -> int:
        if ref.task_id == bad:
            raise KeyError("a bug")
        return real(ref)

    monkeypatch.setattr(world.scheduler, "_wake_overdue", wake)
    world.now += 1_000
    with pytest.raises(KeyError, match="a bug"):
        world.scheduler.tick()
    world.settle()  # no further error
    assert [world.store.get_task(id_).state for id_ in world.tasks] == ["active", "completed", "completed"]
    world.now += ASIDE_MS
    with pytest.raises(KeyError, match="a bug"):
        world.scheduler.tick()
    monkeypatch.setattr(world.scheduler, "_wake_overdue", real)
    world.now += ASIDE_MS
    world.settle()
    assert world.store.get_task(bad).state == "completed"
