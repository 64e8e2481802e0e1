"""What a finished step costs in PostgreSQL, before anything was vacuumed: what a vacuum takes away is counted too."""

from typing import Any

import psycopg
import pytest

from longtask.core.events import StepClaimed
from longtask.store.postgres.store import PostgresStore
from tests.conformance.play import act
from tests.store.test_bytes import WORKER, fan_out, finish

STEPS = 2_000
TOGETHER = 8  # reports in one commit, as a worker of eight slots makes it: within one, no row version is dead yet
BYTES_PER_STEP_MAX = 1_200
SIZES = """
select c.relname, case when c.relkind = 'i' then pg_relation_size(c.oid) else pg_table_size(c.oid) end from pg_class c
where c.relnamespace = (select oid from pg_namespace where nspname = current_schema()) and c.relkind in ('r', 'i')
"""


def sizes(line: psycopg.Connection[Any]) -> dict[str, int]:
    return dict(line.execute(SIZES.encode()).fetchall())


def work_off(store: PostgresStore) -> None:
    """A no-op step of a fan-out with its events, its edge to the gate, and its share of the submission."""
    keys = [f"step_{i:05}" for i in range(STEPS)]
    id_ = fan_out(store, keys)
    act(store, id_, StepClaimed(keys[0], 1, WORKER))
    for i in range(0, STEPS, TOGETHER):
        with store.group():
            for j in range(i, i + TOGETHER):
                finish(store, id_, keys[j], keys[j + 1] if j + 1 < STEPS else None)
    assert store.get_task(id_).counts.open == 1, "the gate"


def test_a_finished_step_costs_few_bytes(store, line, record_property):
    empty = sizes(line)
    work_off(store)
    grown = {name: (size - empty[name]) / STEPS for name, size in sizes(line).items() if size > empty[name]}
    where = ", ".join(f"{name} {size:.0f}" for name, size in sorted(grown.items(), key=lambda x: -x[1]))
    record_property("bytes_per_step", where)
    assert sum(grown.values()) <= BYTES_PER_STEP_MAX, where


@pytest.mark.parametrize("index", ["step_open", "step_ready", "step_delayed", "step_untold", "step_merging"])
def test_a_finished_step_stands_in_no_index_but_its_key(store, line, index):
    """Every other index on `step` is partial, over open or untold steps, or over items."""
    (definition,) = line.execute(
        b"select indexdef from pg_indexes where schemaname = current_schema() and indexname = %s", (index,)
    ).fetchall()[0]
    assert any(word in definition for word in ("ended_at = 0", "untold = 1", "state = '")), definition
