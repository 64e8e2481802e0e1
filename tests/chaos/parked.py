"""Ten thousand approvals wait while everything is restarted: the workers, and the server.

    python -m tests.chaos.parked [--count 10000]

They must all be there afterwards, hold no connection and no process, cost next to nothing, and each must wake once: two
claims for each (to ask, and to take the answer), no more.  One JSON line; exit code 1 if anything does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psycopg

from longtask import boot, config
from longtask.plan import compile_plan, load
from longtask.store.contract import Ref
from tests.chaos.__main__ import prepare
from tests.chaos.fleet import Fleet
from tests.engine.audit import journal, violations

STEPS = 100  # in a task
WAIT_MAX_S = 900.0
IDLE_S = 10.0
WORKERS = 2
LINES_MAX = 8 * WORKERS + 2  # what the workers' pools may hold, ours, and the one that asks


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.parked")
    parser.add_argument("--count", type=int, default=10_000)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="longtask-parked-"))
    wrong: list[str] = ["it broke off"]
    try:
        wrong = play(folder, given.count)
    finally:
        if not wrong:
            shutil.rmtree(folder, ignore_errors=True)
    for text in wrong:
        print(f"WRONG  {text}")
    return 1 if wrong else 0


def play(folder: Path, count: int) -> list[str]:
    prepare(folder)
    fleet = Fleet(folder, 1, count=WORKERS, slots=4, lease_s=15)
    try:
        fleet.start()
        fleet.wait_until_ready()
        return _play(fleet, count)
    finally:
        fleet.close()


def _play(fleet: Fleet, count: int) -> list[str]:
    wrong: list[str] = []
    figures: dict[str, object] = {"approvals": count}
    parts = boot.open_parts(config.load(database=fleet.database))
    ids = submit(parts, count)
    figures["parked_s"] = _until(lambda: waiting(parts, ids) == count, "not all are asked")
    before = questions(parts, ids)
    figures["lines_parked"] = lines = connections(fleet)
    if lines > LINES_MAX:
        wrong.append(f"{lines} connections, {LINES_MAX} at most")
    parts.store.close()

    stubborn = fleet.drain()
    wrong += [f"worker {life} did not end when it was told to" for life in stubborn]
    fleet.server.stop(signal.SIGINT)
    fleet.server.start()
    for machine in fleet.machines:
        machine.retired = False
    fleet.keep()
    fleet.wait_until_ready()
    parts = boot.open_parts(config.load(database=fleet.database))
    time.sleep(IDLE_S / 2)  # their first rounds are over
    if questions(parts, ids) != before:
        wrong.append("after the restart other questions are asked than before")
    figures["idle_percent_of_a_core"] = idle_percent(fleet)
    figures["lines_after_restart"] = connections(fleet)
    if connections(fleet) > LINES_MAX:
        wrong.append(f"{connections(fleet)} connections after the restart, {LINES_MAX} at most")

    began = time.monotonic()
    for id, step, ask in sorted(before):
        parts.desk.answer(Ref(id, step), "approve", "ann", ask=ask)
    answered_s = time.monotonic() - began
    _until(lambda: all(parts.store.get_task(id).ended for id in ids), "not all have ended")
    figures |= {"answered_s": round(answered_s, 1), "ended_s": round(time.monotonic() - began, 1)}
    figures["woken_per_s"] = round(count / (time.monotonic() - began))
    facts: Counter[str] = Counter()
    for id in ids:
        wrong += violations(parts.store, id)
        facts.update(type(event.fact).__name__ for event in journal(parts.store, id))
    wanted = {"StepClaimed": 2 * count, "StepParked": count, "StepWoken": count, "StepCompleted": count, "StepLost": 0}
    wrong += [f"{facts[name]} of {name}, not {n}" for name, n in wanted.items() if facts[name] != n]
    figures["claims_each"] = facts["StepClaimed"] / count
    parts.store.close()
    print(json.dumps(figures | {"ok": not wrong}), flush=True)
    return wrong


def submit(parts: boot.Parts, count: int) -> list[str]:
    ids = []
    for first in range(0, count, STEPS):
        steps = "".join(
            f"  - {{id: a{n}, approval: {{ask: 'Number {first + n}?'}}}}\n" for n in range(min(STEPS, count - first))
        )
        graph = compile_plan(load(f"longtask: 1\nname: parked-{first}\nsteps:\n{steps}"), attended=False)
        ids.append(parts.desk.submit(graph, by="ann").id)
    return ids


def waiting(parts: boot.Parts, ids: list[str]) -> int:
    return sum(parts.store.get_task(id).counts.wait_user for id in ids)


def questions(parts: boot.Parts, ids: list[str]) -> set[tuple[str, str, int]]:
    found = ((id, step) for id in ids for _, step in parts.store.asking(task_id=id, limit=STEPS + 1))
    return {(id, step.key, step.ask) for id, step in found}


def connections(fleet: Fleet) -> int:
    with psycopg.connect(fleet.server.url) as line:
        found = line.execute("select count(*) from pg_stat_activity where datname = current_database()").fetchone()
    return int(found[0]) if found else 0


def idle_percent(fleet: Fleet) -> float:
    """Of a core, for all workers together, while all wait."""

    def spent() -> int:
        pids = [machine.life.process.pid for machine in fleet.machines if machine.life is not None]
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
        return sum(int(fields[11]) + int(fields[12]) for fields in stats)

    before = spent()
    time.sleep(IDLE_S)
    return round((spent() - before) / os.sysconf("SC_CLK_TCK") / IDLE_S * 100, 2)


def _until(fact, what: str) -> float:
    began = time.monotonic()
    while not fact():
        if time.monotonic() - began > WAIT_MAX_S:
            raise TimeoutError(what)
        time.sleep(0.2)
    return round(time.monotonic() - began, 1)


if __name__ == "__main__":
    sys.exit(main())
