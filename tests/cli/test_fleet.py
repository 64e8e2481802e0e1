"""Who works, and what waits for somebody to work on it."""

from __future__ import annotations

import signal
from pathlib import Path

from longtask import __version__
from longtask.core.model import POOL_SYSTEM
from longtask.store.contract import PoolLoad, WorkerRow
from longtask.store.sqlite import SqliteStore
from longtask.views.fleet import pool_maps
from tests.cli.shell import Shell, until

INSIDE = {"LONGTASK_STEP": "x"}  # no worker is started from inside a step
PLAN = """
longtask: 1
name: fleet
stages:
  - name: one
    steps:
      - {id: here, run: "while ! test -e GO; do sleep 0.05; done"}
      - {id: there, pool: gpu, run: "true"}
"""


def test_workers_and_what_waits_are_shown(shell: Shell, tmp_path: Path):
    assert shell.here("fleet").out.startswith("no worker; start one: ")
    go = tmp_path / "go"
    shell.plan(PLAN.replace("GO", str(go)))
    shell.here("run", "--detach", env=INSIDE)
    worker = shell.start("worker", "--slots", "3")
    until(lambda: any(row["running"] for row in shell.here("fleet", "--json").json["workers"]))
    found = shell.here("fleet", "--json").json
    (row,) = found["workers"]
    assert (row["pid"], row["slots"], row["running"], row["pools"]) == (worker.pid, 3, 1, ["default"])
    assert (row["version"], row["alive"]) == (__version__, True) and 0 <= row["lag_ms"] < 30_000
    pools = {pool.pop("pool"): pool for pool in found["pools"]}
    assert pools["default"] == {"workers": 1, "slots": 3, "ready": 0, "oldest_ready_ms": None}
    assert pools["gpu"].pop("oldest_ready_ms") > 0
    assert pools["gpu"] == {"workers": 0, "slots": 0, "ready": 1}
    text = shell.here("fleet").out
    assert "nobody serves pool 'gpu', for which 1 wait; start one:" in text and "worker --pool gpu" in text
    gpu = shell.start("worker", "--pool", "gpu", "--pool", "gpu")
    until(lambda: "completed" in [step["state"] for step in shell.here("show", "--json").json["steps"]])
    assert "nobody serves" not in shell.here("fleet").out
    go.touch()
    shell.here("watch")
    for process in (worker, gpu):
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate()
        assert process.returncode == 0, out
    assert b"pool.unused" not in out, "an open step names it"


def test_a_worker_that_was_not_seen_for_long_is_marked_dead_and_later_forgotten(shell: Shell):
    shell.here("ls")
    store = SqliteStore(shell.home / "longtask.db")
    now = store.now()
    for name, ago_ms in (("fresh", 0), ("late", 29_000), ("dead", 31_000), ("old", 3_601_000)):
        store.worker_seen(WorkerRow(name, "host", 7, ("default",), 4, 1, seen_at=now - ago_ms))
    rows = {row["id"]: row["alive"] for row in shell.here("fleet", "--json").json["workers"]}
    assert rows == {"fresh": True, "late": True, "dead": False, "old": False}
    assert [line.split()[:2] for line in shell.here("fleet").out.splitlines()[1:5]][-2:] == [
        ["dead", "dead"],
        ["old", "dead"],
    ]
    worker = shell.start("worker", "--lease", "1s")  # beats soon
    until(lambda: "old" not in {row.id for row in store.workers(10)})
    assert {"fresh", "late", "dead"} <= {row.id for row in store.workers(10)}
    store.close()
    worker.send_signal(signal.SIGTERM)
    worker.communicate()


def test_steps_of_the_system_are_served_by_every_living_worker():
    now = 100_000
    living = WorkerRow("w1", "h", 1, ("gpu",), 2, 1, seen_at=now)
    dead = WorkerRow("w2", "h", 1, ("gpu",), 2, 1, seen_at=now - 31_000)
    loads = [PoolLoad("default", 5, now - 7_000), PoolLoad(POOL_SYSTEM, 1, now)]
    assert pool_maps([living, dead], loads, now) == [
        {"pool": "default", "workers": 0, "slots": 0, "ready": 5, "oldest_ready_ms": 7_000},
        {"pool": "gpu", "workers": 1, "slots": 2, "ready": 0, "oldest_ready_ms": None},
        {"pool": POOL_SYSTEM, "workers": 1, "slots": None, "ready": 1, "oldest_ready_ms": 0},
    ]


def test_a_pool_that_no_step_can_name_is_refused(shell: Shell):
    assert "those of the system are served without being named" in shell.here("worker", "--pool", "system", code=2).err
