"""The workloads: each measures something against something else, in one run, round by round, in turn.

A machine is never quiet and its disk never twice the same, so nothing here compares a figure with one of another
minute: a run is followed by its probe, and the median of the ratios of these pairs is what counts.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

from bench import beds, children, streams
from bench.beds import Bed
from bench.crash import killed
from bench.locks import Locks
from bench.probe import commits
from bench.repositories import attempt_start
from bench.result import Result, judged
from bench.tasks import approvals, chain, fan_out, has_ended, work
from longtask.core.graph import Graph
from longtask.telemetry.settings import TRACE

SLOTS = 4
SLOTS_MANY = 64
LOCK_MS_MAX, ROUNDS_LOCK = 200, 3
BYTES_MAX, PG_BYTES_MAX = 400, 1_200
TAKEOVER_S_MAX = 20
HELLO_MS_MAX = 246  # 0.6 of the best peer's 0.41 s; `bench.peers` measures it beside the peers
WARM_STEPS = 50

Opened = Callable[[], AbstractContextManager[Bed]]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# --- steps a second against the bare database ---------------------------------------------------------------------


def against_probe(
    opened: Opened, name: str, graphs: list[Graph], steps: int, rounds: int, slots: int, goal: str
) -> Result:
    """A first run is recorded, and not timed; the others are timed, and not recorded."""
    with opened() as bed:
        name = bed.prefix + name
        bed.submitted("new", *graphs)
        statements = bed.recorded(bed.copied("new", "run"), slots)
        gc.freeze()  # else the runs would pay for looking through what was recorded
        say(f"{name}: {len(statements) / steps:.1f} statements and {commits(statements) / steps:.2f} commits a step")
        runs, probes = [], []
        for n in range(rounds):
            runs.append(steps / bed.worked_off(bed.copied("new", "run"), slots))
            probes.append(steps / bed.replayed(bed.copied("new", "probe"), statements))
            say(f"{name}: round {n + 1} of {rounds}: {runs[-1]:,.0f} steps/s, probe {probes[-1]:,.0f}")
    ratios = [run / probe for run, probe in zip(runs, probes, strict=True)]
    return judged(name, median(runs), "steps/s", median(probes), goal, median(ratios))


def chain_200(opened: Opened, goal: str) -> Result:
    return against_probe(opened, "chain", [chain(200)], 200, 9, SLOTS, goal)


def fanout_1000(opened: Opened, goal: str) -> Result:
    return against_probe(opened, "fanout_1000", [fan_out(1_000)], 1_000, 5, SLOTS, goal)


def many(opened: Opened, goal: str) -> Result:
    return against_probe(opened, "many", [chain(10)] * 500, 5_000, 5, SLOTS_MANY, goal)


# --- with traces against without ----------------------------------------------------------------------------------


def traced(name: str, graphs: list[Graph], steps: int, rounds: int, slots: int) -> Result:
    """Steps a second while the trace file is written, against the same without.  Long enough for the follower, which
    looks for the first time after a second."""
    with beds.sqlite() as bed:
        bed.submitted("new", *graphs)
        found: dict[str, list[float]] = {"on": [], "off": []}
        for n in range(rounds):
            for word in ("on", "off") if n % 2 else ("off", "on"):
                bed.copied("new", word)
                with tracing(word):
                    found[word].append(steps / bed.worked_off(word, slots))
            say(f"{name}: round {n + 1} of {rounds}: {found['on'][-1]:,.0f} steps/s, without {found['off'][-1]:,.0f}")
    ratios = [on / off for on, off in zip(found["on"], found["off"], strict=True)]
    return judged(name, median(found["on"]), "steps/s", median(found["off"]), "ratio >= 0.95", median(ratios))


@contextmanager
def tracing(word: str) -> Iterator[None]:
    before = os.environ.get(TRACE)
    os.environ[TRACE] = word
    try:
        yield
    finally:
        os.environ.pop(TRACE)
        if before is not None:
            os.environ[TRACE] = before


# --- a step of a large task against one of a small task -----------------------------------------------------------


def fanout_10000(opened: Opened) -> Result:
    steps, rounds = 10_000, 3
    with opened() as bed:
        name = f"{bed.prefix}fanout_10000"
        bed.submitted("new", fan_out(steps))
        small = Small(bed)
        costs, smalls = [], [small.cost()]
        for n in range(rounds):
            costs.append(bed.worked_off(bed.copied("new", "run"), SLOTS) / steps * 1e6)
            smalls.append(small.cost())
            say(f"{name}: round {n + 1} of {rounds}: {costs[-1]:,.0f} µs a step, of 1,000: {smalls[-1]:,.0f}")
    return against_small(name, costs, smalls)


def fanout_100000() -> Result:
    """One run, in slices: after each the worker drains, a small task is worked off, and another worker goes on.

    On a machine that is too slow to end it in time it is left unfinished, and says so."""
    steps, slice_s, slices_max = 100_000, 6, 20
    with beds.sqlite() as bed:
        (task,) = bed.submitted("new", fan_out(steps))
        small = Small(bed)
        left, costs, smalls = steps, list[float](), [small.cost()]
        while left and len(costs) < slices_max:
            parts = bed.parts_at("new")
            took_s = work(parts, partial(has_ended, parts, task.id), SLOTS, slice_s)
            before, left = left, open_steps(bed, task.id)
            costs.append(took_s / max(before - left, 1) * 1e6)
            smalls.append(small.cost())
            say(f"fanout_100000: {left:,} steps left: {costs[-1]:,.0f} µs a step, of 1,000: {smalls[-1]:,.0f}")
    if left:
        say(f"fanout_100000: this machine is slow just now: {steps - left:,} steps were measured, not all")
    return against_small("fanout_100000", costs, smalls)


class Small:
    """What a step of a fan-out of 1,000 costs just now."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        bed.submitted("small", fan_out(1_000))

    def cost(self) -> float:
        return self._bed.worked_off(self._bed.copied("small", "small_run"), SLOTS) / 1_000 * 1e6


def against_small(name: str, costs: list[float], smalls: list[float]) -> Result:
    """Each run stands between two small ones: it is held against their mean."""
    beside = [mean(pair) for pair in pairwise(smalls)]
    ratios = [cost / small for cost, small in zip(costs, beside, strict=True)]
    return judged(name, median(costs), "µs/step", median(beside), "ratio <= 1.3", median(ratios))


def open_steps(bed: Bed, task_id: str) -> int:
    """The steps of a stage that are not ended; its gate is left out."""
    store = bed.parts_at("new").store
    counts = store.get_task(task_id).counts
    store.close()
    return max(counts.open - 1, 0)


# --- locks --------------------------------------------------------------------------------------------------------


def lock_100000() -> Result:
    """The longest lock while a task of 100,000 steps is submitted, worked on and cancelled; the median of rounds."""
    longest_ms = []
    for n in range(ROUNDS_LOCK):
        submitting, working, cancelling = Locks(), Locks(), Locks()
        with beds.sqlite() as bed:
            (task,) = bed.submitted("new", fan_out(100_000), fault=submitting)
            parts = bed.parts_at("new", fault=working)
            work(parts, lambda: False, SLOTS, for_s=2)
            parts = bed.parts_at("new", fault=cancelling)
            parts.desk.cancel(task.id, "bench")
            work(parts, partial(has_ended, parts, task.id), SLOTS)
        named = {"submitting": submitting, "working": working, "cancelling": cancelling}
        longest_ms.append(max(locks.longest_s for locks in named.values()) * 1_000)
        shown = [f"{name} {x.longest_s * 1e3:.0f} ms (cpu {x.busiest_s * 1e3:.0f})" for name, x in named.items()]
        say(f"lock_100000: round {n + 1} of {ROUNDS_LOCK}: longest lock: {', '.join(shown)}")
    return judged("lock_100000", median(longest_ms), "ms", LOCK_MS_MAX, f"value <= {LOCK_MS_MAX}")


# --- memory, disk, start ------------------------------------------------------------------------------------------


def parked(opened: Opened) -> Result:
    """How the worker that has parked 10,000 approvals grew by them; a first 2,000 have warmed it up."""
    first, then = 2_000, 10_000
    with opened() as bed:
        name = f"{bed.prefix}parked"
        bed.submitted("new", approvals(first))
        child = [sys.executable, "-m", "bench.parked", bed.target("new"), str(first), str(first + then)]
        # Python's arenas are a megabyte each, and a thread's keeps what was freed: a hundred bytes a step of nobody's
        env = os.environ | {"PYTHONMALLOC": "malloc", "MALLOC_ARENA_MAX": "1"}
        with subprocess.Popen(child, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
            assert process.stdin is not None and process.stdout is not None
            before = int(process.stdout.readline())
            parts = bed.parts_at("new")
            parts.desk.submit(approvals(then))
            parts.store.close()
            process.stdin.write("go on\n")
            process.stdin.flush()
            after = int(process.stdout.readline())
    say(f"{name}: {before:,} bytes of memory with {first:,} parked, {after:,} with {first + then:,}")
    return judged(name, (after - before) / then, "bytes/step", 64, "value <= 64")


def bytes_per_step(opened: Opened, bytes_max: int) -> Result:
    """Not vacuumed; after a first task, since a server's file grows by more than a row when it is new."""
    steps = 4_000
    with opened() as bed:
        name = f"{bed.prefix}bytes_per_step"
        bed.submitted("new", fan_out(WARM_STEPS))
        bed.worked_off("new", SLOTS)
        before = bed.settle("new")
        parts = bed.parts_at("new")
        parts.desk.submit(fan_out(steps))
        parts.store.close()
        bed.worked_off("new", SLOTS)
        after = bed.settle("new")
    say(f"{name}: {after:,} bytes, {before:,} of them before")
    return judged(name, (after - before) / steps, "bytes", bytes_max, f"value <= {bytes_max}")


def takeover(opened: Opened) -> Result:
    """From the SIGKILL of a worker to the first step that another one, which stood by, begins; no figure if a finished
    step ran again."""
    with opened() as bed:
        name = f"{bed.prefix}takeover"
        took_s = killed(bed)
    say(f"{name}: {took_s:.1f} s, no finished step ran again")
    return judged(name, took_s, "s", TAKEOVER_S_MAX, f"value <= {TAKEOVER_S_MAX}")


def cold_start() -> Result:
    ours, bare = [], []
    for _ in range(41):
        bare.append(started([sys.executable, "-c", "pass"]))
        ours.append(started([str(Path(sys.executable).with_name("longtask")), "--version"]))
    ratios = [own / other for own, other in zip(ours, bare, strict=True)]
    return judged("cold_start", median(ours), "ms", median(bare), "ratio <= 2.5", median(ratios))


def hello() -> Result:
    """A whole process that makes a database, does one durable step in it and ends."""
    ours, bare = [], []
    with beds.folder() as at:
        for n in range(11):
            bare.append(started([sys.executable, "-c", "import asyncio, json, sqlite3"]))
            ours.append(started([sys.executable, "-m", "bench.hello", str(at / str(n))]))
    return judged("hello", median(ours), "ms", median(bare), f"value <= {HELLO_MS_MAX}")


def started(command: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - begun) * 1_000


def in_browser(figure: str) -> Result:
    from bench import page  # it loads playwright, which all others do without

    return {"first": page.first, "seen": page.seen, "frames": page.frames}[figure]()


WORKLOADS: dict[str, Callable[[], Result]] = {
    "chain": partial(chain_200, beds.sqlite, "ratio >= 0.5"),
    "fanout_1000": partial(fanout_1000, beds.sqlite, "ratio >= 0.35"),
    "fanout_10000": partial(fanout_10000, beds.sqlite),
    "fanout_100000": fanout_100000,
    "lock_100000": lock_100000,
    "many": partial(many, beds.sqlite, "ratio >= 0.8"),
    "children": children.cost,
    "children_lock": children.lock,
    "children_look": children.looking,
    "traced_chain": partial(traced, "traced_chain", [chain(2_000)], 2_000, 5, SLOTS),
    "traced_many": partial(traced, "traced_many", [chain(10)] * 500, 5_000, 5, SLOTS_MANY),
    "parked": partial(parked, beds.sqlite),
    "cold_start": cold_start,
    "bytes_per_step": partial(bytes_per_step, beds.sqlite, BYTES_MAX),
    "hello": hello,
    "takeover": partial(takeover, beds.sqlite),
    "attempt_start": attempt_start,
    "streams_delivered": streams.delivered,
    "streams_p99": streams.p99,
    "streams_memory": streams.memory,
    "page_first": partial(in_browser, "first"),
    "page_event": partial(in_browser, "seen"),
    "page_frame": partial(in_browser, "frames"),
    "pg_chain": partial(chain_200, beds.postgres, "ratio >= 0.6"),
    "pg_fanout_1000": partial(fanout_1000, beds.postgres, "ratio >= 0.6"),
    "pg_fanout_10000": partial(fanout_10000, beds.postgres),
    "pg_many": partial(many, beds.postgres, "ratio >= 0.35"),
    "pg_parked": partial(parked, beds.postgres),
    "pg_bytes_per_step": partial(bytes_per_step, beds.postgres, PG_BYTES_MAX),
    "pg_takeover": partial(takeover, beds.postgres),
}
