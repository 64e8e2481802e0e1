"""The process that is killed.

    work HOME [--at POINT --hit N [--freeze]] [--until-asked] [--name W]    a worker, until the task ends
    answer HOME STEP WORD [--at POINT --hit N]                              a person answers

`python -m tests.crash.driver ...` starts one by hand.  Backoffs are short: the rest is what `longtask worker` does.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from longtask import boot, config
from longtask.core import decide
from longtask.core.machine import status
from longtask.store.contract import Ref
from tests.crash import points

BACKOFF_MS = 20
NOT_MOVING = ("waiting_user", "waiting_event", "waiting_budget", "paused")


def forked(words: Sequence[str], env: Mapping[str, str], log: Path) -> None:
    """In a process that has everything imported already and has opened nothing."""
    os.environ.update(env)
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.exit(main(words))


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("act", choices=["work", "answer"])
    parser.add_argument("home", type=Path)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--at")
    parser.add_argument("--hit", type=int, default=1)
    parser.add_argument("--freeze", action="store_true")
    parser.add_argument("--until-asked", action="store_true")
    parser.add_argument("--name")
    given = parser.parse_args(words)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(process)d %(message)s")
    vars(decide)["backoff_ms"] = lambda tries, first_ms=0: BACKOFF_MS
    parts = boot.open_parts(config.load(home=given.home))
    task_id = parts.store.get_task("@last").id
    if given.at:
        points.install(parts, given.at, given.hit, signal.SIGSTOP if given.freeze else signal.SIGKILL)
    if given.act == "answer":
        step, word = given.words
        parts.desk.answer(Ref(task_id, step), word, "ann")
        return 0

    def ended() -> bool:
        task = parts.store.get_task(task_id)
        return task.ended or (given.until_asked and status(task) in NOT_MOVING)

    running = boot.make_loop(parts, slots=4, id=given.name)
    vars(running.loop)["_scheduler"]._lease_ms = 0  # a scene ends the leases of the dead: none is waited for
    running.loop.run(ended)
    running.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
