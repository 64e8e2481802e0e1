"""`longtask doctor` on databases and folders damaged on purpose: a finding says what, why, and what mends it."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tests.cli.shell import Result, Shell, until

PLAN = """
longtask: 1
name: work
workspace: {repo: .}
stages:
  - name: first
    steps:
      - {id: edit, run: "echo two >> a.txt", commit: true}
      - {id: patch, needs: [edit], artifact: {patch: {name: change.patch}}}
  - name: second
    steps:
      - {id: long, run: "echo begun; exec sleep 600"}
"""


@pytest.fixture(scope="module")
def crashed(world: Shell) -> Iterator[Shell]:
    """A task with a running step, whose worker was killed."""
    world.plan(PLAN)
    world("run", "--detach")
    until(lambda: "begun" in world.here("logs", "@last", "long", code=None).out)
    world.here("pause", "@last")
    os.kill(world.workers()[0], signal.SIGKILL)
    until(lambda: not world.workers())
    yield world


@pytest.fixture
def copy(crashed: Shell, tmp_path: Path) -> Shell:
    shutil.copytree(crashed.home, tmp_path / "copy", symlinks=True)
    return Shell(tmp_path / "copy", crashed.cwd)


def change(shell: Shell, *statements: str) -> None:
    with apsw.Connection(str(shell.home / "longtask.db")) as db:
        for statement in statements:
            db.execute(statement)
    db.execute("pragma wal_checkpoint(truncate)")
    db.close()


def found(shell: Shell, code: int = 1) -> Result:
    result = shell.here("doctor", code=code)
    findings = shell.here("doctor", "--json", code=code).json["findings"]
    assert all(finding[part] for finding in findings for part in ("what", "why", "mend"))
    assert result.out.count("    why:  ") == result.out.count("    mend: ") == len(findings)
    return result


def test_nothing_wrong_is_told_with_what_was_looked_at(copy: Shell):
    assert "nothing is wrong: 1 task audited" in found(copy, code=0).out


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("update task set weight_done = weight_done + 1", "weight_done"),
        ("update task set open = open - 1", "open"),
        ("delete from lease", "lease"),
        ("update step set state = 'completed' where key = 'long'", "long"),
        ("delete from event where seq = 4", "journal"),
        ("update step set told = '' where key = 'edit'", "edit"),
    ],
)
def test_rows_that_do_not_follow_from_the_journal_are_found(copy: Shell, statement: str, told: str):
    change(copy, statement)
    result = found(copy)
    assert told in result.out and "work-1: " in result.out and "longtask pause work-1" in result.out


def test_a_row_that_cannot_be_read_is_a_finding_and_no_crash(copy: Shell):
    change(copy, "update event set body = '{' where seq = 3")
    assert "cannot be read" in found(copy).out


def test_a_damaged_file_is_a_finding(copy: Shell):
    change(copy)
    file = copy.home / "longtask.db"
    content = bytearray(file.read_bytes())
    page = 4096
    for number in range(6, len(content) // page, 2):
        content[number * page : number * page + 600] = b"\xff" * 600
    file.write_bytes(content)
    result = copy.here("doctor", code=1)
    assert "damaged" in result.out + result.err and "restore a backup" in result.out + result.err


def test_code_that_is_not_in_the_hub_is_found(copy: Shell):
    (hub,) = (copy.home / "hubs").glob("*.git")
    shutil.rmtree(hub / "objects")
    (hub / "objects").mkdir()
    result = found(copy)
    assert "is not in its hub" in result.out and "from a backup" in result.out
    shutil.rmtree(hub)
    assert "the task's code cannot be read" in found(copy).out


def test_an_artifact_whose_bytes_are_gone_is_found(copy: Shell):
    shutil.rmtree(copy.home / "artifacts")
    assert "the bytes of artifact 'change.patch' are gone" in found(copy).out


def test_open_tasks_that_nobody_works_on_are_found(copy: Shell):
    copy("resume", "work-1")
    copy.sweep()
    assert "no worker is alive" in found(copy).out


def test_a_home_that_is_open_to_others_is_found(copy: Shell):
    copy.home.chmod(0o755)
    assert f"chmod 700 {copy.home}" in found(copy).out


def test_one_task_can_be_named(copy: Shell):
    change(copy, "update task set open = open - 1")
    assert "work-1" in copy.here("doctor", "@last", code=1).out
    assert "did you mean" in copy.here("doctor", "wrok-1", code=2).err
