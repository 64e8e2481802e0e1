"""A process of its own that works on a database file; started by test_processes.py.

writer.py DATABASE write SECONDS N     claims and releases the steps of a task of its own, as fast as it can
writer.py DATABASE beat SECONDS N      beats every 10 ms; prints how long each beat took, in ms
"""

import sys
import time

from longtask.core.events import StepClaimed, StepReleased
from longtask.store.contract import Beat
from longtask.store.sqlite import SqliteStore
from tests.conformance.play import act, claim, ready, submit


def write(store: SqliteStore, id_: str, until: float) -> int:
    attempt = 0
    while time.monotonic() < until:
        attempt += 1
        act(store, id_, StepClaimed("a", attempt, "w"))
        with store.group():
            act(store, id_, StepReleased("a", attempt, "drain"))
            act(store, id_, StepClaimed("b", attempt, "w"))
        act(store, id_, StepReleased("b", attempt, "drain"))
    return attempt


def beat(store: SqliteStore, id_: str, until: float) -> list[float]:
    ref = claim(store, id_, "a")
    took: list[float] = []
    while time.monotonic() < until:
        began = time.monotonic()
        assert store.beat(ref, 1, store.now() + 15_000) == Beat(None)
        took.append((time.monotonic() - began) * 1000)
        time.sleep(0.01)
    return took


def main() -> None:
    path, what, seconds, number = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    store = SqliteStore(path)
    id_ = submit(store, number, ready("a", "b"))
    print("ready", flush=True)
    sys.stdin.readline()
    until = time.monotonic() + seconds
    print(write(store, id_, until) if what == "write" else " ".join(f"{ms:.1f}" for ms in beat(store, id_, until)))
    store.close()


if __name__ == "__main__":
    main()
