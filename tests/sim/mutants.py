"""`python -m tests.sim.mutants`: breaks the code on purpose and demands that each break is found.

A mutant (`broken.py`) runs in a process of its own, whose imports read the changed text: nothing is patched, and a
line that is not there any more fails loudly.  Then worlds are played, with odds that lead to the place, until one goes
wrong.  What the simulator's model leaves out (real worktrees) has a scenario of its own in `scenarios.py`.

`killers.txt` says which seed found a mutant the last time.  A seed tells the same story everywhere, so that world comes
first; where the code has changed and it finds nothing, all the others follow.  `--keep` writes the file anew.

A mutant that survives shows a hole in the oracle or in the odds, not in the code.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from .broken import MUTANTS, Mutant

SEEDS_MAX = 250
PROCESSES = 2
KILLERS = Path(__file__).parent / "killers.txt"


# --- what is known from before ---------------------------------------------------------------------------------------


def known() -> dict[str, int]:
    """By a mutant's name, the seed that found it the last time."""
    lines = (line.split(maxsplit=1) for line in KILLERS.read_text().splitlines() if not line.startswith("#"))
    return {name: int(seed) for seed, name in lines}


def keep(killers: dict[str, int]) -> None:
    lines = [f"{killers[m.name]:>4} {m.name}" for m in MUTANTS if m.name in killers]
    KILLERS.write_text(
        "\n".join(["# A seed, and the mutant that it finds: `python -m tests.sim.mutants --keep`", *lines, ""])
    )


def order(first: int | None) -> list[int]:
    seeds = list(range(1, SEEDS_MAX + 1))
    return seeds if first is None else [first, *(seed for seed in seeds if seed != first)]


# --- a broken program ------------------------------------------------------------------------------------------------


class Changed(importlib.machinery.SourceFileLoader):
    """Loads a module from its text with one line said differently."""

    mutant: Mutant

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path).decode()
        return compile(replaced(self.mutant, source), self.path, "exec", dont_inherit=True)


class Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.mutant.place:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert spec is not None and spec.origin is not None
        loader = Changed(fullname, spec.origin)
        loader.mutant = self.mutant
        return importlib.util.spec_from_loader(fullname, loader)


def replaced(mutant: Mutant, text: str) -> str:
    found = text.count(mutant.old)
    if found != mutant.times:
        raise SystemExit(
            f"mutant {mutant.name!r}: {mutant.old!r} stands {found} times in {mutant.place}; mend the mutant"
        )
    return text.replace(mutant.old, mutant.new)


def install(mutant: Mutant) -> None:
    assert mutant.place.startswith("sql ") or mutant.place not in sys.modules, f"{mutant.place} is imported already"
    if not mutant.place.startswith("sql "):
        sys.meta_path.insert(0, Finder(mutant))
        return
    queries = importlib.import_module("longtask.store.queries")
    *dialect, name = mutant.place.split()[1:]
    statements = queries.load(*dialect or ["sqlite"])  # one dictionary for all stores of the process
    statements[name] = replaced(mutant, statements[name])


def hunt(mutant: Mutant) -> dict[str, Any]:
    """In this process, which is broken from now on: how the mutant was found, or that it was not."""
    install(mutant)
    began = time.monotonic()
    if mutant.scenario is not None:
        scenarios = importlib.import_module("tests.sim.scenarios")
        wrong = getattr(scenarios, mutant.scenario)()
        return {"found": wrong, "seed": None, "tries": 1, "s": time.monotonic() - began}
    logging = importlib.import_module("logging")
    logging.disable(logging.CRITICAL)
    plans, world = importlib.import_module("tests.sim.plans"), importlib.import_module("tests.sim.world")
    odds = dict(mutant.odds)
    if "kinds" in odds:
        odds["kinds"] = tuple(plans.Kind(word) for word in odds["kinds"])
    for tries, seed in enumerate(order(known().get(mutant.name)), 1):
        wrong = world.play(seed, plans.Odds(**odds))
        if wrong is not None:
            first = wrong.splitlines()[0].partition(": ")[2]
            return {"found": first, "seed": seed, "tries": tries, "s": time.monotonic() - began}
    return {"found": None, "seed": None, "tries": SEEDS_MAX, "s": time.monotonic() - began}


def apart(mutant: Mutant) -> tuple[Mutant, dict[str, Any]]:
    command = [sys.executable, "-m", "tests.sim.mutants", "--one", mutant.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return mutant, {"found": None, "seed": None, "tries": 0, "s": 0.0, "broken": done.stderr.strip()[-2_000:]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return mutant, answer


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.sim.mutants", description="breaks the code on purpose")
    parser.add_argument("--one", help="this mutant, in this process")
    parser.add_argument("--keep", action="store_true", help="write down which seeds have found them")
    parser.add_argument("names", nargs="*", help="these mutants; all if left out")
    args = parser.parse_args()
    if args.one is not None:
        print(json.dumps(hunt(next(m for m in MUTANTS if m.name == args.one))))
        return 0
    chosen = [m for m in MUTANTS if not args.names or any(name in m.name for name in args.names)]
    survived, killers = 0, known()
    with ThreadPoolExecutor(PROCESSES) as pool:
        for mutant, answer in pool.map(apart, chosen):
            found = answer["found"]
            survived += found is None
            if answer["seed"] is not None:
                killers[mutant.name] = answer["seed"]
            seed, tries = answer["seed"] or "-", answer["tries"]
            what = answer.get("broken") or (found or "SURVIVED").replace("\n", " ")[:110]
            print(f"{mutant.name:50} seed {seed:>4} tries {tries:>3} {answer['s']:6.1f} s  {what}", flush=True)
    if args.keep:
        keep(killers)
    print(f"{len(chosen)} mutants, {survived} not killed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
