"""A worker that is killed while another stands by: `python -m bench.crash TARGET` is such a worker."""

from __future__ import annotations

import subprocess
import sys
import time

from bench.beds import Bed
from bench.peers.driving import after_the_kill, held_by, marks, wait_until
from bench.tasks import opened_at
from longtask import boot
from longtask.core.graph import Graph, Planned
from longtask.core.model import Kind, StepSpec, TaskOptions

STEPS = 200
WAIT_S_MAX = 90.0


def steps(folder: str) -> Graph:
    """A chain of short steps that leave marks in the folder."""
    body = {"function": "bench.peers.longtask.steps:short", "inline": True}
    specs = tuple(StepSpec(Kind.FUNCTION, {**body, "args": {"folder": folder, "n": n}}) for n in range(STEPS))
    keys = [f"step_{n:05}" for n in range(STEPS)]
    needs = [(), *((key,) for key in keys[:-1])]
    planned = tuple(Planned(key, Kind.FUNCTION, 1, n, needs[n]) for n, key in enumerate(keys))
    return Graph("crash", TaskOptions(stages=("work",)), specs, planned)


def killed(bed: Bed) -> float:
    """The seconds from the kill to the first step of the other worker.  Raises AssertionError if a step that had ended
    ran again, or if nobody took over."""
    bed.submitted("new", steps(str(bed.at)))
    command = [sys.executable, "-m", "bench.crash", bed.target("new")]
    workers = [subprocess.Popen(command)]
    try:
        assert wait_until(lambda: bool(marks(bed.at)), WAIT_S_MAX, 0.002), "no step began"
        workers.append(subprocess.Popen(command))
        first = workers[0].pid
        assert wait_until(lambda: held_by(bed.at, first), WAIT_S_MAX, 0.002), "the first worker lost its task"
        workers[0].kill()
        killed_at = time.time()
        workers[0].wait()
        found = after_the_kill(bed.at, first, killed_at, STEPS, WAIT_S_MAX)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert found["ended"] and not found["repeated"], f"takeover: {found}"
    return float(found["value"])


def main() -> None:
    boot.make_loop(opened_at(sys.argv[1])).loop.run()


if __name__ == "__main__":
    main()
