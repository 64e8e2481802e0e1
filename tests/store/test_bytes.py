"""What a finished step costs on disk, not vacuumed."""

from pathlib import Path

from longtask.core.events import StepClaimed, StepCompleted, StepsAdded
from longtask.core.machine import fold
from longtask.core.model import Edge, Kind, Verdict
from longtask.store.contract import Store
from longtask.store.sqlite import SqliteStore
from tests.conformance.play import act, blocked, ready, submit

STEPS = 2_000
BYTES_PER_STEP_MAX = 400
WORKER = "host-12345-a1b2"


def size_bytes(store: SqliteStore) -> int:
    store._line.run("pragma wal_checkpoint(truncate)")
    return Path(store.path).stat().st_size


def fan_out(store: Store, keys: list[str]) -> str:
    gate = blocked("gate.1", len(keys), kind=Kind.GATE)
    edges = [Edge(key, "gate.1") for key in keys]
    id_ = submit(store, 1, (*ready(*keys[:500]), gate), edges[:500], more=True, parallel=8)
    for i in range(500, len(keys), 500):
        added = StepsAdded(ready(*keys[i : i + 500]), tuple(edges[i : i + 500]), more=i + 500 < len(keys))
        act(store, id_, added)
    return id_


def finish(store: Store, id_: str, key: str, next_key: str | None) -> None:
    """Report, settle, claim of the next, in one block."""
    with store.task(id_, key) as tx:
        rows = tx.steps([key, "gate.1", *([next_key] if next_key else [])])
        gate, step = rows["gate.1"], rows[key]
        told = {"gate.1": gate._replace(blockers=gate.blockers - 1), key: step._replace(told=Verdict.OK)}
        facts = [StepCompleted(key, 1)] + ([StepClaimed(next_key, 1, WORKER)] if next_key else [])
        tx.save(fold(tx.task, rows, facts, tx.now, told), actor=WORKER)


def test_a_finished_step_costs_few_bytes(tmp_path):
    """A no-op step of a fan-out with its events, its edge to the gate, and its share of the submission."""
    store = SqliteStore(tmp_path / "longtask.db")
    empty = size_bytes(store)
    keys = [f"step_{i:05}" for i in range(STEPS)]
    id_ = fan_out(store, keys)
    act(store, id_, StepClaimed(keys[0], 1, WORKER))
    for i in range(0, STEPS, 200):
        with store.group():
            for j in range(i, i + 200):
                finish(store, id_, keys[j], keys[j + 1] if j + 1 < STEPS else None)
    assert store.get_task(id_).counts.open == 1, "the gate"
    assert (size_bytes(store) - empty) / STEPS <= BYTES_PER_STEP_MAX
    indexes = "select name, sum(ncell) from dbstat where name like 'step\\_%' escape '\\' group by name"
    assert all(cells <= 1 for _, cells in store._line.run(indexes)), "a finished step stands in no index"
    store.close()
