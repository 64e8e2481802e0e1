"""The bench itself, on small tasks.  Nothing here looks at a clock: what is measured is asserted nowhere but there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from bench import result, streams
from bench.locks import Locks
from bench.probe import BEGIN, COMMIT, Recorder, commits, replayed, ungrouped
from bench.result import judged, written
from bench.tasks import DATABASE, chain, copied, fan_out, has_ended, parts_at, submitted, work, worked_off
from bench.workloads import WORKLOADS, traced
from longtask.core.graph import Graph
from longtask.store.queries import load

NAMES = {sql: name for name, sql in load("sqlite").items()}
STATEMENTS_MAX = 10
STATED = (  # the goals
    "chain fanout_1000 fanout_10000 fanout_100000 lock_100000 many parked cold_start bytes_per_step hello takeover "
    "traced_chain traced_many streams_delivered streams_p99 streams_memory page_first page_event page_frame "
    "children children_lock children_look attempt_start pg_chain pg_fanout_1000 pg_fanout_10000 pg_many pg_parked "
    "pg_bytes_per_step pg_takeover"
)


def run(at: Path, slots: int, *graphs: Graph) -> list[tuple[str, object]]:
    """The statements of a run, as they were sent."""
    submitted(at / "new", *graphs)
    recorder = Recorder()
    worked_off(copied(at / "new", at / "run"), slots, recorder)
    return recorder.statements


def rows(path: Path) -> list[tuple[object, ...]]:
    line = apsw.Connection(str(path))
    found = list(line.execute("select key, state, attempt, told from step order by task_n, key"))
    found += list(line.execute("select task_n, seq, kind from event order by task_n, seq"))
    line.close()
    return found


def test_the_probe_writes_what_the_run_wrote(tmp_path):
    statements = run(tmp_path, 4, fan_out(30), chain(5))
    probe = copied(tmp_path / "new", tmp_path / "probe") / DATABASE
    assert replayed(probe, ungrouped(statements)) > 0
    assert rows(probe) == rows(tmp_path / "run" / DATABASE)


def test_an_ungrouped_run_has_one_commit_for_each_block(tmp_path):
    statements = run(tmp_path, 8, *[chain(3)] * 8)
    blocks = sum(NAMES.get(sql) == "header" for sql, _ in statements)
    apart = list(ungrouped(statements))
    assert commits(statements) < blocks == commits(apart)
    assert [x for x in apart if x[0] not in (BEGIN, COMMIT)] == [x for x in statements if x[0] not in (BEGIN, COMMIT)]
    depth = 0
    for sql, _ in apart:
        depth += (sql == BEGIN) - (sql == COMMIT)
        assert depth in (0, 1)


def test_a_chained_step_takes_ten_statements_and_one_commit_in_the_real_loop(tmp_path):
    """Begin and commit included; looks for other tasks apart, which come every 20 ms and not with every step.

    `tests/engine/test_cost.py` counts them too, on a clock that stands still."""
    looks = {"rival", "claimable", "claimable_system"}
    steps = 40
    inside, acts = False, []
    for sql, _ in run(tmp_path, 4, chain(steps)):
        inside = inside or sql == BEGIN
        if inside and NAMES.get(sql) not in looks:
            acts.append(NAMES.get(sql, sql))
        inside = inside and sql != COMMIT
    assert acts.count(COMMIT) <= steps + 2  # the first claim, and the telling of the gate
    assert len(acts) <= (steps + 2) * STATEMENTS_MAX


def test_a_run_in_slices_works_everything_off(tmp_path):
    (task,) = submitted(tmp_path / "new", fan_out(50))
    slices = 0
    while True:
        parts = parts_at(tmp_path / "new")
        if has_ended(parts, task.id):
            parts.store.close()
            break
        work(parts, lambda: False, 4, for_s=0.05)
        slices += 1
        assert slices < 100
    store = parts_at(tmp_path / "new").store
    assert store.get_task(task.id).state == "completed"
    store.close()


def test_locks_are_measured_from_lock_to_commit(tmp_path):
    locks = Locks()
    submitted(tmp_path / "new", fan_out(3), fault=locks)
    assert 0 < locks.longest_s < 60
    assert locks.busiest_s <= locks.longest_s + 0.1


def test_a_few_clients_of_a_stream_are_told_everything(tmp_path):
    found = streams.measured(clients=6, run_s=0.5, warm=2)
    assert found.delivered_percent == 100
    assert 0 <= found.p50_ms <= found.p99_ms < 60_000


def test_traces_are_measured_on_and_off_in_turn(monkeypatch):
    monkeypatch.setenv("LONGTASK_TRACE", "off")
    found = traced("traced_chain", [chain(20)], 20, 2, 4)
    assert found.value > 0 and found.probe > 0 and found.ratio > 0
    assert os.environ["LONGTASK_TRACE"] == "off"


def test_every_stated_workload_is_there():
    assert sorted(WORKLOADS) == sorted(STATED.split())


@pytest.mark.parametrize(
    ("value", "probe", "goal", "met"),
    [
        (40, 100, "ratio >= 0.35", True),
        (34, 100, "ratio >= 0.35", False),
        (130, 100, "ratio <= 1.3", True),
        (131, 100, "ratio <= 1.3", False),
        (400, 400, "value <= 400", True),
        (401, 400, "value <= 400", False),
    ],
)
def test_a_goal_is_met_or_not(value, probe, goal, met):
    assert judged("x", value, "bytes", probe, goal).met is met


def test_a_line_has_the_stated_keys_and_no_null():
    line = json.loads(judged("chain", 1234.5678, "steps/s", 2000.0, "ratio >= 0.35").line())
    assert line == {
        "workload": "chain",
        "value": 1230,
        "unit": "steps/s",
        "probe": 2000,
        "ratio": 0.617,
        "goal": "ratio >= 0.35",
        "met": True,
    }


def test_the_table_of_the_document_keeps_rows_of_workloads_that_were_not_run():
    document = f"before\n\n{result.BEGIN}\n{result.HEADER}\n{result.END}\n\nafter\n"
    order = ["a", "b", "c"]
    first = written(document, [judged("c", 1, "ms", 2, "ratio <= 1"), judged("a", 1, "ms", 2, "ratio >= 1")], order)
    again = written(first, [judged("b", 3, "ms", 3, "ratio <= 1"), judged("a", 5, "ms", 5, "ratio >= 1")], order)
    lines = [line for line in again.splitlines() if line.startswith("| `")]
    assert lines == [
        "| `a` | 5 ms | 5 | 1 | ratio >= 1 | met |",
        "| `b` | 3 ms | 3 | 1 | ratio <= 1 | met |",
        "| `c` | 1 ms | 2 | 0.5 | ratio <= 1 | met |",
    ]
    assert again.startswith("before\n") and again.endswith("\nafter\n")


def test_an_unknown_workload_is_refused():
    asked = subprocess.run(
        [sys.executable, "-m", "bench", "fast"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert asked.returncode == 2
    assert "chain" in asked.stderr
