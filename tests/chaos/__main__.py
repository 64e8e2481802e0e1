"""`python -m tests.chaos --minutes 2 --seed 7`: see the package.  Prints one JSON line, and the same for people.

Exit code 1: something does not hold; the evidence is printed, and the folder is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from longtask import boot, config
from tests.chaos.fleet import Fleet
from tests.chaos.people import People
from tests.chaos.shapes import Place, draw
from tests.chaos.trouble import Trouble
from tests.chaos.verdict import Verdict, judge

TASKS_PER_MINUTE = 50  # two cores keep pace with them, whatever goes wrong
TASKS_MIN = 200
CALM_MAX_S = 300.0  # when nothing goes wrong any more, all must end within this, and the more the longer it took
REFS_MAX_S = 90.0
WRONG_SHOWN_MAX = 30
TICK_S = 0.05


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--tasks", type=int, default=None, help="default: 100 a minute, 200 at least")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--keep", action="store_true", help="keep the folder in any case")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1, 1_000_000)
    count = given.tasks or max(TASKS_MIN, round(given.minutes * TASKS_PER_MINUTE))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    folder = Path(tempfile.mkdtemp(prefix="longtask-chaos-"))
    print(
        f"chaos: seed {seed}, {given.minutes:g} minutes, {count} tasks, {given.workers} workers, in {folder}",
        flush=True,
    )
    good = False
    try:
        good = play(folder, given.minutes * 60, seed, count, given.workers)
    finally:
        if good and not given.keep:
            shutil.rmtree(folder, ignore_errors=True)
        elif not good:
            print(f"again: make chaos MINUTES={given.minutes:g} SEED={seed}; evidence: {folder}", flush=True)
    return 0 if good else 1


def _interrupted(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def prepare(folder: Path) -> Path:
    """A repository, and surroundings that are nobody's."""
    for name in [name for name in os.environ if name.startswith(("GIT_", "LONGTASK_", "XDG_"))]:
        del os.environ[name]
    user = folder / "user"
    user.mkdir()
    os.environ |= {
        "HOME": str(user),
        "GIT_CONFIG_NOSYSTEM": "1",
        "LONGTASK_HOME": str(folder / "homes" / "m0"),
        "LONGTASK_HUB": str(folder / "hub"),
        "LONGTASK_ARTIFACT_STORE": str(folder / "artifacts"),
    }
    repository = folder / "repository"
    repository.mkdir()
    (repository / "a.txt").write_text("one\n")
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    for words in (("init", "-q", "-b", "main"), ("add", "--all"), ("commit", "-qm", "first")):
        subprocess.run(["git", *who, *words], cwd=repository, check=True, capture_output=True)
    return repository


def play(folder: Path, seconds: float, seed: int, count: int, workers: int) -> bool:
    repository = prepare(folder)
    place = Place(folder / "place")
    place.make()
    shapes = draw(random.Random(seed), count, place)
    fleet = Fleet(folder, seed, workers)
    try:
        parts = boot.open_parts(config.load(database=fleet.database))
        fleet.start()
        fleet.wait_until_ready()
        began = time.monotonic()
        people = People(parts, place, shapes, repository, over_s=seconds * 0.8)
        trouble = Trouble(fleet, seed)
        people.start()
        try:
            while time.monotonic() - began < seconds and people.error is None:
                trouble.step()
                time.sleep(TICK_S)
        finally:
            trouble.end()
        calm_s = calm(fleet, people, trouble, CALM_MAX_S + seconds / 2)
        wait_for_references(parts, people, repository)
        stubborn = fleet.drain()
        verdict = judge(fleet, parts, place, repository, people.ids, shapes)
        verdict.wrong += [f"worker {life} did not end when it was told to" for life in stubborn]
        if calm_s is None:
            verdict.wrong.insert(0, f"not all tasks have ended; people wait for: {people.waiting or 'nothing'}")
        if people.error is not None:
            verdict.wrong.insert(0, f"what people did broke: {people.error!r}")
        parts.store.close()
        (folder / "told").write_text("\n".join(trouble.told))
    finally:
        fleet.close()
    report(fleet, people, trouble, verdict, seed, calm_s, time.monotonic() - began)
    return not verdict.wrong


def kind_of(wrong: str) -> str:
    """A message without what differs between two of its kind: whose it is, numbers, commits."""
    return re.sub(r"\b[0-9a-f]{12,}\b|\d+", "#", wrong.partition(": ")[2] or wrong)


def calm(fleet: Fleet, people: People, trouble: Trouble, limit_s: float) -> float | None:
    """Nothing goes wrong any more; how long it took until all was done.  None: it was not, in time."""
    began = time.monotonic()
    while people.is_alive() and time.monotonic() - began < limit_s:
        trouble.surprises += fleet.keep()
        time.sleep(TICK_S)
    ended = not people.is_alive()
    people.stopping.set()
    people.join(30)
    return time.monotonic() - began if ended else None


def wait_for_references(parts: boot.Parts, people: People, repository: Path) -> None:
    """They follow the journal; how far they came is judged later."""
    tasks = [parts.store.get_task(id) for name, id in people.ids.items() if people.shapes[name].git]
    end = time.monotonic() + REFS_MAX_S
    while time.monotonic() < end:
        words = ["git", "-C", str(repository), "for-each-ref", "--format=%(objectname)", "refs/heads/longtask"]
        found = set(subprocess.run(words, capture_output=True, text=True).stdout.split())
        if all(task.head in found or task.head == task.base for task in tasks):
            return
        time.sleep(0.5)


def report(
    fleet: Fleet, people: People, trouble: Trouble, verdict: Verdict, seed: int, calm_s: float | None, seconds: float
) -> None:
    for machine in fleet.machines:
        trouble.counts.update(machine.link.counts)
    trouble.counts["found no database at their start"] = sum(not life.worker for life in trouble.surprises)
    surprises = [f"{life.log}, exit code {life.process.returncode}" for life in trouble.surprises if life.worker]
    told = {
        "seed": seed,
        "ok": not verdict.wrong,
        "seconds": round(seconds, 1),
        "calm_s": None if calm_s is None else round(calm_s, 1),
        **verdict.figures,
        "trouble": dict(sorted(trouble.counts.items())),
        "people": dict(sorted(people.counts.items())),
        "not_possible_here": fleet.missing,
        "ended_by_themselves": surprises,
        "wrong": len(verdict.wrong),
    }
    print(json.dumps(told), flush=True)
    print(f"\nwhat went wrong by intent: {', '.join(f'{name} {n}' for name, n in sorted(trouble.counts.items()))}")
    figures = {name: value for name, value in verdict.figures.items() if value is not None}
    print(f"what was done: {', '.join(f'{name} {value}' for name, value in figures.items())}")
    for reason in fleet.missing.items():
        print("not possible here: {}: {}".format(*reason))
    for text in surprises:
        print(f"a worker has ended by itself: {text}")
    for text in verdict.wrong[:WRONG_SHOWN_MAX]:
        print(f"WRONG  {text}")
    if len(verdict.wrong) > WRONG_SHOWN_MAX:
        print(f"... and {len(verdict.wrong) - WRONG_SHOWN_MAX} more; by kind:")
        for kind, number in Counter(map(kind_of, verdict.wrong)).most_common(WRONG_SHOWN_MAX):
            print(f"{number:7,}  {kind}")
    print("all holds" if not verdict.wrong else f"{len(verdict.wrong)} do not hold", flush=True)


if __name__ == "__main__":
    sys.exit(main())
