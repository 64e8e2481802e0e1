"""`python -m tests.sim --seeds N [--from S]`, or `--seed S [--verbose]`: exit 1 if a world went wrong."""

from __future__ import annotations

import argparse
import logging
import secrets
import sys
import time

from .hosting import POSTGRESQL, SQLITE
from .plans import Odds
from .world import play


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.sim", description="plays random worlds of the real engine")
    parser.add_argument("--seeds", type=int, default=300, help="how many worlds")
    parser.add_argument("--from", type=int, dest="first", help="the first seed; by chance if left out")
    parser.add_argument("--seed", type=int, help="this world alone")
    parser.add_argument("--verbose", action="store_true", help="print what happens")
    parser.add_argument("--all", action="store_true", help="go on after a failure")
    parser.add_argument("--database", choices=(SQLITE, POSTGRESQL), default=SQLITE, help="where the tasks are kept")
    parser.add_argument("--spawn", type=float, default=0, help="per cent of agents that give out work")
    parser.add_argument("--task", type=float, default=0, help="per cent of steps whose work is a task of its own")
    parser.add_argument("--active", type=float, default=0, help="per cent of tasks with a limit of active time")
    parser.add_argument(
        "--hands", type=float, default=0, help="per cent of deeds that lay hands on steps, and planners"
    )
    parser.add_argument("--forks", type=float, default=0, help="per cent of deeds that fork a task")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    first = secrets.randbelow(10**8) if args.first is None else args.first
    seeds = [args.seed] if args.seed is not None else range(first, first + args.seeds)
    failed, began = [], time.monotonic()
    for seed in seeds:
        odds = Odds(spawn=args.spawn, hands=args.hands, task=args.task, active=args.active, forks=args.forks)
        wrong = play(seed, odds, verbose=args.verbose, database=args.database)
        if wrong is not None:
            print(wrong, flush=True)
            failed.append(seed)
            if not args.all:
                break
    took = time.monotonic() - began
    print(f"{len(seeds)} seeds from {seeds[0]}, {len(failed)} failed, {took:.1f} s")
    if failed:
        print("keep them: add the line to tests/sim/seeds.txt")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
