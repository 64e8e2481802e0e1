"""The health of a worker: what its file tells, and what a probe makes of it."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from longtask.engine.loop import Pulse
from longtask.views.health import judged
from tests.cli.shell import Shell, until


def told(file: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(file.read_text())
    return found


def test_a_worker_tells_how_it_does_and_that_it_has_ended(shell: Shell, tmp_path: Path):
    file = tmp_path / "health.json"
    worker = shell.start("worker", "--health", str(file), "--pool", "default", "--pool", "gpu", "--slots", "3")
    until(file.exists)
    first = told(file)
    assert (first["ok"], first["reason"], first["running"], first["slots"]) == (True, None, 0, 3)
    assert (first["pid"], first["pools"]) == (worker.pid, ["default", "gpu"])
    until(lambda: told(file)["at"] != first["at"])
    assert [path.name for path in tmp_path.glob("*health*")] == ["health.json"], "no half-written file beside it"
    probe = shell.here("health", str(file))
    assert probe.out == f"ok: worker {first['worker']} runs 0 of 3\n"
    worker.send_signal(signal.SIGTERM)
    out, _ = worker.communicate()
    assert worker.returncode == 0 and b"pool.unused pool=gpu" in out
    assert shell.here("health", str(file), code=1).out == "not ok: the worker has ended\n"


def test_a_frozen_worker_is_not_in_order_when_its_file_is_old(shell: Shell, tmp_path: Path):
    file = tmp_path / "health.json"
    worker = shell.start("worker", "--health", str(file))
    try:
        until(file.exists)
        os.kill(worker.pid, signal.SIGSTOP)
        until(lambda: b") T " in Path(f"/proc/{worker.pid}/stat").read_bytes())
        until(lambda: shell.here("health", str(file), "--max-age", "500ms", code=None).code == 1)
        assert "is frozen or cannot write it" in shell.here("health", str(file), "--max-age", "500ms", code=1).out
        assert shell.here("health", str(file), "--max-age", "1h").code == 0
    finally:
        worker.send_signal(signal.SIGCONT)
        worker.send_signal(signal.SIGTERM)
        worker.communicate()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "no such file or directory"),
        ("", "was not written by a worker"),
        ("[1]", "was not written by a worker"),
        ('{"ok": true}', "was not written by a worker"),
        ('{"ok": false, "at": 1, "reason": "no round has ended"}', "no round has ended"),
        ('{"ok": true, "at": 1}', "its worker has ended, is frozen or cannot write it"),
    ],
)
def test_whatever_is_no_fresh_good_news_is_not_in_order(shell: Shell, tmp_path: Path, content: str | None, reason: str):
    file = tmp_path / "health.json"
    if content is not None:
        file.write_text(content)
    probe = shell.here("health", str(file), code=1)
    assert probe.out.startswith("not ok: ") and reason in probe.out and probe.out.count("\n") == 1
    document = shell.here("health", str(file), "--json", code=1).json
    assert document["ok"] is False and reason in document["reason"]
    assert not shell.home.exists(), "a probe opens no database"


def test_a_pulse_is_judged_by_rounds_and_by_beats_of_what_runs():
    assert judged(Pulse(0, 45_000, 99_000), 15_000) is None  # nothing runs that could be lost
    assert judged(Pulse(1, 0, 30_000), 15_000) is None
    assert judged(Pulse(1, 0, 30_001, "the disk is full"), 15_000) == "no lease was prolonged for 30s: the disk is full"
    assert judged(Pulse(0, 45_001, 0), 15_000) == "no round has ended without an error for 45s"


def test_a_health_file_that_cannot_be_written_is_told_before_anything_is_claimed(shell: Shell, tmp_path: Path):
    refused = shell("worker", "--health", str(tmp_path / "no" / "health.json"), code=2)
    assert "cannot be written: No such file or directory; name another file" in refused.err
    assert shell.here("fleet", "--json").json["workers"] == []


def test_the_age_counts_from_what_the_file_says(shell: Shell, tmp_path: Path):
    file = tmp_path / "health.json"
    now = time.time_ns() // 1_000_000
    file.write_text(json.dumps({"ok": True, "at": now - 20_000, "worker": "w1", "running": 1, "slots": 4}))
    assert shell.here("health", str(file)).code == 0
    assert shell.here("health", str(file), "--max-age", "10s", code=1).code == 1
    assert "has no unit" in shell.here("health", str(file), "--max-age", "10", code=2).err
