"""What goes wrong in one attempt is the failure of that attempt: the worker's other steps go on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from longtask.core.errors import BadPlan, LongTaskError, Refused, StoreBusy, WorkspaceError
from longtask.core.model import Done, Kind, Outcome
from longtask.engine.attempt import run_here
from longtask.engine.attempt_desk import AttemptDesk
from longtask.steps.contract import Assignment, Handle
from tests.engine.world import HANG, World, step


class Broken:
    """An executor that raises: when it is started, or when it is asked."""

    def __init__(self, error: Exception, asked: bool = False) -> None:
        self.error, self.asked, self.killed = error, asked, False

    def start(self, assignment: Assignment, desk: object, place: Path | None) -> Handle:
        if self.asked:
            return self
        raise self.error

    def poll(self) -> Outcome | None:
        raise self.error

    def stop(self, reason: str, grace_ms: int) -> None: ...
    def kill(self) -> None:
        self.killed = True


def beside(world: World, broken: Broken, inline: bool = False) -> None:
    """A step whose executor is broken, beside one that runs."""
    assert world.worker is not None
    world.worker._executors = {**world.worker._executors, Kind.FUNCTION: broken}
    world.submit(step("good"), step("bad", kind=Kind.FUNCTION, inline=inline), acts={"good": [HANG]})
    world.settle()
    assert world.states("good", "bad") == ["running", "failed"]
    world.end("good", Done())
    assert world.run() == "failed"
    assert world.state("good") == "completed"


@pytest.mark.parametrize("error", [OSError("no space"), BadPlan("no such function"), KeyError("a bug")])
@pytest.mark.parametrize("inline", [True, False])
def test_a_step_that_cannot_be_started_fails_alone(world: World, error: Exception, inline: bool):
    beside(world, Broken(error), inline)
    assert "it could not be started" in (world.row("bad").reason or "")


def test_a_step_whose_handle_is_broken_fails_alone_and_is_killed(world: World):
    broken = Broken(KeyError("a bug"), asked=True)
    beside(world, broken)
    assert broken.killed


class Places:
    """Folders that cannot be made, or not be kept."""

    def __init__(self, prepare: Exception | None = None, keep: Exception | None = None) -> None:
        self.errors = {"prepare": prepare, "keep": keep}

    def prepare(self, assignment: Assignment, desk: object) -> Path:
        if (error := self.errors["prepare"]) is not None:
            raise error
        return Path("place")

    def keep(self, assignment: Assignment, place: Path, outcome: Outcome, desk: object) -> Outcome:
        if (error := self.errors["keep"]) is not None:
            raise error
        return outcome


def placed(world: World, places: Places, **words) -> None:
    assert world.worker is not None
    world.worker._places, world.worker._spawn = places, run_here
    world.submit(step("a", **words), code=True)


def test_a_place_that_cannot_be_made_fails_the_step_with_the_reason(world: World):
    placed(world, Places(prepare=WorkspaceError("the disk is full")))
    assert world.run() == "failed"
    assert "its place could not be prepared: the disk is full" in (world.row("a").reason or "")


@pytest.mark.parametrize(
    ("error", "tries"), [(WorkspaceError("the disk is full"), 1), (Refused("markers are left"), 2)]
)
def test_work_that_is_refused_as_it_stands_is_tried_again_and_told(world: World, error: LongTaskError, tries: int):
    placed(world, Places(keep=error), kind=Kind.AGENT, commits=True, failures_max=1)
    assert world.run() == "failed"
    assert [a.failure for a in world.begun] == [None, "markers are left"][:tries]


@pytest.mark.parametrize("result", [float("nan"), {"deep": [{}] * 2}, object()], ids=["nan", "fine", "no JSON"])
def test_an_outcome_that_cannot_be_recorded_fails_its_step_and_stops_no_other(world: World, result: object):
    world.submit(step("bad"), step("good"), acts={"bad": [HANG], "good": [HANG]})
    world.settle()
    world.end("bad", Done(result))
    world.end("good", Done())
    for _ in range(3):
        with contextlib.suppress(ValueError, TypeError):
            world.round()
    assert world.state("good") == "completed"
    assert world.state("bad") == ("completed" if isinstance(result, dict) else "failed")


def desk_of(world: World, key: str) -> AttemptDesk:
    assert world.worker is not None
    return next(attempt.desk for attempt in world.worker.running if attempt.ref.step == key)


def test_no_numbers_or_words_of_a_program_stop_the_worker(world: World):
    world.submit(step("a"), acts={"a": [HANG]})
    world.settle()
    desk = desk_of(world, "a")
    desk.progress(-(10**30), 10**30, "\ud800" * 1_000)  # `collected 99999999999999999999 items`, say
    desk.flush(final=True)
    [told] = world.store.progress(world.tasks[0], 5)
    assert (told.done, told.total, len(told.text)) == (0, 2**53, 200)


def test_output_is_told_though_the_store_was_busy(world: World, monkeypatch: pytest.MonkeyPatch):
    world.submit(step("a"), acts={"a": [HANG]})
    world.settle()
    desk = desk_of(world, "a")
    with monkeypatch.context() as patch:
        patch.setattr(world.store, "put_output", raising(StoreBusy("another process holds it")))
        desk.output("out", b"one\n")
        with pytest.raises(StoreBusy):
            desk.flush()
    desk.output("out", b"two\n")
    desk.flush(final=True)
    assert b"".join(chunk.body for chunk in world.store.output(world.ref("a"), 1, 0, 10)) == b"one\ntwo\n"


def raising(error: Exception) -> Callable[..., NoReturn]:
    def act(*args: object) -> NoReturn:
        raise error

    return act
