"""Whose time it is: the server's, as it is when the lock is held."""

import json
import os
import subprocess
import sys
from pathlib import Path

from longtask.core.events import TaskPaused
from longtask.store.contract import Ref
from tests.conformance.play import act, ready, submit
from tests.store.aside import Aside, until_waiting

ROOT = Path(__file__).parent.parent.parent
CLOCK = b"select cast(extract(epoch from clock_timestamp()) * 1000 as bigint)"
SKEWED = """
import json, sys, time
ahead_s = float(sys.argv[2])
for name in ("time", "time_ns"):  # what the machine believes the time to be, before anything of ours asks
    real, unit = getattr(time, name), 1 if name == "time" else 10**9
    setattr(time, name, lambda real=real, unit=unit: real() + type(real())(ahead_s * unit))
from longtask.core.events import StepClaimed
from longtask.store.contract import Chunk, Ref
from longtask.store.postgres.store import PostgresStore
from tests.conformance.play import act
store = PostgresStore(sys.argv[1])
id_ = store.get_task("@last").id
act(store, id_, StepClaimed("a", 1, "w"))
store.put_output(Ref(id_, "a"), 1, [Chunk(1, "out", b"x")])
with store.task(id_) as tx:
    seen = [tx.now, store.now()]
print(json.dumps([time.time_ns() // 10**6, *seen]))
store.close()
"""


def test_a_block_that_waited_for_its_task_sees_the_time_after_the_wait(store, line):
    id_ = submit(store, 1, ready("a"))
    line.execute("begin")
    line.execute("select 1 from task for update")

    def look() -> int:
        with store.task(id_) as tx:
            return tx.now

    waits = Aside(look)
    assert until_waiting(line, beside=waits)
    before = line.execute(CLOCK).fetchall()[0][0]
    line.execute("commit")
    assert before <= waits.result() <= line.execute(CLOCK).fetchall()[0][0]


def test_a_machine_whose_clock_is_hours_off_changes_nothing(store, line, url):
    for number, ahead_s in enumerate((5 * 3600, -300 * 86_400), 1):
        id_ = submit(store, number, ready("a"))
        before = line.execute(CLOCK).fetchall()[0][0]
        done = subprocess.run(
            [sys.executable, "-c", SKEWED, url, str(ahead_s)],
            capture_output=True, text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        after = line.execute(CLOCK).fetchall()[0][0]
        own, *seen = json.loads(done.stdout)
        assert abs(own - before) > 3_600_000, "its clock was off"
        stamps = [*seen, store.events(id_, 1, 1)[0].at, store.leases(id_, 1)[0].due_at - 15_000]
        (chunk,) = store.output(Ref(id_, "a"), 1, 0, 1)
        assert all(before <= at <= after + 1 for at in [*stamps, chunk.at]), (before, stamps, after)


def test_the_time_outside_blocks_is_the_servers_too_and_is_asked_again_after_a_while(store, line, monkeypatch):
    before = line.execute(CLOCK).fetchall()[0][0]
    assert before - 1 <= store.now() <= line.execute(CLOCK).fetchall()[0][0] + 1
    store._ahead_ms -= 3_600_000  # as after the sleep of a machine whose steady clock has slept too
    assert store.now() < before
    monkeypatch.setattr("longtask.store.postgres.blocks.LEARN_EVERY_MS", -1)
    assert before <= store.now() <= line.execute(CLOCK).fetchall()[0][0] + 1


def test_a_block_teaches_the_time(store, line):
    id_ = submit(store, 1, ready("a"))
    store._ahead_ms += 3_600_000
    act(store, id_, TaskPaused())
    assert store.now() <= line.execute(CLOCK).fetchall()[0][0] + 1
