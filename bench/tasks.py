"""Databases with tasks in them, and the real loop at work on one.

A no-op step is a `function`, `inline: true`, in a task without a workspace: what it costs is LongTask's own cost.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from longtask import boot
from longtask.config import Config
from longtask.core.codec import form
from longtask.core.graph import Graph, Planned
from longtask.core.model import Kind, StepSpec, Task, TaskOptions
from longtask.store.sqlite import SqliteStore

NO_OP = StepSpec(Kind.FUNCTION, {"function": "bench.noop:nothing", "inline": True})
APPROVAL = StepSpec(Kind.APPROVAL, {"ask": "apply it?"})
DATABASE = "bench.db"
CHILDREN_AT_ONCE = 16


def chain(steps: int) -> Graph:
    """Each step needs the one before."""
    keys = [f"step_{n:05}" for n in range(steps)]
    needs = [(), *((key,) for key in keys[:-1])]
    planned = tuple(Planned(key, Kind.FUNCTION, 1, 0, need) for key, need in zip(keys, needs, strict=True))
    return Graph("chain", TaskOptions(stages=("work",)), (NO_OP,), planned)


def fan_out(steps: int) -> Graph:
    """No step needs another; the gate of their stage needs them all."""
    planned = tuple(Planned(f"step_{n:05}", Kind.FUNCTION, 1, 0) for n in range(steps))
    return Graph("fan_out", TaskOptions(stages=("work",)), (NO_OP,), planned)


def children(tasks: int) -> Graph:
    """A `for_each` whose items are tasks of one no-op step each."""
    one = Graph("one", TaskOptions(stages=("work",)), (NO_OP,), (Planned("move", Kind.FUNCTION, 1, 0),))
    item = StepSpec(Kind.TASK, {"graph": form(Graph).dump(one)})
    each = StepSpec(Kind.FOR_EACH, items=list(range(tasks)), item=1, parallel_max=CHILDREN_AT_ONCE)
    planned = (Planned("each", Kind.FOR_EACH, 1, 0),)
    return Graph("children", TaskOptions(stages=("work",)), (each, item), planned)


def approvals(steps: int) -> Graph:
    planned = tuple(Planned(f"step_{n:05}", Kind.APPROVAL, 1, 0) for n in range(steps))
    return Graph("approvals", TaskOptions(stages=("work",)), (APPROVAL,), planned)


def parts_at(
    folder: Path, trace: Callable[[str, Any], None] | None = None, fault: Callable[[str], None] | None = None
) -> boot.Parts:
    config = Config(folder, str(folder / DATABASE))
    return boot.parts_on(config, SqliteStore(config.database, trace=trace, fault=fault))


def opened_at(target: str) -> boot.Parts:
    """`target`: the folder of a database, or its URL."""
    if "://" in target:
        return boot.open_parts(Config(Path(__file__).parent / "out", target))
    return parts_at(Path(target))


def submitted(folder: Path, *graphs: Graph, fault: Callable[[str], None] | None = None) -> list[Task]:
    """A database in `folder` in which these tasks wait for a worker, all of it in one file."""
    folder.mkdir(parents=True)
    parts = parts_at(folder, fault=fault)
    tasks = [parts.desk.submit(graph) for graph in graphs]
    parts.store.close()
    settle(folder)
    return tasks


def settle(folder: Path) -> int:
    """Copies the write-ahead log back; the size of the database in bytes."""
    path = folder / DATABASE
    line = apsw.Connection(str(path))
    line.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    line.close()
    return path.stat().st_size


def copied(folder: Path, to: Path) -> Path:
    """The same database again, for another run or for the probe."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    shutil.copyfile(folder / DATABASE, to / DATABASE)
    return to


def work(parts: boot.Parts, until: Callable[[], bool], slots: int, for_s: float | None = None) -> float:
    """Runs the loop until nothing runs and `until` says so, or drains it after `for_s`; the seconds that it took."""
    running = boot.make_loop(parts, slots=slots, id="bench")
    timer = None if for_s is None else threading.Timer(for_s, running.loop.stop)
    begun = time.perf_counter()
    if timer is not None:
        timer.start()
    running.loop.run(until)
    took_s = time.perf_counter() - begun
    if timer is not None:
        timer.cancel()
    running.close()
    return took_s


def all_ended(parts: boot.Parts) -> bool:
    return not parts.store.tasks(open_only=True, workspace_id=None, before=0, limit=1)


def has_ended(parts: boot.Parts, task_id: str) -> bool:
    return parts.store.get_task(task_id).ended


def worked_off(folder: Path, slots: int, trace: Callable[[str, Any], None] | None = None) -> float:
    """Works all tasks of the database off; the seconds that it took."""
    parts = parts_at(folder, trace)
    return work(parts, lambda: all_ended(parts), slots)
