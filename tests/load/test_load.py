"""`make load`, short, and with a server that is killed under it.  Nothing here looks at how fast it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.load import SERVER, UP, measured
from bench.load_clients import Asked
from longtask.config import Config

FORGETFUL = (sys.executable, "-m", "tests.load.forgetful")


@pytest.fixture
def config(database: str, tmp_path: Path) -> Config:
    return Config(tmp_path, database)


def test_nothing_is_lost_though_the_server_is_killed_under_load(config: Config):
    found = measured("killed", config, (*FORGETFUL, *SERVER), Asked(0, 60, 3, 12), kill_after_s=(0.7, 0.5))
    assert not found.lost and found.answers["201"] == 180
    assert found.again and found.connections >= 2 * found.streams, "it was not killed under load"
    assert set(found.answers) <= {"201", "409", "503", "none"}


def test_nothing_is_lost_though_a_server_that_works_too_is_killed_under_load(config: Config):
    found = measured("killed", config, (*FORGETFUL, *UP), Asked(0, 20, 2, 6), kill_after_s=(1,))
    assert not found.lost and found.answers["201"] == 40 and found.connections >= 2 * found.streams


def test_the_load_is_run_by_one_command(tmp_path: Path):
    command = [sys.executable, "-m", "bench.load", "server", "--rate", "30", "--seconds", "0.5", "--streams", "4"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"lost": []' in done.stdout and '"answers": {"201": 15}' in done.stdout
