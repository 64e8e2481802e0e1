"""5,000 small tasks under one: what each costs beside those of a task of 200, and what it takes to look at them."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from functools import cache, partial
from statistics import mean, median

from bench import beds
from bench.beds import Bed
from bench.locks import Locks
from bench.result import Result, judged
from bench.tasks import children, has_ended, work
from longtask.cli.tree import lines
from longtask.views.documents import picture_map
from longtask.views.picture import look

MANY, FEW, ROUNDS, SLOTS = 5_000, 200, 3, 4
LOCK_MS_MAX, LOOK_MS_MAX, LINES_MAX = 200, 1_000, 40


@dataclass(frozen=True, slots=True)
class Measured:
    many_us: float
    few_us: float
    lock_ms: float
    look_ms: float  # to what the page and `show` are made from, as one document


@cache
def measured() -> Measured:
    with beds.sqlite() as bed:
        before = [_cost(bed, FEW)[0] for _ in range(ROUNDS)]
        many_us, locks, task_id = _cost(bed, MANY)
        look_ms = _looked(bed, task_id)
        after = [_cost(bed, FEW)[0] for _ in range(ROUNDS)]
    few_us = mean((median(before), median(after)))
    shown = f"longest lock {locks.longest_s * 1e3:.0f} ms (cpu {locks.busiest_s * 1e3:.0f})"
    _say(f"children: {many_us:,.0f} µs a child of {MANY:,}, {few_us:,.0f} of {FEW}; {shown}")
    return Measured(many_us, few_us, locks.longest_s * 1e3, look_ms)


def cost() -> Result:
    found = measured()
    return judged("children", found.many_us, "µs/child", found.few_us, "ratio <= 1.3", found.many_us / found.few_us)


def lock() -> Result:
    return judged("children_lock", measured().lock_ms, "ms", LOCK_MS_MAX, f"value <= {LOCK_MS_MAX}")


def looking() -> Result:
    return judged("children_look", measured().look_ms, "ms", LOOK_MS_MAX, f"value <= {LOOK_MS_MAX}")


def _cost(bed: Bed, tasks: int) -> tuple[float, Locks, str]:
    """Microseconds a child, from the submit of its parent on."""
    bed.fresh("children")
    locks = Locks()
    parts = bed.parts_at("children", fault=locks)
    begun = time.perf_counter()
    task = parts.desk.submit(children(tasks))
    work(parts, partial(has_ended, parts, task.id), SLOTS)
    took_s = time.perf_counter() - begun
    parts = bed.parts_at("children")
    ended = parts.store.get_task(task.id)
    parts.store.close()
    assert str(ended.state) == "completed" and ended.counts.steps == tasks + 2, f"{ended.state}: {ended.counts}"
    _say(f"children: {tasks:,} in {took_s:.1f} s")
    return took_s / tasks * 1e6, locks, task.id


def _looked(bed: Bed, task_id: str) -> float:
    parts = bed.parts_at("children")
    begun = time.perf_counter()
    picture = look(parts.store, task_id)
    document = json.dumps(picture_map(picture))
    took_ms = (time.perf_counter() - begun) * 1_000
    parts.store.close()
    shown = lines(picture)
    assert len(shown) <= LINES_MAX, f"{len(shown)} lines are shown of a task of {MANY} children"
    _say(f"children: {took_ms:.0f} ms for a document of {len(document):,} bytes; {len(shown)} lines are shown")
    return took_ms


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
