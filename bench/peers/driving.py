"""What all drivers share: standard library only, since each runs in the environment of its peer.

A driver is `python -m bench.peers.PEER.drive WORKLOAD ...`: it measures one workload once and prints one JSON line.
`--role worker` is the same driver as a worker of its own: it works until it is killed, and says `ready` first.
What a step costs is measured inside, after a warm-up; the start of an interpreter counts in `hello` alone.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

CHAIN_WARM, CHAIN_MANY = 20, 10
STEP_S = 0.05  # of the steps of a takeover: long enough that the kill falls into one
MARKS_BEFORE_KILL = 40
IDLE_S = 5.0
REST_PERCENT, REST_S_MAX = 0.5, 180.0  # looked for no longer
READY_S_MAX = 60.0
CHECKPOINT_S_MAX = 20.0
CONCURRENCY = 100  # of a peer that lets its user choose, where many tasks are at hand


@dataclass(frozen=True, slots=True)
class Asked:
    """`target`: a file (sqlite), a URL (postgres) or a folder (a server of the peer's own).  `limit_s`: of one wait."""

    workload: str
    database: str
    target: str
    folder: Path
    n: int
    processes: int
    limit_s: float
    role: str


def asked() -> Asked:
    parser = argparse.ArgumentParser()
    parser.add_argument("workload")
    parser.add_argument("--database", choices=["sqlite", "postgres", "own"], required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--n", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--limit-s", type=float, default=120)
    parser.add_argument("--role", default="main")
    return Asked(**vars(parser.parse_args()))


def told(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)


def drive(workloads: Mapping[str, Callable[[Asked], dict[str, Any]]], worker: Callable[[Asked], None]) -> None:
    """What a driver's main does.  It leaves at once: a peer's threads would keep it."""
    ask = asked()
    if ask.role == "worker":
        worker(ask)
    elif ask.workload in workloads:
        told(**workloads[ask.workload](ask))
    else:
        told(skipped=f"it has nothing like {ask.workload!r}")
    sys.stdout.flush()
    os._exit(0)


def in_async(act: Callable[[Asked], Awaitable[dict[str, Any]]]) -> Callable[[Asked], dict[str, Any]]:
    async def run(ask: Asked) -> dict[str, Any]:
        return await act(ask)

    return lambda ask: asyncio.run(run(ask))


# --- workers of their own -----------------------------------------------------------------------------------------


@contextmanager
def workers(ask: Asked, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """The same driver as `count` workers, each of them ready; ended by their ids."""
    command = [sys.executable, "-m", main_module(), *sys.argv[1:], "--role", "worker"]
    started = [
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) for _ in range(count)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            if process.stdout.readline().strip() != "ready":
                raise RuntimeError("a worker of the peer ended before it was ready")
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def main_module() -> str:
    spec = sys.modules["__main__"].__spec__
    assert spec is not None
    return spec.name


def ready() -> None:
    print("ready", flush=True)


def wait_until(holds: Callable[[], bool], limit_s: float, every_s: float = 0.02) -> bool:
    until = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(every_s)
    return True


async def until(holds: Callable[[], bool], limit_s: float, every_s: float = 0.005) -> bool:
    end = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(every_s)
    return True


class TooSlow(Exception):
    """It did not end within its limit."""


def must(ended: bool, what: str, limit_s: float) -> None:
    if not ended:
        raise TooSlow(f"{what} did not end within {limit_s:.0f} s")


# --- figures ------------------------------------------------------------------------------------------------------


def rate(steps: int, took_s: float) -> dict[str, Any]:
    return {"value": steps / took_s, "steps": steps, "took_s": took_s}


def cpu_s(pid: int | str = "self") -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int | str = "self") -> int:
    """Without what the process would give back if it were asked, where it can be asked."""
    if pid == "self":
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def sqlite_bytes(path: str) -> int:
    """The file with its write-ahead log copied back.  Raises TooSlow if somebody reads it all the time."""
    import sqlite3

    line = sqlite3.connect(path)
    try:
        left = wait_until(lambda: line.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0, CHECKPOINT_S_MAX)
        must(left, "copying the log back", CHECKPOINT_S_MAX)
    finally:
        line.close()
    return os.path.getsize(path)


# --- takeover -----------------------------------------------------------------------------------------------------


class Mark(NamedTuple):
    step: int
    pid: int
    at: float


def mark(folder: Path, step: int) -> None:
    """A step tells that it began; one short write, so that lines of several processes do not mix."""
    file = os.open(folder / "marks", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{step} {os.getpid()} {time.time()}\n".encode())
    os.close(file)


def marks(folder: Path) -> list[Mark]:
    path = folder / "marks"
    if not path.exists():
        return []
    found = (line.split() for line in path.read_text().splitlines())
    return [Mark(int(step), int(pid), float(at)) for step, pid, at in found]


def taken_over(found: list[Mark], dead: int, killed_at: float, steps: int) -> dict[str, Any]:
    """`value`: seconds from the kill to the first step by another process; None: none came.

    A finished step is repeated if it ran again though a later one of the dead process had begun: the one that was in
    its hands when it died may run twice by right.
    """
    others = [x.at for x in found if x.pid != dead and x.at >= killed_at]
    in_hand = next((x.step for x in reversed(found) if x.pid == dead), None)
    times = Counter(x.step for x in found)
    repeated = sum(count > 1 for step, count in times.items() if step != in_hand)
    return {
        "value": min(others) - killed_at if others else None,
        "repeated": repeated,
        "ended": len(times) == steps,
    }


def takeover(ask: Asked, submit: Callable[[], None]) -> dict[str, Any]:
    """One worker has a chain of short steps in its hands and is killed, while another stands by."""
    with workers(ask, 1) as (first,):
        submit()
        ran = wait_until(lambda: bool(marks(ask.folder)), ask.limit_s, 0.002)
        must(ran, "the first steps", ask.limit_s)
        with workers(ask, 1):
            # where a job is a step the chain goes to and fro: wait until it is in the first one's hands
            held = wait_until(lambda: held_by(ask.folder, first.pid), READY_S_MAX, 0.002)
            must(held, "the first worker's part", READY_S_MAX)
            first.kill()
            killed_at = time.time()
            first.wait()
            return after_the_kill(ask.folder, first.pid, killed_at, ask.n, ask.limit_s)


def after_the_kill(folder: Path, dead: int, killed_at: float, steps: int, limit_s: float) -> dict[str, Any]:
    """Waits for another process to go on, and if one does, for the end."""
    if wait_until(lambda: any(x.pid != dead and x.at >= killed_at for x in marks(folder)), limit_s):
        wait_until(lambda: len({x.step for x in marks(folder)}) >= steps, READY_S_MAX)
    return taken_over(marks(folder), dead, killed_at, steps)


def held_by(folder: Path, pid: int) -> bool:
    """It began a step just now, so that a kill finds it at work."""
    found = marks(folder)
    return len(found) >= MARKS_BEFORE_KILL and found[-1].pid == pid and time.time() - found[-1].at < STEP_S / 3


# --- parked -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Parking:
    """Memory and processor of some processes while tasks wait; `pids` may hold a server that is the peer's own part."""

    wanted: int
    pids: tuple[int | str, ...] = ("self",)
    first: int = 0  # so many had parked when memory was read first
    before: int = 0

    def parking(self, parked: int) -> None:
        """To be told now and then: a first fifth warms caches and pools up, and memory counts from there."""
        if not self.first and parked * 5 >= self.wanted:
            self.first, self.before = parked, self._memory()

    def idle(self, parked: int) -> dict[str, Any]:
        """The calmest window of IDLE_S, of so many that what is written beside the work has had its time."""
        begun, percent = time.monotonic(), math.inf
        while percent > REST_PERCENT and time.monotonic() - begun < REST_S_MAX:
            cpu, at = self._cpu(), time.monotonic()
            time.sleep(IDLE_S)
            percent = min(percent, (self._cpu() - cpu) / (time.monotonic() - at) * 100)
        bytes_each = (self._memory() - self.before) / max(parked - self.first, 1)
        return {"parked": parked, "bytes_each": bytes_each, "idle_percent": percent}

    async def idle_async(self, parked: int) -> dict[str, Any]:
        return await asyncio.to_thread(self.idle, parked)

    def _memory(self) -> int:
        return sum(resident_bytes(pid) for pid in self.pids)

    def _cpu(self) -> float:
        return sum(cpu_s(pid) for pid in self.pids)


def woken(parked: int, took_s: float) -> dict[str, Any]:
    return {"value": parked / took_s, "wake_s": took_s}
