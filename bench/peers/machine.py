"""What the machine was busy with while something was measured (Linux: /proc)."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from dataclasses import dataclass
from pathlib import Path

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of <sys/prctl.h>
TICKS = os.sysconf("SC_CLK_TCK")


def adopt_orphans() -> None:
    """Children of drivers that were killed become ours: their time counts as theirs, and none is left behind."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def end_orphans(spared: set[int]) -> None:
    for pid in children(os.getpid()):
        if pid not in spared:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                continue


def children(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == parent:
            found.append(int(path.name))
    return found


def spent_s(pid: int) -> float:
    """A process's own time and that of the children it has waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS


@dataclass(frozen=True, slots=True)
class Reading:
    at: float
    busy_s: float  # of all cores
    ours_s: float  # of what was measured: children of this process, and the server

    @staticmethod
    def now(server: int | None) -> Reading:
        fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        idle, waiting = fields[3], fields[4]
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        ours = used.ru_utime + used.ru_stime + time.process_time()
        if server is not None:
            ours += spent_s(server) + sum(spent_s(pid) for pid in children(server))
        return Reading(time.monotonic(), (sum(fields) - idle - waiting) / TICKS, ours)

    def other(self, later: Reading) -> float:
        """Cores used by everything else from this reading to the later one."""
        took_s = max(later.at - self.at, 1e-9)
        return round(max(0.0, (later.busy_s - self.busy_s) - (later.ours_s - self.ours_s)) / took_s, 2)
