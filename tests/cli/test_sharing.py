"""What the command line says of mutexes and offers: who holds what, who is next, and rows that do not fit."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tests.cli.shell import Shell, until

PLAN = """
longtask: 1
name: {name}
steps:
  - {{id: deploy, mutex: staging, run: "echo begun; exec sleep 600"}}
  - {{id: note, needs: [], pool: elsewhere, run: "true"}}
"""


@pytest.fixture(scope="module")
def queued(world: Shell) -> Iterator[Shell]:
    """`first` holds the mutex, `second` waits for it; then everything is paused and the worker killed."""
    for name in ("first", "second"):
        world.plan(PLAN.format(name=name))
        world("run", "--detach")
        if name == "first":
            until(lambda: "begun" in world.here("logs", "first-1", "deploy", code=None).out)
    until(lambda: "waits for mutex" in world.here("why", "second-2").out)
    os.kill(world.workers()[0], signal.SIGKILL)
    until(lambda: not world.workers())
    yield world


@pytest.fixture
def copy(queued: Shell, tmp_path: Path) -> Shell:
    shutil.copytree(queued.home, tmp_path / "copy", symlinks=True)
    return Shell(tmp_path / "copy", queued.cwd)


def test_why_tells_who_holds_the_mutex_and_who_is_next(queued: Shell):
    told = queued.here("why", "second-2").out
    assert "deploy waits for mutex 'staging', held by deploy of first-1 for " in told
    assert "place 1 of 1 in the queue" in told and "longtask show first-1" in told
    (reason,) = queued.here("why", "second-2", "deploy", "--json").json
    assert reason["step"] == "deploy" and reason["since"] and reason["help"] == ["longtask show first-1"]


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("delete from mutex", "mutex: held are []"),
        ("update mutex set attempt = 7", "'staging', 'deploy', 7"),
        ("delete from mutex_ticket", "ticket: steps deploy wait for a mutex and have no ticket"),
        ("update mutex_ticket set called_at = 5", "ticket: step 'deploy' was called to 'staging' and waits on"),
        ("update mutex_ticket set name = 'other'", "ticket: step 'deploy' has a ticket for 'other'"),
        ("delete from offer where pool = 'elsewhere'", "offer: offered are []"),
        ("update offer set served_at = 1", "offer: offered are"),
    ],
)
def test_doctor_finds_rows_that_do_not_fit(copy: Shell, statement: str, told: str):
    before = copy.here("doctor", "--json", code=None).json["findings"]
    assert not [f for f in before if f["what"].startswith(("first-1", "second-2"))]
    with apsw.Connection(str(copy.home / "longtask.db")) as db:
        db.execute(statement)
    db.close()
    assert told in copy.here("doctor", code=1).out
