"""A worker that parks approvals, in a process of its own: `python -m bench.parked TARGET FIRST THEN`.

It says on a line how many bytes of memory it holds when FIRST steps are parked, waits for a line, and says it again
when THEN are.
"""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from pathlib import Path

import longtask.room  # noqa: F401  what a worker loads a while after its start is no step's
from bench.tasks import opened_at
from longtask import boot
from longtask.store.contract import Store
from longtask.store.sqlite import SqliteStore

LEASE_MS = 1_500  # so that the thread that beats has made its connection before memory is read for the first time


def resident_bytes(store: Store) -> int:
    """What the process holds, without what it would give back if asked: pages of the database, freed memory."""
    gc.collect()
    if isinstance(store, SqliteStore):
        store._line.run("pragma shrink_memory")
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def all_ask(parts: boot.Parts, wanted: int) -> bool:
    return (
        sum(task.counts.wait_user for task in parts.store.tasks(open_only=True, workspace_id=None, before=0, limit=2))
        == wanted
    )


def main() -> None:
    target, *wanted = sys.argv[1:]
    parts = opened_at(target)
    left = [int(number) for number in wanted]

    def until() -> bool:
        while left and all_ask(parts, left[0]):
            print(resident_bytes(parts.store), flush=True)
            sys.stdin.readline()
            left.pop(0)
        return not left

    running = boot.make_loop(parts, slots=4, id="bench", lease_ms=LEASE_MS)
    running.loop.run(until)
    running.close()


if __name__ == "__main__":
    main()
