"""LongTask itself, by the same drivers' rules: its own composition, all settings as they come.

A step is a `function`, `inline: true`, in a task without a workspace, as in `bench`.  Submitting counts: a peer's clock
runs from its start call too.  Waits are approvals, a hundred in a task, each answered by a call of its own; a hundred
answers share a commit, as a peer's bulk call has them.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from bench.peers.driving import (
    CHAIN_MANY,
    CHAIN_WARM,
    Asked,
    Parking,
    drive,
    must,
    rate,
    ready,
    sqlite_bytes,
    takeover,
    told,
    wait_until,
    woken,
    workers,
)
from longtask import boot
from longtask.config import Config
from longtask.core.errors import StoreError
from longtask.core.graph import Graph, Planned
from longtask.core.model import Kind, StepSpec, TaskOptions
from longtask.store.contract import Ref

SLOTS, SLOTS_MANY = 4, 64
APPROVALS = 100  # of a task
NO_OP = {"function": "bench.noop:nothing", "inline": True}


def parts_at(ask: Asked) -> boot.Parts:
    return boot.open_parts(Config(ask.folder, ask.target))


def graph(name: str, bodies: list[dict[str, Any]], *, chained: bool, kind: Kind = Kind.FUNCTION) -> Graph:
    """A step for each body; bodies that are one object are one spec."""
    specs = list({id(body): StepSpec(kind, body) for body in bodies}.values())
    numbers = {id(spec.body): number for number, spec in enumerate(specs)}
    keys = [f"step_{n:05}" for n in range(len(bodies))]
    needs = [(key,) for key in keys[:-1]] if chained else [()] * (len(keys) - 1)
    planned = tuple(
        Planned(key, kind, 1, numbers[id(body)], need)
        for key, body, need in zip(keys, bodies, [(), *needs], strict=True)
    )
    return Graph(name, TaskOptions(stages=("work",)), tuple(specs), planned)


def chain(steps: int) -> Graph:
    return graph("chain", [NO_OP] * steps, chained=True)


def fan_out(steps: int) -> Graph:
    return graph("fan_out", [NO_OP] * steps, chained=False)


def all_ended(parts: boot.Parts) -> bool:
    return not parts.store.tasks(open_only=True, workspace_id=None, before=0, limit=1)


def worked(parts: boot.Parts, graphs: list[Graph], slots: int) -> float:
    """Submits and works off; the seconds of both."""
    begun = time.perf_counter()
    for each in graphs:
        parts.desk.submit(each)
    boot.make_loop(parts, slots=slots).loop.run(lambda: all_ended(parts))
    return time.perf_counter() - begun


def warm(ask: Asked) -> boot.Parts:
    parts = parts_at(ask)
    worked(parts, [chain(CHAIN_WARM)], SLOTS)
    return parts


def chained(ask: Asked) -> dict[str, Any]:
    return rate(ask.n, worked(warm(ask), [chain(ask.n)], SLOTS))


def fanned_out(ask: Asked) -> dict[str, Any]:
    took_s = worked(warm(ask), [fan_out(ask.n)], SLOTS)
    return {"value": took_s / ask.n * 1e6, "took_s": took_s}


def many(ask: Asked) -> dict[str, Any]:
    graphs = [chain(CHAIN_MANY)] * ask.n
    if ask.processes == 1:
        return rate(ask.n * CHAIN_MANY, worked(warm(ask), graphs, SLOTS_MANY))
    parts = parts_at(ask)
    with workers(ask, ask.processes):
        begun = time.perf_counter()
        for each in graphs:
            parts.desk.submit(each)
        done = wait_until(lambda: all_ended(parts), ask.limit_s)
        took_s = time.perf_counter() - begun
    must(done, "the tasks", ask.limit_s)
    return rate(ask.n * CHAIN_MANY, took_s)


def worker(ask: Asked) -> None:
    running = boot.make_loop(parts_at(ask), slots=SLOTS_MANY if ask.workload == "many" else SLOTS)
    ready()
    running.loop.run()


def taken_over(ask: Asked) -> dict[str, Any]:
    parts = parts_at(ask)
    bodies: list[dict[str, Any]] = [
        {"function": "bench.peers.longtask.steps:short", "inline": True, "args": {"folder": str(ask.folder), "n": n}}
        for n in range(ask.n)
    ]

    def submit() -> None:
        parts.desk.submit(graph("short_chain", bodies, chained=True))

    return takeover(ask, submit)


def parked(ask: Asked) -> dict[str, Any]:
    parts = warm(ask)
    running = boot.make_loop(parts, slots=SLOTS)
    working = threading.Thread(target=running.loop.run, daemon=True)
    working.start()
    parking = Parking(ask.n)
    ids: list[str] = []
    begun = time.monotonic()
    while len(ids) * APPROVALS < ask.n and time.monotonic() - begun < ask.limit_s:
        bodies = [{"ask": "go on?"}] * min(APPROVALS, ask.n)
        ids.append(parts.desk.submit(graph("approvals", bodies, chained=False, kind=Kind.APPROVAL)).id)
        count = min(len(ids) * APPROVALS, ask.n)
        must(wait_until(lambda: asking(parts, ids[-1:]) >= len(bodies), ask.limit_s), "parking", ask.limit_s)  # noqa: B023
        parking.parking(count)
    figures = parking.idle(asking(parts, ids))
    begun_to_wake = time.perf_counter()
    for task_id in ids:
        with parts.store.group():
            for row in parts.store.steps(task_id, "", APPROVALS + 1):
                if row.kind == Kind.APPROVAL:
                    parts.desk.answer(Ref(task_id, row.key), "approve", "bench")
    done = wait_until(lambda: all_ended(parts), ask.limit_s)
    took_s = time.perf_counter() - begun_to_wake
    return figures | woken(figures["parked"] - asking(parts, ids), took_s) | {"all_woken": done}


def asking(parts: boot.Parts, ids: list[str]) -> int:
    return sum(parts.store.get_task(task_id).counts.wait_user for task_id in ids)


def bytes_per_step(ask: Asked) -> dict[str, Any]:
    warm(ask).store.close()
    before = size(ask)
    parts = parts_at(ask)
    worked(parts, [fan_out(ask.n)], SLOTS)
    parts.store.close()
    return {"value": (size(ask) - before) / ask.n}


def size(ask: Asked) -> int:
    if ask.database == "sqlite":
        return sqlite_bytes(ask.target)
    import psycopg

    with psycopg.connect(ask.target, autocommit=True) as line:
        row = line.execute("select pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])


def hello(ask: Asked) -> dict[str, Any]:
    worked(parts_at(ask), [chain(1)], SLOTS)
    return {}


def durability(ask: Asked) -> dict[str, Any]:
    parts, found = parts_at(ask), dict[str, Any]()
    if ask.database == "sqlite":
        for name in ("journal_mode", "synchronous"):
            found[name] = parts.store._line.run(f"pragma {name}")[0][0]  # type: ignore[attr-defined]
    return {"value": None, "settings": found}


WORKLOADS = {
    "chain": chained,
    "fanout": fanned_out,
    "many": many,
    "takeover": taken_over,
    "parked": parked,
    "bytes": bytes_per_step,
    "hello": hello,
    "durability": durability,
}

if __name__ == "__main__":
    try:
        drive(WORKLOADS, worker)
    except StoreError as error:
        told(skipped=str(error))
        sys.exit(0)
