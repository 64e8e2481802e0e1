"""The workload on a very large repository, on a small one."""

from __future__ import annotations

from bench.repositories import attempt_start


def test_an_attempts_start_is_held_against_gits_own():
    found = attempt_start(files=120, rounds=2)
    assert (found.workload, found.unit, found.goal) == ("attempt_start", "s more", "value <= 2")
    assert found.probe > 0 and found.ratio > 0
