"""How soon another worker runs what a worker had in hand, with default settings: after SIGKILL, and after SIGTERM.

    python -m tests.chaos.takeover [--rounds N]

Two workers; each round one of them is ended while it runs steps behind others that have finished.  One JSON line for
each way: seconds from the signal to the claim elsewhere, and how many finished steps ran again.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from longtask import boot, config
from longtask.core import events as e
from longtask.core.policy import LEASE_MS
from longtask.plan import compile_plan, load
from tests.chaos.__main__ import prepare
from tests.chaos.fleet import Fleet
from tests.chaos.shapes import MANY, Place
from tests.chaos.verdict import repeated, witnessed
from tests.engine.audit import journal

TASKS = 6  # at once, so that both workers have some
WAYS = {"sigkill": (signal.SIGKILL, 20.0), "sigterm": (signal.SIGTERM, 2.0)}  # and the goal, in seconds
ROUND_MAX_S = 120.0
QUICK = 3  # steps that have finished when the worker ends
PLAN = (
    """
longtask: 1
name: NAME
steps:
"""
    + "".join(
        f"""
  - {{id: q{n}, needs: [{f"q{n - 1}" if n else ""}], {MANY}, run: ". ACT; act 0"}}"""
        for n in range(QUICK)
    )
    + f"""
  - id: slow
    needs: [q{QUICK - 1}]
    {MANY}
    run: |
      . ACT
      if [ "$LONGTASK_ATTEMPT" -gt 1 ]; then act 0; else act 60; fi
"""
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.takeover")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--way", choices=list(WAYS), help="default: both")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="longtask-takeover-"))
    good = False
    try:
        good = play(folder, given.rounds, given.way)
    finally:
        if good:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"evidence: {folder}")
    return 0 if good else 1


def play(folder: Path, rounds: int, only: str | None) -> bool:
    prepare(folder)
    place = Place(folder / "place")
    place.make()
    fleet = Fleet(folder, 1, count=2, slots=2 * TASKS, lease_s=LEASE_MS / 1000)
    dice = random.Random(1)
    good = True
    try:
        fleet.start()
        fleet.wait_until_ready()
        parts = boot.open_parts(config.load(database=fleet.database))
        for way, (number, goal_s) in WAYS.items():
            if only and way != only:
                continue
            seconds: list[float] = []
            counted: Counter[str] = Counter()
            for n in range(rounds):
                seconds += one_round(fleet, parts, place, f"{way}-{n}", number, dice, counted)
            wrong = counted["repeated"] or max(seconds) > goal_s
            good = good and not wrong
            told = {"after": way, "rounds": rounds, "steps": len(seconds), "min_s": min(seconds)}
            told |= {"median_s": statistics.median(seconds), "max_s": max(seconds), "goal_s": goal_s}
            print(
                json.dumps(
                    told | {"finished_before": counted["finished"], "repeated": counted["repeated"], "ok": not wrong}
                ),
                flush=True,
            )
        parts.store.close()
        fleet.drain()
    finally:
        fleet.close()
    return good


def one_round(
    fleet: Fleet,
    parts: boot.Parts,
    place: Place,
    name: str,
    number: signal.Signals,
    dice: random.Random,
    counted: Counter[str],
) -> list[float]:
    """Seconds, for each step that the ended worker had in hand."""
    ids = []
    for n in range(TASKS):
        text = PLAN.replace("NAME", f"{name}-{n}").replace("ACT", str(place.act))
        ids.append(parts.desk.submit(compile_plan(load(text), attended=False), by="ann").id)
    _until(lambda: all(_holder(parts, id) for id in ids), f"{name}: the slow steps do not run")
    time.sleep(dice.uniform(0, LEASE_MS / 3000))  # anywhere between two beats
    busiest = Counter(_holder(parts, id) for id in ids).most_common(1)[0][0]
    [machine] = [m for m in fleet.machines if m.life is not None and m.life.worker == busiest]
    held = [id for id in ids if _holder(parts, id) == busiest]
    machine.end(number, name)
    gone_at = machine.lives[-1].gone[-1]
    _until(lambda: all(parts.store.get_task(id).ended for id in held), f"{name}: what it had in hand does not end")
    seconds = []
    journals = {id: journal(parts.store, id) for id in held}
    for events in journals.values():
        claims = [x for x in events if isinstance(x.fact, e.StepClaimed) and x.fact.step == "slow"]
        assert len(claims) == 2, f"{name}: claimed {len(claims)} times"
        seconds.append(round((claims[1].at - gone_at) / 1000, 2))
    counted["repeated"] += len(list(repeated(witnessed(place.witness), journals)))
    counted["finished"] += QUICK * len(held)
    for id in ids:
        if id not in held:
            parts.desk.cancel(id, "ann", "the round is over")
    _until(lambda: all(parts.store.get_task(id).ended for id in ids), f"{name}: what was cancelled does not end")
    machine.lives[-1].process.wait(ROUND_MAX_S)
    fleet.keep()
    fleet.wait_until_ready()
    return seconds


def _holder(parts: boot.Parts, id: str) -> str:
    """The worker that runs the slow step; "": none."""
    leases = [lease for lease in parts.store.leases(id, 10) if lease.step == "slow"]
    return leases[0].worker if leases else ""


def _until(fact, what: str) -> None:
    end = time.monotonic() + ROUND_MAX_S
    while not fact():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
