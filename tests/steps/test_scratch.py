"""Folders of attempts: gone with their process, however it ended."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from longtask.steps.scratch import make_scratch, sweep

WORKER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from longtask.steps.scratch import make_scratch
(make_scratch() / "big").write_text("x")
print("there", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def worker(folder: Path) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", WORKER, str(folder)], **pipes)  # type: ignore[call-overload]
    assert process.stdout.readline() == "there\n"
    return process


def test_what_a_killed_worker_left_is_taken_away_and_what_a_living_one_needs_is_not(folder: Path):
    (folder / "longtask-of-somebody-else").mkdir()
    with worker(folder) as living:
        with worker(folder) as killed:
            killed.send_signal(signal.SIGKILL)
        assert len(list(folder.glob("longtask-*/*/big"))) == 2
        make_scratch()
        assert len(list(folder.glob("longtask-*/*/big"))) == 1
        living.communicate("")
    assert list(folder.glob("longtask-*/*/big")) == []
    sweep(folder)
    assert (folder / "longtask-of-somebody-else").is_dir()


def test_each_attempt_has_its_own_folder_for_its_owner_alone(folder: Path):
    one, two = make_scratch(), make_scratch()
    assert one != two and one.parent == two.parent
    assert one.stat().st_mode & 0o777 == one.parent.stat().st_mode & 0o777 == 0o700
