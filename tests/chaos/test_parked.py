"""Waiting is free, also for long and in great numbers.  Slow: minutes."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_ten_thousand_approvals_survive_a_restart_of_everything():
    done = subprocess.run([sys.executable, "-m", "tests.chaos.parked"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
